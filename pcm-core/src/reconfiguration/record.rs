//! What one daemon must remember about the reconfigurations of one job when it is killed and started again.
//!
//! The whole record is written at once, before anything that follows from it is sent or done. It has to survive the
//! daemon, not the machine: ranks die with their machine, and a daemon on a machine that was started anew must not
//! find a record at all (see the README, "A node that forgot").

use pcm_proto::ids::{Epoch, Iteration, NodeName, ProcessId, Term, WorldId};
use pcm_proto::layout::{Layout, Mode, ModeWanted, Plan};
use pcm_proto::reconfiguration::{AbortReason, Attempt, Decision, Loss, Reign, Standing, Tally, WorldPort};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How far a participant has gone with an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Engaged; its ranks run or stand at the ceiling.
    Open,
    /// Its ranks were called: to the meeting, and may be inside MPI, or to park.
    Called,
    /// Relaunch: the data of its ranks is parked, and its new processes were ordered to start.
    Starting {
        /// What is parked.
        parked: Tally,
    },
    /// It has agreed: only the decision releases its ranks.
    Agreed {
        /// What left its processes.
        sent: Tally,
        /// What came to them.
        received: Tally,
    },
    /// It knows the decision and carries it out.
    Deciding {
        /// Whether its ranks were called before.
        called: bool,
        /// Relaunch: its new processes had been ordered to start.
        starting: bool,
    },
}

impl Stage {
    /// Whether it may still withdraw: nothing can be committed without its word.
    pub(super) fn may_withdraw(self) -> bool {
        matches!(self, Self::Open | Self::Called | Self::Starting { .. })
    }

    /// Whether the new processes of a relaunch were ordered to start.
    pub(super) fn has_started_relaunched(self) -> bool {
        match self {
            Self::Open | Self::Called => false,
            Self::Starting { .. } | Self::Agreed { .. } => true,
            Self::Deciding { starting, .. } => starting,
        }
    }
}

/// The attempt a participant is engaged in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engagement {
    pub attempt: Attempt,
    /// Who coordinates it.
    pub coordinator: NodeName,
    /// What it is to do.
    pub plan: Plan,
    /// How far it is.
    pub stage: Stage,
    /// Where the ranks here stand: written before anybody hears that they do, because others may be called to meet them
    /// from then on. Only the decision lets them go.
    pub ceiling: Option<Iteration>,
    /// The ports that the ranks were called with.
    pub ports: Vec<WorldPort>,
}

impl Engagement {
    /// Whether the new processes were ordered to start: those of a live attempt are from its beginning.
    pub(super) fn has_started_new(&self) -> bool {
        self.plan.mode == Mode::Live || self.stage.has_started_relaunched()
    }
}

/// The attempt a coordinator has not closed yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenAttempt {
    pub attempt: Attempt,
    /// What it is to do.
    pub plan: Plan,
    /// How whoever asked wants it done.
    pub wanted: ModeWanted,
    /// Where the ranks stand, from before the first is called until the first is let go.
    pub ceiling: Option<Iteration>,
    /// The ports with which they are called, once they are.
    pub called: Option<Vec<WorldPort>>,
    /// What was decided, once it was.
    pub decision: Option<Decision>,
}

/// What the holder of the lease remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorRecord {
    /// Its reign; the lease is lost as soon as the daemon has promised a higher one.
    pub reign: Reign,
    /// Attempts made under this lease.
    pub attempts: u32,
    /// Lowest process number never used.
    pub next_process: ProcessId,
    /// Lowest world number never used.
    pub next_world: WorldId,
    /// The attempt under way.
    pub open: Option<OpenAttempt>,
}

/// Everything a daemon remembers about one job here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// The highest reign promised or obeyed.
    pub promised: Reign,
    /// Who asked for that reign or holds it.
    pub holder: NodeName,
    /// The newest committed layout known.
    pub layout: Option<Layout>,
    /// The attempt that made this layout; `None` for the layout the job started with.
    pub made_by: Option<Attempt>,
    /// The attempt under way here.
    pub engaged: Option<Engagement>,
    /// The aborted attempt that has left the ranks here at the ceiling until it is clear whether all come back from
    /// MPI.
    pub left_standing: Option<Engagement>,
    /// The newest decision known here.
    pub decided: Option<(Attempt, Decision)>,
    /// Processes that did not come back from an aborted meeting and still hold data.
    pub stuck: BTreeSet<ProcessId>,
    /// A loss here that the coordinator must learn of.
    pub damage: Option<Loss>,
    /// Set once the job's processes here are ended for good.
    pub lost: Option<Loss>,
    /// The part of the lease's holder.
    pub coordinator: Option<CoordinatorRecord>,
}

/// Process and world numbers of one term begin at a block of their own, so that a new holder of the lease never uses a
/// number its predecessor may have used without anybody here knowing.
const IDS_PER_TERM: u32 = 1 << 16;

impl JobRecord {
    /// The record of a daemon that hears of the job for the first time, from the daemon `holder`.
    pub fn blank(holder: NodeName, reign: Reign) -> Self {
        Self {
            promised: reign,
            holder,
            layout: None,
            made_by: None,
            engaged: None,
            left_standing: None,
            decided: None,
            stuck: BTreeSet::new(),
            damage: None,
            lost: None,
            coordinator: None,
        }
    }

    /// The record of each host and witness of the layout a job starts with.
    pub fn first(me: &NodeName, holder: NodeName, layout: Layout) -> Self {
        let reign = Reign {
            epoch: layout.epoch,
            term: Term(0),
        };
        let mut record = Self::blank(holder, reign);
        let next = layout.members.iter().map(|m| (m.process.0 + 1, m.world.0 + 1));
        let (process, world) = next.fold((0, 0), |high, one| (high.0.max(one.0), high.1.max(one.1)));
        if record.holder == *me {
            record.coordinator = Some(CoordinatorRecord {
                reign,
                attempts: 0,
                next_process: ProcessId(process),
                next_world: WorldId(world),
                open: None,
            });
        }
        record.layout = Some(layout);
        record
    }

    /// Makes this daemon the holder of its promised reign.
    pub fn take_lease(&mut self) {
        let block = self.promised.term.0.saturating_mul(IDS_PER_TERM);
        self.coordinator = Some(CoordinatorRecord {
            reign: self.promised,
            attempts: 0,
            next_process: ProcessId(block),
            next_world: WorldId(block),
            open: None,
        });
    }

    /// The epoch of the newest layout known.
    pub fn epoch(&self) -> Epoch {
        self.layout.as_ref().map_or(Epoch(0), |layout| layout.epoch)
    }

    /// Whether this daemon holds the lease as far as it knows.
    pub fn is_holder(&self) -> bool {
        self.coordinator.as_ref().is_some_and(|c| c.reign == self.promised)
    }

    /// What became of an attempt, if it follows from what is remembered here.
    pub fn fate(&self, attempt: Attempt) -> Option<Decision> {
        if let Some((known, decision)) = &self.decided
            && *known == attempt
        {
            return Some(decision.clone());
        }
        if self.made_by == Some(attempt) {
            return Some(Decision::Committed);
        }
        let decided = self.decided.as_ref().map(|(known, _)| *known);
        let passed_by = decided.is_some_and(|known| attempt < known && attempt.epoch == self.epoch());
        // One layout follows each: an attempt from the layout before ours that did not make ours came to nothing.
        let overtaken = self.made_by.is_some_and(|made| made.epoch == attempt.epoch);
        (passed_by || overtaken).then_some(Decision::Aborted {
            reason: AbortReason::CoordinatorReplaced,
        })
    }

    /// Takes up a committed layout together with the lease it was made under, unless a higher reign is known already.
    pub fn take_layout(&mut self, layout: Layout, made_by: Attempt, holder: &NodeName) {
        let reign = Reign {
            epoch: layout.epoch,
            term: made_by.term,
        };
        self.layout = Some(layout);
        self.made_by = Some(made_by);
        self.left_standing = None;
        if self.promised < reign {
            let was_mine = self.is_holder() && self.promised == made_by.reign();
            self.promised = reign;
            self.holder = holder.clone();
            if let (true, Some(coordinator)) = (was_mine, &mut self.coordinator) {
                coordinator.reign = reign;
            }
        }
    }

    /// Whether ranks here stand at a ceiling that may only be lifted when that was decided for all.
    pub fn holds_ranks(&self) -> bool {
        self.bound().is_some_and(|bound| bound.ceiling.is_some())
    }

    /// The attempt under way here, or the one that has left the ranks standing.
    fn bound(&self) -> Option<&Engagement> {
        self.engaged.as_ref().or(self.left_standing.as_ref())
    }

    /// What this daemon tells a candidate for the lease.
    pub fn standing(&self) -> Standing {
        let engaged = self.bound().map(|e| {
            let agreed = matches!(e.stage, Stage::Agreed { .. });
            (e.attempt, e.plan.clone(), agreed)
        });
        Standing {
            engaged,
            ceiling: self.bound().and_then(|e| e.ceiling),
            decided: self.decided.clone(),
            lost: self.lost.clone(),
        }
    }
}

/// A value that knows whether it was changed since it was last written.
#[derive(Debug)]
pub(super) struct Durable<T> {
    value: T,
    is_changed: bool,
}

impl<T> Durable<T> {
    pub(super) fn new(value: T, is_changed: bool) -> Self {
        Self { value, is_changed }
    }

    /// For changing it; counts as changed.
    pub(super) fn change(&mut self) -> &mut T {
        self.is_changed = true;
        &mut self.value
    }

    /// The value, if it has to be written now.
    pub(super) fn take_changed(&mut self) -> Option<&T> {
        std::mem::take(&mut self.is_changed).then_some(&self.value)
    }
}

impl<T> std::ops::Deref for Durable<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(epoch: u64, number: u32) -> Attempt {
        Attempt {
            epoch: Epoch(epoch),
            term: Term(0),
            number,
        }
    }

    fn record(epoch: u64) -> JobRecord {
        let node = NodeName::new("a").unwrap();
        let layout = Layout {
            epoch: Epoch(epoch),
            members: Vec::new(),
            weights: Vec::new(),
            witnesses: Vec::new(),
        };
        JobRecord::first(&node, node.clone(), layout)
    }

    #[test]
    fn the_fate_of_an_attempt_nobody_decided_is_not_invented() {
        let mut record = record(1);
        record.made_by = Some(attempt(0, 4));
        assert_eq!(record.fate(attempt(1, 0)), None);
        assert_eq!(record.fate(attempt(2, 0)), None);
    }

    #[test]
    fn only_one_attempt_can_have_made_a_layout() {
        let mut record = record(1);
        record.made_by = Some(attempt(0, 4));
        assert_eq!(record.fate(attempt(0, 4)), Some(Decision::Committed));
        assert!(matches!(record.fate(attempt(0, 3)), Some(Decision::Aborted { .. })));
    }

    #[test]
    fn an_attempt_before_an_aborted_one_from_the_same_layout_was_aborted() {
        let mut record = record(1);
        let reason = AbortReason::Cancelled;
        record.decided = Some((attempt(1, 2), Decision::Aborted { reason }));
        assert!(matches!(record.fate(attempt(1, 1)), Some(Decision::Aborted { .. })));
        assert_eq!(record.fate(attempt(1, 3)), None);
    }

    #[test]
    fn a_holder_that_promised_a_higher_term_holds_nothing() {
        let mut record = record(0);
        assert!(record.is_holder());
        record.promised.term = Term(1);
        assert!(!record.is_holder());
    }
}
