//! The story of a job and its document.

use super::page::{content, document};
use super::story::{Stay, Story};
use super::summary::summary;
use pcm_proto::event::{Decision, Event, EventKind, Moved, Reconfigured, Recovered};
use pcm_proto::ids::{Bytes, Epoch, Iteration, JobId, NodeName, Rank};
use pcm_proto::job::{JobEnd, JobState, JobStatus};
use pcm_proto::layout::Mode;
use pcm_proto::series::{Sample, Series, Traffic};
use pcm_proto::time_use::TimeUse;
use std::time::Instant;

fn node(number: u32) -> NodeName {
    NodeName::new(format!("n{number}")).unwrap()
}

fn event(second: u64, kind: EventKind) -> Event {
    Event {
        time_us: (100 + second) * 1_000_000,
        job: Some(JobId(1)),
        epoch: Epoch(0),
        node: node(0),
        kind,
    }
}

fn reconfigured(second: u64, plan: &str, before: u32, after: u32, moved: Vec<Moved>) -> Event {
    event(
        second,
        EventKind::Reconfigured(Box::new(Reconfigured {
            plan: plan.to_owned(),
            cause: "a <script> & more".to_owned(),
            ranks_before: before,
            ranks_after: after,
            moved,
            bytes_moved: Bytes(4096),
            bytes_ahead: Bytes(0),
            pause_ms: 12.5,
            mode: Mode::Live,
            method: None,
            method_reason: None,
            placement: None,
            total_ms: 50.0,
            phases_ms: Vec::new(),
        })),
    )
}

fn status(size: u32) -> JobStatus {
    JobStatus {
        job: JobId(1),
        name: "heat<2d>".to_owned(),
        state: JobState::Ended,
        epoch: Epoch(2),
        size,
        nodes: Vec::new(),
        started_us: 100_000_000,
        end: Some(JobEnd {
            code: 0,
            reason: String::new(),
        }),
        coordinator: node(0),
        reign: 0,
        spares: Vec::new(),
    }
}

fn moved(rank: u32, from: Option<u32>, to: Option<u32>) -> Moved {
    Moved {
        rank: Rank(rank),
        from: from.map(node),
        to: to.map(node),
    }
}

fn series(samples: u64, nodes: u32) -> Series {
    let sample = |second: u64| Sample {
        time_us: (100 + second) * 1_000_000,
        iteration: second * 10,
        ranks: 2,
        loads: (0..nodes)
            .map(|number| (node(number), f64::from(number) * 0.1))
            .collect(),
    };
    Series {
        samples: (0..samples).map(sample).collect(),
        thinning: 1,
        taken: samples,
        uses: Vec::new(),
        traffic: vec![Traffic {
            from: 0,
            to: 1,
            messages: 7,
            bytes: 7000,
        }],
    }
}

fn events() -> Vec<Event> {
    let accepted = EventKind::JobAccepted {
        name: "heat2d".to_owned(),
        placement: vec![node(0), node(1)],
        why: String::new(),
    };
    vec![
        event(0, accepted),
        reconfigured(2, "migrate", 2, 2, vec![moved(1, Some(1), Some(2))]),
        reconfigured(4, "expand", 2, 3, vec![moved(2, None, Some(3))]),
        reconfigured(6, "shrink", 3, 1, vec![moved(2, Some(3), None)]),
        event(
            9,
            EventKind::JobEnded {
                code: 0,
                reason: String::new(),
            },
        ),
    ]
}

fn stay(rank: u32, at: u32, from: f64, to: f64) -> Stay {
    let node = node(at);
    Stay { rank, node, from, to }
}

#[test]
fn the_story_tells_who_was_where_from_when_to_when() {
    let story = Story::new(status(1), &events(), &series(9, 4), 0);
    assert_eq!(story.seconds, 9.0);
    let expected = [
        stay(0, 0, 0.0, 9.0),
        stay(1, 1, 0.0, 2.0),
        stay(1, 2, 2.0, 6.0),
        stay(2, 3, 4.0, 6.0),
    ];
    assert_eq!(story.stays, expected);
    assert!(story.rates.iter().all(|(_, rate)| (*rate - 10.0).abs() < 1e-9));
}

#[test]
fn ranks_behind_a_newcomer_are_counted_on() {
    let mut told = events()[..1].to_vec();
    told.push(reconfigured(2, "expand", 2, 3, vec![moved(1, None, Some(3))]));
    told.push(reconfigured(4, "shrink", 3, 2, vec![moved(0, Some(0), None)]));
    told.extend(events().pop());
    let story = Story::new(status(2), &told, &Series::default(), 109_000_000);
    let expected = [
        stay(0, 0, 0.0, 4.0),
        stay(0, 3, 4.0, 9.0),
        stay(1, 1, 0.0, 2.0),
        stay(1, 3, 2.0, 4.0),
        stay(1, 1, 4.0, 9.0),
        stay(2, 1, 2.0, 4.0),
    ];
    assert_eq!(story.stays, expected);
}

#[test]
fn a_report_is_one_file_with_labelled_plots_and_no_foreign_markup() {
    let story = Story::new(status(1), &events(), &series(9, 4), 0);
    let html = document("Job 1", &content(&story, &["an <event>".to_owned()]));
    for part in [
        "time (s)",
        "iterations/s",
        "to rank",
        "CPUs",
        "migrate at 2.0 s",
        "a &lt;script&gt; &amp; more",
        "heat&lt;2d&gt;",
        "an &lt;event&gt;",
        "prefers-color-scheme:dark",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert_eq!(html.matches("<svg").count(), 4);
    assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
    for foreign in ["http:", "https:", "<script", "src=", "@import", "url("] {
        assert!(!html.contains(foreign), "{foreign}");
    }
}

fn decision(second: u64, chosen: Option<&str>, achieved_gain_s: Option<f64>) -> Event {
    event(
        second,
        EventKind::Decision(Box::new(Decision {
            policy: "cost".to_owned(),
            chosen: chosen.map(str::to_owned),
            predicted_gain_s: 4.0,
            cost_s: 0.5,
            achieved_gain_s,
            considered: Vec::new(),
            reason: "because".to_owned(),
        })),
    )
}

#[test]
fn what_a_change_has_gained_stands_beside_what_it_was_to_gain() {
    let told = [
        decision(1, Some("migrate rank 1"), None),
        decision(3, None, Some(1.5)),
        decision(5, Some("migrate rank 2"), Some(3.25)),
    ];
    let story = Story::new(status(2), &told, &Series::default(), 0);
    let gains: Vec<_> = story
        .choices
        .iter()
        .map(|choice| (choice.at, choice.achieved_s))
        .collect();
    assert_eq!(gains, [(1.0, Some(3.25)), (5.0, None)]);
    let html = content(&story, &[]);
    for part in [
        "migrate rank 1: 4.0 s predicted",
        "migrate rank 1: 3.2 s achieved",
        "gain (s of run time)",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(!html.contains("migrate rank 2: 0.0 s achieved"), "not known yet");
}

fn crash_and_return() -> [EventKind; 2] {
    let crashed = EventKind::Crashed {
        reason: "rank 1 was ended by signal 9".to_owned(),
        reached: Iteration(33),
        verdict: "it goes on from iteration 30".to_owned(),
    };
    let back = EventKind::Recovered(Box::new(Recovered {
        cause: String::new(),
        restart: 1,
        from: Iteration(30),
        rolled_back: 3,
        ranks: 2,
        placement: String::new(),
        total_ms: 480.0,
        phases_ms: Vec::new(),
    }));
    [crashed, back]
}

#[test]
fn checkpoints_and_crashes_have_their_place_and_their_numbers() {
    let made = |second: u64, iteration: u64| {
        event(
            second,
            EventKind::CheckpointComplete {
                iteration: Iteration(iteration),
                ranks: 2,
                bytes: Bytes(4096),
                held_ms: 0.25,
            },
        )
    };
    let [crashed, back] = crash_and_return();
    let told = [made(2, 20), made(3, 30), event(4, crashed), event(5, back)];
    let mut series = series(9, 2);
    // A sample of ranks that have just been started again.
    series.samples[5].iteration = 0;
    let story = Story::new(status(2), &told, &series, 109_000_000);
    assert!(story.rates.len() >= 4, "{:?}", story.rates);
    assert!(
        story.rates.iter().all(|(_, rate)| (*rate - 10.0).abs() < 1e-9),
        "{:?}",
        story.rates
    );
    let html = content(&story, &[]);
    for part in [
        "2 made; the newest begins with iteration 30",
        "<td>4.0 KiB</td><td>0.2</td>",
        "crash at 4.0 s: rank 1 was ended by signal 9",
        "<td>iteration 30</td><td>3 iterations</td><td>480</td>",
        "class=\"kept\"",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
}

/// Of a hundred milliseconds.
fn time_use(ranks: u32, (useful_ms, longest_ms): (f64, f64)) -> TimeUse {
    TimeUse {
        ranks,
        useful_ms,
        longest_ms,
        whole_ms: 100.0,
    }
}

/// On a loaded machine a sample is taken late, and the next one soon after it.
#[test]
fn samples_that_came_late_make_no_other_speed() {
    let mut series = series(9, 1);
    for late in [2, 4, 6] {
        series.samples[late].time_us += 950_000;
    }
    let said = summary(&Story::new(status(1), &[], &series, 109_000_000));
    assert!(said.contains("iterations per second: 10 with 1 rank"), "{said}");
}

#[test]
fn a_summary_has_ranks_over_time_speed_and_what_changes_cost() {
    let uses = vec![
        time_use(2, (90.0, 95.0)),
        time_use(1, (60.0, 60.0)),
        time_use(3, (40.0, 50.0)),
    ];
    let series = Series { uses, ..series(9, 4) };
    let said = summary(&Story::new(status(1), &events(), &series, 0));
    let expected = "\
job 1 heat<2d>: ended well after 9.0 s
  ranks       2 for 4.0 s, 3 for 2.0 s, 1 for 3.0 s; 17 s of rank time on 4 nodes
  speed       iterations per second: 10 with 2 ranks, 10 with 3 ranks, 10 with 1 rank
  efficiency  90 % with 2 ranks: load balance 95 % \u{d7} communication 95 %
              60 % with 1 rank: load balance 100 % \u{d7} communication 60 %
              40 % with 3 ranks: load balance 80 % \u{d7} communication 50 %
  changes     1 expand, 1 migrate, 1 shrink: held the program for 38 ms (0.42 % of the time), moved 12 KiB
  to try      fewer ranks: 3 were 1.00 times as fast as 2
";
    assert_eq!(said, expected);
}

#[test]
fn a_summary_says_what_agents_gained_and_what_crashes_cost() {
    let [crashed, back] = crash_and_return();
    let told = [
        decision(1, Some("migrate rank 1"), None),
        decision(3, None, Some(1.5)),
        event(4, crashed),
        event(5, back),
    ];
    let said = summary(&Story::new(status(2), &told, &Series::default(), 0));
    for line in [
        "  agents      1 change chosen; 1 measured: 1.5 s gained, 4.0 s predicted",
        "  crashes     1, and 1 returns: 480 ms without ranks, 3 iterations computed again",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
}

#[test]
fn a_summary_of_a_job_of_which_nothing_is_known_is_two_lines() {
    let running = JobStatus { end: None, ..status(2) };
    let said = summary(&Story::new(running, &events()[..1], &Series::default(), 105_000_000));
    assert_eq!(
        said,
        "job 1 heat<2d>: runs for 5.0 s so far\n  ranks       2 for 5.0 s; 10 s of rank time on 2 nodes\n"
    );
}

#[test]
fn a_job_without_samples_or_messages_still_has_a_report() {
    let story = Story::new(status(1), &events()[..1], &Series::default(), 105_000_000);
    let html = content(&story, &[]);
    assert!(html.contains("No samples") && html.contains("None were seen"), "{html}");
}

#[test]
fn nodes_beyond_the_rows_share_them_and_the_highest_load_is_shown() {
    let story = Story::new(status(1), &events(), &series(9, 200), 0);
    let html = content(&story, &[]);
    assert!(html.contains(">n0 to n100<"), "names are in order of the alphabet");
    assert!(html.contains("0 to 19.90"), "{html}");
    // Loads that do not change are one box a row; the other one is the matrix of messages.
    assert_eq!(html.matches("class=\"heat\"").count(), 50 + 1);
}

#[test]
fn a_thousand_ranks_on_two_hundred_nodes_are_drawn_in_time() {
    let mut told = events();
    told[0] = event(
        0,
        EventKind::JobAccepted {
            name: "large".to_owned(),
            placement: (0..1000).map(|rank| node(rank % 200)).collect(),
            why: String::new(),
        },
    );
    let mut series = series(512, 200);
    series.traffic = (0..4000)
        .map(|row| Traffic {
            from: row % 1000,
            to: (row * 7) % 1000,
            messages: 1,
            bytes: u64::from(row),
        })
        .collect();
    let status = status(1000);
    let since = Instant::now();
    let html = content(&Story::new(status, &told, &series, 0), &[]);
    let took = since.elapsed();
    println!("made in {took:?}");
    assert!(html.len() < 8 << 20, "{} bytes", html.len());
    assert!(took < super::DRAWN_WITHIN, "{took:?}");
}
