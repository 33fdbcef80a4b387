//! The story of a job and its document.

use super::story::{Stay, Story};
use super::{content, document};
use pcm_proto::event::{Event, EventKind, Moved, Reconfigured};
use pcm_proto::ids::{Bytes, Epoch, JobId, NodeName, Rank};
use pcm_proto::job::{JobEnd, JobState, JobStatus};
use pcm_proto::layout::Mode;
use pcm_proto::series::{Sample, Series, Traffic};
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
    assert!(html.len() < 8 << 20, "{} bytes", html.len());
    assert!(took < super::DRAWN_WITHIN, "{took:?}");
}
