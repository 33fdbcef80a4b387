//! What is planned, as this process sees it before the meeting.

use crate::redistribute::NextLayout;
use pcm_core::reconfiguration::seat::Seat;
use pcm_proto::{
    ids::ProcessId,
    reconfiguration::{Attempt, MeetOrder},
};

/// See the file head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trip {
    pub(crate) attempt: Attempt,
    /// Who has which rank next.
    pub(crate) next: NextLayout,
    /// Ranks the transfer communicator will have, and this process's.
    pub(super) transfer_size: u32,
    pub(super) process: u32,
}

impl Trip {
    /// None if the meeting does not name this process.
    pub(crate) fn new(attempt: Attempt, meeting: &MeetOrder, seat: Seat) -> Option<Self> {
        let newcomers = meeting
            .worlds
            .iter()
            .fold(0, |sum: u32, world| sum.saturating_add(world.size));
        Some(Self {
            attempt,
            next: NextLayout::from(meeting),
            transfer_size: meeting.old_size.saturating_add(newcomers),
            process: seat.transfer_rank(meeting)?,
        })
    }

    pub(super) fn process(&self) -> ProcessId {
        ProcessId(self.process)
    }

    /// This process's rank in the next layout.
    pub(super) fn rank_after(&self) -> Option<u32> {
        let at = self.next.order.iter().position(|process| *process == self.process);
        at.map(|rank| rank as u32)
    }

    /// Whether this process has a rank in the present layout.
    pub(super) fn is_member(&self) -> bool {
        self.process < self.next.old_size
    }
}
