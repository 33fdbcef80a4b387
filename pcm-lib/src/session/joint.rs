//! A reconfiguration as far as this process has come with it: the meeting and the move of the data, until the decision
//! ends both. Never decides.

use super::meeting::Meeting;
use crate::{
    ahead::{Memory, Taken},
    mpi::{Communicator, MpiError},
    redistribute::{Limits, MoveError, Movement, NextLayout, Progress},
    region::Registry,
};
use pcm_proto::reconfiguration::{Attempt, MeetOrder};
use std::time::{Duration, Instant};

/// For messages of an aborted move to come to their end: the others hear of the abort within this time, unless they
/// are gone.
const DRAIN_LIMIT: Duration = Duration::from_secs(4);

/// A process that fails only because another did reports it this much later: the daemons keep the first report, and
/// the other one's has the reason.
const ECHO_AFTER: Duration = Duration::from_secs(1);

/// See the file head.
#[derive(Debug)]
pub(super) struct Joint {
    meeting: Meeting,
    movement: Movement,
    /// Whether the move is over here, well or badly.
    is_over: bool,
    /// A failure that another process has the reason of, and when it is reported all the same.
    echo: Option<(Instant, MoveError)>,
}

impl Joint {
    /// Begins to move what is registered, but for what was `taken` before, into `memory` as far as it was made.
    pub(super) fn begin(
        registry: &Registry,
        meeting: Meeting,
        order: &MeetOrder,
        attempt: Attempt,
        (taken, memory): (Option<Taken>, Option<Memory>),
    ) -> Result<Self, MoveError> {
        let limits = Limits::default();
        let next = NextLayout::from(order);
        let movement = Movement::begin(registry, meeting.transfer(), next, token(attempt), limits)?;
        let movement = movement
            .with_ahead(taken)
            .with_memory(memory)
            .by(order.method.operation);
        Ok(Self {
            meeting,
            movement,
            is_over: false,
            echo: None,
        })
    }

    /// Whether there is something to drive.
    pub(super) fn is_moving(&self) -> bool {
        !self.is_over
    }

    /// Goes on with the move until `until`.
    pub(super) fn drive(&mut self, registry: &mut Registry, until: Instant) -> Result<Progress, MoveError> {
        if let Some((since, error)) = self.echo.take() {
            if since.elapsed() < ECHO_AFTER {
                self.echo = Some((since, error));
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
                return Ok(Progress::Pending);
            }
            self.is_over = true;
            return Err(error);
        }
        match self.movement.drive(registry, self.meeting.transfer(), until) {
            Ok(Progress::Pending) => Ok(Progress::Pending),
            Err(error @ (MoveError::Elsewhere { .. } | MoveError::SenderStopped { .. })) => {
                self.echo = Some((Instant::now(), error));
                Ok(Progress::Pending)
            }
            outcome => {
                self.is_over = true;
                outcome
            }
        }
    }

    /// The next layout counts. What is returned first is its communicator, for a process that has a rank in it.
    pub(super) fn commit(
        self,
        registry: &mut Registry,
    ) -> (Result<Option<Communicator>, MpiError>, Result<(), MoveError>) {
        let moved = self.movement.commit(registry);
        (self.meeting.part(), moved)
    }

    /// The old layout counts.
    pub(super) fn abort(self, registry: &mut Registry) {
        let deadline = Instant::now() + DRAIN_LIMIT;
        let drained = self.movement.abort(registry, self.meeting.transfer(), deadline);
        if drained.is_ok() {
            // What cannot be ended stays with MPI until the program ends.
            _ = self.meeting.part().map(|next| next.map(Communicator::disconnect));
        }
    }
}

/// A number that no other attempt of the job has.
fn token(attempt: Attempt) -> u64 {
    attempt.epoch.0 << 40 ^ u64::from(attempt.term.0) << 20 ^ u64::from(attempt.number)
}
