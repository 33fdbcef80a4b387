//! Histories of the whole cluster: real nodes, everything else simulated, and a planted fault for each checker.
//!
//! `PCM_SIM_SEED=n` with the test `one_seed` shows one history step by step; `PCM_SIM_SEEDS=count PCM_SIM_FIRST=n`
//! chooses others than those of every run.

use tests::asked;
use tests::cluster_simulation::runner::{run, run_seed, run_seeds};
use tests::cluster_simulation::scenario::{Plant, Scenario};
use tests::cluster_simulation::tally::Tally;

fn number(variable: &str, default: u64) -> u64 {
    asked::number(variable).unwrap_or(default)
}

#[test]
fn one_seed() {
    let seed = number("PCM_SIM_SEED", 1);
    println!("seed {seed}: {:?}", run_seed(seed));
}

#[test]
fn histories_keep_every_rule() {
    let (first, count) = (number("PCM_SIM_FIRST", 0), number("PCM_SIM_SEEDS", SEEDS_OF_EVERY_RUN));
    let seeds: Vec<u64> = (first..first + count).collect();
    let tally = run_seeds(&seeds);
    println!("{count} histories: {tally:?}");
}

/// Runs histories with a planted fault until a checker notices; it must be a right one.
#[track_caller]
fn assert_noticed_by(plant: Plant, rules: &[&str]) {
    for seed in 0..HISTORIES_UNTIL_NOTICED_MAX {
        let scenario = Scenario {
            plant: Some(plant),
            ..Scenario::of_seed(seed)
        };
        if let Err((violation, _)) = run(seed, &scenario, false) {
            if run(seed, &Scenario::of_seed(seed), false).is_err() {
                // This history breaks a rule without the fault, too.
                continue;
            }
            println!("{plant:?} is noticed in seed {seed}: {violation}");
            assert!(rules.contains(&violation.rule), "{plant:?}, seed {seed}: {violation}");
            return;
        }
    }
    panic!("{plant:?} was not noticed in {HISTORIES_UNTIL_NOTICED_MAX} histories");
}

const SEEDS_OF_EVERY_RUN: u64 = 10_000;

const HISTORIES_UNTIL_NOTICED_MAX: u64 = 6000;

#[test]
fn a_daemon_that_ignores_an_abort_is_noticed() {
    assert_noticed_by(
        Plant::DaemonIgnoresAbort,
        &[
            "never_two_layouts",
            "no_rank_at_two_places",
            "nothing_is_left_without_a_job",
            "every_job_goes_on_or_ends",
            "the_end_tells_the_truth",
        ],
    );
}

/// Defence in depth, as in the simulation of reconfigurations: such a rank runs past a ceiling, but then it does not
/// stand at it, so nobody is called to meet it.
#[test]
fn a_rank_that_checks_before_it_announces_spoils_changes_but_breaks_no_rule() {
    let tally = |plant: Option<Plant>| {
        let runs = (0..1_000).map(|seed| {
            let scenario = Scenario {
                plant,
                ..Scenario::of_seed(seed)
            };
            run(seed, &scenario, false).unwrap_or_else(|(violation, _)| panic!("seed {seed}: {violation}"))
        });
        runs.fold(Tally::default(), Tally::plus)
    };
    let (spoilt, sound) = (tally(Some(Plant::RankChecksBeforeAnnouncing)), tally(None));
    println!("{spoilt:?}\n{sound:?}");
    assert!(spoilt.given_up > sound.given_up, "{spoilt:?}, {sound:?}");
}

#[test]
fn a_rank_that_goes_on_after_it_has_agreed_is_noticed() {
    let rules = [
        "no_rank_past_a_committed_ceiling",
        "never_two_layouts",
        "no_rank_at_two_places",
    ];
    assert_noticed_by(Plant::RankGoesOnAfterAgreeing, &rules);
}

#[test]
fn ranks_that_enter_anywhere_are_noticed() {
    assert_noticed_by(
        Plant::RankEntersAnywhere,
        &["same_iteration", "one_reconfiguration_at_a_time"],
    );
}

#[test]
fn a_lost_element_is_noticed() {
    assert_noticed_by(Plant::AppDropsElement, &["no_element_lost_or_doubled"]);
}

#[test]
fn a_doubled_element_is_noticed() {
    assert_noticed_by(Plant::AppDoublesElement, &["no_element_lost_or_doubled"]);
}

#[test]
fn timers_that_never_end_are_noticed() {
    let rules = [
        "every_job_goes_on_or_ends",
        "every_request_is_answered_once",
        "nothing_is_left_without_a_job",
    ];
    assert_noticed_by(Plant::TimersNeverEnd, &rules);
}

#[test]
fn a_process_that_is_started_twice_is_noticed() {
    assert_noticed_by(Plant::KeeperStartsTwice, &["no_process_twice"]);
}

#[test]
fn a_process_that_outlives_its_kill_is_noticed() {
    let rules = [
        "nothing_is_left_without_a_job",
        "every_job_goes_on_or_ends",
        "every_request_is_answered_once",
        "a_complete_checkpoint_can_be_restored",
    ];
    assert_noticed_by(Plant::ProcessOutlivesItsKill, &rules);
}

#[test]
fn a_second_answer_of_a_process_manager_is_noticed() {
    assert_noticed_by(Plant::PmiAnswersTwice, &["every_request_has_its_own_answer"]);
}

#[test]
fn a_safe_buffer_that_is_overwritten_is_noticed() {
    let rules = [
        "a_complete_checkpoint_can_be_restored",
        "one_lost_machine_leaves_a_checkpoint",
    ];
    assert_noticed_by(Plant::RankOverwritesSafeBuffer, &rules);
}

#[test]
fn buffers_that_no_keeper_holds_are_noticed() {
    let rules = [
        "a_complete_checkpoint_can_be_restored",
        "one_lost_machine_leaves_a_checkpoint",
    ];
    assert_noticed_by(Plant::KeeperForgetsBuffers, &rules);
}

#[test]
fn a_link_that_loses_messages_is_noticed() {
    let rules = [
        "every_job_goes_on_or_ends",
        "every_request_is_answered_once",
        "nothing_is_left_without_a_job",
        "output_comes_once_and_in_order",
    ];
    assert_noticed_by(Plant::LinkLosesMessages, &rules);
}

#[test]
fn a_journal_without_reconfigurations_is_noticed() {
    let rules = [
        "never_two_layouts",
        "every_job_goes_on_or_ends",
        "none_dismissed_while_one_is_called",
        "no_rank_past_a_committed_ceiling",
        "every_request_is_answered_once",
        "one_reconfiguration_at_a_time",
        "same_iteration",
    ];
    assert_noticed_by(Plant::JournalForgetsReconfigurations, &rules);
}

#[test]
fn a_journal_without_jobs_is_noticed() {
    let rules = [
        "every_job_goes_on_or_ends",
        "nothing_is_left_without_a_job",
        "every_request_is_answered_once",
        "a_complete_checkpoint_can_be_restored",
    ];
    assert_noticed_by(Plant::JournalForgetsJobs, &rules);
}

#[test]
fn a_journal_without_numbers_is_noticed() {
    assert_noticed_by(Plant::JournalForgetsNumbers, &["no_job_twice"]);
}

#[test]
fn a_journal_without_printed_lines_is_noticed() {
    assert_noticed_by(Plant::JournalForgetsPrinted, &["output_comes_once_and_in_order"]);
}
