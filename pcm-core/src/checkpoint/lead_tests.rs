//! What must hold for the checkpoints of a job, whatever order things happen in.

use super::*;
use crate::moment::Moment;
use pcm_proto::ids::{Bytes, CheckpointId, Epoch, Iteration, NodeName, ProcessId, Rank};

const SECOND: u64 = 1_000_000;

fn node(number: u32) -> NodeName {
    NodeName::new(format!("n{number}")).unwrap()
}

fn stamp(iteration: u64) -> Stamp {
    Stamp {
        id: CheckpointId(iteration + 1),
        epoch: Epoch(0),
        iteration: Iteration(iteration),
        ranks: 2,
    }
}

fn part(iteration: u64, rank: u32, is_copy: bool) -> Part {
    Part {
        stamp: stamp(iteration),
        rank: Rank(rank),
        process: ProcessId(rank),
        is_copy,
        tally: PartTally {
            bytes: Bytes(10),
            checksum: u64::from(rank),
        },
        held_us: 7 + u64::from(rank),
    }
}

fn known(iteration: u64) -> Known {
    Known {
        newest: Some(Iteration(iteration)),
        announced: Some(Iteration(iteration)),
    }
}

/// Rank r runs on node r; the copy of node 0 is on node 1 and the other way round.
fn partner(of: &NodeName) -> CopyTo {
    CopyTo::Node(if *of == node(0) { node(1) } else { node(0) })
}

fn store(lead: &mut Lead, at: u32, part: Part) -> Vec<LeadEffect> {
    lead.on_stored(Moment(0), &node(at), part, partner).unwrap()
}

/// A lead whose checkpoint of this iteration is settled.
fn settled(lead: &mut Lead, iteration: u64) {
    store(lead, 0, part(iteration, 0, false));
    store(lead, 1, part(iteration, 1, false));
    store(lead, 1, part(iteration, 0, true));
    let effects = store(lead, 0, part(iteration, 1, true));
    assert!(
        effects.contains(&LeadEffect::Settled(CheckpointId(iteration + 1))),
        "{effects:?}"
    );
}

#[test]
fn a_checkpoint_counts_when_all_parts_are_there_and_is_settled_when_all_are_copied() {
    let mut lead = Lead::new(Known::default());
    assert_eq!(store(&mut lead, 0, part(5, 0, false)), []);
    let effects = store(&mut lead, 1, part(5, 1, false));
    let copy = |to, rank, from| LeadEffect::Copy {
        to: node(to),
        stamp: stamp(5),
        rank: Rank(rank),
        process: ProcessId(rank),
        from: node(from),
    };
    let complete = LeadEffect::Complete {
        stamp: stamp(5),
        bytes: Bytes(20),
        held_us: 8,
    };
    let newest = LeadEffect::Newest(Some(Iteration(5)));
    assert_eq!(effects, [complete, copy(1, 0, 0), copy(0, 1, 1), newest]);
    assert_eq!(store(&mut lead, 1, part(5, 0, true)), []);
    assert_eq!(
        store(&mut lead, 0, part(5, 1, true)),
        [LeadEffect::Settled(CheckpointId(6))]
    );
    assert_eq!(lead.deadline(), None);
}

#[test]
fn a_copy_that_cannot_be_held_is_not_ordered_again_and_the_checkpoint_settles_without() {
    let mut lead = Lead::new(Known::default());
    store(&mut lead, 0, part(5, 0, false));
    store(&mut lead, 1, part(5, 1, false));
    let id = CheckpointId(6);
    assert_eq!(lead.on_not_copied(CheckpointId(5), Rank(1), partner), []);
    assert_eq!(lead.on_not_copied(id, Rank(0), partner), []);
    let ordered = lead.on_tick(lead.deadline().unwrap(), partner);
    assert!(
        matches!(ordered[..], [LeadEffect::Copy { rank: Rank(1), .. }]),
        "{ordered:?}"
    );
    assert_eq!(store(&mut lead, 0, part(5, 1, true)), [LeadEffect::Settled(id)]);
}

#[test]
fn a_copy_is_ordered_again_at_once_over_a_new_link() {
    let mut lead = Lead::new(Known::default());
    let now = Moment(9 * SECOND);
    for rank in 0..2 {
        let stored = lead.on_stored(now, &node(rank), part(5, rank, false), partner);
        assert!(stored.is_ok(), "{stored:?}");
    }
    assert_eq!(lead.on_tick(now, partner), []);
    lead.on_linked();
    assert!(lead.deadline() < Some(now));
    let ordered = lead.on_tick(now, partner);
    let is_copy = |effect: &LeadEffect| matches!(effect, LeadEffect::Copy { .. });
    assert!(ordered.len() == 2 && ordered.iter().all(is_copy), "{ordered:?}");
    assert!(lead.deadline() > Some(now), "once");
}

#[test]
fn a_checkpoint_is_not_settled_before_the_other_nodes_are_known() {
    let mut lead = Lead::new(Known::default());
    settled(&mut lead, 5);
    for rank in 0..2 {
        let stored = lead.on_stored(Moment(0), &node(rank), part(9, rank, false), |_| CopyTo::NodeToCome);
        let effects = stored.unwrap();
        assert!(!effects.contains(&LeadEffect::Settled(CheckpointId(10))), "{effects:?}");
    }
    let effects = lead.on_tick(lead.deadline().unwrap(), partner);
    assert!(
        matches!(effects[..], [LeadEffect::Copy { .. }, LeadEffect::Copy { .. }]),
        "{effects:?}"
    );
}

#[test]
fn a_part_of_which_only_a_copy_is_left_is_copied_before_its_checkpoint_is_settled() {
    let mut lead = Lead::new(known(5));
    store(&mut lead, 1, part(5, 0, true));
    store(&mut lead, 1, part(5, 1, false));
    let effects = store(&mut lead, 0, part(5, 1, true));
    assert!(!effects.contains(&LeadEffect::Settled(CheckpointId(6))), "{effects:?}");
    let ordered = lead.on_tick(lead.deadline().unwrap(), partner);
    let copy = LeadEffect::Copy {
        to: node(0),
        stamp: stamp(5),
        rank: Rank(0),
        process: ProcessId(0),
        from: node(1),
    };
    assert_eq!(ordered, [copy]);
    let effects = store(&mut lead, 0, part(5, 0, true));
    assert!(effects.contains(&LeadEffect::Settled(CheckpointId(6))), "{effects:?}");
}

#[test]
fn without_another_node_a_checkpoint_is_settled_at_once() {
    let mut lead = Lead::new(Known::default());
    let mut effects = Vec::new();
    for rank in 0..2 {
        effects = lead
            .on_stored(Moment(0), &node(0), part(5, rank, false), |_| CopyTo::Nowhere)
            .unwrap();
    }
    assert!(effects.contains(&LeadEffect::Settled(CheckpointId(6))), "{effects:?}");
}

#[test]
fn a_lost_node_s_part_comes_from_its_partner() {
    let mut lead = Lead::new(Known::default());
    settled(&mut lead, 5);
    assert_eq!(lead.on_node_lost(&node(0)), []);
    let restorable = lead.restorable().unwrap();
    assert_eq!(restorable.stamp, stamp(5));
    assert_eq!(restorable.sources[0], [Place::Partner(node(1))]);
    assert_eq!(restorable.sources[1], [Place::Own(node(1))]);
}

#[test]
fn a_node_lost_before_the_newer_checkpoint_is_copied_costs_that_one_only() {
    let mut lead = Lead::new(Known::default());
    settled(&mut lead, 5);
    store(&mut lead, 0, part(9, 0, false));
    store(&mut lead, 1, part(9, 1, false));
    assert_eq!(lead.newest(), Some(Iteration(9)));
    let effects = lead.on_node_lost(&node(0));
    assert!(effects.contains(&LeadEffect::Newest(Some(Iteration(5)))), "{effects:?}");
    assert_eq!(lead.restorable().unwrap().stamp, stamp(5));
}

#[test]
fn a_checkpoint_that_a_rank_does_not_make_is_given_up_and_the_older_stays() {
    let mut lead = Lead::new(Known::default());
    settled(&mut lead, 5);
    store(&mut lead, 0, part(9, 0, false));
    let due = lead.deadline().unwrap();
    assert_eq!(lead.on_tick(Moment(due.0 - 1), partner), []);
    assert_eq!(lead.on_tick(due, partner), [LeadEffect::GivenUp(CheckpointId(10))]);
    assert_eq!(lead.newest(), Some(Iteration(5)));
    store(&mut lead, 0, part(12, 0, false));
    assert_eq!(
        lead.on_not_stored(CheckpointId(13)),
        [LeadEffect::GivenUp(CheckpointId(13))]
    );
    assert_eq!(lead.deadline(), None);
}

#[test]
fn copies_that_do_not_come_are_ordered_again_and_not_waited_for_without_end() {
    let mut lead = Lead::new(Known::default());
    store(&mut lead, 0, part(5, 0, false));
    store(&mut lead, 1, part(5, 1, false));
    store(&mut lead, 1, part(5, 0, true));
    let effects = lead.on_tick(Moment(6 * SECOND), partner);
    assert!(
        matches!(&effects[..], [LeadEffect::Copy { rank: Rank(1), .. }]),
        "{effects:?}"
    );
    let effects = lead.on_tick(Moment(61 * SECOND), partner);
    assert_eq!(effects, [LeadEffect::Settled(CheckpointId(6))]);
}

#[test]
fn after_a_roll_back_the_same_iterations_make_checkpoints_again() {
    let mut lead = Lead::new(Known::default());
    settled(&mut lead, 5);
    store(&mut lead, 0, part(9, 0, false));
    assert_eq!(
        lead.on_restart(Moment(0), Some(CheckpointId(6))),
        RolledBack::ToSettled(CheckpointId(6))
    );
    let other = |rank, tally| Part {
        stamp: Stamp {
            epoch: Epoch(2),
            ..stamp(9)
        },
        tally,
        ..part(9, rank, false)
    };
    let tally = PartTally {
        bytes: Bytes(10),
        checksum: 99,
    };
    store(&mut lead, 0, other(0, tally));
    let effects = store(&mut lead, 1, other(1, tally));
    assert!(effects.contains(&LeadEffect::Newest(Some(Iteration(9)))), "{effects:?}");
}

#[test]
fn a_restart_from_a_checkpoint_without_copies_still_has_them_made_and_needs_the_older_one() {
    let mut lead = Lead::new(Known::default());
    settled(&mut lead, 5);
    store(&mut lead, 0, part(9, 0, false));
    store(&mut lead, 1, part(9, 1, false));
    let uncopied = RolledBack::ToUncopied(CheckpointId(10));
    assert_eq!(lead.on_restart(Moment(0), Some(CheckpointId(10))), uncopied);
    let effects = lead.on_tick(lead.deadline().unwrap(), partner);
    assert_eq!(effects.len(), 2, "both parts are to be copied: {effects:?}");
    let mut unlucky = lead.clone();
    unlucky.on_node_lost(&node(0));
    assert_eq!(unlucky.restorable().unwrap().stamp, stamp(5));
    store(&mut lead, 1, part(9, 0, true));
    let effects = store(&mut lead, 0, part(9, 1, true));
    assert!(effects.contains(&LeadEffect::Settled(CheckpointId(10))), "{effects:?}");
    lead.on_node_lost(&node(0));
    assert_eq!(lead.restorable().unwrap().stamp, stamp(9));
}

#[test]
fn a_coordinator_that_lost_all_it_knew_learns_it_again_from_the_nodes_and_announces_nothing_twice() {
    let mut lead = Lead::new(Known::default());
    settled(&mut lead, 5);
    let mut again = Lead::new(known(lead.newest().unwrap().0));
    let mut effects = store(&mut again, 0, part(5, 0, false));
    assert_eq!(
        again.newest(),
        Some(Iteration(5)),
        "what was announced does not vanish while nodes are heard"
    );
    for (at, part) in [(1, part(5, 1, false)), (1, part(5, 0, true)), (0, part(5, 1, true))] {
        effects.extend(store(&mut again, at, part));
    }
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, LeadEffect::Complete { .. })),
        "{effects:?}"
    );
    assert_eq!(again.restorable(), lead.restorable());
}

/// A crash may be heard of before the rest of the newest one.
#[test]
fn a_restarted_coordinator_takes_no_older_checkpoint_for_the_newest_while_nodes_are_heard() {
    let mut lead = Lead::new(known(9));
    for rank in 0..2 {
        let effects = store(&mut lead, 1, part(5, rank, rank == 0));
        assert!(
            !effects.contains(&LeadEffect::Newest(Some(Iteration(5)))),
            "{effects:?}"
        );
    }
    store(&mut lead, 1, part(9, 1, false));
    assert_eq!((lead.newest(), lead.is_learning()), (Some(Iteration(9)), true));
    let mut in_vain = lead.clone();
    store(&mut lead, 0, part(9, 0, false));
    assert_eq!((lead.newest(), lead.is_learning()), (Some(Iteration(9)), false));
    assert_eq!(in_vain.on_learned(), [LeadEffect::Newest(Some(Iteration(5)))]);
    assert!(!in_vain.is_learning());
}

#[test]
fn a_newer_checkpoint_costs_a_restarted_coordinator_no_copy_of_the_settled_one_that_it_hears_of_late() {
    let mut lead = Lead::new(known(5));
    let drops = |effects: &[LeadEffect]| {
        let is_drop = |effect: &&LeadEffect| matches!(effect, LeadEffect::Drop { .. });
        effects.iter().filter(is_drop).count()
    };
    let heard = [
        (0, part(5, 1, true)),
        (0, part(5, 0, false)),
        (0, part(9, 0, false)),
        (1, part(9, 1, false)),
        (1, part(5, 0, true)),
        (1, part(5, 1, false)),
    ];
    for (at, part) in heard {
        let effects = store(&mut lead, at, part);
        assert_eq!(drops(&effects), 0, "{effects:?}");
    }
    store(&mut lead, 1, part(9, 0, true));
    let effects = store(&mut lead, 0, part(9, 1, true));
    assert!(effects.contains(&LeadEffect::Settled(CheckpointId(10))), "{effects:?}");
    settled(&mut lead, 12);
    assert_eq!(lead.restorable().unwrap().stamp, stamp(12));
}

#[test]
fn a_restarted_coordinator_gives_up_nothing_that_was_complete_before_all_were_heard() {
    let mut lead = Lead::new(known(5));
    store(&mut lead, 1, part(5, 0, true));
    assert_eq!(lead.on_node_lost(&node(0)), []);
    let mut late = lead.clone();
    assert_eq!(late.on_tick(late.deadline().unwrap(), partner), []);
    store(&mut late, 1, part(5, 1, false));
    assert_eq!(late.restorable().unwrap().stamp, stamp(5));
}

#[test]
fn a_restarted_coordinator_takes_a_checkpoint_back_that_a_node_out_of_reach_had_a_part_of() {
    let mut lead = Lead::new(Known {
        newest: None,
        ..known(5)
    });
    store(&mut lead, 1, part(5, 1, false));
    assert_eq!(lead.on_node_lost(&node(2)), [], "it is not given up for another loss");
    let effects = store(&mut lead, 0, part(5, 0, false));
    assert!(effects.contains(&LeadEffect::Newest(Some(Iteration(5)))), "{effects:?}");
}

#[test]
fn a_restart_has_copies_made_of_what_a_lost_node_had_too() {
    let mut lead = Lead::new(Known::default());
    settled(&mut lead, 5);
    lead.on_node_lost(&node(0));
    let uncopied = RolledBack::ToUncopied(CheckpointId(6));
    assert_eq!(lead.on_restart(Moment(9 * SECOND), Some(CheckpointId(6))), uncopied);
    assert!(lead.deadline().unwrap() <= Moment(9 * SECOND), "at once");
    let effects = lead.on_tick(Moment(9 * SECOND), |_| CopyTo::Node(node(2)));
    let is_copy = |effect: &&LeadEffect| match effect {
        LeadEffect::Copy { to, from, .. } => (to, from) == (&node(2), &node(1)),
        _ => false,
    };
    assert_eq!(effects.iter().filter(is_copy).count(), 2, "{effects:?}");
    store(&mut lead, 2, part(5, 0, true));
    let effects = store(&mut lead, 2, part(5, 1, true));
    assert!(effects.contains(&LeadEffect::Settled(CheckpointId(6))), "{effects:?}");
}

#[test]
fn a_node_that_says_what_it_has_is_there_before_it_is_seen() {
    let mut lead = Lead::new(Known::default());
    let (own, other) = (part(5, 0, false), part(5, 1, false));
    let unseen = |_: &NodeName| CopyTo::Nowhere;
    lead.on_stored(Moment(0), &node(0), own, unseen).unwrap();
    let effects = lead.on_stored(Moment(0), &node(1), other, unseen).unwrap();
    assert!(!effects.contains(&LeadEffect::Settled(CheckpointId(6))), "{effects:?}");
    let effects = lead.on_tick(lead.deadline().unwrap(), partner);
    assert!(matches!(
        effects[..],
        [LeadEffect::Copy { .. }, LeadEffect::Copy { .. }]
    ));
}

#[test]
fn without_memory_a_restart_begins_with_files_and_a_condemned_checkpoint_is_none() {
    let mut lead = Lead::new(Known::default());
    let filed = Filed {
        iteration: Iteration(3),
        directory: b"/c".to_vec(),
    };
    lead.on_filed(filed.clone());
    settled(&mut lead, 5);
    // Without an answer nothing is known to be wrong with it.
    assert_eq!(lead.on_not_restored(CheckpointId(6), true), []);
    assert_eq!(
        lead.on_not_restored(CheckpointId(6), true),
        [LeadEffect::Newest(Some(Iteration(3)))]
    );
    assert_eq!((lead.restorable(), lead.filed().next()), (None, Some(&filed)));
}
