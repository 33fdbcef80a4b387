//! Parts of checkpoints that are kept, summed, copied, overwritten, dropped and taken over.

use super::world::{BUFFER, JOB, TALLY, World, memory, node, part, rank, stamp};
use crate::node::memory::MemoryId;
use crate::node::outbox::Effect;
use crate::node::ranks::effect::RankEffect;
use crate::node::record::{Holding, Record};
use crate::node::store::checkpoint_store::HeldBuffer;
use crate::node::store::effect::{StoreEffect, Sums};
use crate::node::store::input::StoreInput;
use crate::node::timer::Timer;
use pcm_proto::app::DaemonToApp;
use pcm_proto::checkpoint::{BufferKey, CheckpointMessage, CheckpointOrder, RankCheckpoint, Restores, Stamp};
use pcm_proto::ids::{CheckpointId, Epoch, Rank};
use std::collections::BTreeMap;

fn summed(key: BufferKey, id: u64) -> StoreInput {
    let id = CheckpointId(id);
    StoreInput::Summed {
        key,
        id,
        tally: Ok(TALLY),
    }
}

/// The part of rank 1 of a checkpoint, for the coordinator on n1.
fn holding(id: u64) -> Holding {
    Holding {
        stamp: stamp(id),
        rank: Rank(1),
        tally: Some(TALLY),
        held_us: 0,
        coordinator: node("n1"),
    }
}

/// A world with a part of checkpoint 1 in the memory of this number.
fn with_part(number: u64) -> World {
    let mut world = World::new();
    world.keep(1, Some(memory(number)));
    world.on(summed(BUFFER, 1));
    world
}

#[test]
fn a_part_counts_when_its_checksums_are_there_and_is_written_down_first() {
    let mut world = World::new();
    let kept = world.keep(1, Some(memory(3)));
    assert!(matches!(
        kept.store[0],
        StoreEffect::Keep {
            key: BUFFER,
            memory: MemoryId(3)
        }
    ));
    assert!(matches!(
        kept.store[1],
        StoreEffect::Sum {
            sums: Sums::Complete,
            ..
        }
    ));
    assert!(kept.sent.is_empty() && world.store.records().is_empty());
    let summed = world.on(summed(BUFFER, 1));
    assert_eq!(summed.order, ["record", "send"]);
    assert!(matches!(
        summed.checkpoint_messages()[..],
        [CheckpointMessage::Stored { is_copy: false, .. }]
    ));
    assert_eq!(world.store.records().len(), 1);
}

#[test]
fn a_buffer_that_is_used_again_is_said_to_be_overwritten() {
    let mut world = with_part(3);
    let again = world.keep(2, None);
    assert_eq!(
        again.checkpoint_messages(),
        [CheckpointMessage::Overwritten {
            id: CheckpointId(1),
            rank: Rank(1),
            is_copy: false
        }]
    );
    assert!(
        world.on(summed(BUFFER, 1)).is_nothing(),
        "of what is overwritten no sum counts"
    );
    assert_eq!(world.on(summed(BUFFER, 2)).order, ["record", "send"]);
}

#[test]
fn a_part_without_its_memory_is_not_stored() {
    let mut world = World::new();
    let kept = world.keep(1, None);
    assert!(kept.store.is_empty());
    assert!(matches!(
        kept.checkpoint_messages()[..],
        [CheckpointMessage::NotStored { .. }]
    ));
}

#[test]
fn a_part_whose_sums_fail_is_not_stored() {
    let mut world = World::new();
    world.keep(1, Some(memory(3)));
    let failed = world.on(StoreInput::Summed {
        key: BUFFER,
        id: CheckpointId(1),
        tally: Err("no".to_owned()),
    });
    assert!(matches!(
        failed.checkpoint_messages()[..],
        [CheckpointMessage::NotStored { .. }]
    ));
    assert!(world.store.records().is_empty());
}

#[test]
fn a_part_counts_only_when_the_keeper_holds_it_too() {
    let mut world = World::new();
    world.keep_unanswered(1, Some(memory(3)));
    assert!(world.on(summed(BUFFER, 1)).is_nothing());
    let held = world.keeper_answers(BUFFER, Ok(()));
    assert_eq!(held.order, ["record", "send"]);
    assert!(matches!(
        held.checkpoint_messages()[..],
        [CheckpointMessage::Stored { is_copy: false, .. }]
    ));
}

#[test]
fn a_part_that_the_keeper_refuses_is_not_stored_and_the_next_in_its_buffer_is_offered_again() {
    for is_summed in [false, true] {
        let mut world = World::new();
        world.keep_unanswered(1, Some(memory(3)));
        if is_summed {
            world.on(summed(BUFFER, 1));
        }
        let refused = world.keeper_answers(BUFFER, Err("no room".to_owned()));
        let said = refused.checkpoint_messages();
        assert!(
            matches!(&said[..], [CheckpointMessage::NotStored { reason, .. }] if reason.contains("no room")),
            "{said:?}"
        );
        assert!(world.on(summed(BUFFER, 1)).is_nothing());
        assert!(world.store.records().is_empty());
        let again = world.keep_unanswered(2, None);
        let offered = StoreEffect::Keep {
            key: BUFFER,
            memory: MemoryId(3),
        };
        assert_eq!(format!("{:?}", again.store[0]), format!("{offered:?}"));
        world.on(summed(BUFFER, 2));
        let held = world.keeper_answers(BUFFER, Ok(())).checkpoint_messages();
        assert!(matches!(held[..], [CheckpointMessage::Stored { .. }]), "{held:?}");
    }
}

#[test]
fn a_rank_of_a_job_that_is_not_here_keeps_nothing() {
    let mut world = World::new();
    world.around.has_job = false;
    let kept = world.keep(1, Some(memory(3)));
    assert_eq!(kept.released(), [MemoryId(3)]);
    assert_eq!(kept.order, ["store"]);
}

#[test]
fn what_ended_processes_left_is_dropped_when_a_later_checkpoint_is_settled() {
    let mut world = with_part(3);
    let id = CheckpointId(2);
    let settled = world.checkpoint(CheckpointMessage::Settled { id });
    assert_eq!(settled.released(), [MemoryId(3)]);
    assert!(settled.order.contains(&"keeper") && world.store.records().is_empty());
    assert!(
        settled
            .store
            .iter()
            .any(|effect| matches!(effect, StoreEffect::TellRanks { .. }))
    );
}

#[test]
fn a_part_may_be_the_only_one_until_its_checkpoint_is_settled() {
    let mut world = with_part(3);
    assert!(world.store.holds_unsettled());
    let id = CheckpointId(1);
    world.checkpoint(CheckpointMessage::Settled { id });
    assert!(!world.store.holds_unsettled());
    assert!(!world.store.records().is_empty(), "it is held all the same");
}

#[test]
fn a_part_that_is_here_is_not_copied_again_but_reported() {
    let mut world = with_part(3);
    let ordered = world.order_copy(1, "n2");
    assert!(matches!(
        ordered.checkpoint_messages()[..],
        [CheckpointMessage::Stored { .. }]
    ));
    assert!(ordered.store.is_empty());
}

#[test]
fn another_coordinator_hears_of_all_that_is_held_and_it_is_written_down() {
    let mut world = with_part(3);
    let by = node("n2");
    let led = world.on(StoreInput::Led { job: JOB, by });
    assert_eq!(led.order, ["record", "send"]);
    assert_eq!(led.sent[0].0, node("n2"));
    let linked = world.on(StoreInput::CoordinatorLinked { node: node("n1") });
    assert!(linked.is_nothing(), "the coordinator before is not told");
}

#[test]
fn of_all_that_is_held_the_newest_checkpoint_is_named_first() {
    let keys = [0, 1].map(|number| BufferKey { number, ..BUFFER });
    let held = keys.map(|key| HeldBuffer {
        key,
        memory: Some(memory(u64::from(key.number) + 1)),
        stated: Some(TALLY),
    });
    let known = BTreeMap::from([(keys[0], holding(1)), (keys[1], holding(2))]);
    let mut world = World::new();
    world
        .store
        .take_over(Vec::new(), (held.into(), known), &world.around, &mut world.out);
    world.brought();
    for said in [
        StoreInput::CoordinatorLinked { node: node("n1") },
        StoreInput::Led {
            job: JOB,
            by: node("n2"),
        },
    ] {
        let messages = world.on(said).checkpoint_messages();
        let named = messages.iter().filter_map(|message| match message {
            CheckpointMessage::Stored { stamp, .. } => Some(stamp.id.0),
            _ => None,
        });
        assert_eq!(named.collect::<Vec<_>>(), [2, 1]);
    }
}

#[test]
fn a_node_that_asks_for_a_part_gets_a_block_or_hears_that_it_is_not_here() {
    use pcm_proto::image::ImageMessage;
    let mut world = with_part(3);
    let want = |id| StoreInput::Image {
        key: part(id),
        node: node("n2"),
        message: ImageMessage::Want { block: 1 },
    };
    assert!(matches!(
        world.on(want(1)).store[..],
        [StoreEffect::GiveBlock {
            block: 1,
            memory: MemoryId(3),
            ..
        }]
    ));
    assert!(matches!(
        world.on(want(2)).image_messages()[..],
        [(_, ImageMessage::Gone { .. })]
    ));
}

#[test]
fn after_a_restart_only_what_is_as_it_was_written_down_counts() {
    let key = |number| BufferKey { number, ..BUFFER };
    let held = |number: u32, stated| HeldBuffer {
        key: key(number),
        memory: Some(memory(u64::from(number) + 1)),
        stated,
    };
    let known = BTreeMap::from([(key(0), holding(1)), (key(1), holding(2))]);
    let mut world = World::new();
    world.around.has_job = false;
    let buffers = vec![held(0, Some(TALLY)), held(1, None)];
    world
        .store
        .take_over(Vec::new(), (buffers, known), &world.around, &mut world.out);
    assert_eq!(
        world.store.records(),
        [Record::Kept {
            key: key(0),
            holds: Box::new(holding(1))
        }]
    );
    let brought = world.brought();
    assert_eq!(brought.released(), [MemoryId(2)]);
    assert!(brought.order.contains(&"keeper"), "which drops it, too");
}

#[test]
fn after_a_restart_copies_of_a_coordinator_that_went_before_are_waited_for_no_longer_than_others() {
    let key = BufferKey {
        is_copy: true,
        ..BUFFER
    };
    let holds = Holding {
        stamp: stamp(1),
        rank: Rank(1),
        tally: Some(TALLY),
        held_us: 0,
        coordinator: node("n1"),
    };
    let buffers = vec![HeldBuffer {
        key,
        memory: Some(memory(1)),
        stated: Some(TALLY),
    }];
    let mut world = World::new();
    world.around.has_job = false;
    let known = BTreeMap::from([(key, holds)]);
    world
        .store
        .take_over(Vec::new(), (buffers, known), &world.around, &mut world.out);
    let armed = world.out.take();
    let is_for_copies =
        |effect: &Effect| matches!(effect, Effect::Arm { timer: Timer::Orphans(of), .. } if *of == node("n1"));
    assert!(armed.iter().any(is_for_copies), "{armed:?}");
}

#[test]
fn a_restored_rank_gets_a_part_that_is_here_at_once() {
    let mut world = with_part(3);
    world.around.restores = Some(Restores {
        stamp: stamp(1),
        sources: vec![Vec::new(), vec![node("n0"), node("n2")]],
    });
    assert_eq!(world.ask(5, 1).answers(), [Ok(MemoryId(3))]);
    let lost = world.ask(5, 0).answers();
    assert!(
        lost[0].as_ref().is_err_and(|why| why.contains("no node holds")),
        "{lost:?}"
    );
    let failed = world.on(StoreInput::RestoreFailed {
        process: rank(5),
        reason: "no".to_owned(),
        is_unanswered: false,
    });
    assert!(matches!(
        failed.checkpoint_messages()[..],
        [CheckpointMessage::NotRestored { .. }]
    ));
}

#[test]
fn what_ranks_keep_at_the_iteration_that_they_began_with_is_given_up_and_the_next_is_made() {
    let mut world = World::new();
    world.around.restores = Some(Restores {
        stamp: Stamp {
            epoch: Epoch(9),
            ..stamp(1)
        },
        sources: vec![vec![node("n1")], vec![node("n2")]],
    });
    let kept = world.keep(1, Some(memory(3)));
    assert_eq!(kept.checkpoint_messages(), []);
    let is_given_up = |effect: &RankEffect| match effect {
        RankEffect::Tell { key, message, .. } => {
            let id = CheckpointId(1);
            *key == rank(0) && **message == DaemonToApp::Checkpoint(CheckpointOrder::GivenUp { id })
        }
        _ => false,
    };
    assert!(kept.ranks.iter().any(is_given_up), "{kept:?}");
    world.keep(2, None);
    let stored = world.on(summed(BUFFER, 2)).checkpoint_messages();
    assert!(matches!(stored[..], [CheckpointMessage::Stored { .. }]), "{stored:?}");
}

#[test]
fn a_part_of_a_checkpoint_that_was_given_up_is_not_offered_again() {
    let mut world = with_part(3);
    world.on(StoreInput::RankCheckpoint {
        from: rank(0),
        said: RankCheckpoint::Kept {
            buffer: 1,
            id: CheckpointId(2),
            iteration: stamp(2).iteration,
            rank: Rank(1),
            ranks: 2,
            bytes: memory(4).bytes,
            held_us: 5,
        },
        memory: Some(memory(4)),
    });
    let second = BufferKey { number: 1, ..BUFFER };
    world.keeper_answers(second, Ok(()));
    world.on(summed(second, 2));
    assert_eq!(world.store.records().len(), 2);
    let given_up = world.checkpoint(CheckpointMessage::GivenUp { id: CheckpointId(2) });
    assert!(given_up.order.contains(&"record"), "a later daemon must know it, too");
    assert_eq!(world.store.records().len(), 1);
    let linked = world.on(StoreInput::CoordinatorLinked { node: node("n1") });
    assert!(matches!(
        linked.checkpoint_messages()[..],
        [CheckpointMessage::Stored { stamp: of, .. }] if of.id == CheckpointId(1)
    ));
}

#[test]
fn a_part_that_was_given_up_goes_with_its_buffer_where_the_job_has_no_process() {
    let mut world = with_part(3);
    world.around.has_job = false;
    let given_up = world.checkpoint(CheckpointMessage::GivenUp { id: CheckpointId(1) });
    assert!(given_up.order.contains(&"keeper"));
    assert_eq!(given_up.released(), [MemoryId(3)]);
}
