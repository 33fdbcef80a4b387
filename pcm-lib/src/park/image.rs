//! The image of what this process has registered: written when it is told to park, copied into a buffer for a
//! checkpoint, and described in its own memory while it stands at a ceiling, so that its keeper can make the image
//! should it hang.
#![allow(unsafe_code, reason = "reads registered memory by address")]

use super::{ParkError, sums::BlockSums};
use crate::region::{CustomRegion, Kind, Move, Registry, Shares};
use pcm_core::{
    parked::{Contents, Head, ParkedRegion, Place, Preamble},
    partition::Partition,
    redistribution::{
        ArrayPlan, RankChange,
        parcels::{self, block_targets},
    },
};
use pcm_proto::{
    ids::{Bytes, Iteration, ProcessId, Rank},
    parked::Stretch,
    reconfiguration::Tally,
};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::{fs::File, os::fd::OwnedFd, os::unix::fs::FileExt, ptr::NonNull};

/// Regions begin at multiples of this, so that copies are aligned.
const ALIGNMENT: u64 = 64;

/// Bytes written at once: they are still in the cache when their checksum is taken.
const WRITE_BYTES: usize = 1 << 20;

/// Where the bytes of a part are.
#[derive(Debug)]
enum Memory {
    /// In registered memory, which stays where it is until the layout changes.
    Registered(NonNull<u8>),
    /// What a hook packed.
    Packed(Vec<u8>),
}

#[derive(Debug)]
struct Part {
    memory: Memory,
    place: Place,
}

impl Part {
    fn bytes(&self) -> &[u8] {
        match &self.memory {
            // SAFETY: registered memory of this length; the application does not run while an image exists.
            Memory::Registered(first) => unsafe {
                std::slice::from_raw_parts(first.as_ptr(), self.place.length as usize)
            },
            Memory::Packed(bytes) => bytes,
        }
    }
}

/// See the file head.
#[derive(Debug)]
pub(crate) struct Image {
    head: Vec<u8>,
    parts: Vec<Part>,
    data_bytes: u64,
}

impl Image {
    /// Describes what is registered. `size_after` is the size of the next layout, for which custom regions pack;
    /// without it nothing is packed.
    pub(crate) fn new(registry: &mut Registry, iteration: u64, size_after: Option<u32>) -> Result<Self, ParkError> {
        if let Some(after) = size_after {
            next_layout_check(registry, after)?;
        }
        Self::described(registry, iteration, size_after)
    }

    fn described(registry: &mut Registry, iteration: u64, size_after: Option<u32>) -> Result<Self, ParkError> {
        let home = registry.home();
        let descriptions = registry.descriptions();
        let mut layout = Layout::default();
        let mut regions = Vec::new();
        for ((_, region), description) in registry.regions_mut().zip(descriptions) {
            let contents = match &mut region.kind {
                Kind::Array(array) => Contents::Array {
                    registered: array.form().spec.clone(),
                    in_force: array.partition().spec().clone(),
                    storage: (!array.form().is_scratch).then(|| {
                        let storage = array.storage();
                        layout.add(Memory::Registered(storage.pointer()), storage.length())
                    }),
                },
                Kind::Value(value) => Contents::Value(layout.add_bytes(value.bytes())),
                Kind::PerRank(per_rank) => Contents::PerRank(layout.add_bytes(per_rank.value.bytes())),
                Kind::Custom(custom) => {
                    let Some(after) = size_after else {
                        regions.push(parked(description, Contents::Custom(None)));
                        continue;
                    };
                    let packed = match custom.is_divisible() {
                        true => vec![(Rank(home.rank), layout.add_whole(custom))],
                        false => {
                            let packed = packed(custom, &region.name, (home.size, after), home.rank)?;
                            let place = |(to, bytes): (u32, Vec<u8>)| {
                                let length = bytes.len();
                                (Rank(to), layout.add(Memory::Packed(bytes), length))
                            };
                            packed.into_iter().map(place).collect()
                        }
                    };
                    Contents::Custom(Some(packed))
                }
            };
            regions.push(parked(description, contents));
        }
        let head = Head {
            iteration: Iteration(iteration),
            rank: Rank(home.rank),
            size: home.size,
            regions,
        };
        Ok(Self {
            head: head.encode().map_err(ParkError::Head)?,
            parts: layout.parts,
            data_bytes: layout.end,
        })
    }

    /// Describes what is registered, for ranks of the same number.
    pub(crate) fn for_checkpoint(registry: &mut Registry, iteration: u64) -> Result<Self, ParkError> {
        let size = registry.home().size;
        Self::described(registry, iteration, Some(size))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.preamble(false).image_bytes()
    }

    /// Copies it; the checksums are left to whoever has the time. `target` has the image's length.
    pub(crate) fn copy_into(&self, target: &mut [u8]) {
        let preamble = self.preamble(false).encode();
        for (at, piece) in self.pieces(&preamble) {
            target[at as usize..][..piece.len()].copy_from_slice(piece);
        }
    }

    /// The same, into a file of the image's length without any pages; says up to where it is filled.
    pub(crate) fn fill(&self, file: &File, reached: &dyn Fn(u64)) -> std::io::Result<()> {
        let preamble = self.preamble(false).encode();
        for (mut at, piece) in self.pieces(&preamble) {
            for chunk in piece.chunks(WRITE_BYTES) {
                file.write_all_at(chunk, at)?;
                at += chunk.len() as u64;
                reached(at);
            }
        }
        Ok(())
    }

    /// What is in it but checksums, and where, in order. The preamble is first: what was there before does not count
    /// any more.
    fn pieces<'a>(&'a self, preamble: &'a [u8]) -> impl Iterator<Item = (u64, &'a [u8])> {
        let described = self.preamble(false);
        let begin = [(0, preamble), (described.head_at(), &*self.head)];
        let part = move |part: &'a Part| (described.data_at() + part.place.offset, part.bytes());
        begin.into_iter().chain(self.parts.iter().map(part))
    }

    fn preamble(&self, is_summed: bool) -> Preamble {
        Preamble {
            head_bytes: self.head.len() as u64,
            is_summed,
            data_bytes: self.data_bytes,
        }
    }

    /// Writes it into a sealed memory file; also its length, and what was parked.
    pub(crate) fn write(&self, registry: &mut Registry) -> Result<(OwnedFd, u64, Tally), ParkError> {
        let preamble = self.preamble(true);
        registry.check_room(preamble.image_bytes()).map_err(ParkError::Memory)?;
        self.write_file(preamble).map_err(ParkError::File)
    }

    fn write_file(&self, preamble: Preamble) -> std::io::Result<(OwnedFd, u64, Tally)> {
        let file = memfd_create("pcm-parked", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, preamble.image_bytes())?;
        let file = File::from(file);
        file.write_all_at(&preamble.encode(), 0)?;
        file.write_all_at(&self.head, preamble.head_at())?;
        let mut sums = BlockSums::new();
        for part in &self.parts {
            let gap = (part.place.offset - sums.taken()) as usize;
            sums.take(&[0; ALIGNMENT as usize][..gap]);
            let mut at = preamble.data_at() + part.place.offset;
            for chunk in part.bytes().chunks(WRITE_BYTES) {
                file.write_all_at(chunk, at)?;
                sums.take(chunk);
                at += chunk.len() as u64;
            }
        }
        let sums = sums.finish();
        let bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        file.write_all_at(&bytes, preamble.sums_at())?;
        fcntl_add_seals(
            &file,
            SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL,
        )?;
        let tally = Tally {
            bytes: Bytes(self.data_bytes),
            checksum: sums.iter().fold(0, |sum, one| sum.wrapping_add(*one)),
            ahead: Bytes(0),
        };
        Ok((file.into(), preamble.image_bytes(), tally))
    }
}

/// What the next layout could not take up must be found now: after the decision there is no way back. Shares of a plan
/// divide only what any shares can divide.
fn next_layout_check(registry: &Registry, after: u32) -> Result<(), ParkError> {
    let home = registry.home();
    for (_, region) in registry.regions() {
        let name = || region.name.clone();
        match &region.kind {
            Kind::PerRank(per_rank) if after < home.size && per_rank.hooks.merge.is_none() => {
                return Err(ParkError::NoMergeHook { region: name() });
            }
            Kind::Array(array) => {
                let shares = Shares {
                    ranks: after,
                    weights: &[],
                };
                let next = Partition::new(&shares.applied_to(&array.form().spec), after);
                let next = next.map_err(|error| ParkError::Partition { region: name(), error })?;
                let (change, own) = (relaunch_change(home.size, after), ProcessId(home.rank));
                ArrayPlan::for_process(array.partition(), &next, &change, own, array.form().halo)
                    .map_err(|error| ParkError::Plan { region: name(), error })?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn parked(description: crate::region::Description, contents: Contents) -> ParkedRegion {
    ParkedRegion {
        name: description.name,
        text: description.text,
        contents,
    }
}

/// What this rank packs of a custom region, for each new rank.
fn packed(
    custom: &mut CustomRegion,
    region: &str,
    sizes: (u32, u32),
    rank: u32,
) -> Result<Vec<(u32, Vec<u8>)>, ParkError> {
    let hook_failed = |error| ParkError::Hook {
        region: region.to_owned(),
        error,
    };
    let by = Move::among(sizes, rank);
    let all = custom_parcels(custom, &by).map_err(|error| ParkError::Parcel {
        region: region.to_owned(),
        error,
    })?;
    let own = all.into_iter().filter(|parcel| parcel.id.from.0 == rank);
    own.map(|parcel| {
        let (to, mut bytes) = (parcel.id.to.0, Vec::new());
        custom.pack(to, &by, &mut bytes).map_err(hook_failed)?;
        Ok((to, bytes))
    })
    .collect()
}

/// Which old rank's custom region, rows or records have something for which new rank, in a relaunch: processes before
/// are numbered from 0, those after follow.
pub(crate) fn custom_parcels(
    custom: &mut CustomRegion,
    by: &Move<'_>,
) -> Result<Vec<parcels::Parcel>, parcels::ParcelError> {
    let (before, after) = (by.before, by.after);
    let change = relaunch_change(before, after);
    let wanted: Vec<Option<Vec<u32>>> = (0..before).map(|from| custom.targets(from, by)).collect();
    parcels::custom(&change, |from| match wanted.get(from.0 as usize) {
        Some(Some(ranks)) => ranks.iter().copied().map(Rank).collect::<Vec<_>>(),
        _ => block_targets(from, before, after).collect(),
    })
}

/// Every process after the relaunch is another than before.
pub(super) fn relaunch_change(before: u32, after: u32) -> RankChange {
    let processes = |from: u32, count: u32| (from..from + count).map(ProcessId).collect();
    RankChange::new(processes(0, before), processes(before, after)).expect("both layouts have ranks, and none twice")
}

#[derive(Debug, Default)]
struct Layout {
    parts: Vec<Part>,
    end: u64,
}

impl Layout {
    fn add_bytes(&mut self, bytes: &[u8]) -> Place {
        self.add(Memory::Registered(NonNull::from(bytes).cast()), bytes.len())
    }

    /// What the library can divide is there whole: which rank gets what of it is found when it is restored.
    fn add_whole(&mut self, custom: &CustomRegion) -> Place {
        let (head, lent) = custom.whole();
        let length = head.len();
        let mut whole = self.add(Memory::Packed(head), length);
        for bytes in lent {
            let memory = Memory::Registered(NonNull::from(bytes).cast());
            whole.length += self.add_at(self.end, memory, bytes.len()).length;
        }
        whole
    }

    fn add(&mut self, memory: Memory, length: usize) -> Place {
        self.add_at(self.end.next_multiple_of(ALIGNMENT), memory, length)
    }

    fn add_at(&mut self, offset: u64, memory: Memory, length: usize) -> Place {
        let length = length as u64;
        let place = Place { offset, length };
        self.end = place.offset + place.length;
        self.parts.push(Part { memory, place });
        place
    }
}

/// An image described in this process's memory. Nothing in it moves while it is there.
#[derive(Debug)]
pub(crate) struct Published {
    /// Kept for the addresses in `table`.
    _image: Image,
    _preamble: Box<[u8]>,
    table: Vec<u8>,
}

impl Published {
    /// Describes what is registered, if that is possible without the application: a custom region has to be packed.
    pub(crate) fn new(registry: &mut Registry, iteration: u64) -> Option<Self> {
        if registry
            .regions()
            .any(|(_, region)| matches!(region.kind, Kind::Custom(_)))
        {
            return None;
        }
        let image = Image::new(registry, iteration, None).ok()?;
        let described = image.preamble(false);
        let preamble: Box<[u8]> = described.encode().into();
        let stretch = |bytes: &[u8], offset| Stretch {
            address: bytes.as_ptr().expose_provenance() as u64,
            length: bytes.len() as u64,
            offset,
        };
        let own = [stretch(&preamble, 0), stretch(&image.head, described.head_at())];
        let parts = image
            .parts
            .iter()
            .map(|part| stretch(part.bytes(), described.data_at() + part.place.offset));
        let table = own.into_iter().chain(parts).flat_map(Stretch::encode).collect();
        Some(Self {
            _image: image,
            _preamble: preamble,
            table,
        })
    }

    /// Where the table is, and its number of entries.
    pub(crate) fn table(&self) -> (u64, u64) {
        let address = self.table.as_ptr().expose_provenance() as u64;
        (address, (self.table.len() / Stretch::BYTES) as u64)
    }
}
