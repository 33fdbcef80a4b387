//! Rules about data: elements, checkpoints, and what a job's end says of them.

use super::image;
use super::ledger::{Ledger, run_of};
use super::seen::Seen;
use super::simulation::Simulation;
use pcm_proto::event::EventKind;
use pcm_proto::ids::JobId;
use std::collections::{BTreeMap, BTreeSet};

/// Elements of every program's array.
pub(super) const ELEMENTS: usize = 12;

/// The ranks that take up a layout have every element once, and each element has seen every iteration.
pub(super) fn no_element_lost_or_doubled(ledger: &mut Ledger, seen: &Seen) -> Result<(), String> {
    match seen {
        Seen::Proceeds {
            key,
            iteration,
            is_sound: false,
            ..
        }
        | Seen::Finishes {
            key,
            iteration,
            is_sound: false,
            ..
        } => Err(format!(
            "{key:?} is at iteration {iteration} with elements of another one"
        )),
        Seen::TakesUp {
            key,
            group,
            size,
            iteration,
            elements,
            ..
        } => {
            let run = ledger.runs.entry(run_of(group)).or_default();
            let covered = run.covered.entry(group.epoch).or_default();
            for (index, value) in elements {
                if value != iteration {
                    return Err(format!(
                        "element {index} of {key:?} has seen {value} iterations of {iteration}"
                    ));
                }
                if let Some(other) = covered.insert(*index, *key).filter(|other| other != key) {
                    return Err(format!("element {index} belongs to {other:?} and {key:?}"));
                }
            }
            let count = covered.len();
            let taken_up = run.taken_up.entry(group.epoch).or_default();
            taken_up.insert(*key);
            if taken_up.len() == *size as usize && count != ELEMENTS {
                return Err(format!("{group:?} has {count} of {ELEMENTS} elements"));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A job that ended well has come to its program's end on every rank of its last layout; one that a person hears of has
/// ended.
pub(super) fn the_end_tells_the_truth(ledger: &mut Ledger, seen: &Seen) -> Result<(), String> {
    match seen {
        Seen::Finishes { group, rank, .. } => {
            let run = ledger.runs.entry(run_of(group)).or_default();
            run.finished.insert(*rank, group.epoch);
            Ok(())
        }
        Seen::Noted {
            job: Some(job), kind, ..
        } => {
            let EventKind::JobEnded { code: 0, .. } = **kind else {
                return Ok(());
            };
            // Of two lives on two sides of a cut the newer one may be lost with its machines.
            let lives = ledger.runs.range((*job, 0)..=(*job, u32::MAX));
            let mut short = Vec::new();
            for (_, run) in lives {
                let size = run.taken_up.get(&run.newest_epoch).map_or(0, BTreeSet::len);
                let of_newest = run.finished.values().filter(|epoch| **epoch == run.newest_epoch);
                let finished = of_newest.count();
                if finished == size {
                    return Ok(());
                }
                short.push(format!("{finished} of {size}"));
            }
            match short.is_empty() {
                true => Err(format!("job {job} ended well and has not begun")),
                false => Err(format!(
                    "job {job} ended well, but of the ranks of its last layouts {} have finished",
                    short.join(", ")
                )),
            }
        }
        _ => Ok(()),
    }
}

/// Of the newest checkpoint that was called complete every part is held, whole, as long as no machine is lost.
pub(super) fn checkpoint_can_be_restored(simulation: &Simulation, job: JobId) -> Result<(), String> {
    let Some(complete) = simulation
        .ledger
        .complete
        .get(&job)
        .filter(|complete| !complete.is_excused)
    else {
        return Ok(());
    };
    if simulation
        .files
        .newest(job)
        .is_some_and(|iteration| iteration >= complete.iteration)
    {
        return Ok(());
    }
    let mut held: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    for machine in &simulation.machines {
        let buffers = machine.keeper.iter().flat_map(|keeper| &keeper.buffers);
        for (_, file) in buffers.filter(|(key, _)| key.job == job) {
            let Some((iteration, data)) = image::decode(&file.borrow()) else {
                continue;
            };
            // A newer one that is whole serves as well.
            if iteration >= complete.iteration {
                held.entry(iteration).or_default().extend(data.into_keys());
            }
        }
    }
    let most = held.values().map(BTreeSet::len).max().unwrap_or(0);
    match most == ELEMENTS {
        true => Ok(()),
        false => Err(format!(
            "the checkpoint of job {job} of iteration {} of {} ranks is complete, {most} of {ELEMENTS} elements are \
             held",
            complete.iteration, complete.ranks,
        )),
    }
}
