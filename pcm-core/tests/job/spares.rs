//! Spares: when there are any, which spawn takes one, and that nothing depends on them.

use crate::cluster::{Cluster, node};
use pcm_core::pmi::spawn::SpawnCommand;
use pcm_core::pmi::wire::Request;
use pcm_proto::event::EventKind;
use pcm_proto::ids::ProcessId;
use pcm_proto::keeper::ExitStatus;
use pcm_proto::peer::{CoordinatorToNode, JobMessage, NodeToCoordinator};

const PARENT: ProcessId = ProcessId(0);
const RENEWED_US: u64 = 200_000;
/// Numbers of spares begin here.
const SPARES_FROM: u32 = 1 << 29;
const RESULT: &str = "cmd=spawn_result rc=0 errcodes=0";

fn spawn_with(program: &str, args: &[&str], port: &str) -> Request {
    Request::Spawn {
        commands: vec![SpawnCommand {
            processes: 1,
            program: program.into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            preputs: vec![("PARENT_ROOT_PORT_NAME".into(), port.into())],
            ..SpawnCommand::default()
        }],
    }
}

fn spawn(port: &str) -> Request {
    spawn_with("child", &[], port)
}

fn ask_parent() -> Request {
    Request::Get {
        key: "PARENT_ROOT_PORT_NAME".into(),
    }
}

fn spares(cluster: &Cluster) -> Vec<(ProcessId, bool)> {
    let rows = cluster.coordinator.status().spares;
    rows.into_iter()
        .map(|row| (row.process.expect("it waits for a spawn"), row.ready))
        .collect()
}

/// Every spare that starts comes to where it is held.
fn let_spares_start(cluster: &mut Cluster) {
    for _ in 0..100 {
        let unready: Vec<ProcessId> = spares(cluster)
            .into_iter()
            .filter_map(|(process, is_ready)| (!is_ready).then_some(process))
            .collect();
        if unready.is_empty() {
            return;
        }
        for process in unready {
            cluster.pmi(
                process,
                Request::Init {
                    version: 1,
                    subversion: 1,
                },
            );
            cluster.pmi(process, ask_parent());
        }
        cluster.settle();
    }
    panic!("spares never come to an end");
}

/// The child that was started last, and is no spare, comes to where it asks for its parent.
fn child_comes_up(cluster: &mut Cluster) {
    let started = cluster.running.keys().filter(|process| process.0 < SPARES_FROM);
    let child = *started.max().unwrap();
    cluster.pmi(child, ask_parent());
    cluster.settle();
}

fn spawned_by_spare(cluster: &Cluster) -> Vec<bool> {
    let spawned = cluster.notes.iter().filter_map(|note| match note {
        EventKind::Spawned { spare, .. } => Some(*spare),
        _ => None,
    });
    spawned.collect()
}

/// A job whose rank spawned a child the usual way; the spares it keeps since then are ready.
fn with_ready(counts: &[u32], count: u32) -> Cluster {
    let mut cluster = Cluster::accept_with_spares(counts, count);
    cluster.settle();
    assert!(spares(&cluster).is_empty(), "nothing was spawned yet");
    let child = ProcessId(counts.iter().sum());
    cluster.pmi(PARENT, spawn("first"));
    cluster.settle();
    assert!(spares(&cluster).is_empty(), "not while a spawn is under way");
    cluster.pmi(child, ask_parent());
    cluster.settle();
    assert_eq!(cluster.lines(PARENT), [RESULT]);
    let_spares_start(&mut cluster);
    assert_eq!(spares(&cluster).len(), count as usize);
    assert!(spares(&cluster).iter().all(|(_, is_ready)| *is_ready));
    cluster
}

#[test]
fn a_spawn_takes_a_spare_at_once_and_another_replaces_it_later() {
    let mut cluster = with_ready(&[1, 1], 2);
    let taken = spares(&cluster)[0].0;
    let running = cluster.running.len();
    cluster.pmi(PARENT, spawn("second"));
    cluster.settle();
    assert_eq!(cluster.running.len(), running, "nothing is started");
    assert_eq!(cluster.lines(taken).last(), Some(&"cmd=get_result rc=0 value=second"));
    assert_eq!(cluster.lines(PARENT), [RESULT, RESULT]);
    assert_eq!(cluster.shown, [taken]);
    assert_eq!(spawned_by_spare(&cluster), [false, true]);
    assert_eq!(spares(&cluster).len(), 1, "one is not replaced at once");
    cluster.pass(RENEWED_US);
    cluster.settle();
    let_spares_start(&mut cluster);
    assert_eq!(spares(&cluster).len(), 2);
    cluster.assert_journals_lead_to_the_same_states();
}

#[test]
fn a_spawn_of_something_else_takes_none() {
    let mut cluster = with_ready(&[1, 1], 1);
    for request in [spawn_with("child", &["-x"], "p"), spawn_with("other", &[], "p")] {
        let (running, answers) = (cluster.running.len(), cluster.lines(PARENT).len());
        cluster.pmi(PARENT, request);
        cluster.settle();
        assert_eq!(cluster.running.len(), running + 1, "it is started");
        assert_eq!(cluster.lines(PARENT).len(), answers);
        child_comes_up(&mut cluster);
        let_spares_start(&mut cluster);
    }
    assert_eq!(spares(&cluster).len(), 3, "one of each");
    assert_eq!(spawned_by_spare(&cluster), [false; 3]);
}

#[test]
fn spares_of_what_was_not_spawned_for_long_are_ended() {
    let mut cluster = with_ready(&[1], 1);
    let first = spares(&cluster)[0].0;
    for number in 0..4 {
        cluster.pmi(PARENT, spawn_with("other", &[&number.to_string()], "p"));
        cluster.settle();
        child_comes_up(&mut cluster);
        let_spares_start(&mut cluster);
    }
    assert_eq!(spares(&cluster).len(), 4);
    assert!(!cluster.running.contains_key(&first));
}

#[test]
fn a_spare_that_dies_ends_nothing_and_the_next_ones_wait_longer_and_longer() {
    let mut cluster = with_ready(&[1], 1);
    let mut waits = Vec::new();
    for _ in 0..8 {
        let (process, _) = spares(&cluster)[0];
        cluster.exit(process, ExitStatus::Signal(9));
        cluster.settle();
        assert!(spares(&cluster).is_empty());
        let died_us = cluster.now_us;
        while spares(&cluster).is_empty() {
            cluster.pass(100_000);
            cluster.settle();
            assert!(cluster.now_us < died_us + 60_000_000, "never again");
        }
        waits.push(cluster.now_us - died_us);
    }
    assert!(waits.is_sorted() && waits[0] >= 500_000, "{waits:?}");
    assert_eq!((waits[1], waits[7]), (1_000_000, 30_000_000));
    assert!(cluster.end.is_none());
    let lost = cluster
        .notes
        .iter()
        .filter(|note| matches!(note, EventKind::SpareLost { .. }));
    assert_eq!(lost.count(), 8);
    let_spares_start(&mut cluster);
    cluster.pmi(PARENT, spawn("p"));
    cluster.settle();
    assert_eq!(spawned_by_spare(&cluster), [false, true]);
}

#[test]
fn a_spare_that_dies_when_it_was_just_taken_leaves_the_spawn_to_the_usual_way() {
    let mut cluster = with_ready(&[1, 1], 1);
    let (process, _) = spares(&cluster)[0];
    cluster.pmi(PARENT, spawn("p"));
    cluster.exit(process, ExitStatus::Signal(9));
    cluster.settle();
    assert_eq!(cluster.lines(PARENT), [RESULT], "not answered yet");
    child_comes_up(&mut cluster);
    assert_eq!(cluster.lines(PARENT), [RESULT, RESULT]);
    assert_eq!(spawned_by_spare(&cluster), [false, false]);
    assert!(cluster.end.is_none());
}

#[test]
fn the_job_ends_without_its_spares_and_they_end_with_it() {
    let mut cluster = with_ready(&[1, 1], 3);
    cluster.coordinate(pcm_core::job::coordinator::Input::Tick);
    for process in [ProcessId(0), ProcessId(1), ProcessId(2)] {
        cluster.pmi(process, Request::Finalize);
        cluster.exit(process, ExitStatus::Code(0));
    }
    cluster.settle();
    assert_eq!(cluster.end.clone().unwrap().code, 0);
    cluster.assert_nothing_is_left();
}

#[test]
fn an_adoption_and_a_word_that_got_lost_are_said_again_on_the_next_link() {
    let mut cluster = with_ready(&[1, 1], 2);
    cluster.pmi(PARENT, spawn("p"));
    cluster.settle_losing(|_, _, message| matches!(message, JobMessage::ToNode(CoordinatorToNode::Adopt { .. })));
    assert_eq!(cluster.lines(PARENT), [RESULT]);
    cluster.relink();
    cluster.settle_losing(|_, _, message| {
        matches!(message, JobMessage::ToCoordinator(NodeToCoordinator::SpawnReady { .. }))
    });
    assert_eq!(cluster.lines(PARENT), [RESULT]);
    cluster.relink();
    cluster.settle();
    assert_eq!(cluster.lines(PARENT), [RESULT, RESULT]);
    assert_eq!(spawned_by_spare(&cluster), [false, true]);
}

#[test]
fn a_signal_to_the_job_does_not_reach_its_spares() {
    let mut cluster = with_ready(&[1], 1);
    let (process, _) = spares(&cluster)[0];
    let said = pcm_core::job::participant::Input::Ordered {
        node: node(0),
        order: CoordinatorToNode::Signal { signal: 15 },
    };
    cluster.participate(&node(0), said);
    assert!(cluster.running.contains_key(&process) && !cluster.running.contains_key(&PARENT));
}

#[test]
fn spares_are_nobody_s_load_and_stand_beside_the_ranks() {
    let cluster = with_ready(&[1, 1], 4);
    let status = cluster.coordinator.status();
    assert_eq!(status.size, 2);
    let processes: u32 = status.nodes.iter().map(|(_, count)| count).sum();
    assert_eq!(processes, 3, "two ranks and a child");
    let on_first = status.spares.iter().filter(|spare| spare.node == node(0)).count();
    assert_eq!(on_first, 2, "spread over the job's nodes");
    assert!(
        status
            .spares
            .iter()
            .all(|spare| spare.pid > 0 && spare.program == "child")
    );
    let part = &cluster.parts[&node(0)];
    assert_eq!((part.alive().count(), part.spares().count()), (1, 2));
}

#[test]
fn a_job_that_keeps_none_has_none() {
    let mut cluster = Cluster::accept_with_spares(&[1, 1], 0);
    cluster.settle();
    cluster.pmi(PARENT, spawn("p"));
    cluster.settle();
    cluster.pmi(ProcessId(2), ask_parent());
    cluster.pass(RENEWED_US);
    cluster.settle();
    assert_eq!((cluster.running.len(), spares(&cluster).len()), (3, 0));
}
