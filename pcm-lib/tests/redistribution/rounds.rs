//! Rounds of moves between random layouts: every element is right, senders and receivers agree, nothing is left.

use crate::{
    contents::{self, OBJECTS, value_bytes},
    control::{self, Outcome},
    job::Job,
    launch::under_mpi,
};
use pcm_lib::redistribute::Limits;
use pcm_proto::method::Method;
use pcm_proto::random::Random;

/// Small chunks, so that small arrays are many.
fn small(random: &mut Random) -> Limits {
    Limits {
        chunk_bytes: 256 << random.below(6),
        in_flight: 1 + random.below(4) as usize,
        peers: 1 + random.below(4) as usize,
    }
}

/// Moves `rounds` times between random layouts by such a method.
fn rounds(seed: u64, rounds: u64, method: Method) {
    let mut random = Random::new(seed);
    let mut forms: Vec<_> = (0..1 + random.below(5))
        .map(|_| contents::random_form(&mut random))
        .collect();
    let mut scratch = contents::random_form(&mut random);
    scratch.is_scratch = true;
    forms.push(scratch);
    let world = pcm_lib::mpi::Communicator::world().size().unwrap();
    let limits = small(&mut random);
    // Where all ranks are newcomers each time, somebody must be left for the next layout.
    let most = world - u32::from(method.starts_all());
    let mut job = Job::new(1 + random.below(u64::from(most)) as u32, forms, limits);
    job.method = method;
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
            match control::drive(
                &mut under.movement,
                registry,
                under.transfer.transport(),
                &under.control,
            ) {
                Outcome::Complete { sent, received } => {
                    let own = [sent.bytes.0, sent.checksum, received.bytes.0, received.checksum];
                    let [sent, sum_sent, received, sum_received] = control::sum(&under.control, own);
                    assert_eq!((sent, sum_sent), (received, sum_received), "seed {seed}, round {round}");
                    job.commit(under);
                }
                Outcome::Failed(error) => panic!("seed {seed}, round {round}: {error:?}"),
            }
        } else {
            job.took_place(&next);
        }
        check(&mut job, round, total);
    }
}

/// Each rank's own value grows, by the same in all over all ranks.
fn set_values(registry: &mut pcm_lib::region::Registry, round: u64) {
    contents::set_value(registry, "iteration", round);
    let tally = u64::from_le_bytes(value_bytes(registry, "tally").try_into().unwrap());
    contents::set_value(registry, "tally", tally + round);
}

fn check(job: &mut Job, round: u64, total: u64) {
    let (mut own, rank) = ([0; 3], job.rank());
    if let Some(registry) = &mut job.registry {
        contents::check(registry, round);
        assert_eq!(value_bytes(registry, "iteration"), round.to_le_bytes());
        let size = job.layout.len() as u32;
        let objects = job.objects.borrow();
        assert!(
            objects
                .iter()
                .all(|object| contents::holder(*object, size) == rank.unwrap())
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
            under_mpi(concat!("rounds::", stringify!($name)), $ranks, || {
                $seeds.for_each(|seed| rounds(seed, 6, Method::default()));
            });
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

macro_rules! by_every_method {
    ($($name:ident: $processes:literal processes, seeds $seeds:expr;)*) => {$(
        #[test]
        fn $name() {
            under_mpi(concat!("rounds::", stringify!($name)), $processes, || $seeds.for_each(by_every_method));
        }
    )*};
}

/// Constant data takes no part here: what travels ahead does not go by MPI.
fn by_every_method(seed: u64) {
    let mut done = Vec::new();
    let is_alone = pcm_lib::mpi::Communicator::world().size().unwrap() == 1;
    for method in Method::all().filter(|method| !(is_alone && method.starts_all())) {
        let way = (method.management, method.operation);
        if !done.contains(&way) {
            rounds(seed, 3, method);
            done.push(way);
        }
    }
}

by_every_method! {
    every_method_gives_the_same_data_with_1_process: 1 processes, seeds 100..110;
    every_method_gives_the_same_data_with_2_processes: 2 processes, seeds 110..120;
    every_method_gives_the_same_data_with_3_processes: 3 processes, seeds 120..130;
    every_method_gives_the_same_data_with_5_processes: 5 processes, seeds 130..136;
    every_method_gives_the_same_data_with_9_processes: 9 processes, seeds 136..140;
}
