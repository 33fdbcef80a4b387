//! The application's side of a reconfiguration: what one process may do when, and what it does when it hears nothing.
//!
//! The library inside the application drives it: it announces the iteration on the page, asks [`RankSide::on_top`], and
//! carries out the effects. The rule that keeps the layouts apart: a process that has said
//! [`ReconfigurationReport::Moved`] does nothing but wait until it hears the decision, and ends itself when that takes
//! too long; before it has said so it may return to the old layout at any time, because nothing can be committed
//! without its word.

use super::limits::Limits;
use super::seat::Seat;
use crate::moment::{Moment, micros};
use pcm_proto::ids::{Iteration, Rank, WorldId};
use pcm_proto::layout::Mode;
use pcm_proto::reconfiguration::{Attempt, MeetOrder, ReconfigurationOrder, ReconfigurationReport, Tally, Trouble};
use std::time::Duration;

/// Life of a process as far as reconfigurations go.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// A newcomer that has not been called.
    Waiting {
        since: Moment,
    },
    /// A process of a relaunched layout that has its data and waits for the decision.
    Restored {
        attempt: Attempt,
        since: Moment,
        until: Moment,
    },
    Running,
    AtCeiling {
        iteration: Iteration,
        ceiling: Iteration,
        since: Moment,
    },
    /// Joins, moves or parks.
    Called {
        attempt: Attempt,
        mode: Mode,
        new_rank: Option<Rank>,
        iteration: Iteration,
        patience: Duration,
    },
    /// Has given its word.
    Agreed {
        attempt: Attempt,
        mode: Mode,
        new_rank: Option<Rank>,
        iteration: Iteration,
        until: Moment,
    },
    Gone,
}

/// Why a process ends itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// It has agreed to an attempt, or was started for it, and could not learn what became of it.
    DecisionUnknown(Attempt),
    /// It is a newcomer and nobody called it.
    NeverCalled,
    /// It is a newcomer of an attempt that was aborted or that it could not take part in.
    NotNeeded,
}

/// What the library does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RankEffect {
    /// Tell the daemon.
    Tell(ReconfigurationReport),
    /// Start the iteration.
    Proceed,
    /// Join, then report by [`RankSide::on_met`] and [`RankSide::on_moved`]. The old communicator and data stay.
    Meet(Box<MeetOrder>),
    /// Hand the data to the daemon, then report by [`RankSide::on_moved`].
    Park,
    /// The new layout counts: use the new communicator and data, free the old. The page must announce the iteration
    /// before the report that follows is sent, or the next ceiling could be set below it.
    TakeUp {
        /// The process's rank in it.
        rank: Rank,
    },
    /// The old layout counts: drop what was received and the new communicator.
    Return,
    /// Run the exit hooks, finalize and exit with success.
    Leave,
    /// End with an error, without touching MPI.
    End(EndReason),
}

/// One process's side.
#[derive(Debug)]
pub struct RankSide {
    state: State,
    seat: Seat,
    limits: Limits,
    /// A ceiling this process went past by itself because nobody told it anything.
    passed: Option<Iteration>,
    /// Nothing up to this attempt is taken part in any more.
    refused: Option<Attempt>,
    settled: Option<(Attempt, u64)>,
    held_since: Option<Moment>,
    last: Option<ReconfigurationReport>,
    port: String,
}

impl RankSide {
    /// A process of a layout. `port` is what it opened as rank 0, empty otherwise.
    pub fn member(rank: Rank, port: String, limits: Limits) -> Self {
        Self::new(State::Running, Seat::Member(rank), port, limits)
    }

    /// A newcomer, initialised just now. `port` is what it opened for its world, empty otherwise.
    pub fn newcomer(now: Moment, world: WorldId, rank: u32, port: String, limits: Limits) -> (Self, RankEffect) {
        let state = State::Waiting { since: now };
        let mut side = Self::new(state, Seat::Newcomer { world, rank }, port.clone(), limits);
        let told = side.say(ReconfigurationReport::Ready { port });
        (side, told)
    }

    /// A process that has its data back and has announced its iteration on the page. One of a relaunch (`awaited`)
    /// waits for the decision: the ranks before it stand until then. One of a checkpoint runs.
    pub fn restored(
        now: Moment,
        rank: Rank,
        awaited: Option<Attempt>,
        port: String,
        limits: Limits,
    ) -> (Self, RankEffect) {
        let state = awaited.map_or(State::Running, |attempt| State::Restored {
            attempt,
            since: now,
            until: now.plus(limits.decision_patience(Mode::Relaunch)),
        });
        let mut side = Self::new(state, Seat::Member(rank), port, limits);
        let told = side.say(ReconfigurationReport::Ready { port: String::new() });
        (side, told)
    }

    fn new(state: State, seat: Seat, port: String, limits: Limits) -> Self {
        let (passed, refused, settled, held_since, last) = (None, None, None, None, None);
        Self {
            state,
            seat,
            limits,
            passed,
            refused,
            settled,
            held_since,
            last,
            port,
        }
    }

    fn say(&mut self, report: ReconfigurationReport) -> RankEffect {
        self.last = Some(report.clone());
        RankEffect::Tell(report)
    }

    /// Whether it waits at the ceiling or for a decision, so that page, channel and time must be watched.
    pub fn is_waiting(&self) -> bool {
        !matches!(self.state, State::Running | State::Called { .. } | State::Gone)
    }

    /// The top of an iteration that was announced on the page; `ceiling` was read afterwards. Also to be called again
    /// whenever the page's ceiling changes while the process waits there.
    pub fn on_top(&mut self, now: Moment, iteration: Iteration, ceiling: Iteration) -> Vec<RankEffect> {
        let waits = match self.state {
            State::Running => false,
            State::AtCeiling { .. } => true,
            _ => return Vec::new(),
        };
        if iteration < ceiling || self.passed == Some(ceiling) {
            self.state = State::Running;
            self.held_since = None;
            return vec![RankEffect::Proceed];
        }
        if waits {
            if let State::AtCeiling { ceiling: known, .. } = &mut self.state {
                *known = ceiling;
            }
            return Vec::new();
        }
        self.held_since = Some(now);
        self.state = State::AtCeiling {
            iteration,
            ceiling,
            since: now,
        };
        let port = self.port.clone();
        vec![self.say(ReconfigurationReport::AtCeiling { iteration, port })]
    }

    /// The daemon says something.
    pub fn on_order(&mut self, now: Moment, order: ReconfigurationOrder) -> Vec<RankEffect> {
        let effects = match order {
            ReconfigurationOrder::Meet {
                attempt,
                ceiling,
                meeting,
                patience_us,
            } => {
                let new_rank = self
                    .seat
                    .transfer_rank(&meeting)
                    .and_then(|own| meeting.order.iter().position(|r| *r == own));
                let new_rank = new_rank.map(|rank| Rank(rank as u32));
                let patience = Duration::from_micros(patience_us);
                self.on_call(
                    attempt,
                    Mode::Live,
                    ceiling,
                    new_rank,
                    patience,
                    RankEffect::Meet(meeting),
                )
            }
            ReconfigurationOrder::Park {
                attempt,
                ceiling,
                patience_us,
                ..
            } => {
                let patience = Duration::from_micros(patience_us);
                self.on_call(attempt, Mode::Relaunch, ceiling, None, patience, RankEffect::Park)
            }
            ReconfigurationOrder::Decided { attempt, committed, .. } => self.on_decided(now, attempt, committed),
            ReconfigurationOrder::Repeat => self.on_repeat(),
            // The library's own affair: it changes nothing about who may do what.
            ReconfigurationOrder::Ahead { .. } => Vec::new(),
        };
        if matches!(self.state, State::Called { .. }) {
            // A newcomer holds the program up from here on, when all stand.
            self.held_since.get_or_insert(now);
        }
        effects
    }

    fn on_call(
        &mut self,
        attempt: Attempt,
        mode: Mode,
        ceiling: Iteration,
        new_rank: Option<Rank>,
        patience: Duration,
        effect: RankEffect,
    ) -> Vec<RankEffect> {
        let stands = match self.state {
            State::Waiting { .. } => mode == Mode::Live && new_rank.is_some(),
            State::AtCeiling { iteration, .. } => iteration == ceiling,
            State::Called { attempt: known, .. } | State::Agreed { attempt: known, .. } if known == attempt => {
                return Vec::new();
            }
            _ => false,
        };
        if !stands || self.refused.is_some_and(|refused| attempt <= refused) {
            return vec![RankEffect::Tell(ReconfigurationReport::NotStanding { attempt })];
        }
        self.state = State::Called {
            attempt,
            mode,
            new_rank,
            iteration: ceiling,
            patience,
        };
        vec![effect]
    }

    /// The processes were joined, or not.
    pub fn on_met(&mut self, now: Moment, result: Result<(), String>) -> Vec<RankEffect> {
        let State::Called { attempt, .. } = self.state else {
            return Vec::new();
        };
        match result {
            Ok(()) => vec![self.say(ReconfigurationReport::Met { attempt })],
            Err(reason) => self.fail(now, Trouble::Joining, reason),
        }
    }

    /// The data has moved or is parked, or not. Saying so is giving one's word.
    pub fn on_moved(&mut self, now: Moment, result: Result<(Tally, Tally), (Trouble, String)>) -> Vec<RankEffect> {
        let State::Called {
            attempt,
            mode,
            new_rank,
            iteration,
            patience,
        } = self.state
        else {
            return Vec::new();
        };
        match result {
            Ok((sent, received)) => {
                self.state = State::Agreed {
                    attempt,
                    mode,
                    new_rank,
                    iteration,
                    until: now.plus(patience),
                };
                vec![self.say(ReconfigurationReport::Moved {
                    attempt,
                    sent,
                    received,
                })]
            }
            Err((trouble, reason)) => self.fail(now, trouble, reason),
        }
    }

    fn fail(&mut self, now: Moment, trouble: Trouble, reason: String) -> Vec<RankEffect> {
        let State::Called { attempt, iteration, .. } = self.state else {
            return Vec::new();
        };
        self.refused = Some(attempt);
        let told = self.say(ReconfigurationReport::Failed {
            attempt,
            trouble,
            reason,
        });
        let mut effects = vec![told, RankEffect::Return];
        self.return_to_ceiling(now, iteration, &mut effects);
        effects
    }

    fn return_to_ceiling(&mut self, now: Moment, iteration: Iteration, effects: &mut Vec<RankEffect>) {
        match self.seat {
            Seat::Member(_) => {
                self.state = State::AtCeiling {
                    iteration,
                    ceiling: iteration,
                    since: now,
                }
            }
            Seat::Newcomer { .. } => {
                self.state = State::Gone;
                effects.push(RankEffect::End(EndReason::NotNeeded));
            }
        }
    }

    fn on_decided(&mut self, now: Moment, attempt: Attempt, committed: bool) -> Vec<RankEffect> {
        match self.state.clone() {
            State::Agreed {
                attempt: known,
                mode,
                new_rank,
                ..
            } if known == attempt && committed => self.on_committed(now, attempt, mode, new_rank),
            State::Called {
                attempt: known,
                iteration,
                ..
            }
            | State::Agreed {
                attempt: known,
                iteration,
                ..
            } if known == attempt && !committed => {
                self.refused = Some(attempt);
                let mut effects = vec![RankEffect::Return];
                self.return_to_ceiling(now, iteration, &mut effects);
                if self.state != State::Gone {
                    effects.push(self.settle(now, attempt));
                }
                effects
            }
            State::Restored {
                attempt: known, since, ..
            } if known == attempt => {
                if !committed {
                    self.state = State::Gone;
                    return vec![RankEffect::End(EndReason::NotNeeded)];
                }
                self.state = State::Running;
                self.held_since = Some(since);
                let settled = self.settle(now, attempt);
                self.held_since = None;
                vec![settled, RankEffect::Proceed]
            }
            State::Waiting { .. } if !committed => {
                self.state = State::Gone;
                vec![RankEffect::End(EndReason::NotNeeded)]
            }
            State::Running | State::AtCeiling { .. } => {
                if self.settled.is_none_or(|(known, _)| known != attempt) && !committed {
                    self.refused = self.refused.max(Some(attempt));
                    return vec![self.settle(now, attempt)];
                }
                let known = self.settled.filter(|(known, _)| *known == attempt);
                let again = known.map(|(attempt, held_us)| ReconfigurationReport::Settled { attempt, held_us });
                again.map(RankEffect::Tell).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn on_committed(&mut self, now: Moment, attempt: Attempt, mode: Mode, new_rank: Option<Rank>) -> Vec<RankEffect> {
        match (mode, new_rank) {
            (Mode::Live, Some(rank)) => {
                self.seat = Seat::Member(rank);
                self.state = State::Running;
                self.port.clear();
                let settled = self.settle(now, attempt);
                self.held_since = None;
                vec![RankEffect::TakeUp { rank }, settled, RankEffect::Proceed]
            }
            _ => {
                self.state = State::Gone;
                vec![RankEffect::Leave]
            }
        }
    }

    fn settle(&mut self, now: Moment, attempt: Attempt) -> RankEffect {
        let held_us = self.held_since.map_or(0, |since| micros(now.since(since)));
        self.settled = Some((attempt, held_us));
        self.say(ReconfigurationReport::Settled { attempt, held_us })
    }

    fn on_repeat(&mut self) -> Vec<RankEffect> {
        let mut reports: Vec<ReconfigurationReport> = self.last.clone().into_iter().collect();
        if let State::AtCeiling { iteration, .. } = self.state {
            let standing = ReconfigurationReport::AtCeiling {
                iteration,
                port: self.port.clone(),
            };
            if reports.last() != Some(&standing) {
                reports.push(standing);
            }
        }
        reports.into_iter().map(RankEffect::Tell).collect()
    }

    /// Time passes while the process waits.
    pub fn on_tick(&mut self, now: Moment) -> Vec<RankEffect> {
        let end = match self.state {
            State::AtCeiling { since, ceiling, .. } if now.since(since) >= self.limits.rank_max => {
                self.passed = Some(ceiling);
                self.state = State::Running;
                self.held_since = None;
                return vec![RankEffect::Proceed];
            }
            State::Waiting { since } if now.since(since) >= self.limits.rank_max => EndReason::NeverCalled,
            State::Agreed { until, attempt, .. } | State::Restored { until, attempt, .. } if now >= until => {
                EndReason::DecisionUnknown(attempt)
            }
            _ => return Vec::new(),
        };
        self.state = State::Gone;
        vec![RankEffect::End(end)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::{Epoch, Term};
    use pcm_proto::method::Method;
    use pcm_proto::reconfiguration::MeetingWorld;

    fn attempt(number: u32) -> Attempt {
        Attempt {
            epoch: Epoch(0),
            term: Term(0),
            number,
        }
    }

    fn meeting() -> Box<MeetOrder> {
        // Old ranks 0 and 1; rank 1 leaves, a newcomer takes its place.
        Box::new(MeetOrder {
            old_size: 2,
            port: String::new(),
            worlds: vec![MeetingWorld {
                world: WorldId(1),
                size: 1,
                port: String::new(),
            }],
            order: vec![0, 2],
            continues: vec![Some(Rank(0)), Some(Rank(1))],
            weights: Vec::new(),
            method: Method::default(),
        })
    }

    fn meet(number: u32, ceiling: u64) -> ReconfigurationOrder {
        let (attempt, ceiling) = (attempt(number), Iteration(ceiling));
        ReconfigurationOrder::Meet {
            attempt,
            ceiling,
            meeting: meeting(),
            patience_us: 1_000_000,
        }
    }

    fn decided(number: u32, committed: bool) -> ReconfigurationOrder {
        ReconfigurationOrder::Decided {
            attempt: attempt(number),
            committed,
            mode: Mode::Live,
        }
    }

    fn agreed(rank: u32) -> RankSide {
        let mut side = RankSide::member(Rank(rank), String::new(), Limits::default());
        side.on_top(Moment(0), Iteration(7), Iteration(7));
        side.on_order(Moment(1), meet(1, 7));
        side.on_met(Moment(2), Ok(()));
        side.on_moved(Moment(3), Ok(Default::default()));
        side
    }

    #[test]
    fn a_rank_below_the_ceiling_goes_on() {
        let mut side = RankSide::member(Rank(0), String::new(), Limits::default());
        assert_eq!(
            side.on_top(Moment(0), Iteration(6), Iteration(7)),
            [RankEffect::Proceed]
        );
    }

    #[test]
    fn a_rank_enters_only_from_exactly_the_ceiling() {
        let mut side = RankSide::member(Rank(0), String::new(), Limits::default());
        let refusal = RankEffect::Tell(ReconfigurationReport::NotStanding { attempt: attempt(1) });
        assert_eq!(side.on_order(Moment(0), meet(1, 7)), std::slice::from_ref(&refusal));
        side.on_top(Moment(0), Iteration(7), Iteration(7));
        assert_eq!(side.on_order(Moment(0), meet(1, 8)), [refusal]);
        assert_eq!(side.on_order(Moment(0), meet(1, 7)), [RankEffect::Meet(meeting())]);
    }

    #[test]
    fn a_rank_that_has_agreed_leaves_only_by_decision_or_ends() {
        let mut side = agreed(0);
        assert_eq!(side.on_top(Moment(4), Iteration(7), Iteration(u64::MAX)), []);
        assert_eq!(side.on_tick(Moment(1_000_002)), []);
        assert_eq!(
            side.on_order(Moment(5), decided(0, true)),
            [],
            "a decision about another attempt"
        );
        let end = RankEffect::End(EndReason::DecisionUnknown(attempt(1)));
        assert_eq!(side.on_tick(Moment(1_000_003)), [end]);
    }

    #[test]
    fn a_survivor_takes_up_the_new_layout_and_says_how_long_it_was_held() {
        let effects = agreed(0).on_order(Moment(10), decided(1, true));
        let settled = ReconfigurationReport::Settled {
            attempt: attempt(1),
            held_us: 10,
        };
        let take_up = RankEffect::TakeUp { rank: Rank(0) };
        assert_eq!(effects, [take_up, RankEffect::Tell(settled), RankEffect::Proceed]);
    }

    #[test]
    fn a_leaver_leaves_on_commit_and_returns_on_abort() {
        assert_eq!(agreed(1).on_order(Moment(10), decided(1, true)), [RankEffect::Leave]);
        assert_eq!(agreed(1).on_order(Moment(10), decided(1, false))[0], RankEffect::Return);
    }

    #[test]
    fn a_rank_that_returned_refuses_the_same_attempt() {
        let mut side = agreed(0);
        side.on_order(Moment(4), decided(1, false));
        let refusal = RankEffect::Tell(ReconfigurationReport::NotStanding { attempt: attempt(1) });
        assert_eq!(side.on_order(Moment(5), meet(1, 7)), [refusal]);
        assert_eq!(side.on_order(Moment(5), meet(2, 7)), [RankEffect::Meet(meeting())]);
    }

    #[test]
    fn a_rank_at_the_ceiling_that_hears_nothing_goes_on_and_ignores_that_ceiling() {
        let limits = Limits::default();
        let mut side = RankSide::member(Rank(0), String::new(), limits.clone());
        side.on_top(Moment(0), Iteration(7), Iteration(7));
        assert_eq!(side.on_tick(Moment(0).plus(limits.rank_max)), [RankEffect::Proceed]);
        assert_eq!(
            side.on_top(Moment(9), Iteration(8), Iteration(7)),
            [RankEffect::Proceed]
        );
        assert_ne!(
            side.on_top(Moment(9), Iteration(9), Iteration(9)),
            [RankEffect::Proceed],
            "a new ceiling counts"
        );
    }

    #[test]
    fn a_newcomer_finds_its_place_in_the_transfer_communicator() {
        let newcomer = Seat::Newcomer {
            world: WorldId(1),
            rank: 0,
        };
        assert_eq!(newcomer.transfer_rank(&meeting()), Some(2));
        assert_eq!(
            Seat::Newcomer {
                world: WorldId(2),
                rank: 0
            }
            .transfer_rank(&meeting()),
            None
        );
        assert_eq!(Seat::Member(Rank(2)).transfer_rank(&meeting()), None);
    }

    fn restored(awaited: Option<Attempt>) -> RankSide {
        let (side, told) = RankSide::restored(Moment(5), Rank(1), awaited, String::new(), Limits::default());
        assert!(matches!(told, RankEffect::Tell(ReconfigurationReport::Ready { .. })));
        side
    }

    #[test]
    fn a_restored_rank_of_a_relaunch_goes_on_only_when_that_is_decided() {
        let mut side = restored(Some(attempt(1)));
        assert_eq!(side.on_top(Moment(6), Iteration(7), Iteration(u64::MAX)), []);
        assert_eq!(side.on_order(Moment(7), decided(2, true)), [], "another attempt");
        let settled = ReconfigurationReport::Settled {
            attempt: attempt(1),
            held_us: 10,
        };
        let begins = [RankEffect::Tell(settled.clone()), RankEffect::Proceed];
        assert_eq!(side.on_order(Moment(15), decided(1, true)), begins);
        assert_eq!(side.on_order(Moment(16), decided(1, true)), [RankEffect::Tell(settled)]);
        assert_eq!(
            restored(None).on_top(Moment(6), Iteration(7), Iteration(u64::MAX)),
            [RankEffect::Proceed],
            "one of a checkpoint waits for nothing"
        );
    }

    #[test]
    fn a_restored_rank_of_a_relaunch_ends_when_it_is_not_made_or_nobody_says() {
        let end = RankEffect::End(EndReason::NotNeeded);
        assert_eq!(restored(Some(attempt(1))).on_order(Moment(6), decided(1, false)), [end]);
        let patience = Limits::default().decision_patience(Mode::Relaunch);
        let end = RankEffect::End(EndReason::DecisionUnknown(attempt(1)));
        let mut side = restored(Some(attempt(1)));
        assert_eq!(side.on_tick(Moment(4).plus(patience)), []);
        assert_eq!(side.on_tick(Moment(5).plus(patience)), [end]);
    }

    #[test]
    fn a_restarted_daemon_is_told_again() {
        let mut side = agreed(0);
        let (attempt, sent, received) = (attempt(1), Tally::default(), Tally::default());
        let moved = ReconfigurationReport::Moved {
            attempt,
            sent,
            received,
        };
        assert_eq!(
            side.on_order(Moment(5), ReconfigurationOrder::Repeat),
            [RankEffect::Tell(moved)]
        );
    }
}
