//! A process's part in what is done ahead of a meeting: constant arrays travel, and memory is made for what will come.
//! It never holds the program up for longer than a description takes, and whatever fails here only means that it is
//! done at the meeting.

use super::part::Part;
use crate::{
    ahead::{Memory, Offer, Patient, Taken, Trip, WhenDone, take},
    park::{Client, RestoreError},
    region::Registry,
    start::Started,
};
use pcm_core::reconfiguration::rank::RankEffect;
use pcm_proto::{
    app::AppToDaemon,
    method::Completion,
    parked::RestoreAsk,
    reconfiguration::{Attempt, MeetOrder, ReconfigurationOrder, ReconfigurationReport},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::AcqRel},
    },
    time::{Duration, Instant},
};

/// A newcomer says that it is ready after this time in any case: well within what the coordinator gives it, its start
/// included. At 500 MB/s of a link it is enough for 10 GB.
const AHEAD_WITHIN: Duration = Duration::from_secs(20);

/// How often a newcomer asks its daemon what is planned.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// What this process does about one attempt before its meeting.
#[derive(Debug)]
pub(super) struct Early {
    trip: Trip,
    /// The keeper may read it until the meeting.
    _offer: Option<Offer>,
    // Before the memory it may be put to.
    taking: Taking,
    memory: Option<Memory>,
    said: Arc<Said>,
}

#[derive(Debug)]
enum Taking {
    UnderWay(Patient),
    Over(Option<Taken>),
}

/// Tells the daemon that a rank is done with what it does ahead, when both parts of that are.
#[derive(Debug)]
struct Said {
    started: &'static Started,
    attempt: Attempt,
    parts_left: AtomicU32,
}

impl Said {
    fn new(started: &'static Started, attempt: Attempt) -> Arc<Self> {
        let parts_left = AtomicU32::new(2);
        Arc::new(Self {
            started,
            attempt,
            parts_left,
        })
    }

    fn when_done(self: &Arc<Self>) -> WhenDone {
        let said = Arc::clone(self);
        Arc::new(move || said.part_is_done())
    }

    fn part_is_done(&self) {
        if self.parts_left.fetch_sub(1, AcqRel) == 1 {
            let attempt = self.attempt;
            let report = ReconfigurationReport::Ahead { attempt };
            // Unheard, it is waited for until the time for it is over.
            _ = self.started.channel.send(&AppToDaemon::Reconfiguration(report));
        }
    }
}

impl Early {
    /// Whether it is of this attempt.
    pub(super) fn is_of(&self, attempt: Attempt) -> bool {
        self.trip.attempt == attempt
    }

    /// The meeting has begun: nothing more is made.
    pub(super) fn stopped(mut self) -> Self {
        if let Some(memory) = &mut self.memory {
            memory.stop();
        }
        if let Taking::Over(Some(taken)) = &mut self.taking {
            taken.stop();
        }
        self
    }

    /// What was taken and made for this attempt.
    pub(super) fn into_ahead(self, attempt: Attempt) -> (Option<Taken>, Option<Memory>) {
        match self.taking {
            _ if self.trip.attempt != attempt => (None, None),
            Taking::Over(taken) => (taken, self.memory),
            Taking::UnderWay(_) => (None, self.memory),
        }
    }
}

impl Part {
    /// A rank of the present layout: goes on with what it was told and what has come.
    pub(super) fn early(&mut self, registry: &mut Registry) {
        if let Some((attempt, meeting)) = self.planned.take() {
            self.early_begin(registry, attempt, &meeting);
        }
        if self.has_opened && self.early.is_none() && self.joint.is_none() {
            // It was given up before there was a move that could have taken it back.
            self.has_opened = false;
            registry.settle();
        }
        let Some(Early {
            trip,
            taking: Taking::UnderWay(patient),
            ..
        }) = &mut self.early
        else {
            return;
        };
        let taken = match patient.hear() {
            Ok(false) => return,
            Ok(true) => take(registry, trip, patient),
            Err(error) => Err(error),
        };
        self.early_taken(registry, Some(taken));
    }

    fn early_begin(&mut self, registry: &mut Registry, attempt: Attempt, meeting: &MeetOrder) {
        self.early = None;
        if std::mem::take(&mut self.has_opened) {
            registry.settle();
        }
        let Some(trip) = Trip::new(attempt, meeting, self.seat) else {
            return self.tell(ReconfigurationReport::Ahead { attempt });
        };
        let said = Said::new(self.started, attempt);
        let memory = self.early_memory(registry, &trip, &said);
        let travels = registry.has_constant() && meeting.method.completion != Completion::Sync;
        let offer = travels.then(|| Offer::new(registry, &trip).ok()).flatten();
        if let Some(offer) = &offer {
            let (table, stretches) = offer.table();
            _ = self.started.channel.send(&AppToDaemon::Ahead {
                attempt,
                table,
                stretches,
            });
        }
        let mut patient = Patient::new(self.started, attempt);
        let taken = travels.then(|| take(registry, &trip, &mut patient));
        self.early = Some(Early {
            trip,
            _offer: offer,
            taking: Taking::UnderWay(patient),
            memory,
            said,
        });
        self.early_taken(registry, taken);
    }

    fn early_memory(&mut self, registry: &mut Registry, trip: &Trip, said: &Arc<Said>) -> Option<Memory> {
        let memory = Memory::begin(registry, trip, said.when_done());
        self.has_opened = memory.has_opened();
        Some(memory).filter(Memory::has_opened)
    }

    /// Nothing where nothing travels.
    fn early_taken(&mut self, registry: &Registry, taken: Option<Result<Taken, RestoreError>>) {
        if matches!(taken, Some(Err(RestoreError::Awaited))) {
            return;
        }
        let Some(early) = &mut self.early else {
            return;
        };
        let mut taken = taken.and_then(Result::ok);
        match (&mut taken, &early.memory) {
            (Some(taken), Some(memory)) => taken.place_beside(registry, &early.trip, memory, early.said.when_done()),
            _ => early.said.part_is_done(),
        }
        early.taking = Taking::Over(taken);
    }

    /// A newcomer: waits for what travels ahead, before it says that it is ready. What was heard besides comes back.
    pub(super) fn early_as_newcomer(&mut self, registry: &mut Registry) -> Vec<RankEffect> {
        let mut effects = Vec::new();
        if self.is_newcomer_of().is_none() || !registry.has_constant() {
            return effects;
        }
        let deadline = Instant::now() + AHEAD_WITHIN;
        let Some((attempt, meeting)) = self.await_plan(deadline, &mut effects) else {
            return effects;
        };
        if meeting.method.completion == Completion::Sync {
            return effects;
        }
        if let Some(trip) = Trip::new(attempt, &meeting, self.seat) {
            let mut client = Client::ahead(self.started, attempt, deadline);
            let taken = take(registry, &trip, &mut client);
            self.early = Some(Early {
                trip,
                _offer: None,
                taking: Taking::Over(taken.ok()),
                memory: None,
                said: Said::new(self.started, attempt),
            });
        }
        effects
    }

    fn await_plan(&mut self, deadline: Instant, effects: &mut Vec<RankEffect>) -> Option<(Attempt, Box<MeetOrder>)> {
        while Instant::now() < deadline && effects.is_empty() {
            _ = self.started.channel.send(&AppToDaemon::Restore(RestoreAsk::Plan));
            let again = deadline.min(Instant::now() + ASK_AGAIN);
            while let Some(left) = again.checked_duration_since(Instant::now()) {
                if self.started.channel.wait(left) {
                    self.started.hear();
                }
                while let Some(order) = self.started.order() {
                    match order {
                        ReconfigurationOrder::Ahead { attempt, meeting } => return Some((attempt, meeting)),
                        order => effects.extend(self.side.on_order(self.now(), order)),
                    }
                }
                if !effects.is_empty() {
                    break;
                }
            }
        }
        None
    }
}
