//! What the daemon last said about checkpoints. Any thread may hear it; the session reads it when it looks.

use pcm_proto::{checkpoint::CheckpointOrder, ids::CheckpointId};
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Release},
};

/// See the file head.
#[derive(Debug, Default)]
pub(crate) struct CheckpointOrders {
    settled: AtomicU64,
    given_up: AtomicU64,
    is_wanted: AtomicBool,
}

impl CheckpointOrders {
    pub(crate) fn take(&self, order: &CheckpointOrder) {
        match order {
            CheckpointOrder::Settled { id } => _ = self.settled.fetch_max(id.0, Release),
            CheckpointOrder::GivenUp { id } => _ = self.given_up.fetch_max(id.0, Release),
            CheckpointOrder::Make => self.is_wanted.store(true, Release),
        }
    }

    /// The newest checkpoint that is safe.
    pub(crate) fn settled(&self) -> CheckpointId {
        CheckpointId(self.settled.load(Acquire))
    }

    /// Whether this checkpoint was settled or given up.
    pub(crate) fn is_over(&self, id: CheckpointId) -> bool {
        id.0 <= self.settled.load(Acquire).max(self.given_up.load(Acquire))
    }

    /// Whether somebody wants a checkpoint.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Acquire)
    }

    /// It is being made.
    pub(crate) fn wanted_take(&self) {
        self.is_wanted.store(false, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_late_takes_nothing_back() {
        let orders = CheckpointOrders::default();
        orders.take(&CheckpointOrder::Settled { id: CheckpointId(5) });
        orders.take(&CheckpointOrder::Settled { id: CheckpointId(3) });
        assert_eq!(orders.settled(), CheckpointId(5));
        assert!(!orders.is_over(CheckpointId(7)));
        orders.take(&CheckpointOrder::GivenUp { id: CheckpointId(7) });
        assert!(orders.is_over(CheckpointId(7)));
        assert_eq!(orders.settled(), CheckpointId(5), "what is given up is not safe");
    }
}
