//! Sentences about waiting ranks and their source lines: what two looks agree on is named, and nothing else.
#![allow(clippy::unwrap_used, reason = "a test")]

use pcm_core::stacks::{tree, verdict};
use pcm_core::stuck::Report;
use pcm_proto::ids::{Bytes, NodeName, ProcessId, Rank};
use pcm_proto::rank_snapshot::{CallLook, RankLook, Stage};
use pcm_proto::stack::{ProcessStack, RankStack, StackFrame, ThreadStack};
use std::collections::BTreeMap;

fn frame(function: &str, line: u32) -> StackFrame {
    StackFrame {
        function: Some(function.to_owned()),
        file: Some("/home/user/heat2d.c".to_owned()),
        line: Some(line),
        module: "heat2d".to_owned(),
    }
}

/// A rank whose main thread is here, called by `main`.
fn stack(rank: u32, function: &str, line: u32) -> RankStack {
    let thread = ThreadStack {
        is_main: true,
        is_in_mpi: rank != 1,
        frames: vec![frame(function, line), frame("main", 7)],
        ..ThreadStack::default()
    };
    RankStack {
        rank: Rank(rank),
        process: ProcessId(rank),
        node: NodeName::new("n1").unwrap(),
        stack: ProcessStack {
            state: "S".to_owned(),
            threads: vec![thread],
            ..ProcessStack::default()
        },
    }
}

fn look(rank: u32) -> RankLook {
    let call = CallLook {
        function: "Recv".to_owned(),
        peer: Some(1),
        tag: Some(7),
        bytes: Bytes(8),
        communicator: 1,
        since_ms: 12_400.0,
    };
    RankLook {
        rank: Rank(rank),
        process: ProcessId(rank),
        node: NodeName::new("n1").unwrap(),
        stage: Stage::Running,
        calls: 9,
        call: (rank != 1).then_some(call),
        collectives: Vec::new(),
        sends: Vec::new(),
        communicators: Vec::new(),
        from_anybody: 0,
        peers: Vec::new(),
        peers_left_out: 0,
        apart: Vec::new(),
        apart_left_out: 0,
    }
}

/// Ranks 0, 2 and 3 wait for rank 1.
fn report() -> Report {
    Report {
        waiting: vec![0, 2, 3],
        held_by: BTreeMap::from([(0, vec![1]), (2, vec![1]), (3, vec![1])]),
        ranks: 4,
        ..Report::default()
    }
}

fn said(first: RankStack, second: RankStack) -> String {
    let looks: Vec<RankLook> = (0..4).map(look).collect();
    let all = |one: RankStack| {
        [0, 2, 3]
            .map(|rank| stack(rank, "exchange", 88))
            .into_iter()
            .chain([one])
    };
    let (first, second): (Vec<_>, Vec<_>) = (all(first).collect(), all(second).collect());
    verdict(&report(), &looks, &first, &second).join("\n")
}

#[test]
fn the_culprit_is_named_with_its_line() {
    assert_eq!(
        said(stack(1, "write_file", 41), stack(1, "write_file", 41)),
        "ranks 0, 2, 3 wait for 12 s in exchange() heat2d.c:88 (Recv) for rank 1, which is in write_file() heat2d.c:41"
    );
}

#[test]
fn a_line_that_changed_is_left_out() {
    let text = said(stack(1, "compute", 41), stack(1, "compute", 44));
    assert!(text.ends_with("which is in compute() heat2d.c"), "{text}");
    let text = said(stack(1, "compute", 41), stack(1, "other", 50));
    assert!(text.ends_with("which is in main() heat2d.c:7"), "{text}");
}

#[test]
fn lines_of_python_are_named_where_they_were_read() {
    let mut python = stack(1, "Solver.read_mesh", 41);
    for frame in &mut python.stack.threads[0].frames {
        frame.module = "python3.11".to_owned();
        frame.file = Some("/home/user/solver.py".to_owned());
    }
    let text = said(python.clone(), python.clone());
    assert!(text.ends_with("which is in Solver.read_mesh() solver.py:41"), "{text}");
    python.stack.threads[0].frames[0].function = Some("<module>".to_owned());
    let text = said(python.clone(), python);
    assert!(text.ends_with("which is in <module> solver.py:41"), "{text}");
}

#[test]
fn a_function_that_comes_with_python_is_named_with_the_line_of_the_program_that_called_it() {
    let with_file = |file: &str| {
        let mut python = stack(1, "fetch", 41);
        let mut inner = frame("Queue.get", 171);
        inner.file = Some(file.to_owned());
        python.stack.threads[0].frames.insert(0, inner);
        said(python.clone(), python)
    };
    let text = with_file("/usr/lib/python3.11/queue.py");
    assert!(
        text.ends_with("which is in Queue.get() queue.py:171, called by fetch() heat2d.c:41"),
        "{text}"
    );
    let text = with_file("/env/lib/python3.11/site-packages/solver/queue.py");
    assert!(text.ends_with("which is in Queue.get() queue.py:171"), "{text}");
}

#[test]
fn a_library_without_lines_is_named_with_the_line_that_called_it() {
    let multiplies = |function: &str| {
        let mut python = stack(1, "solve", 41);
        let library = StackFrame {
            function: Some(function.to_owned()),
            module: "libblas.so".to_owned(),
            ..StackFrame::default()
        };
        python.stack.threads[0].frames.insert(0, library);
        python
    };
    let text = said(multiplies("dgemm"), multiplies("dgemm"));
    assert!(
        text.ends_with("which is in dgemm() of libblas.so, called by solve() heat2d.c:41"),
        "{text}"
    );
    let text = said(multiplies("dgemm"), multiplies("dtrsm"));
    assert!(text.ends_with("which is in solve() heat2d.c:41"), "{text}");
}

#[test]
fn nothing_is_named_of_an_interpreter_or_of_what_was_not_read() {
    let mut python = stack(1, "spin", 3);
    python.stack.threads[0].is_interpreted = true;
    let text = said(python.clone(), python);
    assert!(
        text.ends_with("rank 1, which is outside of MPI, in a place that cannot be told"),
        "{text}"
    );
    let mut gone = stack(1, "spin", 3);
    gone.stack = ProcessStack::default();
    let text = said(gone, stack(1, "spin", 3));
    assert!(!text.contains("spin"), "{text}");
}

#[test]
fn a_stopped_rank_is_called_stopped() {
    let mut stopped = stack(1, "step", 3);
    stopped.stack.state = "T".to_owned();
    let text = said(stopped.clone(), stopped);
    assert!(
        text.ends_with("step() heat2d.c:3, stopped by a signal such as SIGSTOP"),
        "{text}"
    );
}

#[test]
fn ranks_share_the_frames_that_they_have_in_common() {
    let roots = tree(&[
        stack(0, "exchange", 88),
        stack(1, "write_file", 41),
        stack(2, "exchange", 88),
    ]);
    assert_eq!(roots.len(), 1);
    assert_eq!(roots[0].ranks, [0, 1, 2]);
    let called: Vec<_> = roots[0]
        .called
        .iter()
        .map(|one| (one.frame.as_str(), one.ranks.as_slice()))
        .collect();
    assert_eq!(
        called,
        [
            ("exchange() heat2d.c:88", &[0, 2][..]),
            ("write_file() heat2d.c:41", &[1][..])
        ]
    );
}
