//! One rank's parts of a checkpoint, written into the directory of the draft from the image of its data. Talks to nobody.

use super::outline::{Outline, Outlined};
use pcm_checkpoint::{Compression, Content, Contents, Pace, PartRecord, part_file, write_part_paced};
use pcm_core::parked::{Contents as Parked, Head, Place, Preamble};
use std::path::Path;

/// Where parts go, and how.
#[derive(Debug)]
pub(super) struct Sheet<'a> {
    pub(super) directory: &'a Path,
    pub(super) rank: u32,
    pub(super) compression: Compression,
}

/// Writes what this rank has; returns the records by region.
pub(super) fn parts(
    outline: &Outline,
    image: &[u8],
    sheet: &Sheet<'_>,
    pace: &mut Pace,
) -> Result<Vec<(u32, PartRecord)>, String> {
    let preamble = Preamble::decode(image).map_err(|error| format!("its copy is no image: {error}"))?;
    let head = preamble.head_at() as usize..(preamble.head_at() + preamble.head_bytes) as usize;
    let head = image.get(head).ok_or("its copy is cut short")?;
    let head = Head::decode(head).map_err(|error| format!("its copy is no image: {error}"))?;
    let data = image
        .get(preamble.data_at() as usize..)
        .ok_or("its copy is cut short")?;
    let mut records = Vec::new();
    for (outlined, parked) in outline.regions.iter().zip(&head.regions) {
        let Some(place) = place(outlined, &parked.contents, sheet.rank)? else {
            continue;
        };
        let bytes = data.get(place.offset as usize..(place.offset + place.length) as usize);
        let bytes = bytes.ok_or_else(|| format!("the copy of {:?} is cut short", outlined.name))?;
        records.push((outlined.id, part(outlined, bytes, sheet, pace)?));
    }
    Ok(records)
}

fn part(outlined: &Outlined, bytes: &[u8], sheet: &Sheet<'_>, pace: &mut Pace) -> Result<PartRecord, String> {
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
