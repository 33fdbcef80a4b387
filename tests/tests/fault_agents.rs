//! Agents that die, stop, or are mad: no job notices, and the daemon starts another, with growing pauses.

use rustix::process::Signal;
use std::{
    fs,
    os::unix::fs::symlink,
    time::{Duration, Instant},
};
use tests::{
    adapting::{Adapting, DECIDED},
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    limited, processes, wait,
};

/// A daemon gives a silent agent 15 s.
const REPLACED: Duration = Duration::from_secs(90);

fn agents(cluster: &Cluster) -> Vec<u32> {
    cluster.ranks_of("ios-agent")
}

fn the_agent(cluster: &Cluster) -> u32 {
    wait::until("an agent", LIMIT, || agents(cluster).first().copied())
}

#[test]
fn an_agent_that_is_killed_is_started_again_with_growing_pauses_and_the_job_goes_on() {
    let cluster = Cluster::up(1);
    let job = Adapting::start(&cluster, &["-n", "1", "--policy", "cost"]);
    let mut pauses = Vec::new();
    for _ in 0..4 {
        let before = the_agent(&cluster);
        assert!(processes::send(before, Signal::KILL));
        let killed = Instant::now();
        wait::until("another agent", LIMIT, || {
            agents(&cluster).iter().any(|pid| *pid != before).then_some(())
        });
        pauses.push(killed.elapsed());
        job.goes_on();
    }
    assert!(
        pauses[3] > pauses[0] && pauses[3] >= Duration::from_millis(1500),
        "{pauses:?}"
    );
    assert!(job.events("agent_restarted").len() >= 4);
    job.end();
    cluster.down();
}

#[test]
fn an_agent_that_is_stopped_is_replaced_and_the_job_goes_on() {
    let cluster = Cluster::up(1);
    let job = Adapting::start(&cluster, &["-n", "1", "--policy", "cost"]);
    let stopped = the_agent(&cluster);
    assert!(processes::send(stopped, Signal::STOP));
    job.goes_on();
    wait::until("another agent", REPLACED, || {
        let now = agents(&cluster);
        (!now.is_empty() && !now.contains(&stopped)).then_some(())
    });
    let reasons = job.events("agent_restarted");
    assert!(
        reasons.iter().any(|event| event["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("said nothing"))),
        "{reasons:?}"
    );
    job.goes_on();
    job.end();
    cluster.down();
}

/// What was built, but for the agent; the daemon looks for it beside itself.
fn up_with_mad_agents(madness: &str) -> (Cluster, std::path::PathBuf) {
    let mut cluster = Cluster::place();
    let folder = cluster.files().join("mad");
    fs::create_dir(&folder).expect("a folder of the test");
    for (name, of) in [
        ("pcmctl", "pcmctl"),
        ("pcm-daemon", "pcm-daemon"),
        ("ios-agent", "mad_agent"),
    ] {
        // A link would lead `current_exe` back to the folder of the build.
        fs::copy(built(of), folder.join(name)).expect("programs can be copied");
    }
    symlink(built("libpcm.so"), folder.join("libpcm.so")).expect("a link in a folder of the test");
    let mut command = cluster.command(folder.join("pcmctl"));
    command.args(["up", "--local", "2"]).env("PCM_TEST_MADNESS", madness);
    let outcome = limited::run(&mut command, LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    cluster.note_id();
    (cluster, folder)
}

/// A job goes on beside such agents and ends right; what `events` says of them.
fn job_beside(madness: &str) -> String {
    let (cluster, folder) = up_with_mad_agents(madness);
    let mut command = cluster.command(folder.join("pcmctl"));
    command.args(["run", "-n", "2", "--min", "1", "--max", "4", "--policy", "cost", "--"]);
    command.arg(built("heat2d-c")).args([
        "--rows",
        "61",
        "--cols",
        "83",
        "--iterations",
        "2000",
        "--sleep-us",
        "1000",
    ]);
    let job = Background::start(&mut command);
    let outcome = job.end(LIMIT * 2);
    assert!(outcome.status.success(), "{madness}: {outcome:?}");
    let closing = tests::heat2d::Closing::read(&outcome.stdout);
    assert_eq!(
        closing.checksum,
        tests::heat2d::reference_checksum(61, 83, 2000),
        "{outcome:?}"
    );
    let told = wait::within(DECIDED, || {
        let told = cluster.run(&["events", "--json"]).stdout;
        (madness == "lies" || told.contains("agent_restarted")).then_some(told)
    });
    // The daemons live, and so does everything a person does with them.
    let outcome = cluster.run(&["ping"]);
    assert!(outcome.status.success(), "{outcome:?}");
    cluster.down();
    told.unwrap_or_else(|| panic!("{madness}: no agent was started again"))
}

#[test]
fn an_agent_whose_policy_panics_dies_alone_and_comes_back() {
    let told = job_beside("panic");
    assert!(told.contains("exit status: 101"), "{told}");
}

#[test]
fn an_agent_that_says_what_is_no_message_is_replaced() {
    let told = job_beside("garbage");
    assert!(told.contains("not understood"), "{told}");
}

#[test]
fn an_agent_that_lies_without_end_changes_nothing() {
    let told = job_beside("lies");
    assert!(!told.contains("\"reconfigured\""), "{told}");
}
