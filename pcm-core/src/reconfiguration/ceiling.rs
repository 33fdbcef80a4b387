//! Finding an iteration at which all ranks stop, without a collective operation.
//!
//! Round 0 only asks how far the ranks are. Every later round sets a ceiling above the farthest of them; it holds when
//! no rank had announced an iteration at or above it by the time it was written, and is raised otherwise. The margin
//! grows with each round and with the distance covered during the last one, so fast iterations are outrun in a few
//! rounds and slow ones are stopped at the next.

use pcm_proto::ids::{Iteration, NodeName};
use std::collections::{BTreeMap, BTreeSet};

/// What a page announces when the rank has left its loop.
pub const STARTED_NO_MORE: Iteration = Iteration(u64::MAX);

/// The ceiling of round 0, which stops nobody.
pub const CEILING_NONE: Iteration = Iteration(pcm_proto::page::CEILING_NONE);

/// What an answer led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// Answers are missing, or this one was late or a copy.
    Open,
    /// A new round began.
    Raised,
    /// Every rank stops at this iteration.
    Agreed(Iteration),
    /// A rank has left its loop.
    Ending,
    /// No ceiling lies before the declared end of the loops; so many iterations are left.
    EndsFirst {
        /// After those that have begun.
        left: u64,
    },
    /// The ranks outran as many ceilings as are tried.
    Exhausted,
}

/// One search for a ceiling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CeilingAgreement {
    round: u32,
    ceiling: Iteration,
    farthest: u64,
    /// The end of the loops, as declared in the answers of this round.
    ends: Option<Iteration>,
    missing: BTreeSet<NodeName>,
    answers: BTreeMap<NodeName, u64>,
    rounds_max: u32,
}

impl CeilingAgreement {
    /// Begins with round 0. `hosts` are the daemons that have ranks of the old layout; there is at least one.
    pub fn new(hosts: impl IntoIterator<Item = NodeName>, rounds_max: u32) -> Self {
        Self {
            round: 0,
            ceiling: CEILING_NONE,
            farthest: 0,
            ends: None,
            missing: hosts.into_iter().collect(),
            answers: BTreeMap::new(),
            rounds_max,
        }
    }

    /// The round and ceiling to ask for.
    pub fn asked(&self) -> (u32, Iteration) {
        (self.round, self.ceiling)
    }

    /// Rounds begun after round 0.
    pub fn rounds(&self) -> u32 {
        self.round
    }

    /// Takes what a host's ranks declared about their end, to be called before its answer of that round is taken.
    pub fn declare(&mut self, round: u32, ends: Option<Iteration>) {
        if round == self.round {
            self.ends = self.ends.max(ends);
        }
    }

    /// Takes one host's answer: the most iterations any of its ranks had announced.
    pub fn on_answer(&mut self, node: &NodeName, round: u32, started: Iteration) -> Agreement {
        if round != self.round || !self.missing.remove(node) {
            return Agreement::Open;
        }
        if started == STARTED_NO_MORE {
            return Agreement::Ending;
        }
        self.answers.insert(node.clone(), started.0);
        if !self.missing.is_empty() {
            return Agreement::Open;
        }
        let farthest = self.answers.values().copied().max().unwrap_or(0);
        // `started` counts: a rank that announced n iterations is in or before iteration n - 1.
        if self.round > 0 && farthest <= self.ceiling.0 {
            return Agreement::Agreed(self.ceiling);
        }
        self.raise(farthest)
    }

    fn raise(&mut self, farthest: u64) -> Agreement {
        if self.round >= self.rounds_max {
            return Agreement::Exhausted;
        }
        let covered = if self.round == 0 {
            0
        } else {
            farthest.saturating_sub(self.farthest)
        };
        let margin = (1_u64 << self.round.min(40)).max(covered.saturating_mul(2));
        self.round += 1;
        self.farthest = farthest;
        self.ceiling = Iteration(farthest.saturating_add(margin).min(u64::MAX - 1));
        // Ranks that went on beyond the end they declared have none.
        let ends = self.ends.take().filter(|ends| farthest <= ends.0);
        if let Some(ends) = ends.filter(|ends| self.ceiling >= *ends) {
            return Agreement::EndsFirst {
                left: ends.0 - farthest,
            };
        }
        self.missing = std::mem::take(&mut self.answers).into_keys().collect();
        Agreement::Raised
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    #[test]
    fn the_first_round_stops_nobody() {
        let search = CeilingAgreement::new([node("a")], 8);
        assert_eq!(search.asked(), (0, CEILING_NONE));
    }

    #[test]
    fn slow_ranks_stop_at_the_next_iteration() {
        let mut search = CeilingAgreement::new([node("a"), node("b")], 8);
        assert_eq!(search.on_answer(&node("a"), 0, Iteration(5)), Agreement::Open);
        assert_eq!(search.on_answer(&node("b"), 0, Iteration(6)), Agreement::Raised);
        assert_eq!(search.asked(), (1, Iteration(7)));
        assert_eq!(search.on_answer(&node("a"), 1, Iteration(6)), Agreement::Open);
        assert_eq!(
            search.on_answer(&node("b"), 1, Iteration(7)),
            Agreement::Agreed(Iteration(7))
        );
    }

    #[test]
    fn a_rank_above_the_ceiling_raises_it() {
        let mut search = CeilingAgreement::new([node("a")], 8);
        search.on_answer(&node("a"), 0, Iteration(5));
        assert_eq!(search.on_answer(&node("a"), 1, Iteration(7)), Agreement::Raised);
        assert!(search.asked().1 > Iteration(7));
    }

    #[test]
    fn copies_and_answers_of_earlier_rounds_change_nothing() {
        let mut search = CeilingAgreement::new([node("a"), node("b")], 8);
        search.on_answer(&node("a"), 0, Iteration(5));
        let before = search.clone();
        assert_eq!(search.on_answer(&node("a"), 0, Iteration(50)), Agreement::Open);
        assert_eq!(search.on_answer(&node("c"), 0, Iteration(50)), Agreement::Open);
        assert_eq!(search, before);
        search.on_answer(&node("b"), 0, Iteration(5));
        assert_eq!(search.on_answer(&node("b"), 0, Iteration(9)), Agreement::Open);
    }

    #[test]
    fn a_rank_that_left_its_loop_ends_the_search() {
        let mut search = CeilingAgreement::new([node("a")], 8);
        assert_eq!(search.on_answer(&node("a"), 0, STARTED_NO_MORE), Agreement::Ending);
    }

    #[test]
    fn a_ceiling_beyond_the_declared_end_is_not_tried() {
        let outcome = |ends: Option<u64>| {
            let mut search = CeilingAgreement::new([node("a")], 8);
            search.declare(0, ends.map(Iteration));
            search.on_answer(&node("a"), 0, Iteration(5))
        };
        assert_eq!(outcome(Some(5)), Agreement::EndsFirst { left: 0 });
        assert_eq!(outcome(Some(6)), Agreement::EndsFirst { left: 1 });
        assert_eq!(outcome(Some(7)), Agreement::Raised);
        assert_eq!(outcome(Some(4)), Agreement::Raised, "the ranks are beyond it already");
        assert_eq!(outcome(None), Agreement::Raised);
    }

    #[test]
    fn what_was_declared_in_another_round_does_not_count() {
        let mut search = CeilingAgreement::new([node("a")], 8);
        search.declare(1, Some(Iteration(6)));
        assert_eq!(search.on_answer(&node("a"), 0, Iteration(5)), Agreement::Raised);
    }

    #[test]
    fn the_search_gives_up_after_the_last_round() {
        let mut search = CeilingAgreement::new([node("a")], 2);
        assert_eq!(search.on_answer(&node("a"), 0, Iteration(1)), Agreement::Raised);
        assert_eq!(
            search.on_answer(&node("a"), 1, Iteration(u64::MAX - 2)),
            Agreement::Raised
        );
        assert_eq!(
            search.on_answer(&node("a"), 2, Iteration(u64::MAX - 1)),
            Agreement::Agreed(Iteration(u64::MAX - 1))
        );
        let mut search = CeilingAgreement::new([node("a")], 1);
        search.on_answer(&node("a"), 0, Iteration(1));
        assert_eq!(search.on_answer(&node("a"), 1, Iteration(9)), Agreement::Exhausted);
    }

    proptest! {
        #[test]
        fn ranks_of_any_speed_are_stopped_within_the_default_rounds(
            speeds in proptest::collection::vec(1_u64..1_000_000, 1..6)
        ) {
            let nodes: Vec<NodeName> = (0..speeds.len()).map(|i| node(&format!("n{i}"))).collect();
            let mut search = CeilingAgreement::new(nodes.clone(), 32);
            let mut started: Vec<u64> = speeds.clone();
            for _ in 0..33 {
                let (round, ceiling) = search.asked();
                let mut last = Agreement::Open;
                for (i, node) in nodes.iter().enumerate() {
                    last = search.on_answer(node, round, Iteration(started[i]));
                }
                if let Agreement::Agreed(at) = last {
                    prop_assert!(started.iter().all(|s| *s <= at.0));
                    return Ok(());
                }
                prop_assert_eq!(last, Agreement::Raised);
                // Between two rounds a rank runs on, but not past the ceiling it was given, once it has seen one.
                for (s, speed) in started.iter_mut().zip(&speeds) {
                    let is_bound = ceiling != CEILING_NONE && *s <= ceiling.0;
                    *s = if is_bound { (*s + speed).min(ceiling.0 + 1) } else { *s + speed };
                }
            }
            prop_assert!(false, "no ceiling found");
        }
    }
}
