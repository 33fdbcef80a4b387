//! `top` drawn into a buffer, and its keys.

use super::draw::draw;
use super::keys::{Outcome, on_key};
use super::state::{Line, Look, Pane, State};
use crate::commands::Order;
use pcm_proto::control::{NodeState, NodeStatus};
use pcm_proto::ids::{Bytes, Epoch, Iteration, JobId, NodeName, ProcessId, Rank};
use pcm_proto::job::{JobState, JobStatus, RankStatus};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::{Duration, Instant};

/// What a drawing may take; code that was not optimised, among other tests, gets ten times as long.
const DRAWN_WITHIN: Duration = Duration::from_millis(if cfg!(debug_assertions) { 1000 } else { 100 });

fn node_name(number: u32) -> NodeName {
    NodeName::new(format!("n{number}")).unwrap()
}

fn look(at: f64, ranks: u32, nodes: u32) -> Look {
    let node = |number| NodeStatus {
        name: node_name(number),
        address: format!("127.0.0.1:{}", 40_000 + number),
        site: "here".into(),
        cpus: vec![number],
        state: NodeState::Up,
        speed: 1.0,
        load_by_others: 0.25,
        ranks: ranks / nodes,
        free_memory: 1 << 33,
        daemon_pid: 1,
        fabric: Default::default(),
        link: None,
        ends: None,
    };
    let rank = |number: u32| RankStatus {
        rank: Rank(number),
        process: ProcessId(number),
        node: node_name(number % nodes),
        pid: 1000 + number,
        iteration: Iteration(1000 + u64::from(number * 7919 % ranks)),
        iterations_here: 10,
        useful_ms: f64::from(number * 31 % ranks),
        wait_ms: 1.5,
        memory: Bytes(300 << 20),
        iterations_declared: None,
        restored: Bytes(0),
        call: if number.is_multiple_of(3) {
            "-".into()
        } else {
            "Recv".into()
        },
        call_since_ms: f64::from(number),
        peer: Some(2),
        tag: Some(5),
        bytes: Some(Bytes(8)),
        sent: Bytes((at * 1e6) as u64),
        received: Bytes(0),
        registered: Bytes(0),
        constant: Bytes(0),
    };
    let job = |number| JobStatus {
        job: JobId(number),
        name: format!("heat{number}"),
        state: JobState::Running,
        epoch: Epoch(3),
        size: ranks,
        nodes: (0..nodes).map(|node| (node_name(node), ranks / nodes)).collect(),
        started_us: 0,
        end: None,
        coordinator: node_name(0),
        reign: 0,
        spares: Vec::new(),
    };
    Look {
        at,
        jobs: vec![job(1), job(2)],
        nodes: (0..nodes).map(node).collect(),
        ranks: (0..ranks).map(rank).collect(),
    }
}

fn state(ranks: u32, nodes: u32) -> State {
    let mut state = State::new();
    state.on_look(look(1.0, ranks, nodes));
    state.on_look(look(2.0, ranks, nodes));
    state
}

fn screen(state: &State, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |y| {
        (0..width)
            .map(|x| buffer[(x, y)].symbol().to_owned())
            .collect::<String>()
    };
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

fn press(state: &mut State, keys: &[KeyCode]) -> Outcome {
    let press = |state: &mut State, code: &KeyCode| on_key(state, KeyEvent::new(*code, KeyModifiers::NONE));
    let outcomes = keys.iter().map(|code| press(state, code));
    outcomes.last().unwrap_or(Outcome::Shown)
}

fn typed(text: &str) -> Vec<KeyCode> {
    text.chars().map(KeyCode::Char).collect()
}

#[test]
fn jobs_ranks_and_nodes_are_seen_in_80_columns_without_colour() {
    let state = state(8, 4);
    let lines = screen(&state, 80, 24);
    let all = lines.join("\n");
    for part in [
        "4 of 4 nodes up",
        "heat2",
        "Recv 2 #5 8 B",
        "977 KiB",
        "300 MiB",
        "1.50",
        "n3",
        "8.0 GiB",
        "q quit",
    ] {
        assert!(all.contains(part), "{part} in\n{all}");
    }
    assert!(lines.iter().all(|line| line.chars().count() <= 80));
    let marked: Vec<_> = lines.iter().filter(|line| line.starts_with('>')).collect();
    assert_eq!(marked.len(), 1, "{all}");
}

#[test]
fn the_map_has_each_node_with_its_ranks_by_job_and_takes_a_drained_node_back() {
    let mut state = state(8, 4);
    press(&mut state, &typed("v"));
    let all = screen(&state, 80, 24).join("\n");
    for part in ["JOB:RANKS", "1:2x 2:0,4", "1:2x 2:3,7"] {
        assert!(all.contains(part), "{part} in\n{all}");
    }
    assert!(!all.contains("MPI ms") && all.contains("[nodes]"), "{all}");
    let mut drained = look(3.0, 8, 4);
    drained.nodes[1].state = NodeState::Draining;
    state.on_look(drained);
    let (node, back) = (node_name(1), Vec::new());
    let done = press(&mut state, &typed("jdy"));
    assert_eq!(done, Outcome::Do(Order::Undrain { node, back }));
    press(&mut state, &[KeyCode::Tab]);
    assert_eq!(state.pane, Pane::Jobs);
    press(&mut state, &[KeyCode::Tab]);
    assert_eq!(state.pane, Pane::Nodes, "the table of ranks is not there");
    press(&mut state, &typed("v"));
    assert!(screen(&state, 80, 24).join("\n").contains("MPI ms"));
}

#[test]
fn a_choice_survives_a_new_look_and_another_order() {
    let mut state = state(20, 4);
    press(&mut state, &[KeyCode::Tab, KeyCode::Down, KeyCode::Down, KeyCode::Down]);
    assert_eq!((state.pane, state.rank), (Pane::Ranks, Some(Rank(3))));
    press(&mut state, &typed("ss"));
    state.on_look(look(3.0, 20, 4));
    assert_eq!(state.rank, Some(Rank(3)));
    let lines = screen(&state, 80, 40);
    let marked = lines.iter().find(|line| line.starts_with('>')).unwrap();
    assert!(marked.contains(" 3 ") || marked.starts_with("> 3"), "{marked}");
    press(&mut state, &typed("r"));
    let first = |state: &State| state.ranks()[0].iteration;
    assert_eq!(first(&state), Iteration(1019));
}

#[test]
fn a_filter_leaves_what_contains_it() {
    let mut state = state(20, 4);
    press(&mut state, &typed("/n3"));
    press(&mut state, &[KeyCode::Enter]);
    assert!(state.ranks().iter().all(|rank| rank.node.as_str() == "n3"));
    assert_eq!((state.ranks().len(), state.nodes().len()), (5, 1));
    press(&mut state, &[KeyCode::Esc]);
    assert_eq!(state.ranks().len(), 20);
}

#[test]
fn a_migration_is_ordered_only_after_a_yes() {
    let mut state = state(8, 4);
    let ask = |state: &mut State, answer: char| {
        state.pane = Pane::Ranks;
        state.rank = Some(Rank(5));
        press(state, &typed("mn2"));
        press(state, &[KeyCode::Enter]);
        assert!(matches!(state.line, Line::Confirm(_)), "{:?}", state.line);
        assert!(screen(state, 80, 24)[23].starts_with("move rank 5 of job 2 to node n2? y or n"));
        press(state, &[KeyCode::Char(answer)])
    };
    assert_eq!(ask(&mut state, 'n'), Outcome::Shown);
    assert_eq!(
        ask(&mut state, 'y'),
        Outcome::Do(Order::Migrate {
            job: JobId(2),
            rank: Rank(5),
            to: node_name(2)
        })
    );
}

#[test]
fn rows_that_few_ranks_leave_are_the_nodes() {
    let all = screen(&state(4, 4), 80, 24).join("\n");
    for node in ["n0 ", "n1 ", "n2 ", "n3 "] {
        assert!(all.contains(&format!("  {node}         up")), "{node}: {all}");
    }
    let all = screen(&state(400, 40), 80, 24).join("\n");
    assert_eq!(all.matches(" up     ").count(), 3, "{all}");
}

#[test]
fn a_job_grows_and_shrinks_only_after_a_yes() {
    let mut state = state(8, 4);
    press(&mut state, &typed("n9"));
    assert!(screen(&state, 80, 24)[23].starts_with("job 2 has 8 ranks; new number: 9_"));
    press(&mut state, &[KeyCode::Enter]);
    let job = JobId(2);
    assert_eq!(
        press(&mut state, &typed("y")),
        Outcome::Do(Order::Expand { job, to: 9 })
    );
    press(&mut state, &typed("n3"));
    press(&mut state, &[KeyCode::Enter]);
    assert!(screen(&state, 80, 24)[23].starts_with("shrink job 2 to 3 ranks? y or n"));
    assert_eq!(
        press(&mut state, &typed("y")),
        Outcome::Do(Order::Shrink { job, to: 3 })
    );
    for (answer, told) in [
        ("8", "8 ranks already"),
        ("0", "not a number of ranks"),
        ("x", "not a number of ranks"),
    ] {
        press(&mut state, &typed("n"));
        press(&mut state, &typed(answer));
        press(&mut state, &[KeyCode::Enter]);
        assert!(
            matches!(&state.line, Line::Idle(text) if text.contains(told)),
            "{answer}: {:?}",
            state.line
        );
    }
}

#[test]
fn numbers_and_keys_are_never_cut_in_80_columns_and_nothing_has_a_colour() {
    let mut state = state(8, 4);
    let mut large = look(3.0, 8, 4);
    for rank in &mut large.ranks {
        rank.iteration = Iteration(123_456_789);
        rank.call = "MPI_Sendrecv".into();
        rank.bytes = Some(Bytes(1 << 20));
        rank.call_since_ms = 5_999_000.0;
        (rank.useful_ms, rank.wait_ms) = (123_456.0, 99.95);
    }
    state.on_look(large);
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw(frame, &state)).unwrap();
    let buffer = terminal.backend().buffer();
    let plain = ratatui::style::Color::Reset;
    assert!(buffer.content().iter().all(|cell| cell.fg == plain && cell.bg == plain));
    let all = screen(&state, 80, 24).join("\n");
    for part in ["123.5M", "Sendrecv 2 #5 1.0 MiB", "99m59s", "123456", "100 ", "q quit"] {
        assert!(all.contains(part), "{part} in\n{all}");
    }
}

#[test]
fn an_unknown_node_and_the_wrong_pane_are_told() {
    let mut state = state(8, 4);
    press(&mut state, &typed("d"));
    assert!(matches!(&state.line, Line::Idle(text) if text.contains("select a node")));
    state.pane = Pane::Ranks;
    press(&mut state, &typed("mn9"));
    press(&mut state, &[KeyCode::Enter]);
    assert!(matches!(&state.line, Line::Idle(text) if text.contains("no node")));
    state.pane = Pane::Nodes;
    press(&mut state, &typed("jjd"));
    let drained = press(&mut state, &typed("y"));
    assert_eq!(drained, Outcome::Do(Order::Drain { node: node_name(2) }));
    let made = press(&mut state, &typed("cy"));
    assert_eq!(made, Outcome::Do(Order::Checkpoint { job: JobId(2) }));
    assert_eq!(press(&mut state, &typed("cn")), Outcome::Shown);
}

#[test]
fn a_thousand_ranks_on_two_hundred_nodes_are_drawn_in_time() {
    let mut state = state(1000, 200);
    press(&mut state, &typed("sss"));
    let mut terminal = Terminal::new(TestBackend::new(120, 50)).unwrap();
    let next = look(3.0, 1000, 200);
    let since = Instant::now();
    state.on_look(next);
    terminal.draw(|frame| draw(frame, &state)).unwrap();
    let took = since.elapsed();
    println!("drawn in {took:?}");
    assert!(took < DRAWN_WITHIN, "{took:?}");
}
