//! The persons at their terminals: what they asked, what they were answered, and what they know of their jobs.

use super::output::Received;
use pcm_core::node::requester::LinkId;
use pcm_proto::control::{ControlToDaemon, LayoutChange};
use pcm_proto::ids::JobId;
use pcm_proto::layout::ModeWanted;
use std::collections::BTreeMap;

/// What a person does.
#[derive(Clone, Debug)]
pub enum Act {
    /// Runs a program.
    Run {
        /// Its place in the scenario's list.
        program: usize,
        ranks: u32,
        is_detached: bool,
        restarts_max: u32,
        via: usize,
    },
    /// Asks for another layout of some job.
    Change {
        change: Change,
        mode: ModeWanted,
        via: usize,
    },
    Checkpoint {
        in_files: bool,
        via: usize,
    },
    Kill {
        via: usize,
    },
    /// Looks at jobs, nodes or ranks.
    Look {
        via: usize,
    },
    Drain {
        machine: usize,
        deadline_ms: Option<u64>,
        via: usize,
    },
    /// A node that is drained is to take ranks again.
    Undrain {
        machine: usize,
        via: usize,
    },
    /// The node will be taken away.
    Notice {
        machine: usize,
    },
    Down {
        via: usize,
    },
    /// A `pcmctl run` whose link broke looks for its job.
    Reattach {
        job: JobId,
        via: usize,
        tries: u32,
    },
}

/// A change of layout, whose numbers are drawn when it is asked for.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    Migrate,
    Expand,
    Shrink,
    Rebalance,
    Evacuate,
    Relaunch,
    Arrange,
}

/// What is asked over one link.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Asked {
    /// One answer is expected.
    Once(Box<ControlToDaemon>),
    /// To run or to attach: answers go on until the job ends.
    Job { attaches: Option<JobId>, is_detached: bool },
}

/// One link of a person.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) asked: Asked,
    pub(super) machine: usize,
    /// When it was asked.
    pub(super) since: u64,
    pub(super) answers: u32,
    pub(super) job: Option<JobId>,
    pub(super) is_over: bool,
}

/// A job as its owner knows it.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnedJob {
    pub(super) is_detached: bool,
    pub(super) received: Received,
    pub(super) end: Option<i32>,
    /// The owner gave up to look for it.
    pub(super) is_given_up: bool,
    pub(super) ranks: u32,
}

/// See the file head.
#[derive(Debug, Default)]
pub(super) struct Person {
    asks: BTreeMap<LinkId, Ask>,
    jobs: BTreeMap<JobId, OwnedJob>,
}

impl Person {
    pub(super) fn begin(&mut self, link: LinkId, ask: Ask) {
        self.asks.insert(link, ask);
    }

    pub(super) fn ask(&mut self, link: LinkId) -> Option<&mut Ask> {
        self.asks.get_mut(&link)
    }

    pub(super) fn end(&mut self, link: LinkId) -> Option<Ask> {
        self.asks.remove(&link)
    }

    pub(super) fn own(&mut self, job: JobId) -> &mut OwnedJob {
        self.jobs.entry(job).or_default()
    }

    /// Jobs that have not ended as far as their owners know.
    pub(super) fn open_jobs(&self) -> Vec<JobId> {
        let open = self.jobs.iter().filter(|(_, owned)| owned.end.is_none());
        open.map(|(job, _)| *job).collect()
    }

    /// Questions that wait for their one answer.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = (LinkId, &Ask)> {
        let waits = |ask: &Ask| !ask.is_over && ask.answers == 0;
        self.asks
            .iter()
            .filter(move |(_, ask)| waits(ask))
            .map(|(link, ask)| (*link, ask))
    }

    /// Links of owners who follow their jobs.
    pub(super) fn is_attached(&self, job: JobId) -> bool {
        let mut asks = self.asks.values();
        asks.any(|ask| !ask.is_over && ask.job == Some(job) && matches!(ask.asked, Asked::Job { .. }))
    }
}

/// The change of layout as it is asked for, of a job of so many ranks.
pub(super) fn layout_change(
    change: Change,
    ranks: u32,
    machines: usize,
    random: &mut pcm_proto::random::Random,
) -> LayoutChange {
    use pcm_proto::ids::{NodeName, Rank};
    let name = |machine: usize| NodeName::new(format!("n{machine}")).expect("a plain name");
    let node = name(random.index(machines));
    let rank = Rank(random.below(u64::from(ranks.max(1))) as u32);
    match change {
        Change::Migrate => LayoutChange::Migrate(vec![(rank, node)]),
        Change::Expand => LayoutChange::Expand {
            to: ranks + 1 + random.below(2) as u32,
            nodes: Vec::new(),
        },
        Change::Shrink => LayoutChange::Shrink {
            to: ranks.saturating_sub(1).max(1),
        },
        Change::Rebalance => LayoutChange::Rebalance,
        Change::Evacuate => LayoutChange::Evacuate { node },
        Change::Relaunch => LayoutChange::Relaunch,
        Change::Arrange => LayoutChange::Arrange {
            moves: vec![(rank, node)],
            weights: (0..ranks).map(|_| 1 + random.below(3) as u32).collect(),
        },
    }
}
