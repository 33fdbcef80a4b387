//! One process's part in one move, from the statement that opens it to its commit or abort. Never decides which of
//! the two: that is the coordinator's, through the daemon.

use super::{
    Limits, MoveError, NextLayout, NotDrained,
    array_move::{ArrayMove, Sides},
    carrier::Carrier,
    exchange::Exchange,
    inbound::Inbound,
    leg::Leg,
    outbound::Outbound,
    parcel_move::ParcelMove,
    statement::{Statement, Stating},
    together::Together,
    vote::{Verdict, Voice, Vote},
};
use crate::{
    ahead::{Fresh, Memory, Taken},
    mpi::Transport,
    region::{Kind, Registry},
};
use pcm_core::redistribution::RankChange;
use pcm_proto::{
    ids::{Bytes, ProcessId, RegionId},
    method::Operation,
    reconfiguration::Tally,
};
use std::{
    collections::BTreeMap,
    ptr::NonNull,
    time::{Duration, Instant},
};

/// Tests without a pause before the process offers its CPU to others.
const EAGER_STEPS: u32 = 64;
/// Steps after which it sleeps between tests instead.
const YIELDING_STEPS: u32 = 4096;
/// A sleep: far below the time a chunk takes over a network.
const PAUSE: Duration = Duration::from_micros(50);
/// Bytes copied on this process between two looks at the messages.
const COPY_STEP_BYTES: u64 = 256 << 10;

/// What [`Movement::drive`] has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The time was up first; drive again.
    Pending,
    /// All that leaves this process has left, all that comes has come and is as it was sent. Only the decision is
    /// missing.
    Complete { sent: Tally, received: Tally },
}

/// A move under way on this process.
#[derive(Debug)]
pub struct Movement {
    next: NextLayout,
    change: RankChange,
    /// Ranks of the transfer communicator, and this process's.
    transfer_size: u32,
    rank: u32,
    limits: Limits,
    operation: Operation,
    token: u64,
    arrays: Vec<ArrayMove>,
    parcels: Vec<ParcelMove>,
    /// Constant data that came before the meeting.
    ahead: Option<Taken>,
    /// Bytes of it that left and came, once all processes have said that they have theirs.
    sent_ahead: u64,
    received_ahead: u64,
    /// Memory that was made before the meeting, in bytes, and the part of it that is new storage.
    made: u64,
    ready: Vec<Fresh>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The statement travels.
    Stating(Stating),
    /// Every process says whether it can take part; what fails here is kept until all have said so.
    Voting(Vote, Option<MoveError>),
    Moving(Box<Carrier>),
    /// Only the decision is missing.
    Complete {
        sent: Tally,
        received: Tally,
    },
    /// It failed here; nothing of this process is under way but what a carrier may hold.
    Failed(Option<Box<Carrier>>),
}

impl Movement {
    /// Begins a move on the transfer communicator, where every process that takes part does the same. `token` is a
    /// number all of them know and no other move has. An error here is one of MPI, or of the list of ranks, which is
    /// the same everywhere.
    pub fn begin(
        registry: &Registry,
        transfer: &dyn Transport,
        next: NextLayout,
        token: u64,
        limits: Limits,
    ) -> Result<Self, MoveError> {
        let (rank, transfer_size) = (transfer.rank()?, transfer.size()?);
        let change = next.change(transfer_size)?;
        Ok(Self {
            next,
            change,
            transfer_size,
            rank,
            limits,
            operation: Operation::default(),
            token,
            arrays: Vec::new(),
            parcels: Vec::new(),
            ahead: None,
            sent_ahead: 0,
            received_ahead: 0,
            made: 0,
            ready: Vec::new(),
            stage: Stage::Stating(Stating::begin(registry, transfer, rank, limits)?),
        })
    }

    /// By such an operation, the same on every process.
    #[must_use]
    pub fn by(mut self, operation: Operation) -> Self {
        self.operation = operation;
        self
    }

    /// With constant data that this process took before the meeting. If every process has what it needs, none of it
    /// travels now.
    #[must_use]
    pub(crate) fn with_ahead(mut self, mut taken: Option<Taken>) -> Self {
        if let Some(taken) = &mut taken {
            taken.stop();
        }
        self.ahead = taken;
        self
    }

    /// With memory that was made for it before the meeting.
    #[must_use]
    pub(crate) fn with_memory(mut self, memory: Option<Memory>) -> Self {
        (self.made, self.ready) = memory.map(Memory::into_made).unwrap_or_default();
        self
    }

    /// Goes on until everything has moved or the time is up. After an error the move can only be aborted.
    pub fn drive(
        &mut self,
        registry: &mut Registry,
        transfer: &dyn Transport,
        until: Instant,
    ) -> Result<Progress, MoveError> {
        let mut idle = 0;
        loop {
            if let Stage::Complete { sent, received } = self.stage {
                return Ok(Progress::Complete { sent, received });
            }
            let has_happened = match self.step(registry, transfer) {
                Ok(has_happened) => has_happened,
                Err(error) => {
                    self.fail();
                    return Err(error);
                }
            };
            if has_happened {
                idle = 0;
                continue;
            }
            if Instant::now() >= until {
                return Ok(Progress::Pending);
            }
            pause(&mut idle);
        }
    }

    /// The decision was to commit: the new layout's data takes the place of the old. To be called when every process
    /// has reported completion. An error is one of an unpack hook, whose region is then undefined on this process.
    ///
    /// # Panics
    /// If the move is not complete here.
    pub fn commit(mut self, registry: &mut Registry) -> Result<(), MoveError> {
        assert!(
            matches!(self.stage, Stage::Complete { .. }),
            "only a complete move is committed"
        );
        for array in self.arrays.drain(..) {
            array.commit(registry);
        }
        let Some(rank) = self.change.rank_after(ProcessId(self.rank)) else {
            return Ok(());
        };
        registry.home_set(rank.0, self.change.after().len() as u32);
        let mut outcome = Ok(());
        for parcel in self.parcels.drain(..) {
            outcome = outcome.and(parcel.commit(registry));
        }
        outcome
    }

    /// The decision was to abort: all data is as it was before, bit for bit. Every process that takes part calls it;
    /// messages under way are brought to an end until the deadline.
    pub fn abort(
        mut self,
        registry: &mut Registry,
        transfer: &dyn Transport,
        deadline: Instant,
    ) -> Result<(), NotDrained> {
        let messages = self.drain(registry, transfer, deadline);
        let is_drained = messages == 0;
        for array in self.arrays.drain(..) {
            if is_drained {
                array.abort(registry);
            } else {
                array.abandon(registry);
            }
        }
        if is_drained {
            registry.settle();
            Ok(())
        } else {
            registry.leave();
            Err(NotDrained { messages })
        }
    }

    /// One step without waiting; says whether anything happened.
    fn step(&mut self, registry: &mut Registry, transfer: &dyn Transport) -> Result<bool, MoveError> {
        match &mut self.stage {
            Stage::Stating(stating) => {
                let statement = match stating.test(transfer) {
                    Ok(None) => return Ok(false),
                    Ok(Some(statement)) => Ok(statement),
                    Err(error @ MoveError::Mpi(_)) => return Err(error),
                    Err(error) => Err(error),
                };
                let planned = statement.and_then(|statement| self.plan(registry, &statement));
                let voice = match &planned {
                    Err(_) => Voice::Against,
                    Ok(()) if self.has_all(registry) => Voice::HasAll,
                    Ok(()) => Voice::For,
                };
                let vote = Vote::begin(transfer, self.rank, voice)?;
                self.stage = Stage::Voting(vote, planned.err());
                Ok(true)
            }
            Stage::Voting(vote, failure) => {
                let Some(verdict) = vote.test()? else {
                    return Ok(false);
                };
                if let Some(error) = failure.take() {
                    return Err(error);
                }
                if let Verdict::Against(rank) = verdict {
                    return Err(MoveError::Elsewhere { rank });
                }
                self.stage = Stage::Moving(Box::new(self.carrier(registry, verdict)));
                Ok(true)
            }
            Stage::Moving(carrier) => {
                for parcel in &mut self.parcels {
                    parcel.land(registry)?;
                }
                if carrier.step(transfer)? {
                    return Ok(true);
                }
                let arrays = &mut self.arrays;
                if arrays.iter_mut().any(|array| array.copy_step(COPY_STEP_BYTES)) {
                    return Ok(true);
                }
                if !carrier.is_complete() {
                    return Ok(false);
                }
                self.complete(registry)?;
                Ok(true)
            }
            Stage::Complete { .. } => Ok(false),
            Stage::Failed(_) => Err(MoveError::Elsewhere { rank: self.rank }),
        }
    }

    /// Plans this process's part and takes the memory for it.
    fn plan(&mut self, registry: &mut Registry, statement: &Statement) -> Result<(), MoveError> {
        statement.check(registry, self.rank)?;
        self.limits = statement.limits;
        registry.capacity_renew();
        registry.capacity_has_taken(self.made);
        let process = ProcessId(self.rank);
        let sides = Sides {
            next: &self.next,
            change: &self.change,
            process,
        };
        let takes_part = self
            .change
            .rank_before(process)
            .or(self.change.rank_after(process))
            .is_some();
        if !takes_part {
            return Ok(());
        }
        let arrays: Vec<RegionId> = registry.storages().map(|(id, _)| id).collect();
        let divisions: BTreeMap<_, _> = arrays.into_iter().zip(&statement.divisions).collect();
        for (&id, (registered, now)) in &divisions {
            let ready = self.ready.iter().position(|ready| ready.id == id);
            let ready = ready.map(|at| self.ready.swap_remove(at));
            let array = ArrayMove::plan(registry, id, registered, now, sides, ready)?;
            self.arrays.push(array);
        }
        for (id, region) in registry.regions_mut() {
            let like = match &region.kind {
                Kind::Array(_) => continue,
                Kind::Custom(custom) => custom.like().and_then(|like| divisions.get(&like)),
                _ => None,
            };
            let division = like.map(|(registered, now)| sides.partitions(&region.name, registered, now));
            let division = division.transpose()?.map(|(before, after)| [before, after]);
            let parcel = ParcelMove::plan((id, region), division, &self.next, &self.change, process)?;
            self.parcels.push(parcel);
        }
        Ok(())
    }

    /// Whether this process needs no constant data of others at the meeting.
    fn has_all(&self, registry: &Registry) -> bool {
        let is_good = |taken: &Taken| taken.is_good(registry);
        !registry.has_constant() || self.ahead.as_ref().is_some_and(is_good)
    }

    /// The legs to and from each process: nearest first, arrays before opaque data, the same order at both ends.
    fn carrier(&mut self, registry: &Registry, verdict: Verdict) -> Carrier {
        let (mut leaving, mut coming) = (Vec::new(), Vec::new());
        let firsts: BTreeMap<RegionId, NonNull<u8>> = registry
            .storages()
            .map(|(id, storage)| (id, storage.pointer()))
            .collect();
        for array in &mut self.arrays {
            let is_constant = registry.array_by_id(array.id()).form().is_constant;
            if let (Verdict::HaveAll, true, Some(taken)) = (verdict, is_constant, &mut self.ahead) {
                let (sent, received) = array.takes_from(taken);
                self.sent_ahead += sent;
                self.received_ahead += received;
                continue;
            }
            let (out, into) = array.legs(firsts[&array.id()]);
            leaving.extend(out);
            coming.extend(into);
        }
        for parcel in &mut self.parcels {
            let (out, into) = parcel.legs();
            leaving.extend(out);
            coming.extend(into);
        }
        let (size, rank) = (self.transfer_size, self.rank);
        let leaving = streams(leaving, |to| (to + size - rank) % size);
        let coming = streams(coming, |from| (rank + size - from) % size);
        match self.operation {
            Operation::PointToPoint => Carrier::PointToPoint(Exchange::new(
                Outbound::new(leaving, self.limits, self.token),
                Inbound::new(coming, self.limits, self.token),
            )),
            Operation::Collective => {
                let ids: Vec<RegionId> = registry.storages().map(|(id, _)| id).collect();
                let travels = |id: &RegionId| {
                    let form = registry.array_by_id(*id).form();
                    !(form.is_scratch || form.is_constant && verdict == Verdict::HaveAll)
                };
                let arrays = ids.into_iter().filter(travels);
                Carrier::Collective(Together::new(leaving, coming, arrays, size, self.limits, self.token))
            }
        }
    }

    /// Everything has left and come: what can fail is done now, while the move can still be aborted.
    fn complete(&mut self, registry: &mut Registry) -> Result<(), MoveError> {
        let Stage::Moving(carrier) = std::mem::replace(&mut self.stage, Stage::Failed(None)) else {
            return Ok(());
        };
        let (mut sent, mut received) = carrier.tallies();
        (sent.ahead, received.ahead) = (Bytes(self.sent_ahead), Bytes(self.received_ahead));
        for (leg, mut bytes) in carrier.into_parcels() {
            self.parcels.iter_mut().any(|parcel| parcel.take(&leg, &mut bytes));
        }
        let is_leaver = self.change.rank_after(ProcessId(self.rank)).is_none();
        for parcel in self.parcels.iter_mut().filter(|_| !is_leaver) {
            let region = registry.region_mut(parcel.id());
            parcel.prepare(region)?;
        }
        self.stage = Stage::Complete { sent, received };
        Ok(())
    }

    fn fail(&mut self) {
        let stage = std::mem::replace(&mut self.stage, Stage::Failed(None));
        self.stage = match stage {
            Stage::Moving(carrier) => Stage::Failed(Some(carrier)),
            Stage::Stating(_) | Stage::Voting(..) | Stage::Complete { .. } | Stage::Failed(_) => stage,
        };
    }

    /// Brings messages under way to an end; returns how many are left at the deadline.
    fn drain(&mut self, registry: &Registry, transfer: &dyn Transport, deadline: Instant) -> usize {
        let mut idle = 0;
        self.parcels.iter().for_each(ParcelMove::give_up);
        if let Stage::Moving(carrier) | Stage::Failed(Some(carrier)) = &mut self.stage {
            // A failure shows in what is left under way.
            _ = carrier.stop(transfer);
        }
        loop {
            let (under_way, has_happened) = self.drain_step(registry, transfer);
            if under_way == 0 || Instant::now() >= deadline {
                return under_way;
            }
            if !has_happened {
                pause(&mut idle);
            }
        }
    }

    /// One step of the way out, which leads through the vote: others may be waiting for it, or move already. Says how
    /// much is under way, and whether anything happened.
    fn drain_step(&mut self, registry: &Registry, transfer: &dyn Transport) -> (usize, bool) {
        match &mut self.stage {
            Stage::Stating(stating) => match stating.test(transfer) {
                Ok(None) | Err(MoveError::Mpi(_)) => (1, false),
                Ok(Some(_)) | Err(_) => match Vote::begin(transfer, self.rank, Voice::Against) {
                    Ok(vote) => {
                        self.stage = Stage::Voting(vote, None);
                        (1, true)
                    }
                    Err(_) => (1, false),
                },
            },
            Stage::Voting(vote, _) => match vote.test() {
                Ok(Some(Verdict::Against(_))) => (0, false),
                Ok(Some(verdict)) => {
                    let mut carrier = Box::new(self.carrier(registry, verdict));
                    _ = carrier.stop(transfer);
                    self.stage = Stage::Moving(carrier);
                    (1, true)
                }
                Ok(None) | Err(_) => (1, false),
            },
            Stage::Moving(carrier) | Stage::Failed(Some(carrier)) => {
                let has_happened = carrier.drain(transfer).unwrap_or(false);
                let is_over = carrier.is_complete();
                (if is_over { 0 } else { carrier.under_way().max(1) }, has_happened)
            }
            Stage::Complete { .. } | Stage::Failed(None) => (0, false),
        }
    }
}

impl Drop for Movement {
    /// Whatever way it ends: memory that messages under way may still use is left to MPI.
    fn drop(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Failed(None)) {
            Stage::Stating(stating) => stating.abandon(),
            Stage::Voting(vote, _) => vote.abandon(),
            Stage::Moving(carrier) | Stage::Failed(Some(carrier)) if carrier.under_way() > 0 => {
                carrier.abandon();
                self.arrays.drain(..).for_each(std::mem::forget);
            }
            Stage::Moving(_) | Stage::Complete { .. } | Stage::Failed(_) => {}
        }
    }
}

/// Waits ever more politely the longer nothing happens.
fn pause(idle: &mut u32) {
    *idle = idle.saturating_add(1);
    if *idle <= EAGER_STEPS {
        std::hint::spin_loop();
    } else if *idle <= YIELDING_STEPS {
        std::thread::yield_now();
    } else {
        std::thread::sleep(PAUSE);
    }
}

/// Legs by process, in the order of a distance; arrays before opaque data, then by region and name.
fn streams(legs: Vec<(u32, Leg)>, distance: impl Fn(u32) -> u32) -> Vec<(u32, Vec<Leg>)> {
    let mut by_distance: BTreeMap<u32, (u32, Vec<Leg>)> = BTreeMap::new();
    for (process, leg) in legs {
        let stream = by_distance.entry(distance(process));
        stream.or_insert_with(|| (process, Vec::new())).1.push(leg);
    }
    let mut streams: Vec<_> = by_distance.into_values().collect();
    for (_, legs) in &mut streams {
        legs.sort_by_key(|leg| (leg.is_parcel(), leg.region, leg.id));
    }
    streams
}
