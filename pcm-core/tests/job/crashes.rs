//! What must hold for a job that crashes and has a checkpoint.

use crate::cluster::{Cluster, node};
use pcm_core::job::coordinator::Input;
use pcm_core::job::participant;
use pcm_proto::checkpoint::CheckpointMessage;
use pcm_proto::event::EventKind;
use pcm_proto::ids::{Epoch, Iteration, ProcessId, WorldId};
use pcm_proto::job::{JobState, WorldShape};
use pcm_proto::keeper::ExitStatus;
use pcm_proto::peer::NodeToCoordinator;

const SECOND: u64 = 1_000_000;

/// A job that runs and has a checkpoint at iteration 100.
fn running(counts: &[u32]) -> Cluster {
    let mut cluster = Cluster::accept(counts, WorldShape::Job);
    cluster.settle();
    let iteration = Some(Iteration(100));
    cluster.coordinate(Input::Checkpoint { iteration });
    cluster
}

fn say(cluster: &mut Cluster, message: CheckpointMessage) {
    cluster.coordinate(Input::CheckpointSaid(message));
}

fn reached(cluster: &mut Cluster, iteration: u64) {
    let iteration = Iteration(iteration);
    say(cluster, CheckpointMessage::Reached { iteration });
}

fn living(cluster: &Cluster) -> Vec<ProcessId> {
    cluster.running.keys().copied().collect()
}

#[test]
fn a_crashed_job_goes_on_with_other_processes_in_a_later_epoch() {
    let mut cluster = running(&[1, 1, 2]);
    let before = living(&cluster);
    reached(&mut cluster, 130);
    cluster.exit(ProcessId(2), ExitStatus::Signal(9));
    cluster.settle();
    let after = living(&cluster);
    assert_eq!(after.len(), 4, "{:?}", cluster.end);
    assert!(after.iter().all(|process| !before.contains(process)));
    assert_eq!(cluster.coordinator.status().state, JobState::Running);
    assert!(cluster.coordinator.epoch() > Epoch(0));
    assert_eq!(cluster.coordinator.restarts(), 1);
    let restores = cluster.parts[&node(1)]
        .restores()
        .map(|restores| restores.stamp.iteration);
    assert_eq!(restores, Some(Iteration(100)));
    for process in after {
        let is_told = |cluster: &Cluster| matches!(cluster.notes.last(), Some(EventKind::Recovered(_)));
        assert!(!is_told(&cluster));
        say(&mut cluster, CheckpointMessage::Restored { process });
    }
    let Some(EventKind::Recovered(recovered)) = cluster.notes.last() else {
        panic!("{:?}", cluster.notes);
    };
    assert_eq!(
        (recovered.from, recovered.rolled_back, recovered.restart),
        (Iteration(100), 30, 1)
    );
    cluster.coordinate(Input::End {
        code: 0,
        reason: String::new(),
    });
    cluster.settle();
    assert!(cluster.end.is_some());
    cluster.assert_nothing_is_left();
}

#[test]
fn a_lost_node_s_ranks_go_on_elsewhere() {
    let mut cluster = running(&[1, 1, 2]);
    cluster.cut_off.insert(node(2));
    for process in [ProcessId(2), ProcessId(3)] {
        cluster.running.remove(&process);
    }
    cluster.coordinate(Input::NodeGone { node: node(2) });
    cluster.settle();
    assert_eq!(living(&cluster).len(), 4, "{:?}", cluster.end);
    assert!(cluster.running.values().all(|at| *at != node(2)));
}

#[test]
fn a_node_that_a_crash_left_without_ranks_is_told_of_the_job_before_it_gets_one_again() {
    let mut cluster = running(&[1, 1]);
    cluster.open.remove(&node(1));
    cluster.exit(ProcessId(1), ExitStatus::Signal(11));
    cluster.settle();
    assert!(
        cluster.running.values().all(|at| *at != node(1)),
        "{:?}",
        cluster.running
    );
    assert!(!cluster.coordinator.is_enlisted(&node(1)));
    let restarts = |cluster: &Cluster| cluster.parts[&node(1)].restarts();
    assert_eq!(restarts(&cluster), 0, "it knows the job as it was");
    cluster.coordinate(Input::Enlist { node: node(1) });
    cluster.settle();
    assert!(cluster.coordinator.is_enlisted(&node(1)));
    assert_eq!(restarts(&cluster), 1);
}

#[test]
fn a_node_that_was_taken_for_lost_lets_go_of_its_part_over_the_link_that_it_has() {
    let mut cluster = running(&[1, 1, 2]);
    cluster.open.remove(&node(2));
    cluster.cut_off.insert(node(2));
    cluster.coordinate(Input::NodeGone { node: node(2) });
    cluster.settle();
    cluster.cut_off.clear();
    assert!(cluster.running.values().any(|at| *at == node(2)));
    cluster.participate(&node(2), participant::Input::CoordinatorLost);
    cluster.settle();
    for _ in 0..10 {
        cluster.pass(SECOND);
        cluster.settle();
    }
    assert!(!cluster.parts.contains_key(&node(2)), "it waits for a word");
}

#[test]
fn a_job_ends_though_a_node_that_is_back_had_a_process_without_a_rank() {
    let mut cluster = running(&[1, 1]);
    cluster.coordinate(Input::Enlist { node: node(2) });
    cluster.settle();
    let (world, processes) = (WorldId(7), vec![(ProcessId(9), 900)]);
    cluster.coordinate(Input::Said {
        node: node(2),
        message: NodeToCoordinator::NewcomersStarted { world, processes },
    });
    cluster.coordinate(Input::NodeGone { node: node(2) });
    cluster.settle();
    cluster.parts.remove(&node(2));
    cluster.coordinate(Input::Enlist { node: node(2) });
    cluster.settle();
    assert!(cluster.coordinator.is_enlisted(&node(2)));
    for process in living(&cluster) {
        cluster.exit(process, ExitStatus::Code(0));
    }
    cluster.settle();
    let end = cluster.end.clone().expect("nothing is waited for");
    assert_eq!(end.code, 0, "{end:?}");
    cluster.assert_nothing_is_left();
}

#[test]
fn a_job_waits_for_a_node_that_takes_its_ranks_and_not_for_ever() {
    let mut cluster = running(&[1, 1]);
    cluster.open.clear();
    cluster.exit(ProcessId(1), ExitStatus::Signal(11));
    cluster.settle();
    assert_eq!(cluster.coordinator.status().state, JobState::Recovering);
    cluster.pass(20 * SECOND);
    assert!(cluster.end.is_none() && living(&cluster).is_empty());
    cluster.open.insert(node(1));
    cluster.pass(2 * SECOND);
    cluster.settle();
    assert_eq!(living(&cluster).len(), 2);
    cluster.open.clear();
    cluster.exit(living(&cluster)[0], ExitStatus::Signal(11));
    cluster.settle();
    for _ in 0..70 {
        cluster.pass(SECOND);
        cluster.settle();
    }
    let end = cluster.end.clone().expect("it is given up");
    assert!(end.code == 139 && end.reason.contains("no node is there"), "{end:?}");
    cluster.assert_nothing_is_left();
}

#[test]
fn a_program_that_crashes_in_the_same_place_ends_clearly() {
    let mut cluster = running(&[2, 1]);
    for _ in 0..3 {
        assert!(cluster.end.is_none());
        reached(&mut cluster, 130);
        cluster.exit(living(&cluster)[0], ExitStatus::Signal(11));
        cluster.settle();
        cluster.pass(40 * SECOND);
        cluster.settle();
    }
    let end = cluster.end.clone().expect("it is ended");
    assert!(end.reason.contains("without getting beyond iteration 130"), "{end:?}");
    cluster.assert_nothing_is_left();
}

/// The coordinator's daemon was away, so its nodes ended ranks by SIGTERM: that is not a person's wish.
#[test]
fn ranks_that_their_node_ended_without_an_order_are_started_again() {
    for input in [
        participant::Input::CoordinatorLost,
        participant::Input::RankLost { process: ProcessId(1) },
    ] {
        let mut cluster = running(&[1, 1]);
        cluster.participate(&node(1), input.clone());
        cluster.settle();
        cluster.pass(SECOND);
        cluster.settle();
        assert_eq!(cluster.end, None, "{input:?}");
        let cause = cause_of_crash(&cluster).expect("it crashed");
        assert!(cause.contains("rank 1 on node n1 was ended by its node"), "{cause}");
        assert_eq!(
            (living(&cluster).len(), cluster.coordinator.restarts()),
            (2, 1),
            "{input:?}"
        );
    }
}

/// Another coordinator ended the ranks there, and is gone.
#[test]
fn ranks_that_their_node_knows_nothing_of_are_started_again() {
    let mut cluster = running(&[1, 1]);
    let say = |cluster: &mut Cluster, at| {
        cluster.coordinate(Input::Said {
            node: node(at),
            message: NodeToCoordinator::NoPart,
        });
    };
    say(&mut cluster, 2);
    assert_eq!(cause_of_crash(&cluster), None, "a node without ranks");
    say(&mut cluster, 1);
    cluster.settle();
    assert!(cause_of_crash(&cluster).is_some(), "{:?}", cluster.notes);
    assert_eq!((living(&cluster).len(), cluster.coordinator.restarts()), (2, 1));
}

#[test]
fn who_sends_sigterm_or_has_no_checkpoint_gets_an_end() {
    let mut cluster = running(&[1, 1]);
    cluster.exit(ProcessId(1), ExitStatus::Signal(15));
    cluster.settle();
    assert_eq!(cluster.end.as_ref().map(|end| end.code), Some(143));
    let mut cluster = running(&[1, 1]);
    cluster.coordinate(Input::Checkpoint { iteration: None });
    cluster.exit(ProcessId(1), ExitStatus::Signal(9));
    cluster.settle();
    let end = cluster.end.clone().expect("it is ended");
    assert_eq!(end.code, 137);
    assert!(end.reason.contains("no complete checkpoint is left"), "{end:?}");
}

#[test]
fn mpi_that_gives_up_is_a_crash_and_a_program_that_aborts_is_an_end() {
    let process = ProcessId(1);
    let aborted = |code| NodeToCoordinator::Aborted {
        process,
        code,
        message: "abort".to_owned(),
    };
    let gave_up = NodeToCoordinator::GaveUp { process, code: 14 };
    for (message, comes_back) in [(aborted(807_062_543), true), (gave_up, true), (aborted(3), false)] {
        let mut cluster = running(&[1, 1]);
        cluster.coordinate(Input::Said { node: node(1), message });
        cluster.settle();
        cluster.pass(SECOND);
        cluster.settle();
        assert_eq!(cluster.end.is_none(), comes_back, "{:?}", cluster.end);
        assert_eq!(cluster.coordinator.restarts(), u32::from(comes_back));
        assert_eq!(living(&cluster).len(), if comes_back { 2 } else { 0 });
    }
}

#[test]
fn the_end_that_made_mpi_give_up_elsewhere_is_what_is_told() {
    let mut cluster = running(&[1, 1, 1]);
    cluster.coordinate(Input::Checkpoint { iteration: None });
    let process = ProcessId(2);
    for aborting in [process, ProcessId(0)] {
        cluster.coordinate(Input::Said {
            node: node(usize::from(aborting == process) * 2),
            message: NodeToCoordinator::Aborted {
                process: aborting,
                code: 930_820_111,
                message: String::new(),
            },
        });
    }
    // It ends by the abort before the end of the first is told.
    cluster.exit(process, ExitStatus::Code(15));
    cluster.settle();
    assert!(cluster.end.is_none(), "{:?}", cluster.end);
    cluster.exit(ProcessId(1), ExitStatus::Signal(9));
    cluster.settle();
    let end = cluster.end.clone().expect("it is ended");
    assert!(end.code == 137 && end.reason.contains("rank 1 on node n1"), "{end:?}");
    cluster.assert_nothing_is_left();
}

#[test]
fn the_loss_of_a_rank_in_which_mpi_gave_up_waits_for_its_cause() {
    let mut cluster = running(&[1, 1]);
    cluster.coordinate(Input::Checkpoint { iteration: None });
    let process = ProcessId(0);
    let reason = "process 0 died and its data with it".to_owned();
    for message in [
        NodeToCoordinator::GaveUp { process, code: 14 },
        NodeToCoordinator::LostWith { process, reason },
    ] {
        cluster.coordinate(Input::Said { node: node(0), message });
    }
    cluster.exit(process, ExitStatus::Code(14));
    cluster.settle();
    assert!(cluster.end.is_none(), "{:?}", cluster.end);
    cluster.exit(ProcessId(1), ExitStatus::Signal(9));
    cluster.settle();
    let end = cluster.end.clone().expect("it is ended");
    assert!(
        end.reason.contains("rank 1 on node n1 was ended by signal 9"),
        "{end:?}"
    );
    cluster.assert_nothing_is_left();
}

/// MPI of process 0 gives up when node 2 dies, which is not known yet.
fn abort_by_a_neighbour() -> Cluster {
    let mut cluster = running(&[1, 1, 2]);
    cluster.cut_off.insert(node(2));
    silent(&mut cluster, Some(4 * SECOND));
    cluster.coordinate(Input::Said {
        node: node(0),
        message: NodeToCoordinator::Aborted {
            process: ProcessId(0),
            code: 930_820_111,
            message: String::new(),
        },
    });
    cluster.settle();
    cluster
}

fn silent(cluster: &mut Cluster, left_us: Option<u64>) {
    let gone_by_us = left_us.map(|left_us| cluster.now_us + left_us);
    let node = node(2);
    cluster.coordinate(Input::Silent { node, gone_by_us });
}

fn cause_of_crash(cluster: &Cluster) -> Option<&str> {
    cluster.notes.iter().find_map(|note| match note {
        EventKind::Crashed { reason, .. } => Some(reason.as_str()),
        _ => None,
    })
}

#[test]
fn a_node_s_loss_that_is_known_later_than_what_it_made_mpi_do_elsewhere_is_the_cause() {
    let mut cluster = abort_by_a_neighbour();
    // The neighbour ends by its abort.
    cluster.exit(ProcessId(0), ExitStatus::Code(15));
    cluster.pass(2 * SECOND);
    cluster.settle();
    assert_eq!(cluster.coordinator.status().state, JobState::Running);
    for process in [ProcessId(2), ProcessId(3)] {
        cluster.running.remove(&process);
    }
    cluster.coordinate(Input::NodeGone { node: node(2) });
    cluster.settle();
    let cause = cause_of_crash(&cluster).expect("it crashed");
    assert!(cause.contains("node n2 with ranks 2, 3 does not answer"), "{cause}");
    assert_eq!(living(&cluster).len(), 4, "{:?}", cluster.end);
    cluster.assert_the_coordinator_s_journal_leads_to_the_same_state();
}

#[test]
fn a_node_that_answers_again_or_stays_silent_does_not_keep_an_abort_from_being_the_cause() {
    for answers in [true, false] {
        let mut cluster = abort_by_a_neighbour();
        cluster.pass(2 * SECOND);
        if answers {
            silent(&mut cluster, None);
        }
        assert_eq!(
            cluster.coordinator.status().state,
            JobState::Running,
            "a cause may be told"
        );
        cluster.cut_off.clear();
        for _ in 0..3 {
            cluster.pass(SECOND);
            cluster.settle();
        }
        let cause = cause_of_crash(&cluster).expect("it crashed");
        assert!(cause.contains("MPI in rank 0 on node n0 gave up"), "{answers}: {cause}");
    }
}

#[test]
fn a_crash_while_it_comes_back_is_another_crash() {
    let mut cluster = running(&[1, 1]);
    cluster.exit(ProcessId(1), ExitStatus::Signal(9));
    cluster.settle();
    let id = cluster.parts[&node(0)]
        .restores()
        .map(|restores| restores.stamp.id)
        .unwrap();
    let reason = "a block has another checksum".to_owned();
    say(
        &mut cluster,
        CheckpointMessage::NotRestored {
            id,
            reason,
            is_unanswered: false,
        },
    );
    cluster.settle();
    cluster.pass(SECOND);
    cluster.settle();
    assert_eq!((cluster.coordinator.restarts(), living(&cluster).len()), (2, 2));
}

#[test]
fn lost_words_and_restarted_daemons_do_not_keep_it_from_coming_back() {
    for lost in 0..12 {
        let mut cluster = running(&[1, 1, 1]);
        cluster.exit(ProcessId(1), ExitStatus::Signal(9));
        let mut count = 0;
        cluster.settle_losing(|from, to, _| {
            count += 1;
            from != to && count == lost
        });
        for _ in 0..5 {
            cluster.relink();
            cluster.settle();
            cluster.pass(2 * SECOND);
            cluster.settle();
        }
        assert_eq!(living(&cluster).len(), 3, "message {lost}: {:?}", cluster.end);
        assert_eq!(cluster.coordinator.status().state, JobState::Running, "message {lost}");
        cluster.assert_the_coordinator_s_journal_leads_to_the_same_state();
    }
}
