//! A message at which a node's daemon dies whenever it comes costs the job that it is about, and not the node.

mod one_node;

use one_node::{heritage, no_past, order, start_order, world};
use pcm_core::moment::Moment;
use pcm_core::node::Node;
use pcm_core::node::event::Event;
use pcm_core::node::outbox::Effect;
use pcm_core::node::record::{Past, Record};
use pcm_proto::ids::JobId;
use pcm_proto::peer::{DaemonToDaemon, JobMessage, NodeToCoordinator, StartOrder};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

const JOB: JobId = JobId(1);
const SECOND: u64 = 1_000_000;

/// An order to start a process on a node that the world does not have. It is refused where it comes in; here it stands
/// for whatever a machine cannot take.
fn poison() -> Event {
    order(
        JOB,
        StartOrder {
            worlds: vec![world(7)],
            ..start_order()
        },
    )
}

/// What these records say.
fn past(written: &[Record]) -> Past {
    let mut past = no_past(1);
    written.iter().for_each(|record| past.take(record.clone()));
    past
}

/// A daemon that goes on from what is written.
fn started(written: &[Record], now: Moment) -> Node {
    let mut node = one_node::node(1, now, Duration::from_secs(25), None);
    node.begin(heritage(past(written)));
    node
}

/// A daemon dies of the message, and leaves a record more.
fn dies(written: &mut Vec<Record>, now: Moment) {
    let mut node = started(written, now);
    let step = catch_unwind(AssertUnwindSafe(|| node.handle(now, poison())));
    assert!(step.is_err(), "nothing panics at the message");
    let record = node.after_panic(now).expect("it was about a job");
    assert_eq!(record, Record::Panicked { job: JOB, at_us: now.0 });
    written.push(record);
}

#[test]
fn a_message_that_is_the_end_of_each_daemon_costs_its_job_at_the_third() {
    let mut written = Vec::new();
    for seconds in 1..=3 {
        assert!(past(&written).lost.is_empty());
        dies(&mut written, Moment(seconds * SECOND));
    }
    let lost = past(&written).lost;
    assert!(lost[&JOB].reason.contains("died 3 times"), "{lost:?}");
    let now = Moment(4 * SECOND);
    let effects = started(&written, now).handle(now, poison());
    let cleared = JobMessage::ToCoordinator(NodeToCoordinator::Cleared);
    let is_refused = |effect: &Effect| match effect {
        Effect::Send { message, .. } => {
            matches!(message, DaemonToDaemon::Job { message, .. } if **message == cleared)
        }
        _ => false,
    };
    assert!(effects.iter().any(is_refused), "{effects:?}");
}

#[test]
fn panics_that_are_far_apart_cost_no_job_and_are_remembered() {
    let mut written = Vec::new();
    for minutes in 1..=4 {
        let now = Moment(minutes * 61 * SECOND);
        dies(&mut written, now);
        // What the next one would write in place of all that is written says the same.
        let rewritten = started(&written, now).present();
        assert_eq!(past(&rewritten).panics, past(&written).panics);
    }
    assert!(past(&written).lost.is_empty());
    assert_eq!(started(&written, Moment(0)).after_panic(Moment(0)), None);
}
