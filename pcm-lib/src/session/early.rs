//! A process's part in what travels ahead of a meeting: constant arrays. It never holds the program up for longer than a
//! description takes, and whatever fails here only means that the data travels at the meeting.

use super::part::Part;
use crate::{
    ahead::{Offer, Patient, Taken, Trip, take},
    park::{Client, RestoreError},
    region::Registry,
};
use pcm_core::reconfiguration::rank::RankEffect;
use pcm_proto::{
    app::AppToDaemon,
    method::Completion,
    parked::RestoreAsk,
    reconfiguration::{Attempt, MeetOrder, ReconfigurationOrder, ReconfigurationReport},
};
use std::time::{Duration, Instant};

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
    taking: Taking,
}

#[derive(Debug)]
enum Taking {
    UnderWay(Patient),
    Over(Option<Taken>),
}

impl Early {
    /// Whether it is of this attempt.
    pub(super) fn is_of(&self, attempt: Attempt) -> bool {
        self.trip.attempt == attempt
    }

    /// What was taken for this attempt.
    pub(super) fn into_taken(self, attempt: Attempt) -> Option<Taken> {
        match self.taking {
            Taking::Over(taken) if self.trip.attempt == attempt => taken,
            Taking::Over(_) | Taking::UnderWay(_) => None,
        }
    }
}

impl Part {
    /// A rank of the present layout: goes on with what it was told and what has come.
    pub(super) fn early(&mut self, registry: &mut Registry) {
        if let Some((attempt, meeting)) = self.planned.take() {
            self.early_begin(registry, attempt, &meeting);
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
        self.early_taken(taken);
    }

    fn early_begin(&mut self, registry: &mut Registry, attempt: Attempt, meeting: &MeetOrder) {
        self.early = None;
        let Some(trip) = Trip::new(attempt, meeting, self.seat) else {
            return self.tell(ReconfigurationReport::Ahead { attempt });
        };
        let offer = Offer::new(registry, &trip).ok();
        if let Some(offer) = &offer {
            let (table, stretches) = offer.table();
            _ = self.started.channel.send(&AppToDaemon::Ahead {
                attempt,
                table,
                stretches,
            });
        }
        let mut patient = Patient::new(self.started, attempt);
        let taken = take(registry, &trip, &mut patient);
        self.early = Some(Early {
            trip,
            _offer: offer,
            taking: Taking::UnderWay(patient),
        });
        self.early_taken(taken);
    }

    fn early_taken(&mut self, taken: Result<Taken, RestoreError>) {
        if matches!(taken, Err(RestoreError::Awaited)) {
            return;
        }
        if let Some(early) = &mut self.early {
            let attempt = early.trip.attempt;
            early.taking = Taking::Over(taken.ok());
            self.tell(ReconfigurationReport::Ahead { attempt });
        }
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
