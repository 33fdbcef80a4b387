//! What the driver does with the processes that serve PMIx, and what it reports of them.

use pcm_proto::ids::{Epoch, JobId};
use pcm_proto::pmix::{Order, Report, Serve};

/// The process that serves a job's ranks at this node, from one start of the job to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HelperId {
    pub job: JobId,
    /// Which start of the job it is.
    pub life: Epoch,
}

/// An order about such a process. One about a process that has ended does nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PmixEffect {
    /// Connect to the one that an earlier daemon left, else start it, unless ranks count on what an earlier one knew
    /// and it is dead. Then give it this order. [`PmixNews::Ended`] comes in any case.
    Start {
        helper: HelperId,
        serve: Box<Serve>,
        is_counted_on: bool,
    },
    Tell {
        helper: HelperId,
        order: Box<Order>,
    },
    /// End it and remove its folder.
    Stop {
        helper: HelperId,
    },
}

/// What is heard of such a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PmixNews {
    Said(Box<Report>),
    /// It ended, after all that it said, and its folder is gone.
    Ended {
        reason: String,
    },
}
