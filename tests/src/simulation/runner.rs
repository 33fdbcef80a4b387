//! Runs histories and says how to see a bad one again.

use super::cluster::{Inspection, Simulation, Tally};
use super::invariants::Violation;
use super::liveness;
use super::scenario::Scenario;

/// Virtual time after the faults have ended within which everything must have settled.
pub const SETTLE_MAX_US: u64 = 40_000_000;

/// More steps than any history takes: a loop, then.
const STEPS_MAX: u64 = 2_000_000;

/// Runs one history to its end.
pub fn run(seed: u64, scenario: &Scenario) -> Result<Tally, (Violation, Vec<String>)> {
    let tells = std::env::var_os("SIM_STORY").is_some();
    let mut simulation = Simulation::new(seed, scenario.clone(), tells);
    let result = drive(&mut simulation, scenario);
    result.map_err(|violation| (violation, simulation.story().to_vec()))
}

fn drive(simulation: &mut Simulation, scenario: &Scenario) -> Result<Tally, Violation> {
    let until = scenario.heal_at_us + SETTLE_MAX_US;
    let mut calm = liveness::Calm::default();
    loop {
        let inspection = simulation.step()?;
        if simulation.tally().steps > STEPS_MAX {
            let text = format!("{STEPS_MAX} steps were not enough");
            return Err(Violation {
                rule: "ensure_liveness",
                text,
            });
        }
        if inspection == Some(Inspection::Due) && calm.inspect(simulation, until)? {
            return Ok(simulation.tally());
        }
    }
}

/// Runs the history of a seed and panics with everything needed to see it again when a rule is broken.
///
/// # Panics
/// When a rule is broken.
pub fn run_seed(seed: u64) -> Tally {
    let scenario = Scenario::of_seed(seed);
    match run(seed, &scenario) {
        Ok(tally) => tally,
        Err((violation, story)) => {
            for line in &story {
                eprintln!("{line}");
            }
            panic!(
                "seed {seed}: {violation}\n{scenario:?}\nreplay: SIM_SEED={seed} SIM_STORY=1 cargo test --release \
                 -p tests --test sim_reconfiguration one_seed -- --nocapture"
            );
        }
    }
}

/// Runs the histories of many seeds on all CPUs and adds up what they went through.
///
/// # Panics
/// When a rule is broken; with the lowest seed that broke one.
pub fn run_seeds(seeds: &[u64]) -> Tally {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let parts: Vec<_> = (0..threads)
        .map(|part| {
            let seeds: Vec<u64> = seeds
                .iter()
                .copied()
                .skip(part as usize)
                .step_by(threads as usize)
                .collect();
            std::thread::spawn(move || {
                let mut sum = Tally::default();
                let mut broken = Vec::new();
                for seed in seeds {
                    match run(seed, &Scenario::of_seed(seed)) {
                        Ok(tally) => sum = sum.plus(tally),
                        Err((violation, _)) => broken.push((seed, violation)),
                    }
                    if broken.len() >= BROKEN_MAX {
                        break;
                    }
                }
                (sum, broken)
            })
        })
        .collect();
    let mut sum = Tally::default();
    let mut broken = Vec::new();
    for part in parts {
        let (tally, bad) = part
            .join()
            .expect("a history does not panic but by a defect of the simulator");
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

/// Bad seeds shown by each thread before it stops.
const BROKEN_MAX: usize = 20;
