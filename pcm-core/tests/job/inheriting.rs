//! A coordinator's node is lost and an heir leads the job: what it ends, and how it goes on.

use crate::cluster::{JOB, node, spec};
use pcm_core::job::coordinator::{Coordinator, Effect, Input};
use pcm_core::job::doubting::DOUBT_US_MAX;
use pcm_core::job::participant::{self, Participant};
use pcm_core::job::placement::{Placed, Share};
use pcm_proto::ids::{Iteration, ProcessId};
use pcm_proto::job::{JobState, WorldShape};
use pcm_proto::peer::{CoordinatorToNode, NodeToCoordinator, SuccessionMessage};
use std::collections::BTreeSet;

fn started() -> Coordinator {
    let share = |number| Share {
        node: node(number),
        count: 1,
        host: 1,
    };
    let placed = Placed::on(vec![share(0), share(1)]);
    let (mut coordinator, _) = Coordinator::accept(JOB, node(0), spec(2, WorldShape::Job), &placed, 0);
    for (name, process) in [(0, 0), (1, 1)] {
        let message = NodeToCoordinator::Started {
            order: 0,
            processes: vec![(ProcessId(process), 100 + process)],
        };
        coordinator.handle(
            1,
            Input::Said {
                node: node(name),
                message,
            },
        );
    }
    coordinator
}

fn ends(effects: &[Effect]) -> Vec<&str> {
    let ended = |effect| match effect {
        &Effect::Send {
            ref node,
            message: CoordinatorToNode::End { .. },
        } => Some(node.as_str()),
        _ => None,
    };
    effects.iter().filter_map(ended).collect()
}

#[test]
fn an_heir_ends_what_is_left_and_asks_for_places_when_it_has() {
    let mut coordinator = started();
    let iteration = Some(Iteration(40));
    coordinator.handle(2, Input::Checkpoint { iteration });
    let (mut heir, effects) = coordinator.inherit(node(2), &node(0), 3);
    assert_eq!(ends(&effects), ["n1"]);
    assert_eq!((heir.status().state, heir.reign()), (JobState::Recovering, 1));
    assert_eq!(heir.claim(), SuccessionMessage::Led { reign: 1 });
    let message = NodeToCoordinator::Cleared;
    let effects = heir.handle(4, Input::Said { node: node(1), message });
    assert!(effects.contains(&Effect::Restart { count: 2 }), "{effects:?}");
}

#[test]
fn a_job_without_a_checkpoint_is_ended_by_its_heir() {
    let (mut heir, effects) = started().inherit(node(1), &node(0), 3);
    assert_eq!(ends(&effects), ["n1"]);
    let message = NodeToCoordinator::Cleared;
    let effects = heir.handle(4, Input::Said { node: node(1), message });
    let end = effects.iter().find_map(|effect| match effect {
        Effect::Ended { end, .. } => Some(end.clone()),
        _ => None,
    });
    assert!(end.is_some_and(|end| end.code == 1 && end.reason.contains("n0, which coordinated")));
}

#[test]
fn a_node_that_said_to_the_coordinator_before_what_is_left_there_is_asked_again() {
    let mut coordinator = started();
    let (code, reason) = (0, String::new());
    coordinator.handle(2, Input::End { code, reason });
    let message = NodeToCoordinator::Emptied;
    coordinator.handle(3, Input::Said { node: node(1), message });
    let (mut heir, effects) = coordinator.inherit(node(2), &node(0), 4);
    assert_eq!(ends(&effects), ["n1"]);
    // It has been born again meanwhile.
    let message = NodeToCoordinator::Cleared;
    heir.handle(5, Input::Said { node: node(1), message });
    assert_eq!(heir.status().state, JobState::Ended);
}

/// Their wills may be of different times and name different heirs.
#[test]
fn two_heirs_behind_a_cut_lay_out_what_differs() {
    let mut coordinator = started();
    let iteration = Some(Iteration(40));
    coordinator.handle(2, Input::Checkpoint { iteration });
    let inherit = |number| coordinator.clone().inherit(node(number), &node(0), 3).0.epoch();
    let epochs: BTreeSet<_> = (1..9).map(inherit).collect();
    assert_eq!(epochs.len(), 8, "{epochs:?}");
}

#[test]
fn a_will_is_made_again_when_an_heir_would_do_something_else() {
    let mut coordinator = started();
    let before = coordinator.gist();
    coordinator.handle(2, Input::Tick);
    assert_eq!(coordinator.gist(), before);
    let iteration = Some(Iteration(40));
    coordinator.handle(2, Input::Checkpoint { iteration });
    assert_ne!(coordinator.gist(), before);
}

#[test]
fn a_will_of_a_job_that_is_ending_is_newer_than_one_of_the_same_layout_that_runs() {
    let mut coordinator = started();
    let before = coordinator.progress();
    let (code, reason) = (137, "killed".to_owned());
    coordinator.handle(2, Input::End { code, reason });
    assert!(before < coordinator.progress());
}

fn how_it_ended(effects: &[Effect]) -> Option<String> {
    effects.iter().find_map(|effect| match effect {
        Effect::Ended { end, .. } => Some(end.reason.clone()),
        _ => None,
    })
}

/// A coordinator that may be cut off, with nothing left but its own node, and that cleared.
fn in_doubt() -> Coordinator {
    let mut coordinator = started();
    let iteration = Some(Iteration(40));
    let inputs = [
        Input::Checkpoint { iteration },
        Input::Doubt { is_in_doubt: true },
        Input::Checkpoint { iteration: None },
        Input::NodeGone { node: node(1) },
        Input::Said {
            node: node(0),
            message: NodeToCoordinator::Cleared,
        },
    ];
    for input in inputs {
        let effects = coordinator.handle(2, input);
        assert_eq!(how_it_ended(&effects), None);
    }
    coordinator
}

#[test]
fn a_coordinator_that_may_be_cut_off_does_not_end_the_job() {
    let mut coordinator = in_doubt();
    assert_eq!(coordinator.status().state, JobState::Recovering);
    let certain = Input::Doubt { is_in_doubt: false };
    let reason = how_it_ended(&coordinator.clone().handle(3, certain.clone()));
    assert!(reason.is_some_and(|reason| reason.contains("no complete checkpoint is left")));
    let iteration = Some(Iteration(40));
    let effects = coordinator.handle(3, Input::Checkpoint { iteration });
    assert!(effects.contains(&Effect::Restart { count: 2 }), "{effects:?}");
    assert_eq!(how_it_ended(&coordinator.handle(4, certain)), None);
}

#[test]
fn a_coordinator_that_finds_no_place_while_it_may_be_cut_off_keeps_looking() {
    let mut coordinator = in_doubt();
    let iteration = Some(Iteration(40));
    coordinator.handle(3, Input::Checkpoint { iteration });
    let minutes = |count: u64| count * 60_000_000;
    let no_place = || Input::Restarted(Err("no node is there".into()));
    let effects = coordinator.handle(minutes(5), no_place());
    assert_eq!(how_it_ended(&effects), None);
    coordinator.handle(minutes(5), Input::Doubt { is_in_doubt: false });
    assert_eq!(how_it_ended(&coordinator.handle(minutes(5) + 1, no_place())), None);
    let effects = coordinator.handle(minutes(7), no_place());
    assert!(how_it_ended(&effects).is_some_and(|reason| reason.contains("no node is there")));
}

#[test]
fn doubt_does_not_last_for_ever() {
    let mut coordinator = in_doubt();
    let deadline = coordinator.deadline().expect("somebody has to wake it");
    assert_eq!(deadline, 2 + DOUBT_US_MAX);
    assert_eq!(how_it_ended(&coordinator.handle(deadline - 1, Input::Tick)), None);
    assert!(how_it_ended(&coordinator.handle(deadline, Input::Tick)).is_some());
}

#[test]
fn a_node_obeys_only_the_coordinator_it_heard_of_last() {
    let share = Share {
        node: node(1),
        count: 1,
        host: 1,
    };
    let (_, effects) = Coordinator::accept(JOB, node(0), spec(1, WorldShape::Job), &Placed::on(vec![share]), 0);
    let order = effects.into_iter().find_map(|effect| match effect {
        Effect::Send {
            message: CoordinatorToNode::Start(order),
            ..
        } => Some(order),
        _ => None,
    });
    let order = order.expect("an order to start");
    let mut part = Participant::new(JOB, node(1), &order, "x".into());
    let said = |number, order| participant::Input::Ordered {
        node: node(number),
        order,
    };
    part.handle(0, said(0, CoordinatorToNode::Start(order)));
    part.handle(1, said(2, CoordinatorToNode::Close));
    part.handle(1, said(2, CoordinatorToNode::End { grace_ms: 0 }));
    assert!(!part.is_ending());
    part.handle(2, said(0, CoordinatorToNode::End { grace_ms: 0 }));
    assert!(part.is_ending());
}
