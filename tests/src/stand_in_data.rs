//! The data of a stand-in rank: one array of numbers divided by blocks, which it parks as the library of a real rank
//! does, and takes back on any number of ranks. Never talks to anybody.

use pcm_core::parked::{Contents, Head, ParkedRegion, Place, Preamble, blocks_of};
use pcm_core::partition::{ArraySpec, AxisSpec, Partition};
use pcm_core::redistribution::{ArrayPlan, HaloFill, RankChange, Transfer};
use pcm_proto::ids::{Iteration, ProcessId, Rank};
use pcm_proto::parked::{BLOCK_BYTES, BlockRun, Stretch};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// Numbers in the whole array: an uneven count over several blocks a rank.
const NUMBERS: u64 = 300_007;

/// One rank's part.
#[derive(Debug)]
pub struct StandInData {
    partition: Partition,
    rank: u32,
    numbers: Vec<u64>,
    /// What a table of stretches points to; nothing moves while it is in use.
    head: Vec<u8>,
    preamble: [u8; Preamble::BYTES],
    table: Vec<u8>,
}

fn partition(size: u32) -> Partition {
    Partition::new(&ArraySpec::new(8, [AxisSpec::block(NUMBERS)]), size).expect("a valid division")
}

/// What the array holds at a place: anything that is not its neighbour's, and not what the place had before.
fn number(index: u64, iteration: u64) -> u64 {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ iteration
}

impl StandInData {
    /// A rank's part, as of an iteration.
    pub fn new(rank: u32, size: u32, iteration: u64) -> Self {
        let partition = partition(size);
        let (start, end) = partition.owned_interval(rank, 0).expect("one block");
        Self {
            partition,
            rank,
            numbers: (start..end).map(|index| number(index, iteration)).collect(),
            head: Vec::new(),
            preamble: [0; Preamble::BYTES],
            table: Vec::new(),
        }
    }

    /// One iteration of work.
    pub fn step(&mut self, from: u64) {
        self.numbers
            .iter_mut()
            .for_each(|number| *number = *number ^ from ^ (from + 1));
    }

    /// Whether every number is what it must be at this iteration.
    pub fn is_right(&self, iteration: u64) -> bool {
        let (start, _) = self.partition.owned_interval(self.rank, 0).expect("one block");
        (start..)
            .zip(&self.numbers)
            .all(|(index, found)| *found == number(index, iteration))
    }

    fn bytes(&self) -> Vec<u8> {
        self.numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    fn describe(&self, iteration: u64, is_summed: bool) -> (Vec<u8>, Preamble) {
        let spec = self.partition.spec().clone();
        let length = self.numbers.len() as u64 * 8;
        let head = Head {
            iteration: Iteration(iteration),
            rank: Rank(self.rank),
            size: self.partition.positions(),
            regions: vec![ParkedRegion {
                name: "numbers".to_owned(),
                text: "array".to_owned(),
                contents: Contents::Array {
                    registered: spec.clone(),
                    in_force: spec,
                    storage: Some(Place { offset: 0, length }),
                },
            }],
        };
        let head = head.encode().expect("a short head");
        let preamble = Preamble {
            head_bytes: head.len() as u64,
            is_summed,
            data_bytes: length,
        };
        (head, preamble)
    }

    /// The image as a sealed memory file, and its length.
    pub fn park(&self, iteration: u64) -> (OwnedFd, u64) {
        let (head, preamble) = self.describe(iteration, false);
        let file = memfd_create("stand-in", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a memory file");
        ftruncate(&file, preamble.image_bytes()).expect("its length");
        let file = File::from(file);
        let write = |bytes: &[u8], at| file.write_all_at(bytes, at).expect("room in it");
        write(&preamble.encode(), 0);
        write(&head, preamble.head_at());
        write(&self.bytes(), preamble.data_at());
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE).expect("seals");
        (file.into(), preamble.image_bytes())
    }

    /// Address and entries of the table from which a keeper makes the same image.
    pub fn table(&mut self, iteration: u64) -> (u64, u64) {
        let (head, preamble) = self.describe(iteration, false);
        self.head = head;
        self.preamble = preamble.encode();
        let stretch = |bytes: &[u8], offset| Stretch {
            address: bytes.as_ptr().expose_provenance() as u64,
            length: bytes.len() as u64,
            offset,
        };
        let numbers = Stretch {
            address: self.numbers.as_ptr().expose_provenance() as u64,
            length: self.numbers.len() as u64 * 8,
            offset: preamble.data_at(),
        };
        let stretches = [
            stretch(&self.preamble, 0),
            stretch(&self.head, preamble.head_at()),
            numbers,
        ];
        self.table = stretches.iter().flat_map(|stretch| stretch.encode()).collect();
        (self.table.as_ptr().expose_provenance() as u64, stretches.len() as u64)
    }
}

/// What a restored rank needs of the images.
#[derive(Debug)]
pub struct StandInRestore {
    rank: u32,
    size: u32,
    receives: Vec<Transfer>,
}

impl StandInRestore {
    /// For one rank of the new layout.
    pub fn new(old_size: u32, rank: u32, size: u32) -> Self {
        let before = (0..old_size).map(ProcessId).collect();
        let after = (old_size..old_size + size).map(ProcessId).collect();
        let change = RankChange::new(before, after).expect("two layouts");
        let (old, new) = (partition(old_size), partition(size));
        let process = ProcessId(old_size + rank);
        let plan = ArrayPlan::for_process(&old, &new, &change, process, HaloFill::Filled).expect("a plan");
        let receives = plan.receives().to_vec();
        Self { rank, size, receives }
    }

    /// Blocks wanted of each old rank. The beginning of its image is always among them.
    pub fn wanted(&self) -> BTreeMap<Rank, Vec<BlockRun>> {
        let data_at = BLOCK_BYTES;
        let wanted = self.receives.iter().map(|transfer| {
            let runs = transfer.pieces().iter().flat_map(|piece| piece.source.iter());
            let ranges = runs.map(|run| (data_at + run.offset, run.length));
            let blocks = blocks_of(ranges.chain([(0, 1)]));
            (transfer.id().from, blocks.runs().collect())
        });
        wanted.collect()
    }

    /// The rank's part and the iteration, from images that have the wanted blocks.
    pub fn finish(self, images: &BTreeMap<Rank, File>) -> (StandInData, u64) {
        let mut bytes = Vec::new();
        let mut data = StandInData::new(self.rank, self.size, 0);
        let mut iteration = 0;
        bytes.resize(data.numbers.len() * 8, 0);
        for transfer in &self.receives {
            let image = &images[&transfer.id().from];
            let mut start = vec![0; BLOCK_BYTES as usize];
            image.read_exact_at(&mut start, 0).expect("the first block");
            let preamble = Preamble::decode(&start).expect("an image");
            let head = &start[preamble.head_at() as usize..][..preamble.head_bytes as usize];
            let head = Head::decode(head).expect("a head");
            iteration = head.iteration.0;
            for run in transfer
                .pieces()
                .iter()
                .flat_map(|piece| piece.source.copies_to(&piece.target))
            {
                let into = &mut bytes[run.target as usize..][..run.length as usize];
                image
                    .read_exact_at(into, preamble.data_at() + run.source)
                    .expect("the data");
            }
        }
        let (words, _) = bytes.as_chunks::<8>();
        data.numbers = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        (data, iteration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_three_ranks_park_is_restored_on_two() {
        let images: BTreeMap<Rank, File> = (0..3)
            .map(|rank| (Rank(rank), StandInData::new(rank, 3, 5).park(5).0.into()))
            .collect();
        for rank in 0..2 {
            let (mut data, iteration) = StandInRestore::new(3, rank, 2).finish(&images);
            assert_eq!(iteration, 5);
            assert!(data.is_right(5));
            data.step(5);
            assert!(data.is_right(6) && !data.is_right(5));
        }
    }
}
