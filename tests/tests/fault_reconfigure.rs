//! kill -9 of a newcomer, a leaver, a daemon, an agent in each phase of a migration of real ranks: the job goes on in the
//! old or the new layout with the right result, or, where data was lost with the victim, ends and says why. Nothing
//! hangs, nothing is left.

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

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// The process that is to take rank 1 over.
    Newcomer,
    /// The process that has rank 1.
    Leaver,
    /// The daemon that coordinates the job.
    Coordinator,
    /// The daemon of the newcomer.
    Daemon,
    /// The coordinator's agent.
    Agent,
}

/// What may become of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It goes on to the right result.
    GoesOn,
    /// That, or it ends and says why: the victim may have held data that nobody else had.
    MayEnd,
}

/// Waits until the coordinator is in the phase; meanwhile finds the newcomer, as it appears.
fn phase_and_newcomer(cluster: &Cluster, phase: &str, wants_newcomer: bool) -> Option<u32> {
    let log = cluster.dir().join("nodes/n0/daemon.log");
    let line = format!("phase=\"{phase}\"");
    let mut newcomer = None;
    let seen = wait::within(LIMIT, || {
        if wants_newcomer && newcomer.is_none() {
            newcomer = cluster.processes_with("PCM_ROLE", "newcomer").pop();
        }
        let is_there = fs::read_to_string(&log).unwrap_or_default().contains(&line);
        (is_there && (newcomer.is_some() || !wants_newcomer)).then_some(())
    });
    assert!(seen.is_some(), "no phase {phase}: {}", cluster.logs());
    newcomer
}

fn agent_of(cluster: &Cluster, node: &str) -> Option<u32> {
    let daemon = cluster.daemon_pid(node);
    let children = fs::read_to_string(format!("/proc/{daemon}/task/{daemon}/children")).unwrap_or_default();
    let mut children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    children.find(|pid| processes::command_line(*pid).contains("ios-agent"))
}

fn killed(phase: &str, victim: Victim, fate: Fate) {
    let cluster = Cluster::up(4);
    let job = Malleable::start(&cluster, "heat2d-c", 3, 3000, 500);
    let leaver = job.ranks()[1].pid;
    let known = match victim {
        Victim::Coordinator => Some(cluster.daemon_pid("n0")),
        Victim::Daemon => Some(cluster.daemon_pid("n3")),
        Victim::Agent => agent_of(&cluster, "n0"),
        Victim::Leaver => Some(leaver),
        Victim::Newcomer => None,
    };
    let asked = Background::start(&mut cluster.pcmctl(&["migrate", "1", "--rank", "1", "--to", "n3"]));
    let newcomer = phase_and_newcomer(&cluster, phase, victim == Victim::Newcomer);
    let pid = known.or(newcomer).expect("a victim");
    processes::send(pid, Signal::KILL);
    let begun = Instant::now();
    let answer = asked.end(LIMIT);
    println!(
        "{phase}, {victim:?}: pcmctl {:?} after {:?}: {}",
        answer.status.code(),
        begun.elapsed(),
        answer.stderr.trim()
    );
    let ended = job.ends();
    println!("{phase}, {victim:?}: {ended:?} after {:?}", begun.elapsed());
    assert!(
        fate == Fate::MayEnd || matches!(ended, Ended::Right(_)),
        "{ended:?}\n{}",
        cluster.logs()
    );
    assert!(begun.elapsed() < Duration::from_secs(150));
    cluster.wait_until_no_rank_of("heat2d-c", LIMIT);
    cluster.down();
}

macro_rules! each_kill_ends_in_a_known_state {
    ($($name:ident: $phase:literal, $victim:ident, $fate:ident;)*) => {$(
        #[test]
        fn $name() {
            killed($phase, Victim::$victim, Fate::$fate);
        }
    )*};
}

each_kill_ends_in_a_known_state! {
    a_newcomer_killed_while_preparing: "preparing", Newcomer, GoesOn;
    a_newcomer_killed_while_converging: "converging", Newcomer, GoesOn;
    a_newcomer_killed_while_meeting: "meeting", Newcomer, GoesOn;
    a_newcomer_killed_while_moving: "moving", Newcomer, MayEnd;
    a_newcomer_killed_while_closing: "closing", Newcomer, MayEnd;
    a_leaver_killed_while_preparing: "preparing", Leaver, MayEnd;
    a_leaver_killed_while_converging: "converging", Leaver, MayEnd;
    a_leaver_killed_while_meeting: "meeting", Leaver, MayEnd;
    a_leaver_killed_while_moving: "moving", Leaver, MayEnd;
    a_leaver_killed_while_closing: "closing", Leaver, GoesOn;
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
}
