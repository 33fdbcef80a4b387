//! Histories of the whole cluster: real nodes, everything else simulated, and a planted fault for each checker.
//!
//! `PCM_SIM_SEED=n` with the test `one_seed` shows one history step by step; `PCM_SIM_SEEDS=count PCM_SIM_FIRST=n`
//! chooses others than those of every run.

use tests::cluster_simulation::runner::{run_seed, run_seeds};

fn number(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is no number"))
    })
}

#[test]
fn one_seed() {
    let seed = number("PCM_SIM_SEED", 1);
    println!("seed {seed}: {:?}", run_seed(seed));
}

#[test]
fn histories_keep_every_rule() {
    let (first, count) = (number("PCM_SIM_FIRST", 0), number("PCM_SIM_SEEDS", 200));
    let seeds: Vec<u64> = (first..first + count).collect();
    let tally = run_seeds(&seeds);
    println!("{count} histories: {tally:?}");
}
