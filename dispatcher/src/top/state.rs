//! What `top` shows and what is chosen in it. Rows are remembered by what they are, not by where they stand, so a
//! choice survives every new look. Knows no terminal.

use crate::commands::Order;
use pcm_proto::control::NodeStatus;
use pcm_proto::ids::{JobId, NodeName, Rank};
use pcm_proto::job::{JobState, JobStatus, RankStatus};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// One look at the cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    /// When, in seconds of any clock that only grows.
    pub(super) at: f64,
    pub(super) jobs: Vec<JobStatus>,
    pub(super) nodes: Vec<NodeStatus>,
    /// Ranks of the chosen job.
    pub(super) ranks: Vec<RankStatus>,
}

/// Which table the keys act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pane {
    Jobs,
    Ranks,
    Nodes,
}

/// What ranks are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Rank,
    Node,
    Iteration,
    Useful,
    Wait,
    Rate,
    Memory,
    Since,
}

impl Sort {
    const ALL: [Self; 8] = [
        Self::Rank,
        Self::Node,
        Self::Iteration,
        Self::Useful,
        Self::Wait,
        Self::Rate,
        Self::Memory,
        Self::Since,
    ];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Rank => "rank",
            Self::Node => "node",
            Self::Iteration => "iteration",
            Self::Useful => "useful time",
            Self::Wait => "time in MPI",
            Self::Memory => "memory",
            Self::Rate => "bytes sent per second",
            Self::Since => "time in call",
        }
    }
}

/// What the bottom line is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// It tells keys or what happened last.
    Idle(String),
    /// A filter is typed.
    Filter,
    /// The answer to a question is typed.
    Ask { asked: Asked, typed: String },
    /// Yes or no.
    Confirm(Order),
}

/// What is to be typed before an order is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The node that this rank is to go on on.
    Target { job: JobId, rank: Rank },
    /// How many ranks the job is to have.
    Size { job: JobId, now: u32 },
}

/// See the file head.
#[derive(Debug)]
pub(super) struct State {
    pub(super) pane: Pane,
    pub(super) sort: Sort,
    pub(super) is_reversed: bool,
    /// Whether nodes are shown with the ranks on them, and no table of ranks.
    pub(super) is_map: bool,
    pub(super) filter: String,
    pub(super) line: Line,
    pub(super) job: Option<JobId>,
    pub(super) rank: Option<Rank>,
    pub(super) node: Option<NodeName>,
    look: Look,
    /// Bytes sent per second by process id of the rank.
    rates: BTreeMap<u32, f64>,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            pane: Pane::Jobs,
            sort: Sort::Rank,
            is_reversed: false,
            is_map: false,
            filter: String::new(),
            line: Line::Idle(String::new()),
            job: None,
            rank: None,
            node: None,
            look: Look::default(),
            rates: BTreeMap::new(),
        }
    }

    /// A new look has come; `ranks` are those of the job that was chosen when it was asked for.
    pub(super) fn on_look(&mut self, mut look: Look) {
        look.jobs.retain(|job| job.state != JobState::Ended);
        let span = look.at - self.look.at;
        let before: BTreeMap<_, _> = self.look.ranks.iter().map(|rank| (rank.pid, rank.sent.0)).collect();
        let rate = |rank: &RankStatus| {
            let sent = rank.sent.0.checked_sub(*before.get(&rank.pid)?)?;
            (span > 0.0).then(|| (rank.pid, sent as f64 / span))
        };
        self.rates = look.ranks.iter().filter_map(rate).collect();
        self.look = look;
        let is_there = |chosen: &JobId| self.look.jobs.iter().any(|job| job.job == *chosen);
        if !self.job.as_ref().is_some_and(is_there) {
            self.job = self.look.jobs.last().map(|job| job.job);
        }
    }

    pub(super) fn rate(&self, rank: &RankStatus) -> Option<f64> {
        self.rates.get(&rank.pid).copied()
    }

    pub(super) fn look(&self) -> &Look {
        &self.look
    }

    pub(super) fn jobs(&self) -> Vec<&JobStatus> {
        let is_shown = |job: &&JobStatus| self.passes(&[&job.job.to_string(), &job.name]);
        self.look.jobs.iter().filter(is_shown).collect()
    }

    pub(super) fn nodes(&self) -> Vec<&NodeStatus> {
        let is_shown = |node: &&NodeStatus| self.passes(&[node.name.as_str(), &node.site]);
        self.look.nodes.iter().filter(is_shown).collect()
    }

    /// Ranks of the chosen job, filtered and sorted.
    pub(super) fn ranks(&self) -> Vec<&RankStatus> {
        let is_shown = |rank: &&RankStatus| self.passes(&[&rank.rank.to_string(), rank.node.as_str(), &rank.call]);
        let mut ranks: Vec<&RankStatus> = self.look.ranks.iter().filter(is_shown).collect();
        ranks.sort_by(|a, b| {
            let order = self.compare(a, b).then(a.rank.cmp(&b.rank));
            if self.is_reversed { order.reverse() } else { order }
        });
        ranks
    }

    fn compare(&self, a: &RankStatus, b: &RankStatus) -> Ordering {
        // What is largest is what one looks for, so it comes first.
        match self.sort {
            Sort::Rank => Ordering::Equal,
            Sort::Node => a.node.cmp(&b.node),
            Sort::Iteration => a.iteration.cmp(&b.iteration),
            Sort::Useful => b.useful_ms.total_cmp(&a.useful_ms),
            Sort::Wait => b.wait_ms.total_cmp(&a.wait_ms),
            Sort::Memory => b.memory.cmp(&a.memory),
            Sort::Rate => {
                let rate = |rank| self.rate(rank).unwrap_or(0.0);
                rate(b).total_cmp(&rate(a))
            }
            Sort::Since => b.call_since_ms.total_cmp(&a.call_since_ms),
        }
    }

    fn passes(&self, cells: &[&str]) -> bool {
        self.filter.is_empty() || cells.iter().any(|cell| cell.contains(&self.filter))
    }

    /// The next kind of order among ranks.
    pub(super) fn sort_next(&mut self) {
        let place = Sort::ALL.iter().position(|sort| *sort == self.sort).unwrap_or(0);
        self.sort = Sort::ALL[(place + 1) % Sort::ALL.len()];
    }

    /// Where the chosen row of a pane stands among its rows.
    pub(super) fn chosen(&self, pane: Pane) -> usize {
        let place = match pane {
            Pane::Jobs => self.jobs().iter().position(|job| Some(job.job) == self.job),
            Pane::Ranks => self.ranks().iter().position(|rank| Some(rank.rank) == self.rank),
            Pane::Nodes => self
                .nodes()
                .iter()
                .position(|node| Some(&node.name) == self.node.as_ref()),
        };
        place.unwrap_or(0)
    }

    /// Moves the choice by so many rows, no further than the ends.
    pub(super) fn step(&mut self, by: isize) {
        let place = self.chosen(self.pane).saturating_add_signed(by);
        match self.pane {
            Pane::Jobs => {
                let jobs = self.jobs();
                let job = jobs.get(place.min(jobs.len().saturating_sub(1))).map(|job| job.job);
                if job != self.job {
                    self.look.ranks.clear();
                    self.rank = None;
                }
                self.job = job;
            }
            Pane::Ranks => {
                let ranks = self.ranks();
                self.rank = ranks
                    .get(place.min(ranks.len().saturating_sub(1)))
                    .map(|rank| rank.rank);
            }
            Pane::Nodes => {
                let nodes = self.nodes();
                let node = nodes.get(place.min(nodes.len().saturating_sub(1)));
                self.node = node.map(|node| node.name.clone());
            }
        }
    }
}
