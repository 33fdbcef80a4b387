//! What the daemon last said about checkpoints. Any thread may hear it; the session reads it when it looks.

use pcm_proto::{
    checkpoint::{CheckpointOrder, IntoFiles},
    ids::CheckpointId,
};
use std::sync::{
    Mutex, PoisonError,
    atomic::{
        AtomicBool, AtomicU64,
        Ordering::{Acquire, Release},
    },
};

/// See the file head.
#[derive(Debug, Default)]
pub(crate) struct CheckpointOrders {
    settled: AtomicU64,
    given_up: AtomicU64,
    is_wanted: AtomicBool,
    /// Where the wanted one is to be in files, if it is.
    into: Mutex<Option<IntoFiles>>,
}

impl CheckpointOrders {
    pub(crate) fn take(&self, order: &CheckpointOrder) {
        match order {
            CheckpointOrder::Settled { id } => _ = self.settled.fetch_max(id.0, Release),
            CheckpointOrder::GivenUp { id } => _ = self.given_up.fetch_max(id.0, Release),
            CheckpointOrder::Make { into } => {
                if let Some(into) = into {
                    *self.into.lock().unwrap_or_else(PoisonError::into_inner) = Some(into.clone());
                }
                self.is_wanted.store(true, Release);
            }
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

    /// Whether it is wanted in files.
    pub(crate) fn is_wanted_in_files(&self) -> bool {
        self.into.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// It is being made; where it is wanted in files.
    pub(crate) fn wanted_take(&self) -> Option<IntoFiles> {
        self.is_wanted.store(false, Release);
        self.into.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_for_files_is_not_taken_back_by_one_without() {
        let orders = CheckpointOrders::default();
        let into = Some(IntoFiles::Usual);
        orders.take(&CheckpointOrder::Make { into: into.clone() });
        orders.take(&CheckpointOrder::Make { into: None });
        assert!(orders.is_wanted() && orders.is_wanted_in_files());
        assert_eq!(orders.wanted_take(), into);
        assert!(!orders.is_wanted() && !orders.is_wanted_in_files());
    }

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
