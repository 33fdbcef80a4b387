//! A job among the processes of MPI_COMM_WORLD: each process knows who has which rank, and whether it has one.

use crate::{
    contents::{self, Objects},
    control,
};
use pcm_lib::{
    mpi::{Communicator, SeparateGroups, Transport},
    redistribute::{Limits, Movement, NextLayout},
    region::{ArrayForm, Home, Registry},
};
use pcm_proto::method::{Management, Method};
use pcm_proto::random::Random;
use std::rc::Rc;

/// One process's view of the job.
pub(crate) struct Job {
    pub(crate) world: Communicator,
    pub(crate) me: u32,
    /// Ranks of the world by rank of the job.
    pub(crate) layout: Vec<u32>,
    pub(crate) forms: Vec<ArrayForm>,
    pub(crate) limits: Limits,
    /// How the next moves are made.
    pub(crate) method: Method,
    /// Present if this process has a rank.
    pub(crate) registry: Option<Registry>,
    pub(crate) objects: Objects,
    moves: u64,
}

/// What a move goes over.
pub(crate) enum Crossing {
    Merged(Communicator),
    Separate(SeparateGroups),
}

impl Crossing {
    pub(crate) fn transport(&self) -> &dyn Transport {
        match self {
            Self::Merged(communicator) => communicator,
            Self::Separate(groups) => groups,
        }
    }

    fn disconnect(self) {
        let ended = match self {
            Self::Merged(communicator) => communicator.disconnect(),
            Self::Separate(groups) => groups.disconnect(),
        };
        ended.unwrap();
    }
}

/// One move under way.
pub(crate) struct Under {
    pub(crate) transfer: Crossing,
    pub(crate) control: Communicator,
    pub(crate) movement: Movement,
    pub(crate) next: Vec<u32>,
}

impl Job {
    /// A job that begins on the first `ranks` processes.
    pub(crate) fn new(ranks: u32, forms: Vec<ArrayForm>, limits: Limits) -> Self {
        let world = Communicator::world();
        let me = world.rank().unwrap();
        let mut job = Self {
            world,
            me,
            layout: (0..ranks).collect(),
            forms,
            limits,
            method: Method::default(),
            registry: None,
            objects: Objects::default(),
            moves: 0,
        };
        if let Some(rank) = job.rank() {
            job.registry = Some(job.registered(rank, ranks, true));
            let mine = (0..contents::OBJECTS).filter(|object| contents::holder(*object, ranks) == rank);
            *job.objects.borrow_mut() = mine.collect();
        }
        job
    }

    /// This process's rank in the job.
    pub(crate) fn rank(&self) -> Option<u32> {
        rank_in(&self.layout, self.me)
    }

    /// What a process of this job registers before it starts.
    pub(crate) fn registered(&self, rank: u32, size: u32, is_first: bool) -> Registry {
        let mut registry = Registry::new(Home {
            rank,
            size,
            ranks_here: 1,
            is_first,
        });
        for (n, form) in self.forms.iter().enumerate() {
            let name = if form.is_scratch {
                format!("scratch{n}")
            } else {
                format!("array{n}")
            };
            registry.array(&name, form.clone()).unwrap();
        }
        contents::register_opaque(&mut registry, &Rc::clone(&self.objects));
        registry.start().unwrap();
        registry
    }

    /// Another layout: other processes, in any order; now and then the same ones.
    pub(crate) fn random_layout(&self, random: &mut Random) -> Vec<u32> {
        let mut all: Vec<u32> = (0..self.world.size().unwrap()).collect();
        if self.method.starts_all() {
            all.retain(|process| !self.layout.contains(process));
        }
        random.shuffle(&mut all);
        all.truncate(1 + random.below(all.len() as u64) as usize);
        if random.one_in(2) {
            // Survivors keep their order, as a good rank order has it.
            all.sort_by_key(|process| rank_in(&self.layout, *process).unwrap_or(u32::MAX));
        }
        all
    }

    /// Begins a move to another layout, if this process takes part. Collective over the world.
    pub(crate) fn begin(&mut self, next: &[u32], weights: &[u32]) -> Option<Under> {
        self.begin_as(next, weights, |job, rank, size| job.registered(rank, size, false))
    }

    /// As [`Job::begin`], with another registration for newcomers.
    pub(crate) fn begin_as(
        &mut self,
        next: &[u32],
        weights: &[u32],
        newcomer: impl FnOnce(&Self, u32, u32) -> Registry,
    ) -> Option<Under> {
        self.moves += 1;
        let newcomers = next.iter().filter(|process| !self.layout.contains(process));
        let transfer_order: Vec<u32> = self.layout.iter().chain(newcomers).copied().collect();
        let transfer = self.world.create(&transfer_order).unwrap()?;
        let control = transfer.dup().unwrap();
        let transfer = match self.method.management {
            Management::Merge | Management::BaselineIntra => Crossing::Merged(transfer),
            Management::Baseline => Crossing::Separate(self.separate_groups(transfer)),
        };
        if self.registry.is_none() {
            let rank = rank_in(next, self.me).expect("it takes part and has no rank: a newcomer");
            self.registry = Some(newcomer(self, rank, next.len() as u32));
        }
        let layout = NextLayout {
            old_size: self.layout.len() as u32,
            order: next
                .iter()
                .map(|process| rank_in(&transfer_order, *process).unwrap())
                .collect(),
            weights: weights.to_vec(),
        };
        let registry = self.registry.as_ref().unwrap();
        let movement = Movement::begin(registry, transfer.transport(), layout, self.moves, self.limits).unwrap();
        let movement = movement.by(self.method.operation);
        Some(Under {
            transfer,
            control,
            movement,
            next: next.to_vec(),
        })
    }

    /// Old ranks and newcomers as two groups.
    fn separate_groups(&self, all: Communicator) -> SeparateGroups {
        let old_size = self.layout.len() as u32;
        let rank = all.rank().unwrap();
        let is_old = rank < old_size;
        let side = if is_old {
            0..old_size
        } else {
            old_size..all.size().unwrap()
        };
        let own = all.create(&side.collect::<Vec<_>>()).unwrap().unwrap();
        let between = own.between(0, &all, if is_old { old_size } else { 0 }, 0).unwrap();
        all.disconnect().unwrap();
        SeparateGroups::new(own, between, is_old).unwrap()
    }

    /// The move is committed.
    pub(crate) fn commit(&mut self, under: Under) {
        under.movement.commit(self.registry.as_mut().unwrap()).unwrap();
        self.took_place(&under.next);
        under.control.disconnect().unwrap();
        under.transfer.disconnect();
    }

    /// The move is aborted.
    pub(crate) fn abort(&mut self, under: Under) {
        control::abort(
            under.movement,
            self.registry.as_mut().unwrap(),
            under.transfer.transport(),
        );
        if self.rank().is_none() {
            self.registry = None;
        }
        under.transfer.disconnect();
    }

    /// The next layout is in force; for processes that took no part too.
    pub(crate) fn took_place(&mut self, next: &[u32]) {
        self.layout = next.to_vec();
        if self.rank().is_none() {
            self.registry = None;
        }
        if let Some(registry) = &mut self.registry {
            registry.goes_on();
        }
    }
}

fn rank_in(layout: &[u32], process: u32) -> Option<u32> {
    layout
        .iter()
        .position(|other| *other == process)
        .map(|rank| rank as u32)
}
