//! `pcmctl run`: the same results as under mpiexec, and everything that goes in and out of a job.

use rustix::process::Signal;
use std::{collections::BTreeMap, time::Duration};
use tests::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    heat2d::{Closing, reference_checksum},
    limited::{self, Outcome},
    wait,
};

fn heat2d(cluster: &Cluster, program: &str, ranks: u32, options: &[&str]) -> Closing {
    let mut command = cluster.pcmctl(&["run", "-n", &ranks.to_string()]);
    command.args(options).arg("--").arg(built(program));
    command.args(["--rows", "61", "--cols", "83", "--iterations", "200"]);
    let outcome = limited::run(&mut command, LIMIT);
    assert!(
        outcome.status.success(),
        "{program} on {ranks} {options:?}: {outcome:?}"
    );
    let closing = Closing::read(&outcome.stdout);
    assert_eq!(closing.ranks, ranks, "{program}");
    closing
}

#[test]
fn heat2d_gives_the_reference_bits_linked_preloaded_and_plain_on_any_number_of_ranks() {
    let cluster = Cluster::up(4);
    let expected = reference_checksum(61, 83, 200);
    for ranks in [1, 2, 3, 4, 7] {
        for (program, options) in [
            ("heat2d-c", &[][..]),
            ("heat2d", &[][..]),
            ("heat2d-c-plain", &[][..]),
            ("heat2d-c-plain", &["--no-preload"][..]),
        ] {
            let closing = heat2d(&cluster, program, ranks, options);
            assert_eq!(closing.checksum, expected, "{program} on {ranks} {options:?}");
        }
    }
    cluster.down();
}

#[test]
fn standard_input_reaches_rank_0_whole_and_the_others_have_none() {
    let cluster = Cluster::up(2);
    let input: Vec<u8> = (0..3_000_000u32).map(|i| b'a' + (i / 7 % 23) as u8).collect();
    let program = built("pcm-trial");
    let program = program.to_str().expect("a UTF-8 path");
    let outcome = cluster.run_with_input(&["run", "-n", "3", "--", program, "input"], &input);
    assert!(outcome.status.success(), "{:?} {}", outcome.status, outcome.stderr);
    assert!(
        outcome.stdout.as_bytes() == input,
        "{} of {} bytes came back",
        outcome.stdout.len(),
        input.len()
    );
    for (rank, bytes) in [(0, input.len()), (1, 0), (2, 0)] {
        assert!(
            outcome.stderr.contains(&format!("rank {rank} read {bytes} bytes")),
            "{}",
            outcome.stderr
        );
    }
    cluster.down();
}

#[test]
fn a_program_that_does_not_read_its_input_still_ends() {
    let cluster = Cluster::up(1);
    let outcome = cluster.run_with_input(&["run", "--", "true"], &[b'x'; 3_000_000]);
    assert!(outcome.status.success(), "{outcome:?}");
    cluster.down();
}

/// Every line of `pcm-trial lines`, by rank.
fn assert_whole_lines(stdout: &str, ranks: u32, count: u32, prefix: impl Fn(u32) -> String) {
    let mut next: BTreeMap<u32, u32> = BTreeMap::new();
    for line in stdout.lines() {
        let rank = line
            .split(" of rank ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
        let rank = rank.unwrap_or_else(|| panic!("a mixed line: {line:?}"));
        let number = next.entry(rank).or_default();
        let fill = ((*number * 37 + rank * 11) % 300) as usize;
        let letter = char::from(b'a' + (rank % 26) as u8).to_string();
        let wanted = format!("{}line {number} of rank {rank} {}", prefix(rank), letter.repeat(fill));
        assert_eq!(line, wanted, "a mixed, lost or doubled line");
        *number += 1;
    }
    assert_eq!(next, (0..ranks).map(|rank| (rank, count)).collect());
}

#[test]
fn lines_of_different_ranks_are_never_mixed_lost_or_doubled() {
    let cluster = Cluster::up(2);
    let outcome = cluster.trial(4, &["lines", "1000"]);
    assert!(outcome.status.success(), "{:?} {}", outcome.status, outcome.stderr);
    assert_whole_lines(&outcome.stdout, 4, 1000, |_| String::new());
    assert_eq!(outcome.stderr.matches("note\n").count(), 400);
    let mut labelled = cluster.trial_command(3, &["--label"], &["lines", "50"]);
    let outcome = limited::run(&mut labelled, LIMIT);
    assert_whole_lines(&outcome.stdout, 3, 50, |rank| format!("[{rank}] "));
    cluster.down();
}

#[test]
fn a_reader_that_pauses_slows_the_job_and_loses_nothing() {
    let cluster = Cluster::up(1);
    let program = built("pcm-trial");
    let script = format!(
        "'{}' run -n 2 -- '{}' lines 20000 | (sleep 7; cat)",
        built("pcmctl").display(),
        program.display()
    );
    let outcome = limited::run(cluster.command("sh").args(["-c", &script]), LIMIT);
    assert!(outcome.status.success(), "{:?} {}", outcome.status, outcome.stderr);
    assert_whole_lines(&outcome.stdout, 2, 20000, |_| String::new());
    cluster.down();
}

#[test]
fn a_reader_that_goes_away_ends_the_job() {
    let cluster = Cluster::up(1);
    let script = format!(
        "'{}' run -n 2 -- '{}' ring 50 | head -n 1; exit ${{PIPESTATUS[0]}}",
        built("pcmctl").display(),
        built("pcm-trial").display()
    );
    let outcome = limited::run(cluster.command("bash").args(["-c", &script]), LIMIT);
    assert_eq!(
        (outcome.status.code(), outcome.stdout.as_str()),
        (Some(141), "round 0\n"),
        "{outcome:?}"
    );
    cluster.wait_until_no_rank_of("pcm-trial", LIMIT);
    cluster.down();
}

fn code(outcome: &Outcome) -> i32 {
    outcome
        .status
        .code()
        .unwrap_or_else(|| panic!("pcmctl was ended by a signal: {outcome:?}"))
}

#[test]
fn the_exit_code_is_the_worst_one_of_the_ranks() {
    let cluster = Cluster::up(2);
    for (arguments, expected) in [
        (&["exit", "0", "0"][..], 0),
        (&["exit", "7", "2"], 7),
        (&["abort", "5", "1"], 5),
        (&["die", "9", "1"], 128 + 9),
        (&["die", "11", "0"], 128 + 11),
    ] {
        let outcome = cluster.trial(3, arguments);
        assert_eq!(code(&outcome), expected, "{arguments:?}: {outcome:?}");
        let explained = outcome.stderr.contains("pcmctl: job ");
        assert_eq!(explained, expected != 0, "{arguments:?}: {outcome:?}");
    }
    assert_eq!(code(&cluster.run(&["run", "--", "sh", "-c", "exit 300"])), 300 % 256);
    cluster.down();
}

#[test]
fn a_rank_that_returns_without_finalizing_ends_the_job() {
    let cluster = Cluster::up(2);
    let outcome = cluster.trial(3, &["leave", "0", "1"]);
    assert_ne!(code(&outcome), 0, "{outcome:?}");
    assert!(outcome.stderr.contains("rank 1"), "{outcome:?}");
    cluster.wait_until_no_rank_of("pcm-trial", LIMIT);
    cluster.down();
}

#[test]
fn signals_reach_every_rank() {
    let cluster = Cluster::up(2);
    let mut job = cluster.trial_beside(3, &["signal", "60"]);
    job.wait_for("ready", LIMIT);
    let jobs = cluster.json(&["jobs"]);
    let number = jobs[0]["job"].to_string();
    assert!(cluster.run(&["signal", &number, "USR1"]).status.success());
    for rank in 0..3 {
        job.wait_for(&format!("rank {rank} got signal 10"), LIMIT);
    }
    job.signal(Signal::USR2);
    for rank in 0..3 {
        job.wait_for(&format!("rank {rank} got signal 12"), LIMIT);
    }
    job.signal(Signal::INT);
    let outcome = job.end(LIMIT);
    assert_eq!(code(&outcome), 42, "{outcome:?}");
    cluster.down();
}

#[test]
fn a_second_interrupt_ends_a_job_that_ignores_the_first() {
    let cluster = Cluster::up(1);
    let script = "trap '' INT TERM; echo ready; while :; do sleep 0.1; done";
    let mut job = Background::start(&mut cluster.pcmctl(&["run", "-n", "2", "--", "sh", "-c", script]));
    job.wait_for("ready", LIMIT);
    job.signal(Signal::INT);
    wait::until("the first interrupt's message", LIMIT, || {
        job.stderr().contains("again to end it").then_some(())
    });
    job.signal(Signal::INT);
    let outcome = job.end(Duration::from_secs(20));
    assert_ne!(code(&outcome), 0, "{outcome:?}");
    cluster.down();
}

#[test]
fn a_detached_job_goes_on_and_keeps_its_output() {
    let cluster = Cluster::up(2);
    let mut command = cluster.trial_command(2, &["--detach", "--json", "--name", "alone"], &["lines", "10"]);
    let outcome = limited::run(&mut command, LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    let ended = wait::until("the end of the job", LIMIT, || {
        let jobs = cluster.json(&["jobs"]);
        let job = jobs.as_array()?.iter().find(|job| job["name"] == "alone")?.clone();
        (job["state"] == "ended").then_some(job)
    });
    assert_eq!(ended["code"], 0, "{ended}");
    let stdout = cluster.dir().join("jobs").join(ended["job"].to_string()).join("stdout");
    let stdout = std::fs::read_to_string(stdout).expect("the output of the job");
    assert_whole_lines(&stdout, 2, 10, |_| String::new());
    let id = cluster.id().to_owned();
    assert!(cluster.run(&["down"]).status.success());
    let kept = cluster.dir().join(format!("jobs-{id}"));
    assert!(kept.is_dir(), "the output of a detached job is its owner's");
    std::fs::remove_dir_all(cluster.dir()).expect("the test's own folder");
    cluster.assert_nothing_left();
}

#[test]
fn down_names_the_jobs_that_end_with_the_cluster() {
    for (names, told) in [
        (vec!["long"], "pcmctl: job 1 (long) ends with the cluster\n"),
        (vec![], ""),
    ] {
        let cluster = Cluster::up(2);
        for name in &names {
            let outcome = cluster.run(&["run", "--detach", "--name", name, "--", "sleep", "600"]);
            assert!(outcome.status.success(), "{outcome:?}");
        }
        let outcome = cluster.run(&["down", "--json"]);
        assert!(outcome.status.success(), "{outcome:?}");
        assert_eq!(outcome.stderr, told);
        let report: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("one document");
        assert_eq!(report["jobs"].as_array().map(Vec::len), Some(names.len()), "{report}");
        if cluster.dir().exists() {
            std::fs::remove_dir_all(cluster.dir()).expect("the test's own folder");
        }
        cluster.assert_nothing_left();
    }
}

#[test]
fn ps_shows_what_a_rank_waits_for_and_kill_ends_the_job() {
    let cluster = Cluster::up(2);
    let job = cluster.trial_beside(3, &["recv", "60000"]);
    let waiting = wait::until("rank 0 in MPI_Recv", LIMIT, || {
        let jobs = cluster.json(&["jobs"]);
        let number = jobs[0]["job"].as_u64()?;
        let ps = cluster.json(&["ps", &number.to_string()]);
        let call = ps["ranks"][0]["call"].as_str()?;
        call.ends_with("Recv").then_some(ps)
    });
    assert_eq!(
        (&waiting["name"], &waiting["state"]),
        (&"pcm-trial".into(), &"running".into()),
        "{waiting}"
    );
    assert_eq!(waiting["size"], 3);
    assert_eq!(
        (&waiting["ranks"][0]["peer"], &waiting["ranks"][0]["tag"]),
        (&2.into(), &77.into()),
        "{waiting}"
    );
    let outcome = cluster.run(&["kill", "pcm-trial"]);
    assert!(outcome.status.success(), "{outcome:?}");
    assert_ne!(code(&job.end(LIMIT)), 0);
    cluster.wait_until_no_rank_of("pcm-trial", LIMIT);
    cluster.down();
}

#[test]
fn an_application_can_spawn_by_itself() {
    let cluster = Cluster::up(2);
    let outcome = cluster.trial(2, &["spawn", "2", "5"]);
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(outcome.stdout.matches("spawn ").count(), 5, "{outcome:?}");
    cluster.down();
}

/// In each cycle the last ranks of both worlds send to each other at once over a connection that is not there yet.
#[test]
fn ranks_whose_first_messages_cross_get_them_in_the_hundredth_world_too() {
    let cluster = Cluster::up(2);
    let mut command = cluster.trial_command(2, &["--wait", "sleep"], &["spawn", "2", "100"]);
    let outcome = limited::run(&mut command, 3 * LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(outcome.stdout.matches("spawn ").count(), 100, "{outcome:?}");
    cluster.down();
}

#[test]
fn a_job_stays_on_the_nodes_it_was_given() {
    let cluster = Cluster::up(3);
    let mut command = cluster.pcmctl(&["run", "-n", "4", "--nodes", "n0,n2", "--", "sh", "-c", "echo $PCM_NODE"]);
    let outcome = limited::run(&mut command, LIMIT);
    let mut nodes: Vec<&str> = outcome.stdout.lines().collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["n0", "n0", "n2", "n2"], "{outcome:?}");
    cluster.down();
}

#[test]
fn a_setting_of_the_command_line_beats_the_environment_which_beats_ours() {
    let cluster = Cluster::up(1);
    let show = [
        "--",
        "sh",
        "-c",
        "echo ${MPIR_CVAR_CH4_NETMOD-unset} ${FI_PROVIDER-unset}",
    ];
    let run = |options: &[&str], netmod: Option<&str>| {
        let mut command = cluster.pcmctl(&[&["run"], options, &show[..]].concat());
        command.env_remove("MPIR_CVAR_CH4_NETMOD").env_remove("FI_PROVIDER");
        netmod.map(|value| command.env("MPIR_CVAR_CH4_NETMOD", value));
        limited::run(&mut command, LIMIT).stdout
    };
    assert_eq!(run(&[], None), "ofi tcp\n");
    assert_eq!(run(&[], Some("ucx")), "ucx unset\n");
    assert_eq!(run(&["--mpi", "MPIR_CVAR_CH4_NETMOD=ofi"], Some("ucx")), "ofi tcp\n");
    assert_eq!(run(&["--mpi", "FI_PROVIDER="], None), "ofi unset\n");
    cluster.down();
}
