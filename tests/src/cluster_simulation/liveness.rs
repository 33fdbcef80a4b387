//! What must come true once nothing breaks any more: every job goes on or has ended, every question is answered, and
//! nothing is left of jobs that have ended.

use super::happening::Happening;
use super::person::Asked;
use super::simulation::Simulation;
use super::story::short;
use super::violation::Violation;
use pcm_proto::ids::JobId;
use std::collections::{BTreeMap, BTreeSet};

const LOOK_EVERY: u64 = 500_000;

/// Looks in a row that must find all in order.
const CALM_LOOKS: u32 = 2;

/// A question may take so long when nothing breaks.
const ANSWER_MAX: u64 = 60_000_000;

/// A job whose ranks do not get any further for so long stands still.
const STANDSTILL_MAX: u64 = 45_000_000;

/// How long all has been in order, and how far jobs were.
#[derive(Debug, Default)]
pub(super) struct Calm {
    looks: u32,
    progress: BTreeMap<JobId, (u64, u64)>,
    vanished: BTreeSet<JobId>,
}

impl Calm {
    /// Looks around; true when the history may end.
    pub(super) fn inspect(&mut self, simulation: &mut Simulation, until: u64) -> Result<bool, Violation> {
        let disorder = self.disorder(simulation);
        match disorder {
            Ok(()) => self.looks += 1,
            Err(violation) if simulation.queue.now() >= until => return Err(violation),
            Err(_) => self.looks = 0,
        }
        if self.looks >= CALM_LOOKS {
            simulation.tally.vanished = self.vanished.len() as u64;
            return Ok(true);
        }
        simulation.queue.after(LOOK_EVERY, Happening::Inspection);
        Ok(false)
    }

    fn disorder(&mut self, simulation: &Simulation) -> Result<(), Violation> {
        every_question_is_answered(simulation)?;
        self.every_job_goes_on_or_ends(simulation)?;
        nothing_is_left_without_a_job(simulation)
    }

    /// Jobs end by themselves; one that does not is still at work.
    fn every_job_goes_on_or_ends(&mut self, simulation: &Simulation) -> Result<(), Violation> {
        let now = simulation.queue.now();
        let rule = "every_job_goes_on_or_ends";
        for job in simulation.ledger.accepted.keys() {
            if simulation.ledger.ends.contains_key(job) {
                continue;
            }
            if has_vanished(simulation, *job) {
                if let Some(machine) = simulation.ledger.holder_of_will(*job) {
                    let text = format!("job {job} is lost, and n{machine} holds its will");
                    return Err(Violation::new(rule, text));
                }
                self.vanished.insert(*job);
                continue;
            }
            let of_job = simulation.ranks.values().filter(|rank| rank.key.job == *job);
            let reached: u64 = of_job
                .map(|rank| rank.iteration + u64::from(rank.belonging.generation))
                .sum();
            let known = self.progress.entry(*job).or_insert((reached, now));
            if known.0 != reached {
                *known = (reached, now);
            }
            let text = match now - known.1 > STANDSTILL_MAX {
                true => format!(
                    "job {job} does not get any further since {} us: {}",
                    known.1,
                    standing(simulation, *job)
                ),
                false => format!("job {job} has not ended: {}", standing(simulation, *job)),
            };
            return Err(Violation::new(rule, text));
        }
        Ok(())
    }
}

/// How the processes of a job stand.
fn standing(simulation: &Simulation, job: JobId) -> String {
    let of_job = simulation
        .ranks
        .values()
        .filter(|rank| rank.key.job == job && rank.is_alive);
    let ranks = of_job.map(|rank| {
        format!(
            "process {} on n{}: {:?} at {} (ceiling {}, hangs {})",
            rank.key.process, rank.on.machine, rank.activity, rank.iteration, rank.page.ceiling, rank.is_stuck
        )
    });
    ranks.collect::<Vec<_>>().join("; ")
}

/// Its coordinator's machine is gone, and no heir leads it: the heirs' daemons were started again meanwhile, or the
/// machine came back as a new node that did not know it.
fn has_vanished(simulation: &Simulation, job: JobId) -> bool {
    let is_alive = simulation
        .ranks
        .values()
        .any(|rank| rank.key.job == job && rank.is_alive);
    simulation.tally.machines_down > 0 && !is_alive && !is_led(simulation, job)
}

/// Whether a node that is there leads a job.
pub(super) fn is_led(simulation: &Simulation, job: JobId) -> bool {
    let limits = simulation.scenario.limits();
    let mut machines = simulation.machines.iter().filter(|machine| machine.is_up());
    machines.any(|machine| machine.disk.leads(job, &machine.name, limits.clone()))
}

fn every_question_is_answered(simulation: &Simulation) -> Result<(), Violation> {
    let now = simulation.queue.now();
    for (link, ask) in simulation.person.unanswered() {
        if let Asked::Once(request) = &ask.asked {
            let text = format!(
                "{} over {link:?} of n{} has no answer since {} us{}",
                short(request),
                ask.machine,
                ask.since,
                if now - ask.since > ANSWER_MAX {
                    ", which is too long"
                } else {
                    ""
                }
            );
            return Err(Violation::new("every_request_is_answered_once", text));
        }
    }
    Ok(())
}

/// Of a job that has ended there is no process, no image, no buffer, and daemons hold no memory of it.
fn nothing_is_left_without_a_job(simulation: &Simulation) -> Result<(), Violation> {
    let rule = "nothing_is_left_without_a_job";
    let ended: BTreeSet<JobId> = simulation.ledger.ends.keys().copied().collect();
    let is_over = |job: &JobId| ended.contains(job);
    for (number, machine) in simulation.machines.iter().enumerate() {
        let Some(keeper) = &machine.keeper else { continue };
        if let Some(key) = keeper.table.keys().find(|key| is_over(&key.job)) {
            let is_alive = keeper.is_alive(*key);
            let text = format!("n{number} holds {key:?} (alive: {is_alive}) of a job that has ended");
            return Err(Violation::new(rule, text));
        }
        if let Some(key) = keeper.images.keys().find(|key| is_over(&key.job)) {
            return Err(Violation::new(rule, format!("n{number} holds the image {key:?}")));
        }
        if let Some(key) = keeper.buffers.keys().find(|key| is_over(&key.job)) {
            return Err(Violation::new(rule, format!("n{number} holds the buffer {key:?}")));
        }
        let all_are_over = simulation.ledger.accepted.keys().all(is_over);
        let held = machine.daemon.as_ref().map_or(0, |daemon| daemon.memory.count());
        if all_are_over && held > 0 {
            let text = format!("the daemon of n{number} holds {held} memory files");
            return Err(Violation::new(rule, text));
        }
    }
    Ok(())
}
