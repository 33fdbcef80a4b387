//! What others need of this process's constant arrays, described in its own memory like an image: its keeper copies the
//! bytes while the application computes. Where nobody needs anything the image has a hole.

use super::{
    Trip,
    need::{ArrayNeed, is_constant, needs, own_divisions},
};
use crate::{
    park::RestoreError,
    region::{Kind, Registry},
};
use pcm_core::{
    parked::{Contents, Head, ParkedRegion, Place, Preamble},
    redistribution::Transfer,
};
use pcm_proto::{
    ids::{Iteration, Rank, RegionId},
    parked::Stretch,
};
use std::collections::BTreeMap;

/// Arrays begin at multiples of this in the image, so that copies are aligned.
const ALIGNMENT: u64 = 64;

/// Most stretches of one array: columns of a large one would be as many as it has rows, and copying it whole is
/// cheaper than a call of the kernel for each.
const STRETCHES_MAX: usize = 4096;

/// See the file head.
#[derive(Debug)]
pub(crate) struct Offer {
    /// Kept for the addresses in `table`.
    _preamble: Box<[u8]>,
    _head: Vec<u8>,
    table: Vec<u8>,
}

impl Offer {
    /// Describes what leaves this rank.
    pub(crate) fn new(registry: &Registry, trip: &Trip) -> Result<Self, RestoreError> {
        let needs = needs(registry, trip, &own_divisions(registry, is_constant))?;
        let places = places(registry, &needs);
        let head = head(registry, &places).encode().map_err(RestoreError::Head)?;
        let preamble = Preamble {
            head_bytes: head.len() as u64,
            is_summed: false,
            data_bytes: places
                .values()
                .map(|place| place.offset + place.length)
                .max()
                .unwrap_or(0),
        };
        let encoded: Box<[u8]> = preamble.encode().into();
        let mut table = Vec::new();
        for (bytes, offset) in [(&*encoded, 0), (&head[..], preamble.head_at())] {
            table.extend(stretch(bytes, offset));
        }
        for need in &needs {
            let storage = registry.array_by_id(need.id).storage();
            let first = storage.pointer().as_ptr().expose_provenance() as u64;
            for (offset, length) in leaving(need.plan.sends(), storage.length() as u64) {
                let at = preamble.data_at() + places[&need.id].offset + offset;
                let stretch = Stretch {
                    address: first + offset,
                    length,
                    offset: at,
                };
                table.extend(stretch.encode());
            }
        }
        // Nothing, at the end, so that the image is as long as it says.
        table.extend(stretch(&[], preamble.image_bytes()));
        Ok(Self {
            _preamble: encoded,
            _head: head,
            table,
        })
    }

    /// Where the table is, and its number of entries.
    pub(crate) fn table(&self) -> (u64, u32) {
        let address = self.table.as_ptr().expose_provenance() as u64;
        (address, (self.table.len() / Stretch::BYTES) as u32)
    }
}

fn stretch(bytes: &[u8], offset: u64) -> [u8; Stretch::BYTES] {
    let stretch = Stretch {
        address: bytes.as_ptr().expose_provenance() as u64,
        length: bytes.len() as u64,
        offset,
    };
    stretch.encode()
}

/// Where each constant array lies in the image.
fn places(registry: &Registry, needs: &[ArrayNeed]) -> BTreeMap<RegionId, Place> {
    let mut end = 0_u64;
    let mut places = BTreeMap::new();
    for need in needs {
        let length = registry.array_by_id(need.id).storage().length() as u64;
        let place = Place {
            offset: end.next_multiple_of(ALIGNMENT),
            length,
        };
        end = place.offset + length;
        places.insert(need.id, place);
    }
    places
}

/// The head that readers of images know. Nothing but constant arrays is there.
fn head(registry: &Registry, places: &BTreeMap<RegionId, Place>) -> Head {
    let nowhere = Place { offset: 0, length: 0 };
    let regions = registry.regions().zip(registry.descriptions());
    let parked = regions.map(|((id, region), description)| ParkedRegion {
        name: description.name,
        text: description.text,
        contents: match &region.kind {
            Kind::Array(array) => Contents::Array {
                registered: array.form().spec.clone(),
                in_force: array.partition().spec().clone(),
                storage: places.get(&id).copied(),
            },
            Kind::Value(_) => Contents::Value(nowhere),
            Kind::PerRank(_) => Contents::PerRank(nowhere),
            Kind::Custom(_) => Contents::Custom(None),
        },
    });
    let home = registry.home();
    Head {
        iteration: Iteration(0),
        rank: Rank(home.rank),
        size: home.size,
        regions: parked.collect(),
    }
}

/// The bytes of an array's storage that leave, as (offset, length), in order and without touching.
fn leaving(sends: &[Transfer], whole: u64) -> Vec<(u64, u64)> {
    let pieces = || sends.iter().flat_map(Transfer::pieces);
    let runs: u64 = pieces().map(|piece| piece.source.blocks()).sum();
    if runs > 16 * STRETCHES_MAX as u64 {
        return vec![(0, whole)];
    }
    let mut runs: Vec<(u64, u64)> = pieces()
        .flat_map(|piece| piece.source.iter())
        .map(|run| (run.offset, run.length))
        .collect();
    runs.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (offset, length) in runs {
        match merged.last_mut().filter(|(first, known)| first + known >= offset) {
            Some((first, known)) => *known = (*known).max(offset + length - *first),
            None => merged.push((offset, length)),
        }
    }
    if merged.len() > STRETCHES_MAX {
        return vec![(0, whole)];
    }
    merged
}
