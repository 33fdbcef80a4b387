//! What a catalogue keeps, announces and drops.

use super::catalogue::{Catalogue, Effect, Keep, PartRefused};
use super::entry::{PartTally, Place, Stamp};
use pcm_proto::ids::{Bytes, CheckpointId, Epoch, Iteration, NodeName, Rank};

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn stamp(id: u64) -> Stamp {
    Stamp {
        id: CheckpointId(id),
        epoch: Epoch(0),
        iteration: Iteration(id * 100),
        ranks: 2,
    }
}

fn tally(of: u64) -> PartTally {
    PartTally {
        bytes: Bytes(8),
        checksum: of,
    }
}

fn own(rank: u32) -> Place {
    Place::Own(node(&format!("n{rank}")))
}

fn store(catalogue: &mut Catalogue, id: u64, place: impl Fn(u32) -> Place) -> Vec<Effect> {
    (0..2)
        .flat_map(|rank| {
            let said = catalogue.stored(stamp(id), Rank(rank), place(rank), tally(u64::from(rank)));
            said.unwrap()
        })
        .collect()
}

fn commit(catalogue: &mut Catalogue, id: u64, place: impl Fn(u32) -> Place) -> Vec<Effect> {
    assert!(store(catalogue, id, place).contains(&Effect::Persist(stamp(id))));
    catalogue.persisted(CheckpointId(id))
}

fn newest(catalogue: &Catalogue) -> Option<u64> {
    catalogue.newest().map(|restorable| restorable.stamp.id.0)
}

#[test]
fn a_checkpoint_counts_only_when_every_part_is_there_and_the_record_lasts() {
    let mut catalogue = Catalogue::new(Keep::default());
    let said = catalogue.stored(stamp(1), Rank(0), own(0), tally(0));
    assert_eq!((said, newest(&catalogue)), (Ok(vec![]), None));
    let said = catalogue.stored(stamp(1), Rank(1), own(1), tally(1));
    assert_eq!(said, Ok(vec![Effect::Persist(stamp(1))]));
    assert_eq!(newest(&catalogue), None, "it was spoken of before it was on record");
    assert_eq!(catalogue.persisted(CheckpointId(1)), [Effect::Announce(stamp(1))]);
    assert_eq!(newest(&catalogue), Some(1));
    assert_eq!(catalogue.persisted(CheckpointId(1)), []);
}

#[test]
fn a_part_of_another_iteration_is_refused() {
    let mut catalogue = Catalogue::new(Keep::default());
    store(&mut catalogue, 1, own);
    let other = Stamp {
        iteration: Iteration(7),
        ..stamp(1)
    };
    let refused = catalogue.stored(other, Rank(0), own(0), tally(0));
    let (known, said) = (stamp(1), other);
    assert_eq!(refused, Err(PartRefused::StampDiffers { known, said }));
}

#[test]
fn a_copy_that_differs_from_the_first_is_refused() {
    let mut catalogue = Catalogue::new(Keep::default());
    commit(&mut catalogue, 1, own);
    let refused = catalogue.stored(stamp(1), Rank(1), Place::Partner(node("n0")), tally(99));
    assert_eq!(refused, Err(PartRefused::ContentsDiffer { rank: Rank(1) }));
    assert_eq!(catalogue.newest().unwrap().sources[1], [own(1)]);
}

#[test]
fn a_lost_node_costs_nothing_where_its_partner_has_a_copy() {
    let mut catalogue = Catalogue::new(Keep::default());
    commit(&mut catalogue, 1, own);
    store(&mut catalogue, 1, |rank| {
        Place::Partner(node(&format!("n{}", 1 - rank)))
    });
    assert_eq!(catalogue.node_lost(&node("n1")), []);
    let sources = catalogue.newest().unwrap().sources;
    assert_eq!(sources, [vec![own(0)], vec![Place::Partner(node("n0"))]]);
    let lost = catalogue.node_lost(&node("n0"));
    let (missing, next) = (Rank(0), None);
    let stamp = stamp(1);
    assert_eq!(lost, [Effect::Lost { stamp, missing, next }]);
    assert_eq!(newest(&catalogue), None);
}

#[test]
fn a_damaged_part_is_taken_from_the_next_level_and_then_from_the_older_checkpoint() {
    let mut catalogue = Catalogue::new(Keep::default());
    commit(&mut catalogue, 1, own);
    store(&mut catalogue, 1, |_| Place::File);
    commit(&mut catalogue, 2, own);
    store(&mut catalogue, 2, |_| Place::File);
    assert_eq!(catalogue.newest().unwrap().sources[0], [own(0), Place::File]);
    assert_eq!(catalogue.damaged(CheckpointId(2), Rank(0), &own(0)), []);
    assert_eq!(catalogue.newest().unwrap().sources[0], [Place::File]);
    let lost = catalogue.damaged(CheckpointId(2), Rank(0), &Place::File);
    let next = Some(stamp(1));
    let missing = Rank(0);
    assert_eq!(
        lost[0],
        Effect::Lost {
            stamp: stamp(2),
            missing,
            next
        }
    );
    assert_eq!(catalogue.newest().unwrap().sources[0], [Place::File]);
}

#[test]
fn a_newer_checkpoint_lets_the_older_one_s_memory_go_but_keeps_its_files() {
    let mut catalogue = Catalogue::new(Keep::default());
    commit(&mut catalogue, 1, own);
    store(&mut catalogue, 1, |_| Place::File);
    let effects = commit(&mut catalogue, 2, own);
    let drop = |rank| Effect::Drop {
        id: CheckpointId(1),
        rank: Rank(rank),
        place: own(rank),
    };
    assert_eq!(effects, [Effect::Announce(stamp(2)), drop(0), drop(1)]);
    let kept: Vec<u64> = catalogue.restorable().map(|r| r.stamp.id.0).collect();
    assert_eq!(kept, [2, 1]);
}

#[test]
fn the_newest_that_outlives_a_node_is_kept_whatever_newer_ones_there_are() {
    let partner = |rank: u32| Place::Partner(node(["n1", "n0"][rank as usize]));
    let mut catalogue = Catalogue::new(Keep { memory: 2, files: 0 });
    commit(&mut catalogue, 1, own);
    store(&mut catalogue, 1, partner);
    for id in 2..5 {
        let effects = commit(&mut catalogue, id, own);
        let is_first = |effect: &Effect| matches!(effect, Effect::Drop { id, .. } if id.0 == 1);
        assert!(!effects.iter().any(is_first), "{effects:?}");
    }
    store(&mut catalogue, 4, partner);
    let kept: Vec<u64> = catalogue.restorable().map(|r| r.stamp.id.0).collect();
    assert_eq!(kept, [4, 3]);
}

#[test]
fn nothing_goes_before_all_that_there_was_is_known() {
    let mut catalogue = Catalogue::learning(Keep::default(), CheckpointId(2));
    catalogue.stored(stamp(1), Rank(0), own(0), tally(0)).unwrap();
    assert_eq!(commit(&mut catalogue, 2, own), [Effect::Announce(stamp(2))]);
    commit(&mut catalogue, 1, own);
    assert_eq!(catalogue.restorable().count(), 2);
    commit(&mut catalogue, 3, own);
    assert_eq!(
        catalogue.restorable().count(),
        3,
        "nothing is settled, and nothing has a copy"
    );
    catalogue.settled(CheckpointId(3));
    assert_eq!(catalogue.restorable().count(), 1);
}

#[test]
fn a_file_that_is_still_being_written_when_the_next_checkpoint_is_complete_counts_when_it_is_done() {
    let mut catalogue = Catalogue::new(Keep::default());
    commit(&mut catalogue, 1, own);
    catalogue.file_begun(CheckpointId(1));
    commit(&mut catalogue, 2, own);
    assert_eq!(catalogue.restorable().count(), 1);
    commit(&mut catalogue, 1, |_| Place::File);
    assert_eq!(catalogue.restorable().count(), 2);
    catalogue.file_begun(CheckpointId(2));
    catalogue.stored(stamp(2), Rank(0), Place::File, tally(0)).unwrap();
    let effects = catalogue.file_given_up(CheckpointId(2));
    assert!(
        matches!(effects[..], [Effect::Drop { place: Place::File, .. }]),
        "{effects:?}"
    );
    assert_eq!(newest(&catalogue), Some(2));
}

#[test]
fn an_unfinished_checkpoint_is_dropped_when_given_up_or_overtaken() {
    let mut catalogue = Catalogue::new(Keep::default());
    let half = |catalogue: &mut Catalogue, id| catalogue.stored(stamp(id), Rank(0), own(0), tally(0)).unwrap();
    half(&mut catalogue, 1);
    assert_eq!(catalogue.given_up(CheckpointId(1)).len(), 1);
    let again = |catalogue: &mut Catalogue| catalogue.stored(stamp(1), Rank(1), own(1), tally(1));
    assert_eq!(
        again(&mut catalogue),
        Err(PartRefused::GivenUp),
        "said before its node heard"
    );
    catalogue.rolled_back_to(CheckpointId(0));
    assert_eq!(again(&mut catalogue), Ok(Vec::new()), "other data of that number");
    assert_eq!(catalogue.given_up(CheckpointId(1)).len(), 1);
    half(&mut catalogue, 2);
    let effects = commit(&mut catalogue, 3, own);
    assert!(matches!(
        effects[..],
        [
            Effect::Announce(_),
            Effect::Drop {
                id: CheckpointId(2),
                ..
            }
        ]
    ));
    let late = catalogue.stored(stamp(2), Rank(1), own(1), tally(1));
    let by = CheckpointId(3);
    assert_eq!(late, Err(PartRefused::Superseded { by }));
    assert_eq!(catalogue.next_id(), CheckpointId(4));
}

#[test]
fn a_successor_builds_the_same_catalogue_from_what_nodes_hold() {
    let mut first = Catalogue::new(Keep::default());
    commit(&mut first, 5, own);
    let mut second = Catalogue::new(Keep::default());
    for rank in [1, 0, 1] {
        let tally = tally(u64::from(rank));
        second.stored(stamp(5), Rank(rank), own(rank), tally).unwrap();
    }
    second.persisted(CheckpointId(5));
    assert_eq!(second.newest(), first.newest());
    assert_eq!(second.next_id(), CheckpointId(6));
}
