//! The ranks of the next layout in terms of the transfer communicator.

use super::MoveError;
use crate::region::Shares;
use pcm_core::redistribution::RankChange;
use pcm_proto::{ids::ProcessId, reconfiguration::MeetOrder};

/// Who has which rank next. Processes are named by their rank in the transfer communicator, whose first ranks are the
/// old ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextLayout {
    /// Number of old ranks.
    pub old_size: u32,
    /// For each new rank its rank in the transfer communicator.
    pub order: Vec<u32>,
    /// Shares of the new ranks; empty means equal.
    pub weights: Vec<u32>,
}

impl From<&MeetOrder> for NextLayout {
    fn from(order: &MeetOrder) -> Self {
        Self {
            old_size: order.old_size,
            order: order.order.clone(),
            weights: order.weights.clone(),
        }
    }
}

impl NextLayout {
    /// The old and new ranks of a transfer communicator with so many ranks.
    pub(crate) fn change(&self, transfer_size: u32) -> Result<RankChange, MoveError> {
        let named = self
            .order
            .iter()
            .copied()
            .max()
            .unwrap_or(0)
            .max(self.old_size.saturating_sub(1));
        if named >= transfer_size {
            return Err(MoveError::NoSuchRank {
                rank: named,
                ranks: transfer_size,
            });
        }
        let before = (0..self.old_size).map(ProcessId).collect();
        let after = self.order.iter().copied().map(ProcessId).collect();
        RankChange::new(before, after).map_err(MoveError::Change)
    }

    /// The shares of the new ranks.
    pub(crate) fn shares(&self) -> Shares<'_> {
        Shares {
            ranks: self.order.len() as u32,
            weights: &self.weights,
        }
    }
}
