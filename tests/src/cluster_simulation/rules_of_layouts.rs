//! Rules about layouts: which counts, who is in it, and who stands where.

use super::ledger::{Layouts, Ledger, run_of};
use super::seen::Seen;
use pcm_proto::ids::Epoch;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::reconfiguration::{Attempt, Decision};
use std::collections::BTreeMap;
use std::fmt::Debug;

fn remember<K: Ord + Copy + Debug, V: PartialEq + Clone + Debug>(
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
/// one that another iterates in.
pub(super) fn never_two_layouts(ledger: &mut Ledger, seen: &Seen) -> Result<(), String> {
    match seen {
        Seen::Persisted { job, record } => {
            let known = ledger.layouts.entry(*job).or_default();
            if let Some(layout) = &record.layout {
                remember(&mut known.layouts, layout.epoch, layout)?;
                if let Some(made_by) = &record.made_by {
                    remember(&mut known.makers, layout.epoch, made_by)?;
                    remember(&mut known.decided, *made_by, &true)?;
                }
            }
            match &record.decided {
                Some((attempt, decision)) => {
                    remember(&mut known.decided, *attempt, &(*decision == Decision::Committed))
                }
                None => Ok(()),
            }
        }
        Seen::Proceeds { key, group, .. } => {
            let newest = ledger.newest_generation.entry(group.job).or_default();
            *newest = group.generation.max(*newest);
            let run = ledger.runs.entry(run_of(group)).or_default();
            if group.epoch < run.newest_epoch {
                let newest = run.newest_epoch;
                return Err(format!(
                    "{key:?} iterates in layout {}, others do in {newest}",
                    group.epoch
                ));
            }
            run.newest_epoch = group.epoch;
            Ok(())
        }
        Seen::Returns { key, attempt, group } => {
            let known = ledger.layouts.entry(group.job).or_default();
            match known.decided.get(attempt) {
                Some(true) => Err(format!(
                    "{key:?} returns to the old layout, but {attempt} was committed"
                )),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// A rank of a layout is one process, and what was started again does not go on beside.
pub(super) fn no_rank_at_two_places(ledger: &mut Ledger, seen: &Seen) -> Result<(), String> {
    let (key, group, rank, iteration) = match seen {
        Seen::Proceeds {
            key,
            group,
            rank,
            iteration,
            ..
        }
        | Seen::Finishes {
            key,
            group,
            rank,
            iteration,
            ..
        } => (key, group, rank, iteration),
        _ => return Ok(()),
    };
    let run = ledger.runs.entry(run_of(group)).or_default();
    let place = run.places.insert((group.epoch, *rank), (*key, *iteration));
    match place {
        Some((other, _)) if other != *key => Err(format!("rank {rank} of {group:?} is {other:?} and {key:?}")),
        Some((_, before)) if before >= *iteration => {
            Err(format!("{key:?} starts iteration {iteration} after {before}"))
        }
        _ => Ok(()),
    }
}

/// All ranks that follow the call of an attempt stand at the same iteration.
pub(super) fn same_iteration(ledger: &mut Ledger, seen: &Seen) -> Result<(), String> {
    match seen {
        Seen::Enters {
            key,
            group,
            attempt,
            iteration,
        } => {
            let run = ledger.runs.entry(run_of(group)).or_default();
            remember(&mut run.stood_at, *attempt, iteration).map_err(|text| format!("{key:?} enters: {text}"))
        }
        _ => Ok(()),
    }
}

/// When a layout is committed, no rank of the old one has started the iteration it was committed at, nor ever does.
pub(super) fn no_rank_past_a_committed_ceiling(ledger: &mut Ledger, seen: &Seen) -> Result<(), String> {
    let Seen::Proceeds { group, iteration, .. } = seen else {
        return match seen {
            Seen::Persisted { job, record } => {
                let Some(made_by) = record.made_by else { return Ok(()) };
                let none = Layouts::default();
                let known = ledger.layouts.get(job).unwrap_or(&none);
                let mut of_job = ledger.runs.iter().filter(|((of, _), _)| of == job);
                of_job.try_for_each(|(_, run)| ceiling_holds(known, &run.stood_at, &run.farthest, made_by.epoch.0))
            }
            _ => Ok(()),
        };
    };
    let none = Layouts::default();
    let run = ledger.runs.entry(run_of(group)).or_default();
    let farthest = run.farthest.entry(group.epoch).or_insert(0);
    *farthest = (*farthest).max(*iteration);
    let known = ledger.layouts.get(&group.job).unwrap_or(&none);
    ceiling_holds(known, &run.stood_at, &run.farthest, group.epoch)
}

fn ceiling_holds(
    known: &Layouts,
    stood_at: &BTreeMap<Attempt, u64>,
    farthest: &BTreeMap<u64, u64>,
    epoch: u64,
) -> Result<(), String> {
    let ceiling = known
        .makers
        .get(&Epoch(epoch + 1))
        .and_then(|attempt| stood_at.get(attempt));
    match (ceiling, farthest.get(&epoch)) {
        (Some(ceiling), Some(farthest)) if farthest >= ceiling => Err(format!(
            "layout {epoch} ended at iteration {ceiling}, a rank of it has started {farthest}"
        )),
        _ => Ok(()),
    }
}

/// Members of the old layout are never inside two attempts.
pub(super) fn one_reconfiguration_at_a_time(ledger: &mut Ledger, seen: &Seen) -> Result<(), String> {
    match seen {
        Seen::Enters {
            key, group, attempt, ..
        } => {
            let run = ledger.runs.entry(run_of(group)).or_default();
            run.inside.insert(*key, *attempt);
            // A leaver that has not heard of the commit can do nothing but leave.
            let none = Layouts::default();
            let known = ledger.layouts.get(&group.job).unwrap_or(&none);
            let newest = known.layouts.values().next_back();
            let is_leaver = |key: &ProcessKey, attempt: &Attempt| {
                known.decided.get(attempt) == Some(&true)
                    && newest.is_some_and(|layout| layout.member(key.process).is_none())
            };
            let mut others = run
                .inside
                .iter()
                .filter(|(key, known)| *known != attempt && !is_leaver(key, known));
            match others.next() {
                Some((other, inside)) => Err(format!("{key:?} enters {attempt} while {other:?} is inside {inside}")),
                None => Ok(()),
            }
        }
        Seen::Leaves { key } => {
            let of_job = ledger.runs.iter_mut().filter(|((job, _), _)| *job == key.job);
            for (_, run) in of_job {
                run.inside.remove(key);
            }
            Ok(())
        }
        // Given up as hanging in MPI: it can do nothing any more but have its memory read.
        Seen::Persisted { job, record } => {
            let of_job = ledger.runs.iter_mut().filter(|((of, _), _)| of == job);
            for (_, run) in of_job {
                run.inside.retain(|key, _| !record.stuck.contains(&key.process));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// No rank goes on from the ceiling while another that was called from it has not come back: that one waits inside MPI
/// for those that have gone.
pub(super) fn none_dismissed_while_one_is_called(ledger: &mut Ledger, seen: &Seen) -> Result<(), String> {
    match seen {
        Seen::Enters {
            key, group, attempt, ..
        } => {
            let run = ledger.runs.entry(run_of(group)).or_default();
            run.called.insert(*key, *attempt);
        }
        Seen::Leaves { key } => {
            let of_job = ledger.runs.iter_mut().filter(|((job, _), _)| *job == key.job);
            for (_, run) in of_job {
                run.called.remove(key);
            }
        }
        Seen::GoesOnUntold { group } => {
            let run = ledger.runs.entry(run_of(group)).or_default();
            run.called.clear();
        }
        Seen::Proceeds {
            key, group, iteration, ..
        } => {
            let run = ledger.runs.entry(run_of(group)).or_default();
            let is_left = |attempt: &Attempt| {
                let stood_at = run.stood_at.get(attempt);
                attempt.epoch.0 == group.epoch && stood_at.is_some_and(|at| iteration >= at)
            };
            // One that runs away from its own call is another rule's.
            if run.called.contains_key(key) {
                return Ok(());
            }
            if let Some((mate, attempt)) = run.called.iter().find(|(_, attempt)| is_left(attempt)) {
                return Err(format!(
                    "{key:?} starts iteration {iteration} while {mate:?} is called to {attempt}"
                ));
            }
        }
        _ => {}
    }
    Ok(())
}

/// No process is ended while others are being joined with it: those stay behind in MPI, and are given up as hanging.
pub(super) fn none_left_behind_in_a_meeting(ledger: &mut Ledger, seen: &Seen) -> Result<(), String> {
    let Seen::Persisted { job, record } = seen else {
        return Ok(());
    };
    for process in record.stuck.iter().copied() {
        let key = ProcessKey { job: *job, process };
        if let Some(by) = ledger.left_behind.get(&key) {
            return Err(format!(
                "{key:?} is given up as hanging: {by:?} was ended while it was being joined with it"
            ));
        }
    }
    Ok(())
}
