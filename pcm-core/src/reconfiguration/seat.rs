//! The place of one process among those that meet.

use pcm_proto::ids::{Rank, WorldId};
use pcm_proto::reconfiguration::MeetOrder;

/// Where a process finds itself in the transfer communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// It has this rank in the present layout.
    Member(Rank),
    /// It is a newcomer with this rank in its own world.
    Newcomer {
        world: WorldId,
        /// Its rank there.
        rank: u32,
    },
}

impl Seat {
    /// Its rank in the transfer communicator, if the meeting knows it.
    pub fn transfer_rank(self, meeting: &MeetOrder) -> Option<u32> {
        match self {
            Self::Member(rank) => (rank.0 < meeting.old_size).then_some(rank.0),
            Self::Newcomer { world, rank } => {
                let mut first = meeting.old_size;
                for known in &meeting.worlds {
                    if known.world == world {
                        return (rank < known.size).then_some(first + rank);
                    }
                    first += known.size;
                }
                None
            }
        }
    }
}
