//! A coordinator's node is lost and an heir leads the job: what it ends, and how it goes on.

use crate::cluster::{JOB, node, spec};
use pcm_core::job::coordinator::{Coordinator, Effect, Input};
use pcm_core::job::placement::Share;
use pcm_proto::ids::{Iteration, ProcessId};
use pcm_proto::job::{JobState, WorldShape};
use pcm_proto::peer::JobMessage;

fn started() -> Coordinator {
    let share = |number| Share {
        node: node(number),
        count: 1,
        host: 1,
    };
    let shares = [share(0), share(1)];
    let (mut coordinator, _) = Coordinator::accept(JOB, node(0), spec(2, WorldShape::Job), &shares, false, 0);
    for (name, process) in [(0, 0), (1, 1)] {
        let message = JobMessage::Started {
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
            message: JobMessage::End { .. },
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
    assert_eq!(heir.claim(), JobMessage::Led { reign: 1 });
    let message = JobMessage::Cleared;
    let effects = heir.handle(4, Input::Said { node: node(1), message });
    assert!(effects.contains(&Effect::Restart { count: 2 }), "{effects:?}");
}

#[test]
fn a_job_without_a_checkpoint_is_ended_by_its_heir() {
    let (mut heir, effects) = started().inherit(node(1), &node(0), 3);
    assert_eq!(ends(&effects), ["n1"]);
    let message = JobMessage::Cleared;
    let effects = heir.handle(4, Input::Said { node: node(1), message });
    let end = effects.iter().find_map(|effect| match effect {
        Effect::Ended { end, .. } => Some(end.clone()),
        _ => None,
    });
    assert!(end.is_some_and(|end| end.code == 1 && end.reason.contains("n0, which coordinated")));
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
