//! Random histories of a catalogue: what must hold after every event.

use super::{Catalogue, Effect, Keep, PartTally, Place, Stamp};
use pcm_proto::ids::{Bytes, CheckpointId, Epoch, Iteration, NodeName, Rank};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const RANKS: u32 = 3;
const NODES: u32 = 3;

#[derive(Clone, Debug)]
enum Event {
    Stored { id: u64, rank: u32, place: u32 },
    Damaged { id: u64, rank: u32, place: u32 },
    NodeLost { node: u32 },
    Persisted { id: u64 },
    FileBegun { id: u64 },
    FileGivenUp { id: u64 },
    GivenUp { id: u64 },
    AllStored { id: u64, place: u32 },
}

fn event() -> impl Strategy<Value = Event> {
    let (id, rank, place) = (1..6_u64, 0..RANKS, 0..3_u32);
    prop_oneof![
        4 => (id.clone(), rank.clone(), place.clone()).prop_map(|(id, rank, place)| Event::Stored { id, rank, place }),
        3 => (id.clone(), place.clone()).prop_map(|(id, place)| Event::AllStored { id, place }),
        1 => (id.clone(), rank, place).prop_map(|(id, rank, place)| Event::Damaged { id, rank, place }),
        1 => (0..NODES).prop_map(|node| Event::NodeLost { node }),
        4 => id.clone().prop_map(|id| Event::Persisted { id }),
        1 => id.clone().prop_map(|id| Event::FileBegun { id }),
        1 => id.clone().prop_map(|id| Event::FileGivenUp { id }),
        1 => id.prop_map(|id| Event::GivenUp { id }),
    ]
}

fn node(number: u32) -> NodeName {
    NodeName::new(format!("n{}", number % NODES)).unwrap()
}

impl Event {
    /// One by one: what follows from a part is carried out before the next part is there.
    fn parts(&self) -> Vec<Self> {
        match *self {
            Self::AllStored { id, place } => (0..RANKS).map(|rank| Self::Stored { id, rank, place }).collect(),
            ref event => vec![event.clone()],
        }
    }
}

fn place(rank: u32, which: u32) -> Place {
    match which {
        0 => Place::Own(node(rank)),
        1 => Place::Partner(node(rank + 1)),
        _ => Place::File,
    }
}

fn stamp(id: u64) -> Stamp {
    Stamp {
        id: CheckpointId(id),
        epoch: Epoch(id / 3),
        iteration: Iteration(10 * id),
        ranks: RANKS,
    }
}

fn tally(id: u64, rank: u32) -> PartTally {
    PartTally {
        bytes: Bytes(100),
        checksum: id << 8 | u64::from(rank),
    }
}

/// The world the catalogue speaks of: which copies there are, and which records were made.
#[derive(Default)]
struct World {
    copies: BTreeSet<(u64, u32, Place)>,
    persisting: BTreeSet<u64>,
    on_record: BTreeSet<u64>,
    announced: BTreeMap<u64, usize>,
}

impl World {
    fn act(&mut self, catalogue: &mut Catalogue, event: &Event) -> Vec<Effect> {
        match *event {
            Event::Stored { id, rank, place: which } => self.store(catalogue, id, rank, place(rank, which)),
            Event::AllStored { .. } => unreachable!("its parts come one by one"),
            Event::Damaged { id, rank, place: which } => {
                let place = place(rank, which);
                self.copies.remove(&(id, rank, place.clone()));
                catalogue.damaged(CheckpointId(id), Rank(rank), &place)
            }
            Event::NodeLost { node: lost } => {
                let lost = node(lost);
                self.copies.retain(|(_, _, place)| place.node() != Some(&lost));
                catalogue.node_lost(&lost)
            }
            Event::Persisted { id } => {
                if self.persisting.remove(&id) {
                    self.on_record.insert(id);
                }
                catalogue.persisted(CheckpointId(id))
            }
            Event::FileBegun { id } => {
                catalogue.file_begun(CheckpointId(id));
                Vec::new()
            }
            Event::FileGivenUp { id } => catalogue.file_given_up(CheckpointId(id)),
            Event::GivenUp { id } => catalogue.given_up(CheckpointId(id)),
        }
    }

    fn store(&mut self, catalogue: &mut Catalogue, id: u64, rank: u32, place: Place) -> Vec<Effect> {
        match catalogue.stored(stamp(id), Rank(rank), place.clone(), tally(id, rank)) {
            Ok(effects) => {
                self.copies.insert((id, rank, place));
                effects
            }
            Err(_) => Vec::new(),
        }
    }

    fn carry_out(&mut self, effects: &[Effect]) -> Result<(), TestCaseError> {
        for effect in effects {
            match effect {
                Effect::Persist(stamp) => drop(self.persisting.insert(stamp.id.0)),
                Effect::Announce(stamp) => {
                    prop_assert!(
                        self.on_record.contains(&stamp.id.0),
                        "announced before it was on record"
                    );
                    *self.announced.entry(stamp.id.0).or_default() += 1;
                }
                Effect::Drop { id, rank, place } => {
                    let was_there = self.copies.remove(&(id.0, rank.0, place.clone()));
                    prop_assert!(was_there, "{id} {rank} {place:?} was dropped but was not there");
                }
                Effect::Lost { .. } => {}
            }
        }
        Ok(())
    }

    fn is_complete(&self, id: u64) -> bool {
        (0..RANKS).all(|rank| self.copies.iter().any(|(i, r, _)| (*i, *r) == (id, rank)))
    }
}

/// What the catalogue would restore is there, whole, of one iteration, and on record.
fn invariant_what_is_restorable_exists(catalogue: &Catalogue, world: &World) -> Result<(), TestCaseError> {
    for restorable in catalogue.restorable() {
        let id = restorable.stamp.id.0;
        prop_assert!(world.on_record.contains(&id), "{id} counts without a record");
        prop_assert_eq!(restorable.sources.len(), RANKS as usize);
        for (rank, places) in (0..).zip(&restorable.sources) {
            prop_assert!(!places.is_empty(), "no copy of rank {}", rank);
            prop_assert!(places.is_sorted());
            for place in places {
                prop_assert!(world.copies.contains(&(id, rank, place.clone())), "{} is gone", id);
            }
        }
    }
    Ok(())
}

/// Nothing is held that the catalogue does not know: it would never be dropped.
fn invariant_nothing_leaks(catalogue: &Catalogue, world: &World) -> Result<(), TestCaseError> {
    let known: BTreeSet<u64> = catalogue.stamps().map(|(stamp, _)| stamp.id.0).collect();
    for (id, rank, place) in &world.copies {
        prop_assert!(known.contains(id), "{id} {rank} {place:?} was forgotten");
    }
    Ok(())
}

/// Of the levels kept, no more than asked for is held once all files are done, and one that survives a lost node.
fn invariant_memory_is_bounded(catalogue: &Catalogue, world: &World, keep: Keep) -> Result<(), TestCaseError> {
    let Some(newest) = catalogue.newest().map(|r| r.stamp.id.0) else {
        return Ok(());
    };
    let in_memory: BTreeSet<u64> = world
        .copies
        .iter()
        .filter(|(id, _, place)| *id < newest && place.is_memory())
        .map(|(id, ..)| *id)
        .collect();
    let is_in_memory = |rank: u32| {
        let mut copies = world.copies.iter();
        copies.any(|(id, of, place)| (*id, *of) == (newest, rank) && place.is_memory())
    };
    let beside = keep.memory + usize::from(!(0..RANKS).all(is_in_memory));
    prop_assert!(in_memory.len() <= beside, "{in_memory:?} beside {newest}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn a_catalogue_never_promises_what_is_not_there_and_forgets_nothing(
        events in proptest::collection::vec(event(), 1..60),
        memory in 1..3_usize,
    ) {
        let keep = Keep { memory, files: 2 };
        let mut catalogue = Catalogue::new(keep);
        let mut world = World::default();
        for event in &events.iter().flat_map(Event::parts).collect::<Vec<_>>() {
            let before = catalogue.newest().map(|r| r.stamp);
            let effects = world.act(&mut catalogue, event);
            world.carry_out(&effects)?;
            invariant_what_is_restorable_exists(&catalogue, &world)?;
            invariant_nothing_leaks(&catalogue, &world)?;
            invariant_memory_is_bounded(&catalogue, &world, keep)?;
            let after = catalogue.newest().map(|r| r.stamp);
            if let Some(before) = before.filter(|before| after.is_none_or(|after| after.id < before.id)) {
                prop_assert!(!world.is_complete(before.id.0), "{} was given up though whole", before.id);
                let said = effects.iter().any(|e| matches!(e, Effect::Lost { stamp, .. } if *stamp == before));
                prop_assert!(said, "the loss of {} was not told", before.id);
            }
        }
    }
}

#[test]
fn a_planted_false_promise_is_caught() {
    let mut catalogue = Catalogue::new(Keep::default());
    let mut world = World::default();
    let events = [Event::AllStored { id: 1, place: 0 }, Event::Persisted { id: 1 }];
    for event in events.iter().flat_map(Event::parts) {
        let effects = world.act(&mut catalogue, &event);
        world.carry_out(&effects).unwrap();
    }
    assert!(invariant_what_is_restorable_exists(&catalogue, &world).is_ok());
    world.copies.remove(&(1, 2, place(2, 0)));
    assert!(invariant_what_is_restorable_exists(&catalogue, &world).is_err());
    world.copies.insert((9, 0, Place::File));
    assert!(invariant_nothing_leaks(&catalogue, &world).is_err());
}
