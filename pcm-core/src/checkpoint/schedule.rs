//! When the next checkpoint of a job is due. Told what checkpoints cost and what failed; never makes one.

use super::interval::{Measured, best_interval};
use crate::moment::Moment;
use std::time::Duration;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Only when somebody asks.
    OnDemand,
    Every(Duration),
    /// As often as pays.
    Auto,
}

/// A node is taken to fail once in this time before any has: in between what large machines report for one node
/// (years) and what a borrowed desktop does (a day). Counts as one failure in the estimate.
const PRIOR_NODE: Duration = Duration::from_secs(10 * 24 * 3600);

/// After a checkpoint that did not come about, the next is tried after this part of the interval.
const RETRY_PART: u32 = 4;

/// Weight of the newest cost in the running mean.
const NEWEST: f64 = 0.3;

/// See the file head. One per job.
#[derive(Clone, Debug)]
pub struct Schedule {
    when: When,
    nodes: u32,
    since: Moment,
    failures: u32,
    cost: Option<Duration>,
    next: Option<Moment>,
    is_under_way: bool,
}

impl Schedule {
    /// A schedule that begins now.
    pub fn new(now: Moment, when: When, nodes: u32) -> Self {
        let mut schedule = Self {
            when,
            nodes: nodes.max(1),
            since: now,
            failures: 0,
            cost: None,
            next: None,
            is_under_way: false,
        };
        schedule.plan(now, 1);
        schedule
    }

    /// The interval in force; none if checkpoints are made on demand only.
    pub fn interval(&self, now: Moment) -> Option<Duration> {
        match self.when {
            When::OnDemand => None,
            When::Every(every) => Some(every),
            When::Auto => Some(best_interval(Measured {
                // The first is made soon, to learn what it costs.
                cost: self.cost.unwrap_or_default(),
                between_failures: self.between_failures(now),
            })),
        }
    }

    /// Mean time between failures of the job: what was seen of it, and as one failure more what nodes are known for.
    pub fn between_failures(&self, now: Moment) -> Duration {
        (PRIOR_NODE / self.nodes + now.since(self.since)) / (1 + self.failures)
    }

    /// When to look again; none while a checkpoint is being made, or if none is planned.
    pub fn next(&self) -> Option<Moment> {
        self.next.filter(|_| !self.is_under_way)
    }

    /// Whether a checkpoint is to be made now.
    pub fn is_due(&self, now: Moment) -> bool {
        self.next().is_some_and(|next| next <= now)
    }

    /// One is being made, whoever asked for it.
    pub fn on_begun(&mut self) {
        self.is_under_way = true;
    }

    /// It is complete; the application was held for so long.
    pub fn on_complete(&mut self, now: Moment, held: Duration) {
        let mean = self.cost.map_or(held, |cost| {
            cost.mul_f64(1.0 - NEWEST).saturating_add(held.mul_f64(NEWEST))
        });
        self.cost = Some(mean);
        self.is_under_way = false;
        self.plan(now, 1);
    }

    /// It did not come about.
    pub fn on_given_up(&mut self, now: Moment) {
        self.is_under_way = false;
        self.plan(now, RETRY_PART);
    }

    /// The job crashed, or lost a node.
    pub fn on_failure(&mut self, now: Moment) {
        self.failures = self.failures.saturating_add(1);
        self.is_under_way = false;
        self.plan(now, 1);
    }

    /// The job has another number of nodes now.
    pub fn on_nodes(&mut self, now: Moment, nodes: u32) {
        self.nodes = nodes.max(1);
        if !self.is_under_way {
            self.plan(now, 1);
        }
    }

    fn plan(&mut self, now: Moment, part: u32) {
        self.next = self.interval(now).map(|interval| now.plus(interval / part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_checkpoint_is_due_an_interval_after_the_last_was_complete() {
        let mut schedule = Schedule::new(Moment(0), When::Every(SECOND), 4);
        assert!(!schedule.is_due(Moment(999_999)));
        assert!(schedule.is_due(Moment(1_000_000)));
        schedule.on_begun();
        assert_eq!(schedule.next(), None, "two at a time");
        schedule.on_complete(Moment(1_500_000), Duration::from_millis(3));
        assert_eq!(schedule.next(), Some(Moment(2_500_000)));
    }

    #[test]
    fn one_that_did_not_come_about_is_tried_again_sooner() {
        let mut schedule = Schedule::new(Moment(0), When::Every(SECOND), 4);
        schedule.on_begun();
        schedule.on_given_up(Moment(1_000_000));
        assert_eq!(schedule.next(), Some(Moment(1_250_000)));
    }

    #[test]
    fn on_demand_nothing_is_due() {
        let mut schedule = Schedule::new(Moment(0), When::OnDemand, 1);
        schedule.on_begun();
        schedule.on_complete(Moment(5), SECOND);
        assert_eq!((schedule.next(), schedule.is_due(Moment(u64::MAX))), (None, false));
    }

    #[test]
    fn automatic_checkpoints_come_more_often_when_they_are_cheap_or_failures_frequent() {
        let interval = |held_ms, failures| {
            let mut schedule = Schedule::new(Moment(0), When::Auto, 4);
            for _ in 0..failures {
                schedule.on_failure(Moment(0));
            }
            schedule.on_complete(Moment(0), Duration::from_millis(held_ms));
            schedule.interval(Moment(0)).unwrap()
        };
        assert!(interval(10, 0) < interval(1000, 0));
        assert!(interval(100, 50) < interval(100, 0));
        let first = Schedule::new(Moment(0), When::Auto, 4);
        assert_eq!(first.interval(Moment(0)), Some(SECOND));
    }

    #[test]
    fn time_without_failures_makes_nodes_more_trusted() {
        let schedule = Schedule::new(Moment(0), When::Auto, 10);
        let [early, late] = [0, 86_400_000_000].map(|at| schedule.between_failures(Moment(at)));
        assert_eq!(late - early, Duration::from_secs(86_400));
    }
}
