//! What programs do right and wrong around a change of their ranks: stale communicators, calls before the start, hooks
//! that fail, registrations that differ, newcomers that do not come. Each misuse is an error with a text; the job goes
//! on.

use rustix::process::Signal;
use tests::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    limited::Outcome,
    processes, wait,
};

/// Runs the program on two ranks, moves one, and waits for the end.
fn moved(what: &str) -> (Outcome, Outcome) {
    moved_by(what, "live")
}

fn moved_by(what: &str, mode: &str) -> (Outcome, Outcome) {
    let cluster = Cluster::up(2);
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--nodes", "n0", "--"]);
    command.arg(built("pcm-changing")).args([what, "1500", "1000"]);
    let job = Background::start(&mut command);
    wait::until("every rank to iterate", LIMIT, || {
        let status = cluster.run(&["ps", "1", "--json"]);
        let document: serde_json::Value = serde_json::from_str(&status.stdout).ok()?;
        let ranks = document["ranks"].as_array()?;
        (ranks.len() == 2 && ranks.iter().all(|rank| rank["iteration"].as_u64() > Some(0))).then_some(())
    });
    let change = cluster.run(&["migrate", "1", "--rank", "1", "--to", "n1", "--mode", mode]);
    let outcome = job.end(LIMIT);
    cluster.down();
    (change, outcome)
}

/// As [`moved`], of a job that must go on to its end after a change that was made.
fn moved_well(what: &str) -> String {
    let (change, outcome) = moved(what);
    assert!(change.status.success(), "{change:?}\n{outcome:?}");
    assert!(
        outcome.status.success() && outcome.stdout.contains(": done"),
        "{outcome:?}"
    );
    outcome.stdout
}

#[test]
fn a_change_that_comes_in_the_last_iteration_is_refused_and_says_why() {
    let cluster = Cluster::up(2);
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--nodes", "n0", "--"]);
    command.arg(built("pcm-changing")).args(["ends", "2", "4000000"]);
    let job = Background::start(&mut command);
    wait::until("the last iteration", LIMIT, || {
        let status = cluster.run(&["ps", "1", "--json"]);
        let document: serde_json::Value = serde_json::from_str(&status.stdout).ok()?;
        let ranks = document["ranks"].as_array()?;
        (ranks.len() == 2 && ranks.iter().all(|rank| rank["iteration"] == 2)).then_some(())
    });
    let change = cluster.run(&["migrate", "1", "--rank", "1", "--to", "n1"]);
    assert!(
        !change.status.success() && change.stderr.contains("the job ends with the iteration it is in"),
        "{change:?}"
    );
    assert_ends(job, "ends: done");
    cluster.down();
}

#[test]
fn a_program_that_runs_on_even_numbers_of_ranks_is_started_and_changed_to_such_alone() {
    let cluster = Cluster::up(2);
    let kept = cluster.files().join("kept");
    let place = kept.to_str().expect("a path in UTF-8");
    let program = |ranks: &str| {
        let options = [
            "run",
            "-n",
            ranks,
            "--checkpoint-every",
            "0.5",
            "--checkpoint-dir",
            place,
            "--",
        ];
        let mut command = cluster.pcmctl(&options);
        command.arg(built("pcm-changing")).args(["even", "3000", "1000"]);
        command
    };
    let odd = Background::start(&mut program("3")).end(LIMIT);
    assert!(!odd.status.success(), "{odd:?}");
    assert!(
        odd.stdout.contains("cannot run on 3 ranks: start it on 2 or 4"),
        "{odd:?}"
    );
    let job = Background::start(&mut program("2"));
    cluster.wait_until_ranks_of_iterate("2");
    let refused = cluster.run(&["expand", "2", "--to", "3"]);
    assert!(!refused.status.success(), "{refused:?}");
    assert!(
        refused.stderr.contains("cannot run on 3 ranks, but on 2 or 4"),
        "{refused:?}"
    );
    let grown = cluster.run(&["expand", "2", "--to", "4", "--mode", "live"]);
    assert!(grown.status.success(), "{grown:?}");
    assert_ends(job, "even: done");
    let restarted = cluster.run(&["restart", "--newest", place, "-n", "3"]);
    assert!(
        restarted.status.code() == Some(2) && restarted.stderr.contains("cannot run on 3 ranks, but on 2 or 4"),
        "{restarted:?}"
    );
    assert_eq!(cluster.events(None, "job_accepted").len(), 2, "nothing was started");
    cluster.down();
}

#[test]
fn a_stale_communicator_is_an_mpi_error_that_names_it() {
    let said = moved_well("stale");
    let line = said
        .lines()
        .find(|line| line.contains("stale communicator"))
        .expect("the survivor tried");
    assert!(
        line.contains("mpi code not 0") && line.contains("\"neighbours\""),
        "{said}"
    );
    assert!(line.contains("pcm_on_change"), "it says what to do: {line}");
}

#[test]
fn communicators_made_anew_in_the_change_hook_work() {
    let said = moved_well("derived");
    assert_eq!(
        said.matches("changed at").count(),
        2,
        "both ranks of the new layout: {said}"
    );
    let at: Vec<&str> = said
        .lines()
        .filter_map(|line| line.split("changed at ").nth(1)?.split(',').next())
        .collect();
    assert_eq!(at[0], at[1], "at the same iteration: {said}");
    assert_eq!(
        said.matches("leaves").count(),
        1,
        "the exit hook of the rank that left: {said}"
    );
}

#[test]
fn a_process_that_joins_knows_its_place_and_cannot_communicate_before_the_start() {
    let said = moved_well("prelude");
    assert!(said.contains("joins as rank 1 of 2"), "{said}");
    let line = said
        .lines()
        .find(|line| line.contains("before pcm_start"))
        .expect("it tried");
    assert!(
        line.contains("mpi code not 0") && line.contains("pcm_joining"),
        "{said}"
    );
}

#[test]
fn a_change_hook_that_fails_is_an_error_of_iterate_and_the_layout_counts() {
    let said = moved_well("hook");
    let lines = said.lines().filter(|line| line.contains("iterate, code 40"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(
        lines
            .iter()
            .all(|line| line.contains("change hook failed: it returned 7")),
        "{said}"
    );
}

#[test]
fn a_program_gets_the_ranks_it_asks_for() {
    let cluster = Cluster::up(2);
    let mut command = cluster.pcmctl(&["run", "-n", "1", "--"]);
    command.arg(built("pcm-changing")).args(["request", "3000", "1000"]);
    let outcome = Background::start(&mut command).end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    let changed: Vec<&str> = outcome
        .stdout
        .lines()
        .filter(|line| line.contains("changed at"))
        .collect();
    assert_eq!(changed.len(), 4, "each rank of the new layout: {outcome:?}");
    cluster.down();
}

#[test]
fn a_process_that_registers_something_else_is_not_let_in_and_costs_no_rank() {
    // No way leads around the fault, and by none does an old rank end before a new one has its data.
    for (what, mode, region) in [
        ("differ", "live", "data"),
        ("differ", "auto", "data"),
        ("unknown", "auto", "data"),
        ("differ", "relaunch", "data"),
        ("unknown", "relaunch", "data"),
    ] {
        let (change, outcome) = moved_by(what, mode);
        let is_named = change.stderr.contains(&format!("\"{region}\"")) && !change.status.success();
        assert!(is_named, "{what}: {change:?}");
        let goes_on = outcome.status.success() && outcome.stdout.contains(": done");
        assert!(goes_on && !outcome.stdout.contains("changed at"), "{what}: {outcome:?}");
    }
}

#[test]
fn a_process_that_joins_knows_a_value_before_it_registers_what_depends_on_it() {
    for mode in ["live", "relaunch"] {
        let (change, outcome) = moved_by("extent", mode);
        assert!(change.status.success(), "{mode}: {change:?}");
        assert!(outcome.stdout.contains("changed at"), "{mode}: {outcome:?}");
        assert!(
            outcome.status.success() && outcome.stdout.contains(": done"),
            "{mode}: {outcome:?}"
        );
    }
}

/// The program on two ranks of n0, when they iterate.
fn begun(cluster: &Cluster, arguments: &[&str]) -> Background {
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--nodes", "n0", "--"]);
    let job = Background::start(command.arg(built("pcm-changing")).args(arguments));
    cluster.wait_until_ranks_of_iterate("1");
    job
}

/// The job ends well, and has printed this.
fn assert_ends(job: Background, said: &str) {
    let outcome = job.end(LIMIT);
    assert!(outcome.status.success() && outcome.stdout.contains(said), "{outcome:?}");
}

#[test]
fn a_newcomer_that_exits_is_told_with_its_code_and_what_it_printed_last() {
    let cluster = Cluster::up(2);
    let job = begun(&cluster, &["exits", "1500", "1000"]);
    let change = cluster.run(&["expand", "1", "--to", "3"]);
    let told = "it ended with code 3 before it joined; it printed last: \"exits: joins as rank 2 of 3\"";
    assert!(!change.status.success() && change.stderr.contains(told), "{change:?}");
    assert_ends(job, "exits: done");
    cluster.down();
}

#[test]
fn a_change_that_the_end_of_the_job_cuts_short_says_so() {
    let cluster = Cluster::up(2);
    // It ends long before the newcomer is waited for too long.
    let job = begun(&cluster, &["slow", "600", "2000"]);
    let change = cluster.run(&["expand", "1", "--to", "3"]);
    let told = "has left its loop: the job is ending";
    assert!(!change.status.success() && change.stderr.contains(told), "{change:?}");
    assert_ends(job, "slow: done");
    cluster.wait_until_no_rank_of("pcm-changing", LIMIT);
    cluster.down();
}

#[test]
fn a_change_that_a_kill_cuts_short_says_so() {
    let cluster = Cluster::up(2);
    let mut job = begun(&cluster, &["slow", "1000000", "1000"]);
    let change = Background::start(&mut cluster.pcmctl(&["expand", "1", "--to", "3"]));
    job.wait_for("slow: joins as rank 2 of 3", LIMIT);
    assert!(cluster.run(&["kill", "1"]).status.success());
    let change = change.end(LIMIT);
    let told = "job 1 ended before the reconfiguration was done";
    assert!(!change.status.success() && change.stderr.contains(told), "{change:?}");
    assert!(!job.end(LIMIT).status.success());
    cluster.wait_until_no_rank_of("pcm-changing", LIMIT);
    cluster.down();
}

#[test]
fn a_change_that_a_lost_rank_cuts_short_is_answered_while_the_job_starts_again() {
    let cluster = Cluster::up(2);
    let options = ["run", "-n", "2", "--nodes", "n0", "--checkpoint-every", "0.5", "--"];
    let mut command = cluster.pcmctl(&options);
    let mut job = Background::start(command.arg(built("pcm-changing")).args(["slow", "4000", "1000"]));
    cluster.wait_until_ranks_of_iterate("1");
    wait::until("a checkpoint", LIMIT, || {
        let is_there = !cluster.events(Some("1"), "checkpoint_complete").is_empty();
        is_there.then_some(())
    });
    let change = Background::start(&mut cluster.pcmctl(&["expand", "1", "--to", "3"]));
    job.wait_for("slow: joins as rank 2 of 3", LIMIT);
    assert!(
        cluster
            .pids_of("1")
            .first()
            .is_some_and(|pid| processes::send(*pid, Signal::KILL))
    );
    let change = change.end(LIMIT);
    let told = "job 1 starts again from its newest checkpoint";
    assert!(!change.status.success() && change.stderr.contains(told), "{change:?}");
    job.wait_for("slow: joins as rank 1 of 2", LIMIT);
    assert!(cluster.run(&["kill", "1"]).status.success());
    assert!(!job.end(LIMIT).status.success());
    cluster.wait_until_no_rank_of("pcm-changing", LIMIT);
    cluster.down();
}

#[test]
fn a_pack_hook_that_fails_ends_the_change_by_no_way_the_job() {
    for mode in ["live", "auto", "relaunch"] {
        let cluster = Cluster::up(2);
        let job = begun(&cluster, &["packs", "1500", "1000"]);
        let change = cluster.run(&["expand", "1", "--to", "3", "--mode", mode]);
        let told = ["\"shared\"", "pack hook", "failed: it returned 9"];
        let is_told = told.iter().all(|text| change.stderr.contains(text));
        assert!(!change.status.success() && is_told, "{mode}: {change:?}");
        let outcome = job.end(LIMIT);
        let goes_on = outcome.status.success() && outcome.stdout.contains("packs: done");
        assert!(goes_on && !outcome.stdout.contains("changed at"), "{mode}: {outcome:?}");
        cluster.down();
    }
}

#[test]
fn a_program_that_asks_for_impossible_numbers_of_ranks_gets_none_and_goes_on() {
    let cluster = Cluster::up(2);
    let job = begun(&cluster, &["impossible", "1500", "1000"]);
    // What no job can have is an error of the call; what this one cannot have is refused where its changes are led.
    for told in [
        "the program cannot run on 3 ranks, but on 2 or 4",
        "5000 ranks are asked for",
    ] {
        let refused = || cluster.events(None, "request_refused");
        let says = |event: &serde_json::Value| event["reason"].as_str().is_some_and(|reason| reason.contains(told));
        wait::until(told, LIMIT, || refused().iter().any(says).then_some(()));
    }
    let explained = cluster.run(&["explain", "1"]).stdout;
    assert!(
        explained.contains("The program requested another number of ranks and was refused"),
        "{explained}"
    );
    let outcome = job.end(LIMIT);
    let errors = outcome
        .stdout
        .matches("request, code 30: a job cannot have 0 ranks; ask for 1 or more");
    assert_eq!(errors.count(), 2, "{outcome:?}");
    let goes_on = outcome.status.success() && outcome.stdout.contains("impossible: done");
    assert!(goes_on && !outcome.stdout.contains("changed at"), "{outcome:?}");
    cluster.down();
}

#[test]
fn a_checkpoint_is_not_restored_where_a_rank_of_it_would_have_to_be_divided() {
    let cluster = Cluster::up(2);
    let kept = cluster.files().join("kept");
    let place = kept.to_str().expect("a path in UTF-8");
    let options = [
        "run",
        "-n",
        "2",
        "--checkpoint-every",
        "0.5",
        "--checkpoint-dir",
        place,
        "--",
    ];
    let mut command = cluster.pcmctl(&options);
    command.arg(built("pcm-changing")).args(["shares", "1500", "1000"]);
    let outcome = Background::start(&mut command).end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    let refused = cluster.run(&["restart", "--newest", place, "-n", "3"]);
    let told = "\"shared\" of rank 0 of 2 would go to several of 3 ranks";
    assert!(
        !refused.status.success() && refused.stdout.contains(told),
        "{refused:?}"
    );
    let restarted = cluster.run(&["restart", "--newest", place, "-n", "2"]);
    assert!(
        restarted.status.success() && restarted.stdout.contains("shares: done"),
        "{restarted:?}"
    );
    cluster.down();
}
