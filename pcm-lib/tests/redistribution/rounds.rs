//! Rounds of moves between random layouts: every element is right, senders and receivers agree, nothing is left.

use crate::{
    contents::{self, OBJECTS, value_bytes},
    control::{self, Outcome},
    job::Job,
    launch::under_mpi,
    random::Random,
};
use pcm::redistribute::Limits;

/// Small chunks, so that small arrays are many.
fn small(random: &mut Random) -> Limits {
    Limits {
        chunk_bytes: 256 << random.below(6),
        in_flight: 1 + random.below(4) as usize,
        peers: 1 + random.below(4) as usize,
    }
}

/// Moves `rounds` times between random layouts.
fn rounds(seed: u64, rounds: u64) {
    let mut random = Random::new(seed);
    let mut forms: Vec<_> = (0..1 + random.below(5))
        .map(|_| contents::random_form(&mut random))
        .collect();
    let mut scratch = contents::random_form(&mut random);
    scratch.is_scratch = true;
    forms.push(scratch);
    let world = pcm::mpi::Communicator::world().size().unwrap();
    let limits = small(&mut random);
    let mut job = Job::new(1 + random.below(u64::from(world)) as u32, forms, limits);
    let mut total = 0;
    for round in 1..=rounds {
        if let Some(registry) = &mut job.registry {
            contents::fill(registry, round);
            set_values(registry, round);
        }
        total += job.layout.len() as u64 * round;
        let next = job.random_layout(&mut random);
        let weights: Vec<u32> = match random.below(3) {
            0 => next.iter().map(|_| 1 + random.below(5) as u32).collect(),
            _ => Vec::new(),
        };
        if let Some(mut under) = job.begin(&next, &weights) {
            let registry = job.registry.as_mut().unwrap();
            match control::drive(&mut under.movement, registry, &under.transfer, &under.control) {
                Outcome::Complete { sent, received } => {
                    let own = [sent.bytes.0, sent.checksum, received.bytes.0, received.checksum];
                    let [sent, sum_sent, received, sum_received] = control::sum(&under.transfer, own);
                    assert_eq!((sent, sum_sent), (received, sum_received), "seed {seed}, round {round}");
                    job.commit(under);
                }
                Outcome::Failed(error) => panic!("seed {seed}, round {round}: {error:?}"),
            }
        } else {
            job.took_place(&next);
        }
        check(&job, round, total);
    }
}

/// Each rank's own value grows, by the same in all over all ranks.
fn set_values(registry: &mut pcm::region::Registry, round: u64) {
    contents::set_value(registry, "iteration", round);
    let tally = u64::from_le_bytes(value_bytes(registry, "tally").try_into().unwrap());
    contents::set_value(registry, "tally", tally + round);
}

fn check(job: &Job, round: u64, total: u64) {
    let mut own = [0; 3];
    if let Some(registry) = &job.registry {
        contents::check(registry, round);
        assert_eq!(value_bytes(registry, "iteration"), round.to_le_bytes());
        let size = job.layout.len() as u32;
        let objects = job.objects.borrow();
        assert!(
            objects
                .iter()
                .all(|object| contents::holder(*object, size) == job.rank().unwrap())
        );
        let tally = u64::from_le_bytes(value_bytes(registry, "tally").try_into().unwrap());
        own = [tally, objects.len() as u64, objects.iter().sum()];
    }
    let [tally, count, objects] = control::sum(&job.world, own);
    assert_eq!(tally, total, "values of ranks are merged and split without loss");
    assert_eq!((count, objects), (OBJECTS, OBJECTS * (OBJECTS - 1) / 2));
}

macro_rules! random_layouts {
    ($($name:ident: $ranks:literal ranks, seeds $seeds:expr;)*) => {$(
        #[test]
        fn $name() {
            under_mpi(concat!("rounds::", stringify!($name)), $ranks, || $seeds.for_each(|seed| rounds(seed, 6)));
        }
    )*};
}

random_layouts! {
    every_element_is_right_after_random_moves_of_1_process: 1 ranks, seeds 0..10;
    every_element_is_right_after_random_moves_of_2_processes: 2 ranks, seeds 10..30;
    a_rank_that_holds_nothing_has_no_halo_to_fill: 2 ranks, seeds 118..119;
    every_element_is_right_after_random_moves_of_3_processes: 3 ranks, seeds 30..50;
    every_element_is_right_after_random_moves_of_5_processes: 5 ranks, seeds 50..65;
    every_element_is_right_after_random_moves_of_8_processes: 8 ranks, seeds 65..75;
}
