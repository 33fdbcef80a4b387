//! The text of a trace.

use super::writer::{Counts, Writer};
use pcm_proto::control::{NodeState, NodeStatus};
use pcm_proto::event::{Event, EventKind, Reconfigured};
use pcm_proto::ids::{Bytes, Epoch, JobId, NodeName, ProcessId, Rank};
use pcm_proto::layout::Mode;
use pcm_proto::page::NOT_ONE;
use pcm_proto::trace::{HELD, ITERATION, TraceChunk, TraceEntry};
use serde_json::Value;

fn entry(function: u16, begin_ns: u64, ns: u64, bytes: u64) -> TraceEntry {
    TraceEntry {
        begin_ns,
        ns,
        function,
        peer: if function == 5 { 3 } else { NOT_ONE },
        tag: if function == 5 { -1 } else { NOT_ONE },
        bytes,
    }
}

fn chunk(rank: u32, lost: u64, entries: Vec<TraceEntry>) -> TraceChunk {
    TraceChunk {
        process: ProcessId(7),
        rank: Rank(rank),
        node: NodeName::new("n0").unwrap(),
        next: 0,
        lost,
        has_more: false,
        epoch_offset_ns: 1_000_000_000,
        names: vec![(5, "Recv".to_owned())],
        entries,
    }
}

fn written(fill: impl FnOnce(&mut Writer<&mut Vec<u8>>)) -> (Vec<Value>, Counts) {
    let mut text = Vec::new();
    // Time 0 is 1 s after 1970, which the node's clock shows as 0.
    let mut writer = Writer::new(&mut text, "job 1 \"x\"", 1_000_000).unwrap();
    fill(&mut writer);
    let counts = writer.finish().unwrap();
    let document: Value = serde_json::from_slice(&text).unwrap();
    (document["traceEvents"].as_array().unwrap().clone(), counts)
}

fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["name"] == name).collect()
}

#[test]
fn iterations_enclose_the_calls_made_in_them() {
    let entries = vec![
        entry(ITERATION, 1_000, 0, 4),
        entry(5, 2_000, 500, 64),
        entry(HELD, 3_000, 100, 4),
        entry(ITERATION, 9_000, 0, 5),
    ];
    let (events, counts) = written(|writer| writer.chunk(&chunk(2, 0, entries)).unwrap());
    let iteration = &named(&events, "iteration")[0];
    assert_eq!((&iteration["ts"], &iteration["dur"]), (&1.0.into(), &8.0.into()));
    assert_eq!(iteration["args"]["number"], 4);
    let call = &named(&events, "MPI_Recv")[0];
    assert_eq!(
        (&call["ts"], &call["dur"], &call["tid"]),
        (&2.0.into(), &0.5.into(), &7.into())
    );
    assert_eq!(
        (&call["args"]["peer"], &call["args"]["tag"]),
        (&3.into(), &"any".into())
    );
    assert_eq!(named(&events, "held by libpcm").len(), 1);
    assert_eq!((counts.calls, counts.iterations, counts.ranks), (1, 1, 1));
}

#[test]
fn an_iteration_whose_beginning_was_lost_is_not_told() {
    let (events, counts) = written(|writer| {
        writer.chunk(&chunk(2, 0, vec![entry(ITERATION, 1_000, 0, 4)])).unwrap();
        writer
            .chunk(&chunk(2, 9, vec![entry(ITERATION, 90_000, 0, 40)]))
            .unwrap();
    });
    assert!(named(&events, "iteration").is_empty());
    assert_eq!((counts.lost, counts.iterations), (9, 0));
}

#[test]
fn a_call_that_began_before_the_trace_is_shown_from_its_beginning() {
    let mut chunk = chunk(0, 0, vec![entry(5, 0, 5_000, 1)]);
    chunk.epoch_offset_ns -= 2_000;
    let (events, _) = written(|writer| writer.chunk(&chunk).unwrap());
    let call = &named(&events, "MPI_Recv")[0];
    assert_eq!((&call["ts"], &call["dur"]), (&0.0.into(), &3.0.into()));
}

#[test]
fn a_rank_that_gets_another_number_gets_another_name() {
    let (events, _) = written(|writer| {
        for rank in [2, 2, 3] {
            writer.chunk(&chunk(rank, 0, Vec::new())).unwrap();
        }
    });
    let names = named(&events, "thread_name");
    let ranks: Vec<_> = names
        .iter()
        .filter(|event| event["tid"] == 7)
        .map(|event| &event["args"]["name"])
        .collect();
    assert_eq!(ranks, ["rank 2 (process 7)", "rank 3 (process 7)"]);
}

#[test]
fn phases_follow_each_other_within_their_reconfiguration() {
    let done = Reconfigured {
        plan: "migrate".to_owned(),
        cause: "user".to_owned(),
        ranks_before: 2,
        ranks_after: 2,
        moved: Vec::new(),
        bytes_moved: Bytes(9),
        bytes_ahead: Bytes(0),
        pause_ms: 3.0,
        mode: Mode::Live,
        method: None,
        method_reason: None,
        placement: None,
        total_ms: 8.0,
        phases_ms: vec![("preparing".to_owned(), 6.0), ("moving".to_owned(), 2.0)],
    };
    let event = |time_us, kind| Event {
        time_us,
        job: Some(JobId(1)),
        epoch: Epoch(1),
        node: NodeName::new("n0").unwrap(),
        kind,
    };
    let ended = EventKind::JobEnded {
        code: 0,
        reason: String::new(),
    };
    let (events, counts) = written(|writer| {
        writer.happened(&event(500, ended.clone())).unwrap();
        writer
            .happened(&event(1_100_000, EventKind::Reconfigured(Box::new(done))))
            .unwrap();
        writer.happened(&event(1_200_000, ended)).unwrap();
    });
    let at = |name: &str| {
        let found = named(&events, name)[0];
        (found["ts"].as_f64().unwrap(), found["dur"].as_f64().unwrap())
    };
    assert_eq!(at("migrate"), (92_000.0, 8_000.0));
    assert_eq!(at("preparing"), (92_000.0, 6_000.0));
    assert_eq!(at("moving"), (98_000.0, 2_000.0));
    assert_eq!(named(&events, "job_ended").len(), 1, "one was before the trace");
    assert_eq!(counts.reconfigurations, 1);
}

#[test]
fn the_load_of_a_node_is_a_counter() {
    let node = NodeStatus {
        name: NodeName::new("n1").unwrap(),
        address: String::new(),
        site: String::new(),
        cpus: vec![0],
        state: NodeState::Up,
        speed: 1.0,
        load_by_others: 0.5,
        ranks: 2,
        free_memory: 0,
        daemon_pid: 0,
        fabric: Default::default(),
        link: None,
        ends: None,
    };
    let (events, _) = written(|writer| writer.nodes(&[node], 1_000_250).unwrap());
    let load = named(&events, "load by others")[0];
    assert_eq!(
        (&load["ph"], &load["ts"], &load["args"]["CPUs"]),
        (&"C".into(), &250.0.into(), &0.5.into())
    );
}
