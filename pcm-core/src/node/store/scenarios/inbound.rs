//! Images that come from other nodes: each route, its failure, and a node that is gone meanwhile.

use super::world::{Brought, IMAGE, JOB, TALLY, World, memory, node, part, stamp, wants};
use crate::node::memory::MemoryId;
use crate::node::outbox::Inward;
use crate::node::store::effect::{StoreEffect, Sums};
use crate::node::store::fetch::ASK_AGAIN;
use crate::node::store::input::StoreInput;
use crate::node::store::not_come::{NotCome, PATIENCE};
use crate::node::store::route::AllowedRoutes;
use pcm_proto::checkpoint::{BufferKey, CheckpointMessage, Restores};
use pcm_proto::ids::{CheckpointId, ProcessId, Rank};
use pcm_proto::image::ImageMessage;

const REGION: [u8; 16] = [3; 16];

/// The number of the block that is asked for to hear how long an image is.
fn beyond(brought: &Brought) -> u64 {
    wants(brought)[0].1
}

fn link_only() -> World {
    let mut world = World::new();
    world.store.allow(AllowedRoutes::parse("link").unwrap());
    world
}

/// The try of the offer or loan that was begun.
fn attempt(brought: &Brought) -> u64 {
    let found = brought.store.iter().find_map(|effect| match effect {
        StoreEffect::Receive { attempt, .. }
        | StoreEffect::Borrow { attempt, .. }
        | StoreEffect::Copy { attempt, .. } => Some(*attempt),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("nothing was begun: {brought:?}"))
}

fn copy(number: u32) -> BufferKey {
    BufferKey {
        job: JOB,
        process: ProcessId(1),
        number,
        is_copy: true,
    }
}

/// A copy of the part of checkpoint `id` comes over the link and is verified.
fn copied_by_link(world: &mut World, id: u64, number: u32) -> Brought {
    let beyond = beyond(&world.order_copy(id, "n2"));
    world.block(part(id), "n2", beyond);
    world.block(part(id), "n2", 0);
    let whole = world.block(part(id), "n2", 1);
    world.keeper_answers(copy(number), Ok(()));
    world.on(StoreInput::Summed {
        key: copy(number),
        id: CheckpointId(id),
        tally: Ok(TALLY),
    });
    whole
}

/// An offer over TCP for a copy; its try.
fn offered(world: &mut World) -> u64 {
    let beyond = beyond(&world.order_copy(1, "n2"));
    let opening = world.block(part(1), "n2", beyond);
    let attempt = attempt(&opening);
    let (key, region) = (part(1), REGION);
    let offered = world.on(StoreInput::Offered { key, attempt, region });
    assert!(matches!(
        offered.image_messages()[..],
        [(_, ImageMessage::Put { region: REGION, .. })]
    ));
    attempt
}

fn came(attempt: u64, is_memory_left: bool, outcome: Result<(), NotCome>) -> StoreInput {
    StoreInput::Came {
        key: part(1),
        attempt,
        is_memory_left,
        outcome: outcome.map(|()| None),
    }
}

#[test]
fn a_copy_over_the_link_is_held_when_its_last_block_is_there_and_counts_when_verified() {
    let mut world = link_only();
    let whole = copied_by_link(&mut world, 1, 0);
    let effects = &whole.store[..];
    assert!(
        matches!(
            effects,
            [
                StoreEffect::Write { .. },
                StoreEffect::Keep { .. },
                StoreEffect::Sum { sums: Sums::Verify, .. }
            ]
        ),
        "{effects:?}"
    );
    assert!(matches!(whole.inward[..], [Inward::CopyMeasured { bytes: IMAGE, .. }]));
    assert_eq!(world.store.records().len(), 1);
}

#[test]
fn memory_of_a_copy_is_used_for_the_next_one_unless_another_process_may_read_it() {
    let mut world = link_only();
    copied_by_link(&mut world, 1, 0);
    let drop_copy = |id| CheckpointMessage::Drop {
        id: CheckpointId(id),
        rank: Rank(1),
    };
    // Two are held, so that one that is dropped may be a spare.
    let made = |brought: &Brought| {
        brought
            .store
            .iter()
            .any(|effect| matches!(effect, StoreEffect::Make { .. }))
    };
    copied_by_link(&mut world, 2, 1);
    assert!(world.checkpoint(drop_copy(1)).released().is_empty());
    let beyond_3 = beyond(&world.order_copy(3, "n2"));
    assert!(!made(&world.block(part(3), "n2", beyond_3)));
    world.block(part(3), "n2", 0);
    world.block(part(3), "n2", 1);
    // The sums of the third are not verified yet: it is read.
    assert_eq!(world.checkpoint(drop_copy(3)).released().len(), 1);
    let key = part(2);
    world.on(StoreInput::BorrowerAsks { number: 1, key });
    assert_eq!(world.checkpoint(drop_copy(2)).released().len(), 1, "it was lent");
}

#[test]
fn a_copy_that_the_keeper_refuses_is_dropped_and_the_coordinator_waits_for_none() {
    let mut world = link_only();
    let beyond = beyond(&world.order_copy(1, "n2"));
    for block in [beyond, 0, 1] {
        world.block(part(1), "n2", block);
    }
    let refused = world.keeper_answers(copy(0), Err("no room".to_owned()));
    let said = refused.checkpoint_messages();
    let is_told = matches!(&said[..], [CheckpointMessage::NotCopied { reason, .. }] if reason == "no room");
    assert!(is_told, "{said:?}");
    assert_eq!(refused.released().len(), 1);
}

#[test]
fn only_two_copies_are_made_at_once() {
    let mut world = link_only();
    let asked = [1, 2, 3].map(|id| wants(&world.order_copy(id, "n2")).len());
    assert_eq!(asked, [1, 1, 0]);
    let gone = world.on(StoreInput::Image {
        key: part(1),
        node: node("n2"),
        message: ImageMessage::Gone {
            reason: "no".to_owned(),
        },
    });
    assert_eq!(wants(&gone).len(), 1, "the third begins");
}

#[test]
fn a_block_that_was_lost_is_asked_for_again() {
    let mut world = link_only();
    let beyond = beyond(&world.order_copy(1, "n2"));
    world.pass(ASK_AGAIN);
    assert_eq!(wants(&world.on(StoreInput::ImagesTimer)), [(node("n2"), beyond)]);
}

#[test]
fn a_copy_over_tcp_is_written_into_memory_on_offer() {
    let mut world = World::new();
    let attempt = offered(&mut world);
    let whole = world.on(came(attempt, true, Ok(())));
    assert!(
        whole
            .store
            .iter()
            .any(|effect| matches!(effect, StoreEffect::Sum { .. }))
    );
    assert!(matches!(whole.inward[..], [Inward::CopyMeasured { .. }]));
}

#[test]
fn a_route_that_stays_silent_is_left_for_the_link_and_not_taken_again_soon() {
    let mut world = World::new();
    let attempt = offered(&mut world);
    let silence = NotCome::Silence("nothing came".to_owned());
    let failed = world.on(came(attempt, true, Err(silence)));
    assert_eq!(wants(&failed), [(node("n2"), 0), (node("n2"), 1)]);
    assert!(
        world.on(came(attempt, true, Ok(()))).is_nothing(),
        "of a try that is over"
    );
    world.block(part(1), "n2", 0);
    let whole = world.block(part(1), "n2", 1);
    assert!(
        whole
            .store
            .iter()
            .any(|effect| matches!(effect, StoreEffect::Sum { .. }))
    );
    let beyond = beyond(&world.order_copy(2, "n2"));
    let next = world.block(part(2), "n2", beyond);
    assert_eq!(wants(&next).len(), 2, "by link at once: {next:?}");
}

#[test]
fn memory_that_another_thread_may_still_write_is_not_used_any_more() {
    let mut world = World::new();
    let attempt = offered(&mut world);
    world.pass(PATIENCE);
    let refused = world.on(StoreInput::Image {
        key: part(1),
        node: node("n2"),
        message: ImageMessage::NotPut {
            region: REGION,
            reason: "no way there".to_owned(),
        },
    });
    let withdrawn = |effect: &StoreEffect| matches!(effect, StoreEffect::Withdraw { attempt: of } if *of == attempt);
    assert!(refused.store.iter().any(withdrawn));
    assert_eq!(refused.released(), [MemoryId::ordered(1)]);
    assert_eq!(wants(&refused).len(), 1, "how long it is, is asked again");
}

#[test]
fn a_daemon_of_this_host_lends_and_the_loan_is_copied() {
    let mut world = World::new();
    world.around.same_host.insert(node("n2"));
    let borrow = world.order_copy(1, "n2");
    let (key, attempt) = (part(1), attempt(&borrow));
    let lent = Ok(memory(5));
    let copying = world.on(StoreInput::Lent { key, attempt, lent });
    assert!(matches!(
        copying.store[..],
        [StoreEffect::Make { .. }, StoreEffect::Copy { from: MemoryId(5), .. }]
    ));
    let whole = world.on(StoreInput::Came {
        key,
        attempt,
        is_memory_left: true,
        outcome: Ok(Some(TALLY)),
    });
    assert_eq!(whole.released(), [MemoryId(5)]);
    assert!(whole.checkpoint_messages().is_empty());
    assert!(matches!(
        world.keeper_answers(copy(0), Ok(())).checkpoint_messages()[..],
        [CheckpointMessage::Stored { is_copy: true, .. }]
    ));
}

#[test]
fn a_loan_that_fails_is_fetched_over_the_link_and_a_late_one_is_let_go() {
    let mut world = World::new();
    world.around.same_host.insert(node("n2"));
    let borrow = world.order_copy(1, "n2");
    let (key, attempt) = (part(1), attempt(&borrow));
    let lent = |lent| StoreInput::Lent { key, attempt, lent };
    let refused = world.on(lent(Err("its daemon does not answer".to_owned())));
    assert_eq!(wants(&refused).len(), 1);
    assert_eq!(world.on(lent(Ok(memory(5)))).released(), [MemoryId(5)]);
}

fn restoring(sources: &[&str]) -> World {
    let mut world = link_only();
    world.around.restores = Some(Restores {
        stamp: stamp(1),
        sources: vec![Vec::new(), sources.iter().map(|name| node(name)).collect()],
    });
    world
}

#[test]
fn a_restored_rank_gets_its_blocks_from_the_next_node_when_one_is_gone() {
    let mut world = restoring(&["n2", "n3"]);
    let beyond = beyond(&world.ask(5, 1));
    world.block(part(1), "n2", beyond);
    let gone = world.on(StoreInput::NodeGone { node: node("n2") });
    assert_eq!(wants(&gone), [(node("n3"), beyond)]);
    assert_eq!(gone.released(), [MemoryId::ordered(1)]);
    assert!(world.block(part(1), "n2", 0).is_nothing(), "what the other still sends");
    world.block(part(1), "n3", beyond);
    world.block(part(1), "n3", 0);
    let whole = world.block(part(1), "n3", 1);
    assert_eq!(whole.answers(), [Ok(MemoryId::ordered(2))]);
}

#[test]
fn a_rank_hears_that_its_data_is_lost_when_no_node_is_left() {
    let mut world = restoring(&["n2"]);
    world.ask(5, 1);
    let gone = world.on(StoreInput::NodeGone { node: node("n2") });
    assert_eq!(gone.answers(), [Err("node n2 is gone".to_owned())]);
}

#[test]
fn what_was_fetched_for_ranks_goes_with_the_last_of_them() {
    let mut world = restoring(&["n2"]);
    let beyond = beyond(&world.ask(5, 1));
    world.block(part(1), "n2", beyond);
    let emptied = world.on(StoreInput::JobEmptied { job: JOB });
    assert_eq!(emptied.released(), [MemoryId::ordered(1)]);
}

#[test]
fn memory_that_cannot_be_written_is_as_if_its_node_were_gone() {
    let mut world = restoring(&["n2"]);
    let beyond = beyond(&world.ask(5, 1));
    world.block(part(1), "n2", beyond);
    let write = world.block(part(1), "n2", 0);
    let attempt = write.store.iter().find_map(|effect| match effect {
        StoreEffect::Write { attempt, .. } => Some(*attempt),
        _ => None,
    });
    let (key, reason) = (part(1), "no room".to_owned());
    let unwritable = |attempt| StoreInput::Unwritable {
        key,
        attempt,
        reason: reason.clone(),
    };
    assert!(world.on(unwritable(99)).is_nothing(), "of another try");
    let lost = world.on(unwritable(attempt.unwrap())).answers();
    assert!(lost[0].as_ref().is_err_and(|why| why.contains("no room")), "{lost:?}");
}

#[test]
fn copies_of_a_coordinator_that_is_gone_are_dropped_and_one_that_came_back_hears_of_them() {
    let mut world = link_only();
    copied_by_link(&mut world, 1, 0);
    let timer = || StoreInput::OrphansTimer(node("n1"));
    let there = world.on(timer());
    assert!(matches!(
        there.checkpoint_messages()[..],
        [CheckpointMessage::Stored { is_copy: true, .. }]
    ));
    assert!(!there.order.contains(&"keeper"), "it is there");
    world.around.gone.insert(node("n1"));
    assert!(world.on(timer()).order.contains(&"keeper"));
    assert!(world.store.records().is_empty());
}

#[test]
fn what_is_on_offer_is_said_again_to_a_node_that_is_linked_again() {
    let mut world = World::new();
    offered(&mut world);
    let linked = world.on(StoreInput::NodeLinked { node: node("n2") });
    assert!(matches!(linked.image_messages()[..], [(_, ImageMessage::Put { .. })]));
}

#[test]
fn a_job_that_is_over_leaves_nothing_on_its_way() {
    let mut world = World::new();
    let attempt = offered(&mut world);
    world.around.has_job = false;
    let over = world.on(StoreInput::JobOver { job: JOB });
    assert_eq!(over.released(), [MemoryId::ordered(1)]);
    let withdrawn = |effect: &StoreEffect| matches!(effect, StoreEffect::Withdraw { attempt: of } if *of == attempt);
    assert!(over.store.iter().any(withdrawn));
    assert!(world.on(came(attempt, true, Ok(()))).is_nothing());
}

#[test]
fn writing_to_a_node_stops_when_it_is_gone_and_one_that_fails_is_said() {
    let mut world = link_only();
    copied_by_link(&mut world, 1, 0);
    let put = || StoreInput::Image {
        key: part(1),
        node: node("n3"),
        message: ImageMessage::Put {
            region: REGION,
            at: pcm_proto::fabric::BulkAddress::Tcp(9),
        },
    };
    let begun = world.on(put());
    assert!(matches!(begun.store[..], [StoreEffect::Put { number: 1, .. }]));
    let ended = |number, outcome| StoreInput::PutEnded { number, outcome };
    let failed = world.on(ended(1, Err("no way there".to_owned())));
    assert!(matches!(
        failed.image_messages()[..],
        [(_, ImageMessage::NotPut { .. })]
    ));
    world.on(put());
    let gone = world.on(StoreInput::NodeGone { node: node("n3") });
    assert!(
        gone.store
            .iter()
            .any(|effect| matches!(effect, StoreEffect::CancelPut { number: 2 }))
    );
    assert!(
        world.on(ended(2, Ok(IMAGE))).is_nothing(),
        "what was stopped says nothing"
    );
}
