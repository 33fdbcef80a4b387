//! Ten thousand histories of a job that is reconfigured while everything breaks, and a planted fault for each checker.
//!
//! `SIM_SEED=n SIM_STORY=1` with the test `one_seed` shows one history; `SIM_SEEDS=count SIM_FIRST=n` chooses others
//! than those of every run.

use tests::asked;
use tests::simulation::cluster::Tally;
use tests::simulation::invariants::Violation;
use tests::simulation::runner::{run, run_seed, run_seeds};
use tests::simulation::scenario::{Plant, Scenario};

fn number(variable: &str, default: u64) -> u64 {
    asked::number(variable).unwrap_or(default)
}

#[test]
fn one_seed() {
    let seed = number("SIM_SEED", 1);
    println!("seed {seed}: {:?}", run_seed(seed));
}

#[test]
fn ten_thousand_histories_keep_every_rule() {
    let (first, count) = (number("SIM_FIRST", 0), number("SIM_SEEDS", 10_000));
    let seeds: Vec<u64> = (first..first + count).collect();
    let tally = run_seeds(&seeds);
    println!("{count} histories: {tally:?}");
    // A simulator in which little happens proves little.
    assert!(tally.committed > count && tally.aborted > count / 2, "{tally:?}");
    assert!(
        tally.takeovers > count / 10 && tally.followed > count / 20 && tally.restarts > count,
        "{tally:?}"
    );
    assert!(
        tally.lost > 0 && tally.finished > 0 && tally.lost < count * 6 / 10,
        "{tally:?}"
    );
}

/// Runs histories with a planted fault until a checker notices; it must be the right one, and soon.
fn noticed(plant: Plant) -> (u64, Violation) {
    for seed in 0..HISTORIES_UNTIL_NOTICED_MAX {
        let scenario = Scenario {
            plant: Some(plant),
            ..Scenario::of_seed(seed)
        };
        if let Err((violation, _)) = run(seed, &scenario) {
            return (seed, violation);
        }
    }
    panic!("{plant:?} was not noticed in {HISTORIES_UNTIL_NOTICED_MAX} histories");
}

const HISTORIES_UNTIL_NOTICED_MAX: u64 = 300;

#[track_caller]
fn assert_noticed_by(plant: Plant, rules: &[&str]) {
    let (seed, violation) = noticed(plant);
    assert!(rules.contains(&violation.rule), "{plant:?}, seed {seed}: {violation}");
}

#[test]
fn a_daemon_that_ignores_an_abort_is_noticed() {
    assert_noticed_by(Plant::DaemonIgnoresAbort, &["invariant_never_two_layouts"]);
}

#[test]
fn a_coordinator_that_commits_early_is_noticed() {
    assert_noticed_by(Plant::CoordinatorCommitsEarly, &["invariant_never_two_layouts"]);
}

#[test]
fn a_daemon_that_forgets_what_it_wrote_is_noticed() {
    assert_noticed_by(
        Plant::DaemonForgetsItsRecord,
        &[
            "invariant_never_two_layouts",
            "invariant_none_dismissed_while_one_is_called",
            "invariant_no_unknown_process",
            "ensure_liveness",
        ],
    );
}

/// Defence in depth: such a rank runs past a ceiling, but then it does not stand at it, so nobody is called to meet it.
#[test]
fn a_rank_that_checks_before_it_announces_spoils_attempts_but_breaks_no_rule() {
    let mut tally = Tally::default();
    for seed in 0..100 {
        let mut scenario = Scenario::of_seed(seed);
        scenario.plant = Some(Plant::RankChecksBeforeAnnouncing);
        // Only iterations about as short as a round of the agreement can slip through.
        scenario.iteration_us = 1_000;
        tally = tally.plus(run(seed, &scenario).unwrap_or_else(|(violation, _)| panic!("seed {seed}: {violation}")));
    }
    assert!(tally.aborted > tally.committed / 4, "{tally:?}");
}

#[test]
fn a_rank_that_goes_on_after_agreeing_is_noticed() {
    assert_noticed_by(
        Plant::RankGoesOnAfterAgreeing,
        &[
            "invariant_no_rank_past_a_committed_ceiling",
            "invariant_never_two_layouts",
        ],
    );
}

#[test]
fn a_rank_that_enters_where_it_is_is_noticed() {
    assert_noticed_by(Plant::RankEntersAnywhere, &["invariant_same_iteration"]);
}

#[test]
fn an_element_that_is_dropped_is_noticed() {
    assert_noticed_by(Plant::AppDropsElement, &["invariant_no_element_lost_or_doubled"]);
}

#[test]
fn an_element_that_is_doubled_is_noticed() {
    assert_noticed_by(Plant::AppDoublesElement, &["invariant_no_element_lost_or_doubled"]);
}

#[test]
fn a_second_meeting_at_the_same_time_is_noticed() {
    assert_noticed_by(
        Plant::DaemonCallsTwoMeetings,
        &["invariant_one_reconfiguration_at_a_time"],
    );
}

#[test]
fn newcomers_that_stay_after_an_abort_are_noticed() {
    assert_noticed_by(
        Plant::NewcomersStay,
        &["invariant_no_unknown_process", "ensure_liveness"],
    );
}

#[test]
fn a_daemon_that_forgets_where_its_ranks_stand_is_noticed() {
    assert_noticed_by(
        Plant::DaemonForgetsWhereRanksStand,
        &["invariant_none_dismissed_while_one_is_called"],
    );
}

#[test]
fn a_cluster_without_timers_is_noticed() {
    assert_noticed_by(Plant::TimersNeverEnd, &["ensure_liveness"]);
}

#[test]
fn the_same_seed_tells_the_same_history() {
    assert_eq!(run_seed(42), run_seed(42));
    assert_ne!(run_seed(42).steps, run_seed(43).steps);
}
