//! kill -9 of a newcomer, a leaver, a survivor, a daemon, an agent or `pcmctl` in each phase of a migration of real ranks:
//! the job goes on, in the old layout or in the next, to the right result; or, where data was lost with the victim, it
//! ends and says why. Nothing hangs, nothing is left, and the cluster runs the next job.
//!
//! A phase is over in milliseconds, so the ranks are told to dwell in it (`PCM_HOLD`, read by libpcm and by nothing
//! else): they do what they would do, only later. Whether the victim died in the phase is looked up afterwards in the
//! coordinator's log; a test that came too late fails.

use rustix::process::Signal;
use std::{
    fs,
    time::{Duration, Instant},
};
use tests::{
    background::Background,
    cluster::{Cluster, LIMIT},
    malleable::{Ended, Malleable},
    processes, wait,
};

/// How long the ranks dwell in the phase: enough to find the victim on a machine that does much else.
const DWELL_MS: u32 = 1500;

/// From the kill to the end of the job.
const ENDED_MAX: Duration = Duration::from_secs(90);

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// The process that is to take rank 1 over, on n3.
    Newcomer,
    /// The process that has rank 1.
    Leaver,
    /// The process that has rank 2.
    Survivor,
    /// The daemon that coordinates the job, n0.
    Coordinator,
    /// The daemon of the newcomer, n3.
    Daemon,
    /// The coordinator's agent.
    Agent,
    /// The `pcmctl migrate` that asked.
    Asker,
}

/// What has to become of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It goes on to the right result, in either layout.
    GoesOn,
    /// It ends and says why: data that nobody else had died with the victim.
    Lost,
}

/// The phases that the coordinator has begun.
fn phases(cluster: &Cluster) -> Vec<String> {
    let log = fs::read_to_string(cluster.dir().join("nodes/n0/daemon.log")).unwrap_or_default();
    let phase = |line: &str| Some(line.split_once("phase=\"")?.1.split_once('"')?.0.to_owned());
    log.lines()
        .filter(|line| !line.contains("aborted"))
        .filter_map(phase)
        .collect()
}

/// Waits until the phase is the present one and the newcomer is there; returns the newcomer.
fn phase_begins(cluster: &Cluster, wanted: &str) -> u32 {
    wait::within(LIMIT, || {
        let newcomer = cluster.processes_with("PCM_ROLE", "newcomer").pop()?;
        (phases(cluster).last()? == wanted).then_some(newcomer)
    })
    .unwrap_or_else(|| panic!("{wanted} is not seen, but {:?}\n{}", phases(cluster), cluster.logs()))
}

fn agent_of(daemon: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{daemon}/task/{daemon}/children")).unwrap_or_default();
    let mut children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    let agent = children.find(|pid| processes::command_line(*pid).contains("ios-agent"));
    agent.expect("a daemon has an agent")
}

fn kill(phase: &str, victim: Victim, fate: Fate) {
    let cluster = Cluster::up(4);
    let hold = format!("{phase}:{DWELL_MS}");
    let variables = [("PCM_HOLD", hold.as_str())];
    let job = Malleable::start_with(&cluster, "heat2d-c", 3, (1500, 500), &variables);
    let (ranks, coordinator, daemon) = (job.ranks(), cluster.daemon_pid("n0"), cluster.daemon_pid("n3"));
    let agent = agent_of(coordinator);
    let asked = Background::start(&mut cluster.pcmctl(&["migrate", "1", "--rank", "1", "--to", "n3"]));
    let newcomer = phase_begins(&cluster, phase);
    let pid = match victim {
        Victim::Newcomer => newcomer,
        Victim::Leaver => ranks[1].pid,
        Victim::Survivor => ranks[2].pid,
        Victim::Coordinator => coordinator,
        Victim::Daemon => daemon,
        Victim::Agent => agent,
        Victim::Asker => asked.pid(),
    };
    assert!(processes::send(pid, Signal::KILL), "{victim:?} was gone before");
    let begun = Instant::now();
    let reached = phases(&cluster);
    assert_eq!(reached.last().map(String::as_str), Some(phase), "too late: {reached:?}");
    let answer = asked.end(LIMIT);
    println!(
        "{phase}, {victim:?}: {:?} {}",
        answer.status.code(),
        answer.stderr.trim()
    );
    let ended = job.ends();
    println!("{phase}, {victim:?}: {ended:?} {:?} after the kill", begun.elapsed());
    let is_right = matches!(ended, Ended::Right(_));
    assert_eq!(is_right, fate == Fate::GoesOn, "{ended:?}\n{}", cluster.logs());
    assert!(begun.elapsed() < ENDED_MAX, "{:?}", begun.elapsed());
    cluster.wait_until_no_rank_of("heat2d-c", LIMIT);
    let next = cluster.trial(4, &["ring", "0"]);
    assert!(next.status.success(), "the next job: {next:?}\n{}", cluster.logs());
    cluster.down();
}

macro_rules! each_kill_ends_in_a_known_state {
    ($($name:ident: $phase:literal, $victim:ident, $fate:ident;)*) => {$(
        #[test]
        fn $name() {
            kill($phase, Victim::$victim, Fate::$fate);
        }
    )*};
}

each_kill_ends_in_a_known_state! {
    a_newcomer_killed_while_preparing: "preparing", Newcomer, GoesOn;
    a_newcomer_killed_while_converging: "converging", Newcomer, GoesOn;
    a_newcomer_killed_while_meeting: "meeting", Newcomer, GoesOn;
    a_newcomer_killed_while_moving: "moving", Newcomer, GoesOn;
    a_newcomer_killed_while_closing: "closing", Newcomer, Lost;
    a_leaver_killed_while_preparing: "preparing", Leaver, Lost;
    a_leaver_killed_while_converging: "converging", Leaver, Lost;
    a_leaver_killed_while_meeting: "meeting", Leaver, Lost;
    a_leaver_killed_while_moving: "moving", Leaver, Lost;
    a_leaver_killed_while_closing: "closing", Leaver, GoesOn;
    a_survivor_killed_while_preparing: "preparing", Survivor, Lost;
    a_survivor_killed_while_converging: "converging", Survivor, Lost;
    a_survivor_killed_while_meeting: "meeting", Survivor, Lost;
    a_survivor_killed_while_moving: "moving", Survivor, Lost;
    a_survivor_killed_while_closing: "closing", Survivor, Lost;
    the_coordinator_killed_while_preparing: "preparing", Coordinator, GoesOn;
    the_coordinator_killed_while_converging: "converging", Coordinator, GoesOn;
    the_coordinator_killed_while_meeting: "meeting", Coordinator, GoesOn;
    the_coordinator_killed_while_moving: "moving", Coordinator, GoesOn;
    the_coordinator_killed_while_closing: "closing", Coordinator, GoesOn;
    a_daemon_killed_while_preparing: "preparing", Daemon, GoesOn;
    a_daemon_killed_while_converging: "converging", Daemon, GoesOn;
    a_daemon_killed_while_meeting: "meeting", Daemon, GoesOn;
    a_daemon_killed_while_moving: "moving", Daemon, GoesOn;
    a_daemon_killed_while_closing: "closing", Daemon, GoesOn;
    an_agent_killed_while_preparing: "preparing", Agent, GoesOn;
    an_agent_killed_while_converging: "converging", Agent, GoesOn;
    an_agent_killed_while_meeting: "meeting", Agent, GoesOn;
    an_agent_killed_while_moving: "moving", Agent, GoesOn;
    an_agent_killed_while_closing: "closing", Agent, GoesOn;
    the_asker_killed_while_preparing: "preparing", Asker, GoesOn;
    the_asker_killed_while_converging: "converging", Asker, GoesOn;
    the_asker_killed_while_meeting: "meeting", Asker, GoesOn;
    the_asker_killed_while_moving: "moving", Asker, GoesOn;
    the_asker_killed_while_closing: "closing", Asker, GoesOn;
}
