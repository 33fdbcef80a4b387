//! One array among the processes of a world, moved by the library and by MPI_Alltoallv.
#![allow(unsafe_code, reason = "fills the storage of arrays")]

use crate::by_mpi;
use pcm::{
    mpi::Communicator,
    redistribute::{Limits, Movement, NextLayout, Progress},
    region::{ArrayForm, ElementType, Home, Registry},
};
use pcm_core::{
    partition::{ArraySpec, AxisSpec, Partition},
    redistribution::{ArrayPlan, HaloFill, Piece, RankChange, Transfer},
};
use pcm_proto::ids::ProcessId;
use std::{
    env,
    os::raw::c_int,
    time::{Duration, Instant},
};

const COLUMNS: u64 = 4096;

/// One process's view.
pub(crate) struct Job<'a> {
    world: &'a Communicator,
    me: u32,
    form: ArrayForm,
    next: NextLayout,
    transfer: Communicator,
    old: Option<u32>,
    new: Option<u32>,
    change: RankChange,
}

impl<'a> Job<'a> {
    /// Every process of the world is an old rank, a new one, or both.
    pub(crate) fn new(
        world: &'a Communicator,
        old: &[u32],
        new: &[u32],
        bytes_per_rank: u64,
        by_columns: bool,
    ) -> Self {
        let me = world.rank().unwrap();
        let larger = old.len().min(new.len()) as u64;
        let rows = bytes_per_rank * larger / 8 / COLUMNS;
        let axes = if by_columns {
            [AxisSpec::whole(rows), AxisSpec::block(COLUMNS)]
        } else {
            [AxisSpec::block(rows), AxisSpec::whole(COLUMNS)]
        };
        let form = ArrayForm {
            element: ElementType::Double,
            spec: ArraySpec::new(8, axes),
            halo: HaloFill::Filled,
            is_scratch: false,
            is_constant: false,
        };
        let newcomers = new.iter().filter(|process| !old.contains(process));
        let order: Vec<u32> = old.iter().chain(newcomers).copied().collect();
        let place = |process: u32| order.iter().position(|other| *other == process).unwrap() as u32;
        let transfer = world.split(Some(0), place(me)).unwrap().unwrap();
        let rank_in = |layout: &[u32]| layout.iter().position(|process| *process == me).map(|rank| rank as u32);
        let next = NextLayout {
            old_size: old.len() as u32,
            order: new.iter().map(|process| place(*process)).collect(),
            weights: Vec::new(),
        };
        let change = RankChange::new(
            (0..next.old_size).map(ProcessId).collect(),
            next.order.iter().copied().map(ProcessId).collect(),
        );
        Self {
            world,
            me: place(me),
            form,
            transfer,
            old: rank_in(old),
            new: rank_in(new),
            change: change.unwrap(),
            next,
        }
    }

    /// Seconds of the slowest process, and bytes that moved.
    pub(crate) fn by_movement(&self) -> (f64, u64) {
        let mut registry = self.registry();
        let limits = limits();
        by_mpi::barrier(self.world);
        let start = Instant::now();
        let mut movement = Movement::begin(&registry, &self.transfer, self.next.clone(), 1, limits).unwrap();
        let sent = loop {
            let soon = Instant::now() + Duration::from_millis(2);
            if let Progress::Complete { sent, .. } = movement.drive(&mut registry, &self.transfer, soon).unwrap() {
                break sent;
            }
        };
        let own = start.elapsed().as_secs_f64();
        let seconds = by_mpi::largest(self.world, own);
        let before_commit = Instant::now();
        movement.commit(&mut registry).unwrap();
        let seconds = seconds + by_mpi::largest(self.world, before_commit.elapsed().as_secs_f64());
        self.check(&registry);
        (seconds, by_mpi::total(self.world, sent.bytes.0))
    }

    /// The same: the whole array through MPI_Alltoallv, into new memory, with packing where parts are not consecutive.
    pub(crate) fn by_alltoallv(&self) -> (f64, u64) {
        let registry = self.registry();
        let [before, after] = [self.next.old_size, self.next.order.len() as u32]
            .map(|ranks| Partition::new(&self.form.spec, ranks).unwrap());
        let plan = ArrayPlan::for_process(&before, &after, &self.change, ProcessId(self.me), HaloFill::Stale).unwrap();
        // SAFETY: nobody writes.
        let from = unsafe { registry.array_named("t").unwrap().storage().bytes() };
        by_mpi::barrier(self.world);
        let start = Instant::now();
        let (sends, receives) = (
            self.by_process(plan.sends(), plan.kept()),
            self.by_process(plan.receives(), plan.kept()),
        );
        let is_packed = self.form.spec.axes[0].split == pcm_core::partition::Split::Whole;
        let mut packed = Vec::new();
        let (send_list, receive_list) = (lists(&sends, false, is_packed), lists(&receives, true, is_packed));
        if is_packed {
            for piece in sends.iter().flatten() {
                piece
                    .source
                    .iter()
                    .for_each(|run| packed.extend_from_slice(&from[run.offset as usize..][..run.length as usize]));
            }
        }
        let length = self.new.map_or(0, |rank| after.local_bytes(rank)) as usize;
        let mut to = fresh(length);
        by_mpi::alltoallv(
            self.world,
            if is_packed { &packed } else { from },
            &send_list,
            &mut to,
            &receive_list,
        );
        if is_packed {
            let mut array = fresh(length);
            let mut at = 0;
            for run in receives.iter().flatten().flat_map(|piece| piece.target.iter()) {
                array[run.offset as usize..][..run.length as usize].copy_from_slice(&to[at..][..run.length as usize]);
                at += run.length as usize;
            }
            std::hint::black_box(&array);
        }
        let own = start.elapsed().as_secs_f64();
        std::hint::black_box(&to);
        (
            by_mpi::largest(self.world, own),
            by_mpi::total(self.world, plan.totals().send),
        )
    }

    fn by_process(&self, transfers: &[Transfer], kept: &[Piece]) -> Vec<Vec<Piece>> {
        let of = |process: u32| {
            if process == self.me {
                return kept.to_vec();
            }
            let theirs = transfers.iter().filter(|transfer| transfer.peer().0 == process);
            theirs.flat_map(Transfer::pieces).copied().collect()
        };
        // Old ranks and newcomers stand in the world as they do in the transfer communicator, see `cases`.
        (0..self.world.size().unwrap())
            .map(|world| of(self.place_of(world)))
            .collect()
    }

    fn place_of(&self, world: u32) -> u32 {
        by_mpi::place_in(self.world, &self.transfer, world)
    }

    fn registry(&self) -> Registry {
        let is_first = self.old.is_some();
        let (rank, size) = match self.old {
            Some(rank) => (rank, self.next.old_size),
            None => (self.new.unwrap(), self.next.order.len() as u32),
        };
        let mut registry = Registry::new(Home {
            rank,
            size,
            ranks_here: 1,
            is_first,
        });
        registry.array("t", self.form.clone()).unwrap();
        registry.start().unwrap();
        let storage = registry.array_named("t").unwrap().storage();
        // SAFETY: the storage is this process's own. A newcomer's program initialises its part too.
        unsafe {
            storage
                .pointer()
                .as_ptr()
                .write_bytes(if is_first { 1 } else { 0 }, storage.length())
        };
        registry
    }

    fn check(&self, registry: &Registry) {
        if self.new.is_some() {
            // SAFETY: nobody writes.
            let bytes = unsafe { registry.array_named("t").unwrap().storage().bytes() };
            assert!(bytes.iter().all(|byte| *byte == 1));
        }
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        by_mpi::free(&self.transfer);
    }
}

fn fresh(length: usize) -> Vec<u8> {
    vec![0; length]
}

/// Counts and displacements in elements: of packed data, or in the storage itself.
fn lists(pieces: &[Vec<Piece>], is_target: bool, is_packed: bool) -> Vec<[c_int; 2]> {
    let mut at = 0;
    let list = pieces.iter().map(|pieces| {
        let bytes: u64 = pieces.iter().map(Piece::bytes).sum();
        let first = pieces.first().map_or(0, |piece| {
            if is_target {
                piece.target.offset()
            } else {
                piece.source.offset()
            }
        });
        let place = if is_packed { at } else { first };
        at += bytes;
        [(bytes / 8) as c_int, (place / 8) as c_int]
    });
    list.collect()
}

fn limits() -> Limits {
    let number = |name: &str| env::var(name).ok().and_then(|value| value.parse::<usize>().ok());
    let usual = Limits::default();
    Limits {
        chunk_bytes: number("PCM_BENCH_CHUNK_KIB").map_or(usual.chunk_bytes, |kibibytes| kibibytes << 10),
        in_flight: number("PCM_BENCH_IN_FLIGHT").unwrap_or(usual.in_flight),
        peers: usual.peers,
    }
}
