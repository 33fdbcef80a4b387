//! One world on one node.

use pcm_core::pmi::wire::Request;
use pcm_core::pmi::world::{Effect, Stage, World, WorldSpec};
use pcm_proto::ids::ProcessId;
use std::collections::{BTreeMap, BTreeSet};

pub fn world(size: u32, local: impl IntoIterator<Item = u32>) -> World {
    World::new(WorldSpec {
        kvsname: "kvs".to_owned(),
        size,
        local: local.into_iter().map(|rank| (ProcessId(100 + rank), rank)).collect(),
        values: vec![("PMI_process_mapping".to_owned(), "(vector,(0,1,2))".to_owned())],
        universe: Some(8),
        app_numbers: vec![0, 1],
        is_spare: false,
    })
}

pub fn process(rank: u32) -> ProcessId {
    ProcessId(100 + rank)
}

pub fn put(key: &str, value: &str) -> Request {
    Request::Put {
        key: key.to_owned(),
        value: value.to_owned(),
    }
}

pub fn get(key: &str) -> Request {
    Request::Get { key: key.to_owned() }
}

fn line(effects: &[Effect]) -> &str {
    match effects {
        [Effect::Answer { line, .. }, ..] => line.trim_end(),
        other => panic!("no answer: {other:?}"),
    }
}

#[test]
fn what_is_asked_at_the_start_is_answered() {
    let mut world = world(2, 0..2);
    let mut ask = |request| line(&world.on_request(process(1), request)).to_owned();
    assert_eq!(
        ask(Request::Init {
            version: 1,
            subversion: 1
        }),
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
    );
    assert_eq!(
        ask(Request::Maxes),
        "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"
    );
    assert_eq!(ask(Request::AppNumber), "cmd=appnum rc=0 appnum=1");
    assert_eq!(ask(Request::KvsName), "cmd=my_kvsname rc=0 kvsname=kvs");
    assert_eq!(ask(Request::UniverseSize), "cmd=universe_size rc=0 size=8");
    assert_eq!(
        ask(get("PMI_process_mapping")),
        "cmd=get_result rc=0 value=(vector,(0,1,2))"
    );
    assert_eq!(ask(get("none")), "cmd=get_result rc=-1 msg=key_not_found");
    assert_eq!(world.stage(process(1)), Some(Stage::Initialized));
    assert_eq!(world.stage(process(0)), Some(Stage::Started));
}

#[test]
fn a_process_of_another_protocol_version_is_refused() {
    let effects = world(1, 0..1).on_request(
        process(0),
        Request::Init {
            version: 2,
            subversion: 0,
        },
    );
    assert!(line(&effects).ends_with("rc=-1"));
}

#[test]
fn a_barrier_of_a_world_on_one_node_needs_no_other_node() {
    let mut world = world(2, 0..2);
    world.on_request(process(0), put("a", "1"));
    assert!(world.on_request(process(0), Request::BarrierIn).is_empty());
    let effects = world.on_request(process(1), Request::BarrierIn);
    let answered: Vec<_> = effects
        .iter()
        .map(|effect| line(std::slice::from_ref(effect)))
        .collect();
    assert_eq!(answered, ["cmd=barrier_out rc=0"; 2]);
    assert_eq!(
        line(&world.on_request(process(1), get("a"))),
        "cmd=get_result rc=0 value=1"
    );
}

#[test]
fn a_barrier_asked_for_again_by_a_process_that_waits_changes_nothing() {
    let mut world = world(2, 0..2);
    world.on_request(process(0), Request::BarrierIn);
    assert!(world.on_request(process(0), Request::BarrierIn).is_empty());
    assert_eq!(world.on_request(process(1), Request::BarrierIn).len(), 2);
}

#[test]
fn the_answer_a_killed_daemon_did_not_send_is_sent_by_the_next_one_and_no_other_twice() {
    let mut world = world(2, 0..2);
    world.on_request(process(0), Request::BarrierIn);
    world.on_request(process(1), Request::BarrierIn);
    // Both are answered in the journal; process 0 got its answer and asks for the next barrier, process 1 got none.
    world.on_restored(&BTreeSet::from([process(1)]));
    assert!(
        world.on_request(process(0), Request::BarrierIn).is_empty(),
        "the next barrier is not released early"
    );
    assert_eq!(
        line(&world.on_request(process(1), Request::BarrierIn)),
        "cmd=barrier_out rc=0"
    );
    world.on_answered(process(1));
    assert_eq!(world.on_request(process(1), Request::BarrierIn).len(), 2);
}

#[test]
fn the_word_upwards_is_repeated_by_a_restored_daemon_with_the_same_values() {
    let mut world = world(4, 0..2);
    world.on_request(process(0), put("a", "1"));
    world.on_request(process(0), Request::BarrierIn);
    let up = world.on_request(process(1), Request::BarrierIn);
    assert!(matches!(&up[..], [Effect::BarrierUp { generation: 0, puts }] if puts["a"] == "1"));
    assert_eq!(world.on_restored(&BTreeSet::from([process(0), process(1)])), up);
}

#[test]
fn a_late_release_and_a_strangers_request_have_no_effect() {
    let mut world = world(4, 0..2);
    assert!(world.on_release(7, BTreeMap::new()).is_empty());
    assert!(world.on_request(ProcessId(9), Request::BarrierIn).is_empty());
}

#[test]
fn a_process_that_finalized_is_not_waited_for() {
    let mut world = world(2, 0..2);
    world.on_request(process(0), Request::BarrierIn);
    let effects = world.on_request(process(1), Request::Finalize);
    assert!(effects.contains(&Effect::Finalized { process: process(1) }));
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Answer { process: to, .. } if *to == process(0)))
    );
    assert!(!effects.contains(&Effect::AllFinalized));
    assert!(
        world
            .on_request(process(0), Request::Finalize)
            .contains(&Effect::AllFinalized)
    );
    let again = world.on_request(process(0), Request::Finalize);
    assert_eq!(again.len(), 1, "asked again, it is only answered again: {again:?}");
}

#[test]
fn a_spawn_is_answered_when_the_children_are_ready_and_asked_for_once() {
    let mut world = world(1, 0..1);
    let spawn = Request::Spawn { commands: vec![] };
    let effects = world.on_request(process(0), spawn.clone());
    assert!(matches!(&effects[..], [Effect::SpawnRequested { .. }]));
    assert!(world.on_request(process(0), spawn.clone()).is_empty());
    let answer = world.on_spawned(process(0), &[0, 0]);
    assert_eq!(line(&answer), "cmd=spawn_result rc=0 errcodes=0,0");
    assert_eq!(
        world.on_request(process(0), spawn.clone()),
        answer,
        "not known to be sent, it is sent again"
    );
    world.on_answered(process(0));
    assert!(world.on_spawned(process(0), &[0]).is_empty(), "nobody waits any more");
    world.on_request(process(0), spawn);
    assert_eq!(line(&world.on_spawn_refused(process(0))), "cmd=spawn_result rc=-1");
}

fn spare(size: u32, local: impl IntoIterator<Item = u32>) -> World {
    World::new(WorldSpec {
        kvsname: "kvs".to_owned(),
        size,
        local: local.into_iter().map(|rank| (ProcessId(100 + rank), rank)).collect(),
        values: Vec::new(),
        universe: None,
        app_numbers: Vec::new(),
        is_spare: true,
    })
}

fn port(name: &str) -> [(String, String); 1] {
    [("PARENT_ROOT_PORT_NAME".to_owned(), name.to_owned())]
}

#[test]
fn a_spare_is_held_where_it_asks_for_its_parent_until_one_takes_it() {
    let mut world = spare(2, 0..2);
    assert!(
        line(&world.on_request(process(0), get("none"))).contains("rc=-1"),
        "all else is answered"
    );
    assert!(world.on_request(process(0), get("PARENT_ROOT_PORT_NAME")).is_empty());
    assert!(!world.is_spare_ready());
    assert_eq!(
        world.on_request(process(1), get("PARENT_ROOT_PORT_NAME")),
        [Effect::SpareReady],
        "ready when all are there"
    );
    assert!(
        world.on_request(process(1), get("PARENT_ROOT_PORT_NAME")).is_empty(),
        "said once"
    );
    let effects = world.on_adopted(&port("tcp"));
    assert_eq!(effects.len(), 3);
    assert_eq!(line(&effects[..1]), "cmd=get_result rc=0 value=tcp");
    assert_eq!(line(&effects[1..]), "cmd=get_result rc=0 value=tcp");
    assert_eq!(effects[2], Effect::ParentAsked);
    assert_eq!(
        world.on_adopted(&port("other")),
        [Effect::ParentAsked],
        "said again, it changes nothing"
    );
    assert_eq!(
        line(&world.on_request(process(0), get("PARENT_ROOT_PORT_NAME"))),
        "cmd=get_result rc=0 value=tcp",
        "an answer that a killed daemon did not send is sent by the next one"
    );
}

#[test]
fn a_spare_that_is_taken_before_it_asks_is_answered_when_it_does() {
    let mut world = spare(1, 0..1);
    assert!(world.on_adopted(&port("tcp")).is_empty());
    let effects = world.on_request(process(0), get("PARENT_ROOT_PORT_NAME"));
    assert_eq!(line(&effects), "cmd=get_result rc=0 value=tcp");
    assert_eq!(effects.last(), Some(&Effect::ParentAsked));
}

#[test]
fn children_ask_for_their_parent_once() {
    let mut world = world(2, 0..2);
    assert_eq!(
        world.on_request(process(0), get("PARENT_ROOT_PORT_NAME")).len(),
        1,
        "there is no parent"
    );
    world.on_request(process(0), put("PARENT_ROOT_PORT_NAME", "port"));
    assert_eq!(
        world.on_request(process(0), get("PARENT_ROOT_PORT_NAME")).last(),
        Some(&Effect::ParentAsked)
    );
    assert_eq!(world.on_request(process(0), get("PARENT_ROOT_PORT_NAME")).len(), 1);
}
