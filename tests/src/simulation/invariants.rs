//! What must be true after every step, whatever happened. Each function looks at what was seen since the step before
//! and at the ledger of everything before that.

use pcm_core::reconfiguration::record::JobRecord;
use pcm_proto::ids::{Epoch, ProcessId};
use pcm_proto::layout::Layout;
use pcm_proto::reconfiguration::{Attempt, Decision};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The function that noticed it.
    pub rule: &'static str,
    /// What it saw.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.text)
    }
}

/// Something that happened and that a rule is about.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    /// A daemon wrote its record.
    Persisted(Box<JobRecord>),
    /// A process starts an iteration of a layout; `sound` when its elements have seen all iterations before.
    Proceeds {
        process: ProcessId,
        epoch: u64,
        iteration: u64,
        sound: bool,
    },
    /// A member of the old layout follows a call to a meeting or to park.
    Enters {
        process: ProcessId,
        attempt: Attempt,
        iteration: u64,
    },
    /// It is out again, in whatever way.
    Leaves { process: ProcessId },
    /// It has waited at the ceiling for longer than any daemon is away, and goes on without being told.
    GoesOnUntold,
    /// It goes on in the old layout.
    Returns { process: ProcessId, attempt: Attempt },
    /// A process has its place and data in a new layout, at this iteration.
    TakesUp {
        process: ProcessId,
        epoch: u64,
        iteration: u64,
        elements: Vec<(u32, u64)>,
    },
}

type Rule = fn(&mut Ledger, &Seen) -> Result<(), String>;

/// Everything the rules remember.
#[derive(Debug, Default)]
pub struct Ledger {
    layouts: BTreeMap<Epoch, Layout>,
    makers: BTreeMap<Epoch, Attempt>,
    committed: BTreeMap<Attempt, bool>,
    newest_run: u64,
    /// Highest iteration started, by epoch.
    farthest: BTreeMap<u64, u64>,
    /// Where the ranks stood when an attempt called them.
    stood_at: BTreeMap<Attempt, u64>,
    inside: BTreeMap<ProcessId, Attempt>,
    /// Whoever has followed a call and is not out again, also one that hangs in MPI.
    called: BTreeMap<ProcessId, Attempt>,
    /// Elements taken up, by epoch.
    covered: BTreeMap<u64, BTreeMap<u32, ProcessId>>,
    taken_up: BTreeMap<u64, BTreeSet<ProcessId>>,
    elements: u32,
}

impl Ledger {
    /// For a job with this many elements.
    pub fn new(elements: u32) -> Self {
        Self {
            elements,
            ..Self::default()
        }
    }

    /// The newest layout any daemon has written.
    pub fn newest_layout(&self) -> Option<&Layout> {
        self.layouts.values().next_back()
    }

    /// Layouts committed so far.
    pub fn layouts_made(&self) -> usize {
        self.makers.len()
    }

    pub(super) fn check(&mut self, seen: &Seen) -> Result<(), Violation> {
        let rules: [(&'static str, Rule); 6] = [
            ("invariant_never_two_layouts", invariant_never_two_layouts),
            ("invariant_same_iteration", invariant_same_iteration),
            (
                "invariant_no_rank_past_a_committed_ceiling",
                invariant_no_rank_past_a_committed_ceiling,
            ),
            (
                "invariant_no_element_lost_or_doubled",
                invariant_no_element_lost_or_doubled,
            ),
            (
                "invariant_one_reconfiguration_at_a_time",
                invariant_one_reconfiguration_at_a_time,
            ),
            (
                "invariant_none_dismissed_while_one_is_called",
                invariant_none_dismissed_while_one_is_called,
            ),
        ];
        for (rule, check) in rules {
            check(self, seen).map_err(|text| Violation { rule, text })?;
        }
        Ok(())
    }
}

fn remember<K: Ord + Copy + fmt::Debug, V: PartialEq + Clone + fmt::Debug>(
    map: &mut BTreeMap<K, V>,
    key: K,
    value: &V,
) -> Result<(), String> {
    match map.get(&key) {
        Some(known) if known != value => Err(format!("{key:?} is {known:?} for one and {value:?} for another")),
        Some(_) => Ok(()),
        None => {
            map.insert(key, value.clone());
            Ok(())
        }
    }
}

/// There is one layout of each epoch, one decision about each attempt, and no process iterates in a layout older than
/// one that somebody iterates in.
fn invariant_never_two_layouts(ledger: &mut Ledger, seen: &Seen) -> Result<(), String> {
    match seen {
        Seen::Persisted(record) => {
            if let Some(layout) = &record.layout {
                remember(&mut ledger.layouts, layout.epoch, layout)?;
                if let Some(made_by) = &record.made_by {
                    remember(&mut ledger.makers, layout.epoch, made_by)?;
                    remember(&mut ledger.committed, *made_by, &true)?;
                }
            }
            match &record.decided {
                Some((attempt, decision)) => {
                    remember(&mut ledger.committed, *attempt, &(*decision == Decision::Committed))
                }
                None => Ok(()),
            }
        }
        Seen::Proceeds { process, epoch, .. } => {
            if *epoch < ledger.newest_run {
                let newest = ledger.newest_run;
                return Err(format!(
                    "process {process} iterates in layout {epoch}, others do in {newest}"
                ));
            }
            ledger.newest_run = *epoch;
            Ok(())
        }
        Seen::Returns { process, attempt } => match ledger.committed.get(attempt) {
            Some(true) => Err(format!(
                "process {process} returns to the old layout, but {attempt} was committed"
            )),
            _ => Ok(()),
        },
        Seen::TakesUp { process, epoch, .. } => match ledger.makers.contains_key(&Epoch(*epoch)) {
            true => Ok(()),
            false => Err(format!(
                "process {process} takes up layout {epoch}, which nobody has committed"
            )),
        },
        Seen::Enters { .. } | Seen::Leaves { .. } | Seen::GoesOnUntold => Ok(()),
    }
}

/// All ranks that follow the call of an attempt stand at the same iteration.
fn invariant_same_iteration(ledger: &mut Ledger, seen: &Seen) -> Result<(), String> {
    match seen {
        Seen::Enters {
            process,
            attempt,
            iteration,
        } => remember(&mut ledger.stood_at, *attempt, iteration)
            .map_err(|text| format!("process {process} enters: {text}")),
        _ => Ok(()),
    }
}

/// When a layout is committed, no rank of the old one has started the iteration it was committed at, nor ever does.
fn invariant_no_rank_past_a_committed_ceiling(ledger: &mut Ledger, seen: &Seen) -> Result<(), String> {
    let epoch = match seen {
        Seen::Proceeds { epoch, iteration, .. } => {
            let farthest = ledger.farthest.entry(*epoch).or_insert(0);
            *farthest = (*farthest).max(*iteration);
            *epoch
        }
        Seen::Persisted(record) => match record.made_by {
            Some(made_by) => made_by.epoch.0,
            None => return Ok(()),
        },
        _ => return Ok(()),
    };
    let ceiling = ledger
        .makers
        .get(&Epoch(epoch + 1))
        .and_then(|attempt| ledger.stood_at.get(attempt));
    match (ceiling, ledger.farthest.get(&epoch)) {
        (Some(ceiling), Some(farthest)) if farthest >= ceiling => Err(format!(
            "layout {epoch} ended at iteration {ceiling}, a rank of it has started {farthest}"
        )),
        _ => Ok(()),
    }
}

/// The ranks that take up a layout have every element once, and each element has seen every iteration.
fn invariant_no_element_lost_or_doubled(ledger: &mut Ledger, seen: &Seen) -> Result<(), String> {
    match seen {
        Seen::Proceeds {
            process,
            iteration,
            sound: false,
            ..
        } => Err(format!(
            "process {process} starts iteration {iteration} with elements of another one"
        )),
        Seen::TakesUp {
            process,
            epoch,
            iteration,
            elements,
        } => {
            let covered = ledger.covered.entry(*epoch).or_default();
            for (index, value) in elements {
                if value != iteration {
                    return Err(format!("element {index} has seen {value} iterations of {iteration}"));
                }
                if let Some(other) = covered.insert(*index, *process).filter(|other| other != process) {
                    return Err(format!("element {index} belongs to processes {other} and {process}"));
                }
            }
            let count = covered.len();
            let taken_up = ledger.taken_up.entry(*epoch).or_default();
            taken_up.insert(*process);
            let ranks = ledger.layouts.get(&Epoch(*epoch)).map_or(0, Layout::size);
            if taken_up.len() == ranks && count != ledger.elements as usize {
                return Err(format!("layout {epoch} has {count} of {} elements", ledger.elements));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Members of the old layout are never inside two attempts.
fn invariant_one_reconfiguration_at_a_time(ledger: &mut Ledger, seen: &Seen) -> Result<(), String> {
    match seen {
        Seen::Enters { process, attempt, .. } => {
            ledger.inside.insert(*process, *attempt);
            // A leaver that has not heard of the commit can do nothing but leave.
            let newest = ledger.layouts.values().next_back();
            let is_leaver = |p: &ProcessId, a: &Attempt| {
                ledger.committed.get(a) == Some(&true) && newest.is_some_and(|l| l.member(*p).is_none())
            };
            let mut others = ledger.inside.iter().filter(|(p, a)| *a != attempt && !is_leaver(p, a));
            match others.next() {
                Some((other, inside)) => Err(format!(
                    "process {process} enters {attempt} while process {other} is inside {inside}"
                )),
                None => Ok(()),
            }
        }
        Seen::Leaves { process } => {
            ledger.inside.remove(process);
            Ok(())
        }
        // Given up as hanging in MPI: it can do nothing any more but have its memory read.
        Seen::Persisted(record) => {
            ledger.inside.retain(|process, _| !record.stuck.contains(process));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// No rank goes on from the ceiling while another that was called from it has not come back: that one waits inside MPI
/// for those that have gone.
fn invariant_none_dismissed_while_one_is_called(ledger: &mut Ledger, seen: &Seen) -> Result<(), String> {
    match seen {
        Seen::Enters { process, attempt, .. } => {
            ledger.called.insert(*process, *attempt);
        }
        Seen::Leaves { process } => {
            ledger.called.remove(process);
        }
        Seen::GoesOnUntold => ledger.called.clear(),
        Seen::Proceeds {
            process,
            epoch,
            iteration,
            ..
        } => {
            let is_left = |attempt: &Attempt| {
                let stood_at = ledger.stood_at.get(attempt);
                attempt.epoch.0 == *epoch && stood_at.is_some_and(|at| iteration >= at)
            };
            // One that runs away from its own call is another rule's.
            if ledger.called.contains_key(process) {
                return Ok(());
            }
            if let Some((mate, attempt)) = ledger.called.iter().find(|(_, attempt)| is_left(attempt)) {
                return Err(format!(
                    "process {process} starts iteration {iteration} while process {mate} is called to {attempt}"
                ));
            }
        }
        Seen::Persisted(_) | Seen::Returns { .. } | Seen::TakesUp { .. } => {}
    }
    Ok(())
}
