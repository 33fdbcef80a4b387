//! Rules about data: elements, checkpoints, and what a job's end says of them.

use super::image;
use super::ledger::{Ledger, run_of};
use super::liveness::is_led;
use super::person::Act;
use super::seen::Seen;
use super::simulation::Simulation;
use pcm_proto::event::EventKind;
use pcm_proto::ids::JobId;
use pcm_proto::keeper::ProcessKey;
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
    // A newer one that is whole serves as well.
    let held = held_of(simulation, job).split_off(&complete.iteration);
    let most = held.values().map(BTreeMap::len).max().unwrap_or(0);
    match most == ELEMENTS {
        true => Ok(()),
        false => Err(format!(
            "the checkpoint of job {job} of iteration {} of {} ranks is complete, {most} of {ELEMENTS} elements are \
             held",
            complete.iteration, complete.ranks,
        )),
    }
}

/// Once a settled checkpoint of a job survives the loss of any one machine there is always one that does, as long as
/// every machine is there: each restart and each newer checkpoint leaves one that has its copies. When one machine is
/// lost, one is left until another is, or the job has ended.
pub(super) fn one_lost_machine_leaves_a_checkpoint(simulation: &mut Simulation, job: JobId) -> Result<(), String> {
    let is_asked_to_leave =
        |(_, act): &(u64, Act)| matches!(act, Act::Drain { .. } | Act::Notice { .. } | Act::Down { .. });
    let is_over = simulation.ledger.ends.contains_key(&job);
    // No copy goes to a node that leaves, or that seems lost.
    if is_over || simulation.ledger.has_cut || simulation.scenario.acts.iter().any(is_asked_to_leave) {
        return Ok(());
    }
    let held = held_of(simulation, job);
    let is_one_left = held.values().any(|parts| parts.len() == ELEMENTS) || simulation.files.newest(job).is_some();
    if let Some(lost) = simulation.ledger.bereaved.get(&job).filter(|_| !is_one_left) {
        return Err(format!(
            "n{lost} was lost, which left a checkpoint of job {job}, and that is gone: {:?} are held in part",
            held.keys().collect::<Vec<_>>()
        ));
    }
    let is_left_without = |lost: usize| {
        let is_left = |machines: &BTreeSet<usize>| machines.iter().any(|machine| *machine != lost);
        let is_whole =
            |parts: &BTreeMap<u32, BTreeSet<usize>>| parts.values().filter(|on| is_left(on)).count() == ELEMENTS;
        held.values().any(is_whole)
    };
    let needed = (0..simulation.machines.len()).find(|machine| !is_left_without(*machine));
    // A copy that its node has not looked at yet does not count.
    let is_settled = |iteration: &u64| {
        let mut ranks = simulation.ranks.iter().filter(|(key, _)| key.job == job);
        ranks.any(|(_, rank)| rank.keeping.settled.0 == iteration + 1)
    };
    let has_settled = held.keys().any(is_settled);
    let is_led = needed.is_none() || !simulation.ledger.survivors.contains(&job) || is_led(simulation, job);
    let is_loss_unnoticed = simulation.ledger.is_loss_unnoticed();
    let survivors = &mut simulation.ledger.survivors;
    match needed {
        // What is held on a machine whose loss nobody has noticed yet is taken for a copy.
        None if !has_settled || is_loss_unnoticed => {}
        None => _ = survivors.insert(job),
        // Known: with the machines of its coordinator and of its heirs, or their wills, the job is lost.
        Some(_) if !is_led => _ = survivors.remove(&job),
        Some(machine) if survivors.contains(&job) => {
            return Err(format!(
                "no checkpoint of job {job} is whole without n{machine}, as one was: iterations {:?} are held",
                held.keys().collect::<Vec<_>>()
            ));
        }
        Some(_) => {}
    }
    Ok(())
}

/// The machines that hold each element in a whole part, by the iteration of the checkpoint. What ranks keep at the very
/// iteration that they began with is none: no rank reads it, and it is soon written over.
fn held_of(simulation: &Simulation, job: JobId) -> BTreeMap<u64, BTreeMap<u32, BTreeSet<usize>>> {
    let mut held: BTreeMap<u64, BTreeMap<u32, BTreeSet<usize>>> = BTreeMap::new();
    for (number, machine) in simulation.machines.iter().enumerate() {
        let buffers = machine.keeper.iter().flat_map(|keeper| &keeper.buffers);
        for (key, file) in buffers.filter(|(key, _)| key.job == job) {
            let Some((iteration, data)) = image::decode(&file.borrow()) else {
                continue;
            };
            let process = ProcessKey {
                job,
                process: key.process,
            };
            let rank = simulation.ranks.get(&process).filter(|_| !key.is_copy);
            if rank.is_some_and(|rank| rank.keeping.begun_with == Some(iteration)) {
                continue;
            }
            let parts = held.entry(iteration).or_default();
            for element in data.into_keys() {
                parts.entry(element).or_default().insert(number);
            }
        }
    }
    held
}
