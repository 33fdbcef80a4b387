//! One rank's parts of a checkpoint, written into the directory of the draft from the image of its data. Talks to
//! nobody.

use super::{
    outline::{Outline, Outlined},
    source::Source,
};
use pcm_checkpoint::{Compression, Content, Contents, Data, Pace, PartRecord, part_file, write_part_paced};
use pcm_core::parked::{Contents as Parked, Head, Place, Preamble};
use std::{io, path::Path};

/// Where parts go, and how.
#[derive(Debug)]
pub(super) struct Sheet<'a> {
    pub(super) directory: &'a Path,
    pub(super) rank: u32,
    pub(super) compression: Compression,
}

/// The bytes of one region.
struct Region<'a> {
    source: &'a Source,
    from: u64,
    length: u64,
}

impl Data for Region<'_> {
    fn length(&self) -> u64 {
        self.length
    }

    fn copy(&self, from: u64, into: &mut [u8]) -> io::Result<()> {
        self.source.copy(self.from + from, into)
    }
}

/// Writes what this rank has; returns the records by region.
pub(super) fn parts(
    outline: &Outline,
    image: &Source,
    sheet: &Sheet<'_>,
    pace: &Pace,
) -> Result<Vec<(u32, PartRecord)>, String> {
    let begin = copied(image, 0, Preamble::BYTES as u64)?;
    let preamble = Preamble::decode(&begin).map_err(|error| format!("its copy is not an image: {error}"))?;
    let head = copied(image, preamble.head_at(), preamble.head_bytes)?;
    let head = Head::decode(&head).map_err(|error| format!("its copy is not an image: {error}"))?;
    let mut records = Vec::new();
    for (outlined, parked) in outline.regions.iter().zip(&head.regions) {
        let Some(place) = place(outlined, &parked.contents, sheet.rank)? else {
            continue;
        };
        let (from, length) = (preamble.data_at() + place.offset, place.length);
        if from.checked_add(length).is_none_or(|end| end > image.length()) {
            return Err(format!("the copy of {:?} is cut short", outlined.name));
        }
        let bytes = Region {
            source: image,
            from,
            length,
        };
        records.push((outlined.id, part(outlined, &bytes, sheet, pace)?));
    }
    Ok(records)
}

fn copied(image: &Source, from: u64, length: u64) -> Result<Vec<u8>, String> {
    if from.checked_add(length).is_none_or(|end| end > image.length()) {
        return Err("its copy is cut short".to_owned());
    }
    let mut bytes = vec![0; length as usize];
    image.copy(from, &mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn part(outlined: &Outlined, bytes: &dyn Data, sheet: &Sheet<'_>, pace: &Pace) -> Result<PartRecord, String> {
    let (rank, compression) = (sheet.rank, sheet.compression);
    let content = match &outlined.contents {
        Contents::Array(array) => Content::Array {
            dtype: &array.dtype,
            partition: &array.partition,
        },
        _ => Content::Raw,
    };
    let is_array = matches!(content, Content::Array { .. });
    let file = part_file(outlined.id, &outlined.name, rank, is_array, compression);
    write_part_paced(sheet.directory, file, rank, content, bytes, compression, pace).map_err(|error| error.to_string())
}

/// Where a region's bytes are in the image, if this rank writes any.
fn place(outlined: &Outlined, parked: &Parked, rank: u32) -> Result<Option<Place>, String> {
    Ok(match parked {
        Parked::Array { storage, .. } => *storage,
        Parked::Value(place) => (rank == 0).then_some(*place),
        Parked::PerRank(place) => Some(*place),
        Parked::Custom(packed) => match packed.as_deref() {
            Some([(to, place)]) if to.0 == rank => Some(*place),
            _ => {
                return Err(format!(
                    "custom region {:?} gives a rank's data to other ranks even if their number stays; such regions \
                     cannot be written to files",
                    outlined.name
                ));
            }
        },
    })
}
