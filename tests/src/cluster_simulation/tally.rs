//! Counts of what histories went through, to know that they are worth telling.

use pcm_proto::event::EventKind;

/// See the file head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub steps: u64,
    pub accepted: u64,
    pub ended: u64,
    /// Jobs that came to their own end.
    pub finished: u64,
    pub reconfigured: u64,
    pub given_up: u64,
    pub checkpoints: u64,
    pub crashed: u64,
    pub recovered: u64,
    pub inherited: u64,
    /// Daemons that were started again.
    pub restarts: u64,
    pub machines_lost: u64,
    /// Machines that went down, on purpose or not.
    pub machines_down: u64,
    /// Jobs that no node knew any more when their coordinator's machine was gone.
    pub vanished: u64,
    pub cuts: u64,
    /// Requests of persons, and those that were refused.
    pub asked: u64,
    pub refused: u64,
}

impl Tally {
    pub(super) fn note(&mut self, kind: &EventKind) {
        match kind {
            EventKind::JobAccepted { .. } => self.accepted += 1,
            EventKind::JobEnded { code, .. } => {
                self.ended += 1;
                self.finished += u64::from(*code == 0);
            }
            EventKind::Reconfigured(_) => self.reconfigured += 1,
            EventKind::GivenUp { .. } => self.given_up += 1,
            EventKind::CheckpointComplete { .. } => self.checkpoints += 1,
            EventKind::Crashed { .. } => self.crashed += 1,
            EventKind::Recovered(_) => self.recovered += 1,
            EventKind::Inherited { .. } => self.inherited += 1,
            _ => {}
        }
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            steps: self.steps + other.steps,
            accepted: self.accepted + other.accepted,
            ended: self.ended + other.ended,
            finished: self.finished + other.finished,
            reconfigured: self.reconfigured + other.reconfigured,
            given_up: self.given_up + other.given_up,
            checkpoints: self.checkpoints + other.checkpoints,
            crashed: self.crashed + other.crashed,
            recovered: self.recovered + other.recovered,
            inherited: self.inherited + other.inherited,
            restarts: self.restarts + other.restarts,
            machines_lost: self.machines_lost + other.machines_lost,
            machines_down: self.machines_down + other.machines_down,
            vanished: self.vanished + other.vanished,
            cuts: self.cuts + other.cuts,
            asked: self.asked + other.asked,
            refused: self.refused + other.refused,
        }
    }
}
