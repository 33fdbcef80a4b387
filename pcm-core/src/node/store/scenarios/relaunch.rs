//! Data that is parked for a relaunch, wanted before it is there, lost, and never released.

use super::world::{ATTEMPT, Brought, JOB, World, memory, node, plan, rank};
use crate::node::memory::MemoryId;
use crate::node::outbox::Inward;
use crate::node::ranks::effect::RankEffect;
use crate::node::store::effect::StoreEffect;
use crate::node::store::input::StoreInput;
use crate::reconfiguration::effects::Input;
use pcm_proto::ids::ProcessId;
use pcm_proto::image::ImageMessage;
use pcm_proto::layout::Mode;
use pcm_proto::parked::ParkKey;
use pcm_proto::reconfiguration::{ReconfigurationReport, Tally};

const KEY: ParkKey = ParkKey {
    job: JOB,
    attempt: ATTEMPT,
    process: ProcessId(0),
};

fn world(mode: Mode) -> World {
    let mut world = World::new();
    world.around.engaged = Some((ATTEMPT, plan(mode)));
    world
}

fn reports(brought: &Brought) -> Vec<&Input> {
    let facts = brought.inward.iter().filter_map(|fact| match fact {
        Inward::Reconfigure { input, .. } => Some(&**input),
        _ => None,
    });
    facts.collect()
}

fn handed(memory: Option<crate::node::memory::MemoryFile>) -> StoreInput {
    StoreInput::ParkHanded { key: KEY, memory }
}

fn parked(number: u64) -> StoreInput {
    let memory = Some(memory(number));
    StoreInput::Parked { key: KEY, memory }
}

fn moved() -> StoreInput {
    let report = ReconfigurationReport::Moved {
        attempt: ATTEMPT,
        sent: Tally::default(),
        received: Tally::default(),
    };
    let process = rank(0);
    StoreInput::Report { process, report }
}

#[test]
fn data_has_moved_only_when_the_keeper_holds_it() {
    let mut world = world(Mode::Relaunch);
    let handed = world.on(handed(Some(memory(3))));
    assert!(matches!(
        handed.store[..],
        [StoreEffect::Park {
            key: KEY,
            memory: MemoryId(3)
        }]
    ));
    assert!(world.on(moved()).is_nothing());
    let held = world.on(parked(4));
    assert!(matches!(
        reports(&held)[..],
        [Input::Report {
            report: ReconfigurationReport::Moved { .. },
            ..
        }]
    ));
    assert_eq!(world.ask(7, 0).answers(), [Ok(MemoryId(4))]);
}

#[test]
fn what_is_no_image_or_is_not_held_fails_the_attempt() {
    let mut world = world(Mode::Relaunch);
    let is_failed = |brought: &Brought| {
        matches!(
            reports(brought)[..],
            [Input::Report {
                report: ReconfigurationReport::Failed { .. },
                ..
            }]
        )
    };
    assert!(is_failed(&world.on(handed(None))));
    world.on(handed(Some(memory(3))));
    let reason = "no room".to_owned();
    assert!(is_failed(&world.on(StoreInput::NotParked { key: KEY, reason })));
}

#[test]
fn data_that_no_relaunch_called_for_is_let_go() {
    let mut world = world(Mode::Live);
    let handed = world.on(handed(Some(memory(3))));
    assert_eq!(handed.released(), [MemoryId(3)]);
    assert!(handed.inward.is_empty());
}

#[test]
fn constant_data_that_is_wanted_early_is_given_when_it_comes() {
    let mut world = world(Mode::Live);
    assert!(world.ask(7, 0).is_nothing());
    let want = StoreInput::Image {
        key: KEY.into(),
        node: node("n2"),
        message: ImageMessage::Want { block: 0 },
    };
    assert!(world.on(want).is_nothing());
    let held = world.on(parked(4));
    assert_eq!(held.answers(), [Ok(MemoryId(4))]);
    let given = held
        .store
        .iter()
        .filter(|effect| matches!(effect, StoreEffect::GiveBlock { .. }));
    assert_eq!(given.count(), 1);
}

#[test]
fn constant_data_that_does_not_come_is_said_to_be_lost() {
    let mut world = world(Mode::Live);
    world.ask(7, 0);
    let want = StoreInput::Image {
        key: KEY.into(),
        node: node("n2"),
        message: ImageMessage::Want { block: 0 },
    };
    world.on(want);
    let reason = "no room".to_owned();
    let lost = world.on(StoreInput::NotParked { key: KEY, reason });
    assert_eq!(lost.answers(), [Err("no room".to_owned())]);
    assert!(matches!(lost.image_messages()[..], [(_, ImageMessage::Gone { .. })]));
}

#[test]
fn in_a_relaunch_nothing_is_waited_for() {
    let mut world = world(Mode::Relaunch);
    let answers = world.ask(7, 0).answers();
    assert!(
        answers[0].as_ref().is_err_and(|why| why.contains("any more")),
        "{answers:?}"
    );
}

#[test]
fn salvaged_data_is_reported_with_its_length() {
    let mut world = world(Mode::Relaunch);
    let salvage = world.on(StoreInput::Salvage { key: KEY });
    assert!(matches!(salvage.ranks[..], [RankEffect::FindData { key: KEY }]));
    let held = world.on(parked(4));
    let bytes = memory(4).bytes;
    assert!(
        matches!(&reports(&held)[..], [Input::Salvaged { result: Ok(tally), .. }] if tally.bytes.0 == bytes),
        "{held:?}"
    );
}

#[test]
fn data_that_was_never_released_is_dropped_when_its_attempt_is_over() {
    let mut world = world(Mode::Relaunch);
    world.on(parked(4));
    let early = world.on(StoreInput::UnneededTimer(KEY));
    assert_eq!(early.order, ["arm"], "it is needed still");
    world.around.engaged = None;
    let late = world.on(StoreInput::UnneededTimer(KEY));
    assert_eq!(late.released(), [MemoryId(4)]);
    assert!(late.order.contains(&"keeper"));
    assert!(world.on(StoreInput::UnneededTimer(KEY)).is_nothing());
}

#[test]
fn a_rank_is_not_waited_for_when_its_time_ahead_is_over_and_a_late_timer_is_ignored() {
    let mut world = world(Mode::Live);
    let timer = || StoreInput::AheadTimer(KEY);
    assert_eq!(reports(&world.on(timer())).len(), 1);
    world.around.engaged = None;
    assert!(world.on(timer()).is_nothing());
}
