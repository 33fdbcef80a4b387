//! kill -9 of a newcomer, a leaver, a survivor, a daemon, an agent or `pcmctl` in each phase of a migration or a
//! relaunch of real ranks: the job goes on, in the old layout or in the next, to the right result; or, where data was
//! lost with the victim, it ends and says why. Nothing hangs, nothing is left, and the cluster runs the next job.
//!
//! A phase is over in milliseconds, so the ranks are told to stay in it (`PCM_HOLD`, read by libpcm and by nothing
//! else): they do what they would do, only later. Whether the victim died in the phase is looked up afterwards in the
//! coordinator's log; a test that came too late fails.

use rustix::process::Signal;
use std::{
    fs,
    time::{Duration, Instant},
};
use tests::{
    asked,
    background::Background,
    cluster::{Cluster, LIMIT},
    crashing::PROGRAM,
    malleable::{Ended, Malleable},
    open_mpi, processes, wait,
};

/// How long the ranks stay in the phase: enough to find the victim on a machine that does much else.
const STAY_MS: u32 = 1500;

/// Iterations and the sleep in each, in microseconds: half as long again as the ranks stay, without counting the work,
/// because while newcomers stay the others iterate.
const RUN: (u64, u32) = (5000, 500);

/// From the kill to the end of the job.
const ENDED_MAX: Duration = Duration::from_secs(90);

/// Who is killed. Rank 1 migrates from n1 to n3; the job is coordinated by n0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// The process that takes rank 1 over; in a relaunch, one of the new set.
    Newcomer,
    /// The process that has rank 1.
    Leaver,
    /// The process that has rank 2.
    Survivor,
    /// The daemon of n0.
    Coordinator,
    /// The daemon of n3.
    NewHost,
    /// The daemon of n1.
    OldHost,
    /// The agent of n0.
    Agent,
    /// The `pcmctl migrate` that asked.
    Asker,
}

/// What has to become of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It goes on in the old layout to the right result.
    Stays,
    /// It goes on in the next layout to the right result.
    Changes,
    /// It ends and says why: data that nobody else had died with the victim.
    Lost,
    /// It goes on to the right result: in the old layout, or in the next because the ranks stood already or because one
    /// did not come back from MPI and all were relaunched.
    GoesOn,
}

/// The phases that the coordinator has begun; what it did after it was killed does not count.
/// To be read before a kill: a daemon that is started again ends a phase within some milliseconds.
fn phases(cluster: &Cluster) -> Vec<String> {
    let log = fs::read_to_string(cluster.dir().join("nodes/n0/daemon.log")).unwrap_or_default();
    let before = log.split("status=Signal(9)").next().unwrap_or_default();
    let begun = before.lines().filter(|line| !line.contains("aborted"));
    let phase = |line: &str| Some(line.split_once("phase=\"")?.1.split_once('"')?.0.to_owned());
    begun.filter_map(phase).collect()
}

/// Waits until the phase is the present one and, where one is wanted, a newcomer is there; returns it.
fn phase_begins(cluster: &Cluster, wanted: &str, role: Option<&str>) -> Option<u32> {
    let seen = wait::within(LIMIT, || {
        let newcomer = role.map(|role| cluster.processes_with("PCM_ROLE", role).pop());
        let is_there = phases(cluster).last()? == wanted && newcomer != Some(None);
        is_there.then_some(newcomer.flatten())
    });
    seen.unwrap_or_else(|| panic!("no {wanted}, but {:?}\n{}", phases(cluster), cluster.logs()))
}

/// Each node's keeper, and how many descriptors it has open: the ranks' and the parked data's among them.
fn keepers(cluster: &Cluster) -> Vec<(u32, usize)> {
    let keeper_of = |node: &str| {
        let daemon = cluster.daemon_pid(node);
        let keeper = processes::parent(daemon);
        (keeper, processes::file_count(keeper))
    };
    ["n0", "n1", "n2", "n3"].iter().map(|node| keeper_of(node)).collect()
}

/// Whether such an event of the job was told.
fn happened(cluster: &Cluster, kind: &str) -> bool {
    let events = cluster.run(&["events", "1", "--json"]);
    assert!(events.status.success(), "{events:?}");
    events.stdout.contains(&format!("\"{kind}\""))
}

fn agent_of(daemon: u32) -> u32 {
    let mut children = processes::children(daemon).into_iter();
    let agent = children.find(|pid| processes::command_line(*pid).contains("ios-agent"));
    agent.expect("a daemon has an agent")
}

/// The log tells of a phase before the journal holds it. An answer to a question shows that the journal does.
fn expect_written(cluster: &Cluster, victim: Victim) {
    if matches!(victim, Victim::Coordinator) {
        assert!(cluster.run(&["nodes"]).status.success());
    }
}

/// A build of heat2d, and the MPI that its ranks shall find.
#[derive(Clone, Copy)]
struct Program<'a> {
    program: &'a str,
    mpi: Option<&'a str>,
}

/// A mode of changes, a phase, the victim in it and what has to become of the job.
type Case = (&'static str, &'static str, Victim, Fate);

fn kill(of: Program<'_>, (mode, phase, victim, fate): Case) {
    let cluster = Cluster::that_crashes(4);
    let keepers = keepers(&cluster);
    let hold = format!("{phase}:{STAY_MS}");
    let mut variables = vec![("PCM_HOLD", hold.as_str())];
    variables.extend(of.mpi.map(|mpi| ("PCM_MPI", mpi)));
    let job = Malleable::start_with(&cluster, of.program, 3, RUN, &variables);
    let ranks = job.ranks();
    let [coordinator, old_host, new_host] = ["n0", "n1", "n3"].map(|node| cluster.daemon_pid(node));
    let agent = agent_of(coordinator);
    let migrate = ["migrate", "1", "--rank", "1", "--to", "n3", "--mode", mode];
    let asked = Background::start(&mut cluster.pcmctl(&migrate));
    // A live newcomer is there from the first phase on; before, its host has not heard of the change.
    let role = match mode {
        "live" => Some("newcomer"),
        _ => matches!(phase, "starting" | "closing").then_some("restored"),
    };
    let newcomer = phase_begins(&cluster, phase, role);
    let pid = match victim {
        Victim::Newcomer => newcomer.expect("it was waited for"),
        Victim::Leaver => ranks[1].pid,
        Victim::Survivor => ranks[2].pid,
        Victim::Coordinator => coordinator,
        Victim::OldHost => old_host,
        Victim::NewHost => new_host,
        Victim::Agent => agent,
        Victim::Asker => asked.pid(),
    };
    expect_written(&cluster, victim);
    let reached = phases(&cluster);
    assert_eq!(reached.last().map(String::as_str), Some(phase), "too late: {reached:?}");
    assert!(processes::send(pid, Signal::KILL), "{victim:?} was gone before");
    let begun = Instant::now();
    let answer = asked.end(LIMIT);
    let ended = job.ends();
    let became = match &ended {
        Ended::Failed(_) => Fate::Lost,
        Ended::Right(_) if happened(&cluster, "reconfigured") => Fate::Changes,
        Ended::Right(_) => Fate::Stays,
    };
    println!(
        "{mode} {phase} {victim:?}: {became:?} after {:?}, pcmctl {:?} {}\n{ended:?}",
        begun.elapsed(),
        answer.status.code(),
        answer.stderr.trim()
    );
    let is_right = match fate {
        Fate::GoesOn => became != Fate::Lost,
        _ => became == fate,
    };
    assert!(is_right, "{became:?}, not {fate:?}: {ended:?}\n{}", cluster.logs());
    if became == Fate::Stays && victim == Victim::Newcomer {
        assert!(
            happened(&cluster, "given_up"),
            "nobody can read why: {}",
            cluster.logs()
        );
    }
    if let Ended::Failed(outcome) = &ended {
        assert!(outcome.stderr.contains(named((mode, phase, victim))), "{outcome:?}");
    }
    assert!(begun.elapsed() < ENDED_MAX, "{:?}", begun.elapsed());
    nothing_is_left_and_the_next_job_runs(&cluster, of.program, &keepers);
    cluster.down();
}

/// What the reason of a job's end names.
fn named(case: (&str, &str, Victim)) -> &'static str {
    match case {
        // It is no rank, and a rank that lost it is what is seen.
        ("live", "closing", Victim::Leaver) | ("live", "moving", Victim::Newcomer) => "gave up with error code",
        (_, _, Victim::Leaver) => "rank 1 on node n1",
        (_, _, Victim::Survivor) => "rank 2 on node n2",
        ("live", ..) => "rank 1 on node n3",
        _ => "rank ",
    }
}

fn nothing_is_left_and_the_next_job_runs(cluster: &Cluster, program: &str, keepers: &[(u32, usize)]) {
    cluster.wait_until_no_rank_of(program, LIMIT);
    let are_closed = wait::within(LIMIT, || {
        let is_closed = |(pid, before): &(u32, usize)| processes::file_count(*pid) <= *before;
        keepers.iter().all(is_closed).then_some(())
    });
    let now: Vec<usize> = keepers.iter().map(|(pid, _)| processes::file_count(*pid)).collect();
    assert!(are_closed.is_some(), "descriptors of keepers {keepers:?}: {now:?}");
    let next = cluster.trial(4, &["ring", "0"]);
    assert!(next.status.success(), "the next job: {next:?}\n{}", cluster.logs());
}

macro_rules! each_kill_ends_in_a_known_state {
    ($all:ident, $mode:literal: $($name:ident: $phase:literal, $victim:ident, $fate:ident;)*) => {
        const $all: &[Case] = &[$(($mode, $phase, Victim::$victim, Fate::$fate)),*];

        $(
            #[test]
            fn $name() {
                let (program, mpi) = (PROGRAM, None);
                kill(Program { program, mpi }, ($mode, $phase, Victim::$victim, Fate::$fate));
            }
        )*
    };
}

each_kill_ends_in_a_known_state! {
    LIVE, "live":
    a_newcomer_killed_while_preparing: "preparing", Newcomer, Stays;
    a_newcomer_killed_while_converging: "converging", Newcomer, Stays;
    a_newcomer_killed_while_meeting: "meeting", Newcomer, GoesOn;
    a_newcomer_killed_while_moving: "moving", Newcomer, GoesOn;
    a_newcomer_killed_while_closing: "closing", Newcomer, Lost;
    a_leaver_killed_while_preparing: "preparing", Leaver, Lost;
    a_leaver_killed_while_converging: "converging", Leaver, Lost;
    a_leaver_killed_while_meeting: "meeting", Leaver, Lost;
    a_leaver_killed_while_moving: "moving", Leaver, Lost;
    a_leaver_killed_while_closing: "closing", Leaver, Changes;
    a_survivor_killed_while_preparing: "preparing", Survivor, Lost;
    a_survivor_killed_while_converging: "converging", Survivor, Lost;
    a_survivor_killed_while_meeting: "meeting", Survivor, Lost;
    a_survivor_killed_while_moving: "moving", Survivor, Lost;
    a_survivor_killed_while_closing: "closing", Survivor, Lost;
    the_coordinator_killed_while_preparing: "preparing", Coordinator, Stays;
    the_coordinator_killed_while_converging: "converging", Coordinator, Stays;
    the_coordinator_killed_while_meeting: "meeting", Coordinator, Changes;
    the_coordinator_killed_while_moving: "moving", Coordinator, Changes;
    the_coordinator_killed_while_closing: "closing", Coordinator, Changes;
    a_new_host_killed_while_preparing: "preparing", NewHost, Stays;
    a_new_host_killed_while_converging: "converging", NewHost, GoesOn;
    a_new_host_killed_while_meeting: "meeting", NewHost, Changes;
    a_new_host_killed_while_moving: "moving", NewHost, Changes;
    a_new_host_killed_while_closing: "closing", NewHost, Changes;
    an_old_host_killed_while_preparing: "preparing", OldHost, Stays;
    an_old_host_killed_while_converging: "converging", OldHost, Stays;
    an_old_host_killed_while_meeting: "meeting", OldHost, Changes;
    an_old_host_killed_while_moving: "moving", OldHost, Changes;
    an_old_host_killed_while_closing: "closing", OldHost, Changes;
    an_agent_killed_while_preparing: "preparing", Agent, Changes;
    an_agent_killed_while_converging: "converging", Agent, Changes;
    an_agent_killed_while_meeting: "meeting", Agent, Changes;
    an_agent_killed_while_moving: "moving", Agent, Changes;
    an_agent_killed_while_closing: "closing", Agent, Changes;
    the_asker_killed_while_preparing: "preparing", Asker, Changes;
    the_asker_killed_while_converging: "converging", Asker, Changes;
    the_asker_killed_while_meeting: "meeting", Asker, Changes;
    the_asker_killed_while_moving: "moving", Asker, Changes;
    the_asker_killed_while_closing: "closing", Asker, Changes;
}

each_kill_ends_in_a_known_state! {
    RELAUNCHED, "relaunch":
    a_leaver_killed_while_relaunch_is_moving: "moving", Leaver, Lost;
    a_leaver_killed_while_relaunch_is_starting: "starting", Leaver, Changes;
    a_leaver_killed_while_relaunch_is_closing: "closing", Leaver, Changes;
    a_newcomer_killed_while_relaunch_is_starting: "starting", Newcomer, Stays;
    a_newcomer_killed_while_relaunch_is_closing: "closing", Newcomer, Lost;
    the_coordinator_killed_while_relaunch_is_moving: "moving", Coordinator, Stays;
    the_coordinator_killed_while_relaunch_is_starting: "starting", Coordinator, Stays;
    the_coordinator_killed_while_relaunch_is_closing: "closing", Coordinator, Changes;
    a_new_host_killed_while_relaunch_is_starting: "starting", NewHost, Changes;
    a_new_host_killed_while_relaunch_is_closing: "closing", NewHost, Changes;
    an_old_host_killed_while_relaunch_is_moving: "moving", OldHost, GoesOn;
    an_old_host_killed_while_relaunch_is_starting: "starting", OldHost, Changes;
    an_old_host_killed_while_relaunch_is_closing: "closing", OldHost, Changes;
    an_agent_killed_while_relaunch_is_starting: "starting", Agent, Changes;
    the_asker_killed_while_relaunch_is_starting: "starting", Asker, Changes;
}

/// Cases on Open MPI in a normal run, each time others.
const ON_OPEN_MPI: u64 = 6;

/// What becomes of a job of Open MPI. It ends the mates of a process that dies before its `MPI_Finalize`, also of one
/// that joins or leaves.
fn on_open_mpi(case: Case) -> Case {
    let (mode, phase, victim, fate) = case;
    let fate = match (mode, phase, victim) {
        ("live", "moving", Victim::Newcomer) | ("live", "closing", Victim::Leaver) => Fate::Lost,
        _ => fate,
    };
    (mode, phase, victim, fate)
}

/// With as many rounds as there are cases (`cargo xtask test fault --rounds N`) it is all of them.
#[test]
fn some_of_the_same_on_open_mpi() {
    let folder = tempfile::tempdir().expect("a folder of the test");
    let program = open_mpi::compiled("examples/heat2d/heat2d.c", folder.path(), true);
    let prefix = open_mpi::prefix();
    let of = Program {
        program: program.to_str().expect("UTF-8"),
        mpi: Some(prefix.to_str().expect("UTF-8")),
    };
    let cases: Vec<&Case> = LIVE.iter().chain(RELAUNCHED).collect();
    let rounds = asked::number("PCM_CHAOS_ROUNDS").unwrap_or(ON_OPEN_MPI);
    let first = asked::number("PCM_CHAOS_SEED").unwrap_or(u64::from(std::process::id()));
    println!("seed {first}: PCM_CHAOS_SEED={first} plays the same");
    for round in 0..rounds.min(cases.len() as u64) {
        // Prime to the number of cases: all come once before one comes again.
        let at = (first + round * 13) as usize % cases.len();
        println!("{:?}", cases[at]);
        kill(of, on_open_mpi(*cases[at]));
    }
}
