//! What must hold for every job.

use crate::cluster::{Cluster, node};
use pcm_core::job::coordinator::Input;
use pcm_core::pmi::gather::PUTS_BYTES_MAX;
use pcm_core::pmi::spawn::SpawnCommand;
use pcm_core::pmi::wire::Request;
use pcm_proto::event::EventKind;
use pcm_proto::frame::{self, FrameKind, PAYLOAD_LENGTH_MAX};
use pcm_proto::ids::ProcessId;
use pcm_proto::job::{JobState, WorldShape};
use pcm_proto::keeper::ExitStatus;
use pcm_proto::peer::{CoordinatorToNode, JobMessage};
use proptest::prelude::*;
use std::collections::BTreeSet;

const P: [ProcessId; 8] = [
    ProcessId(0),
    ProcessId(1),
    ProcessId(2),
    ProcessId(3),
    ProcessId(4),
    ProcessId(5),
    ProcessId(6),
    ProcessId(7),
];

fn init() -> Request {
    Request::Init {
        version: 1,
        subversion: 1,
    }
}

fn put(key: &str, value: &str) -> Request {
    Request::Put {
        key: key.into(),
        value: value.into(),
    }
}

fn get(key: &str) -> Request {
    Request::Get { key: key.into() }
}

fn finish(cluster: &mut Cluster, processes: &[ProcessId]) {
    for process in processes {
        cluster.pmi(*process, Request::Finalize);
        cluster.exit(*process, ExitStatus::Code(0));
    }
    cluster.settle();
}

#[test]
fn a_job_that_ends_well_leaves_nothing() {
    let mut cluster = Cluster::accept(&[2, 1, 1], WorldShape::Job);
    cluster.settle();
    assert_eq!(cluster.running.len(), 4);
    assert_eq!(cluster.coordinator.status().state, JobState::Running);
    for process in &P[..4] {
        cluster.pmi(*process, init());
    }
    finish(&mut cluster, &P[..4]);
    let end = cluster.end.clone().unwrap();
    assert_eq!((end.code, end.reason.as_str()), (0, ""));
    cluster.assert_nothing_is_left();
}

#[test]
fn a_barrier_ends_for_all_nodes_together_and_brings_every_value() {
    let mut cluster = Cluster::accept(&[1, 1, 1, 1, 1, 1, 1, 1], WorldShape::Job);
    cluster.settle();
    for process in &P {
        cluster.pmi(*process, put(&format!("key{process}"), &format!("value{process}")));
    }
    for process in &P[..7] {
        cluster.pmi(*process, Request::BarrierIn);
    }
    cluster.settle();
    assert!(
        P.iter()
            .all(|process| !cluster.lines(*process).contains(&"cmd=barrier_out rc=0"))
    );
    cluster.pmi(P[7], Request::BarrierIn);
    cluster.settle();
    for process in &P {
        assert_eq!(cluster.lines(*process).last(), Some(&"cmd=barrier_out rc=0"));
        for other in &P {
            cluster.pmi(*process, get(&format!("key{other}")));
            let value = format!("cmd=get_result rc=0 value=value{other}");
            assert_eq!(cluster.lines(*process).last(), Some(&value.as_str()));
        }
    }
}

/// As many values as one process may put, of `bytes` in all.
fn put_much(cluster: &mut Cluster, process: ProcessId, bytes: usize) {
    for number in 0..bytes / 1024 {
        cluster.pmi(process, put(&format!("{process}-{number}"), &"v".repeat(1000)));
    }
}

#[test]
fn values_that_fit_no_message_end_the_job_with_a_reason_and_no_message_is_longer_than_one_may_be() {
    let mut cluster = Cluster::accept(&[1, 1, 1, 1], WorldShape::Job);
    cluster.settle();
    for process in &P[..4] {
        put_much(&mut cluster, *process, PUTS_BYTES_MAX / 3);
        assert_eq!(cluster.lines(*process).last(), Some(&"cmd=put_result rc=0"));
    }
    for process in &P[..4] {
        cluster.pmi(*process, Request::BarrierIn);
    }
    cluster.settle_losing(|_, _, message| {
        let encoded = frame::encode(FrameKind::Message, message, PAYLOAD_LENGTH_MAX, &mut Vec::new());
        assert!(encoded.is_ok(), "a message is too long");
        false
    });
    for process in &P[..4] {
        cluster.exit(*process, ExitStatus::Signal(9));
    }
    cluster.settle();
    let end = cluster.end.clone().expect("the job ended");
    assert!(end.code == 1 && end.reason.contains("barrier of PMI"), "{end:?}");
    cluster.assert_nothing_is_left();
}

#[test]
fn values_that_just_fit_pass_a_barrier_and_more_of_one_node_are_refused() {
    let mut cluster = Cluster::accept(&[1, 1], WorldShape::Job);
    cluster.settle();
    put_much(&mut cluster, P[0], PUTS_BYTES_MAX - (1 << 17));
    assert_eq!(cluster.lines(P[0]).last(), Some(&"cmd=put_result rc=0"));
    put_much(&mut cluster, P[1], 1 << 14);
    for process in &P[..2] {
        cluster.pmi(*process, Request::BarrierIn);
    }
    cluster.settle();
    assert_eq!(cluster.lines(P[0]).last(), Some(&"cmd=barrier_out rc=0"));
    cluster.pmi(P[1], get(&format!("{}-0", P[0])));
    assert!(cluster.lines(P[1]).last().unwrap().ends_with("vvv"));
    for number in 0..200 {
        cluster.pmi(P[0], put(&format!("more{number}"), &"v".repeat(1000)));
    }
    assert_eq!(cluster.lines(P[0]).last(), Some(&"cmd=put_result rc=-1 msg=no_room"));
}

#[test]
fn worlds_of_one_rank_each_know_nothing_of_each_other() {
    let mut cluster = Cluster::accept(&[2, 1], WorldShape::Rank);
    cluster.settle();
    cluster.pmi(P[0], put("key", "value"));
    cluster.pmi(P[0], Request::BarrierIn);
    assert_eq!(cluster.lines(P[0]).last(), Some(&"cmd=barrier_out rc=0"));
    cluster.pmi(P[1], get("key"));
    assert_eq!(
        cluster.lines(P[1]).last(),
        Some(&"cmd=get_result rc=-1 msg=key_not_found")
    );
}

#[test]
fn the_death_of_a_rank_ends_the_job_and_names_it() {
    let mut cluster = Cluster::accept(&[2, 2], WorldShape::Job);
    cluster.settle();
    cluster.exit(P[3], ExitStatus::Signal(9));
    cluster.settle();
    cluster.pass(1_000_000);
    cluster.settle();
    let end = cluster.end.clone().unwrap();
    assert_eq!(end.code, 137);
    assert!(
        end.reason.contains("rank 3 on node n1") && end.reason.contains("SIGKILL"),
        "{}",
        end.reason
    );
    cluster.assert_nothing_is_left();
}

#[test]
fn a_rank_that_leaves_without_finalize_ends_the_job_even_with_code_0() {
    let mut cluster = Cluster::accept(&[1, 1], WorldShape::Job);
    cluster.settle();
    cluster.pmi(P[0], init());
    cluster.exit(P[0], ExitStatus::Code(0));
    cluster.settle();
    cluster.pass(1_000_000);
    cluster.settle();
    let end = cluster.end.clone().unwrap();
    assert!(end.code == 1 && end.reason.contains("without MPI_Finalize"), "{end:?}");
    cluster.assert_nothing_is_left();
}

#[test]
fn ranks_that_return_codes_at_the_same_time_give_the_worst_one() {
    let mut cluster = Cluster::accept(&[2, 2], WorldShape::Job);
    cluster.settle();
    for (process, code) in P[..4].iter().zip([1, 3, 0, 2]) {
        cluster.exit(*process, ExitStatus::Code(code));
    }
    cluster.settle();
    assert_eq!(cluster.end.clone().unwrap().code, 3);
    cluster.assert_nothing_is_left();
}

#[test]
fn a_rank_that_returns_a_code_gives_its_mates_a_moment_and_no_more() {
    let mut cluster = Cluster::accept(&[1, 1], WorldShape::Job);
    cluster.settle();
    cluster.exit(P[0], ExitStatus::Code(3));
    cluster.settle();
    assert!(cluster.end.is_none() && cluster.running.len() == 1);
    cluster.pass(600_000);
    cluster.settle();
    cluster.pass(600_000);
    cluster.settle();
    assert_eq!(cluster.end.clone().unwrap().code, 3);
    cluster.assert_nothing_is_left();
}

#[test]
fn mpi_abort_ends_the_job_with_its_code() {
    let mut cluster = Cluster::accept(&[1, 1], WorldShape::Job);
    cluster.settle();
    cluster.pmi(
        P[1],
        Request::Abort {
            code: 7,
            message: "enough".into(),
        },
    );
    cluster.settle();
    let end = cluster.end.clone().unwrap();
    assert!(end.code == 7 && end.reason.contains("MPI_Abort"), "{end:?}");
    cluster.assert_nothing_is_left();
}

#[test]
fn a_process_that_cannot_be_started_ends_the_job_and_says_why() {
    let mut cluster = Cluster::accept_refusing(&[1, 1], WorldShape::Job, BTreeSet::from([P[1]]));
    cluster.settle();
    let end = cluster.end.clone().unwrap();
    assert!(end.code == 127 && end.reason.contains("it is not there"), "{end:?}");
    cluster.assert_nothing_is_left();
}

#[test]
fn a_node_that_is_gone_ends_its_jobs_and_is_not_waited_for() {
    let mut cluster = Cluster::accept(&[1, 1, 1], WorldShape::Job);
    cluster.settle();
    cluster.cut_off.insert(node(2));
    cluster.coordinate(Input::NodeGone { node: node(2) });
    cluster.settle();
    let end = cluster.end.clone().unwrap();
    assert!(end.reason.contains("node n2 with ranks 2"), "{}", end.reason);
    assert_eq!(cluster.running.len(), 1, "the lost node's rank is not ours to end");
    cluster.participate(&node(2), pcm_core::job::participant::Input::CoordinatorLost);
    cluster.pass(1_000_000);
    cluster.cut_off.clear();
    cluster.relink();
    cluster.settle();
    cluster.assert_nothing_is_left();
}

#[test]
fn an_end_that_overtakes_the_order_to_start_still_ends_everything() {
    let mut cluster = Cluster::accept(&[1, 1], WorldShape::Job);
    cluster.coordinate(Input::End {
        code: 137,
        reason: "killed".into(),
    });
    cluster.settle_losing(|_, to, message| {
        *to == node(1) && matches!(message, JobMessage::ToNode(CoordinatorToNode::Start(_)))
    });
    assert!(cluster.end.is_some());
    cluster.assert_nothing_is_left();
}

#[test]
fn an_order_that_got_lost_in_the_tree_is_sent_again_straight() {
    let mut cluster = Cluster::accept(&[1, 1, 1, 1, 1, 1, 1], WorldShape::Job);
    // The coordinator has the children n1 to n4; n5 and n6 hang below n1, which loses what it should pass on.
    cluster.settle_losing(|from, _, message| {
        *from == node(1) && matches!(message, JobMessage::ToNode(CoordinatorToNode::Start(_)))
    });
    assert_eq!(cluster.running.len(), 5);
    cluster.pass(1_000_000);
    cluster.settle();
    assert_eq!(cluster.running_by_account(), 7);
    assert_eq!(cluster.coordinator.status().state, JobState::Running);
}

#[test]
fn nodes_that_never_start_their_ranks_end_the_job_after_the_deadline() {
    let mut cluster = Cluster::accept(&[1, 1], WorldShape::Job);
    cluster.cut_off.insert(node(1));
    for _ in 0..60 {
        cluster.pass(1_000_000);
        cluster.settle();
    }
    let end = cluster.end.clone().unwrap();
    assert!(
        end.reason.contains("nodes n1 did not start their ranks"),
        "{}",
        end.reason
    );
}

fn spawn(count: u32) -> Request {
    let command = SpawnCommand {
        processes: count,
        program: "child".into(),
        ..SpawnCommand::default()
    };
    Request::Spawn {
        commands: vec![SpawnCommand {
            preputs: vec![("PARENT_ROOT_PORT_NAME".into(), "port".into())],
            ..command
        }],
    }
}

#[test]
fn the_answer_to_a_spawn_waits_until_the_child_asks_for_its_parent() {
    let mut cluster = Cluster::accept(&[1, 1], WorldShape::Job);
    cluster.settle();
    cluster.pmi(P[0], spawn(2));
    cluster.settle();
    assert_eq!((cluster.running.len(), cluster.lines(P[0]).len()), (4, 0));
    cluster.pmi(P[2], get("PARENT_ROOT_PORT_NAME"));
    cluster.settle();
    assert_eq!(cluster.lines(P[2]), ["cmd=get_result rc=0 value=port"]);
    assert_eq!(cluster.lines(P[0]), ["cmd=spawn_result rc=0 errcodes=0,0"]);
    finish(&mut cluster, &P[..4]);
    assert_eq!(cluster.end.clone().unwrap().code, 0);
    cluster.assert_nothing_is_left();
}

#[test]
fn a_spawn_that_cannot_start_is_an_error_for_the_application_and_not_the_end() {
    for refused in [vec![P[3]], vec![P[2], P[3]]] {
        let refused = BTreeSet::from_iter(refused);
        let mut cluster = Cluster::accept_refusing(&[1, 1], WorldShape::Job, refused);
        cluster.settle();
        cluster.pmi(P[0], spawn(2));
        cluster.settle();
        assert_eq!(cluster.lines(P[0]), ["cmd=spawn_result rc=-1"]);
        assert!(
            cluster.end.is_none() && cluster.running.len() == 2,
            "the child that did start is ended"
        );
        let told = cluster
            .notes
            .iter()
            .filter(|note| matches!(note, EventKind::SpawnRefused { .. }));
        assert_eq!(told.count(), 1, "for people once");
    }
}

#[test]
fn a_published_name_is_found_on_another_node() {
    let mut cluster = Cluster::accept(&[1, 1], WorldShape::Job);
    cluster.settle();
    cluster.pmi(
        P[0],
        Request::Publish {
            service: "s".into(),
            port: "tcp:1".into(),
        },
    );
    cluster.settle();
    cluster.pmi(P[1], Request::Lookup { service: "s".into() });
    cluster.settle();
    assert_eq!(cluster.lines(P[1]), ["cmd=lookup_result rc=0 info=ok port=tcp:1"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever is lost with a broken link, saying everything again after the next one brings the job through.
    #[test]
    fn lost_messages_are_made_good_by_the_next_link(
        counts in proptest::collection::vec(0_u32..3, 1..8),
        losses in proptest::collection::vec(any::<bool>(), 200),
        death in proptest::option::of((0_usize..8, 0_usize..5)),
    ) {
        prop_assume!(counts.iter().sum::<u32>() > 0 && counts.iter().sum::<u32>() <= 8);
        let size = counts.iter().sum::<u32>() as usize;
        let mut losses = losses.into_iter();
        let mut lossy = |cluster: &mut Cluster| {
            cluster.settle_losing(|from, to, _| from != to && losses.next().unwrap_or(false));
            cluster.pass(1_000_000);
            cluster.settle();
            cluster.relink();
            cluster.settle();
        };
        let mut cluster = Cluster::accept(&counts, WorldShape::Job);
        lossy(&mut cluster);
        prop_assert_eq!(cluster.running.len(), size);
        for (step, process) in (0..).zip(&P[..size]) {
            cluster.pmi(*process, init());
            cluster.pmi(*process, put(&format!("k{step}"), "v"));
            cluster.pmi(*process, Request::BarrierIn);
        }
        lossy(&mut cluster);
        for process in &P[..size] {
            prop_assert!(cluster.lines(*process).ends_with(&["cmd=barrier_out rc=0"]));
        }
        cluster.assert_journals_lead_to_the_same_states();
        for (step, process) in (0..).zip(&P[..size]) {
            match death {
                Some((victim, _)) if victim % size == step => cluster.exit(*process, ExitStatus::Signal(11)),
                _ => {
                    cluster.pmi(*process, Request::Finalize);
                    cluster.exit(*process, ExitStatus::Code(0));
                }
            }
        }
        lossy(&mut cluster);
        for _ in 0..4 {
            cluster.pass(1_000_000);
            cluster.relink();
            cluster.settle();
        }
        let end = cluster.end.clone();
        prop_assert_eq!(end.map(|end| end.code), Some(if death.is_some() { 139 } else { 0 }));
        prop_assert_eq!(cluster.running.len(), 0);
        let ended = cluster.notes.iter().filter(|kind| matches!(kind, EventKind::JobEnded { .. })).count();
        prop_assert_eq!(ended, 1);
        let over: BTreeSet<_> = cluster.parts.keys().collect();
        prop_assert!(over.is_empty(), "parts are left on {over:?}");
    }
}
