//! Runs histories and says how to see a bad one again.

use super::liveness::Calm;
use super::scenario::Scenario;
use super::simulation::{Simulation, Step};
use super::tally::Tally;
use super::violation::Violation;
use crate::asked;

/// Time after the faults have ended within which everything must have settled.
const SETTLE_MAX_US: u64 = 180_000_000;

/// More steps than any history takes: a loop, then.
const STEPS_MAX: u64 = 1_000_000;

/// Bad seeds shown by each thread before it stops.
const BROKEN_MAX: usize = 10;

/// A rule that was broken, and the replay if it was asked for.
pub type Broken = (Violation, Vec<String>);

/// Runs one history to its end.
pub fn run(seed: u64, scenario: &Scenario, is_told: bool) -> Result<Tally, Broken> {
    let mut simulation = Simulation::new(seed, scenario.clone(), is_told);
    let result = drive(&mut simulation, scenario);
    let tally = simulation.tally;
    let story = simulation.story.take();
    if is_told && result.is_ok() {
        story.iter().for_each(|line| println!("{line}"));
    }
    result.map(|()| tally).map_err(|violation| (violation, story))
}

fn drive(simulation: &mut Simulation, scenario: &Scenario) -> Result<(), Violation> {
    let until = scenario.heal_at_us + SETTLE_MAX_US;
    let mut calm = Calm::default();
    while let Some(step) = simulation.step()? {
        if simulation.tally.steps > STEPS_MAX {
            let text = format!("{STEPS_MAX} steps were not enough");
            return Err(Violation::new("no_endless_step", text));
        }
        if step == Step::Inspection && calm.inspect(simulation, until)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Runs the history of a seed and panics with everything needed to see it again when a rule is broken.
///
/// # Panics
/// When a rule is broken.
pub fn run_seed(seed: u64) -> Tally {
    let scenario = Scenario::of_seed(seed);
    match run(seed, &scenario, true) {
        Ok(tally) => tally,
        Err((violation, story)) => {
            for line in &story {
                eprintln!("{line}");
            }
            panic!(
                "seed {seed}: {violation}\n{scenario:?}\nreplay: PCM_SIM_SEED={seed} cargo test --release -p tests \
                 --test sim_cluster one_seed -- --nocapture"
            );
        }
    }
}

/// Runs the histories of many seeds on all CPUs, or on as many as `PCM_SIM_THREADS` says, and adds up what they went
/// through.
///
/// # Panics
/// When a rule is broken; with the replay of the lowest seed that broke one.
pub fn run_seeds(seeds: &[u64]) -> Tally {
    let all = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = asked::number("PCM_SIM_THREADS").map_or_else(all, |threads| threads as usize);
    let parts: Vec<_> = (0..threads)
        .map(|part| {
            let seeds: Vec<u64> = seeds.iter().copied().skip(part).step_by(threads).collect();
            std::thread::spawn(move || run_part(&seeds))
        })
        .collect();
    let mut sum = Tally::default();
    let mut broken = Vec::new();
    for part in parts {
        let (tally, bad) = part
            .join()
            .expect("a history panics only by a defect of node or simulator");
        sum = sum.plus(tally);
        broken.extend(bad);
    }
    broken.sort_by_key(|(seed, _)| *seed);
    for (seed, violation) in &broken {
        eprintln!("seed {seed}: {violation}");
    }
    if let Some((seed, _)) = broken.first() {
        run_seed(*seed);
    }
    sum
}

fn run_part(seeds: &[u64]) -> (Tally, Vec<(u64, Violation)>) {
    let mut sum = Tally::default();
    let mut broken = Vec::new();
    for seed in seeds {
        match run(*seed, &Scenario::of_seed(*seed), false) {
            Ok(tally) => sum = sum.plus(tally),
            Err((violation, _)) => broken.push((*seed, violation)),
        }
        if broken.len() >= BROKEN_MAX {
            break;
        }
    }
    (sum, broken)
}
