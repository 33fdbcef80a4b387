//! A move that is called off at any moment leaves all old data as it was, bit for bit, and the next move works.

use crate::{
    contents,
    control::{self, Outcome},
    job::Job,
    launch::under_mpi,
    pieces,
};
use pcm_lib::redistribute::{Limits, MoveError};
use pcm_proto::method::Method;
use pcm_proto::random::Random;
use std::time::{Duration, Instant};

/// Rounds, from this number on, of a move that is aborted at a random moment on each process, and the same move once
/// more, committed.
fn abort_then_commit(seed: u64, method: Method, first: u64) {
    let is_large = first >= pieces::LARGE;
    let mut random = Random::new(seed);
    let forms: Vec<_> = (0..3).map(|_| contents::random_form(&mut random)).collect();
    let world = pcm_lib::mpi::Communicator::world().size().unwrap();
    let limits = Limits {
        chunk_bytes: if is_large { 64 << 10 } else { 512 },
        in_flight: 1 + random.below(3) as usize,
        peers: 1 + random.below(3) as usize,
    };
    let most = world - u32::from(method.starts_all());
    let mut job = Job::new(1 + random.below(u64::from(most)) as u32, forms, limits);
    job.method = method;
    for round in first..first + 4 {
        if let Some(registry) = &mut job.registry {
            contents::fill(registry, round);
            contents::set_value(registry, "iteration", round);
        }
        let next = job.random_layout(&mut random);
        // Each process stops at a moment of its own.
        let mut own = Random::new(seed ^ round << 20 ^ u64::from(job.me) << 40);
        let old = job.registry.as_mut().map(contents::snapshot);
        if let Some(mut under) = job.begin(&next, &[]) {
            let registry = job.registry.as_mut().unwrap();
            let moment = Instant::now() + Duration::from_micros(own.below(if is_large { 30_000 } else { 3000 }));
            match under.movement.drive(registry, under.transfer.transport(), moment) {
                // Another process has stopped before.
                Ok(_) | Err(MoveError::SenderStopped { .. } | MoveError::Elsewhere { .. }) => {}
                Err(error) => panic!("seed {seed}, round {round}: {error}"),
            }
            let had_rank = job.rank().is_some();
            job.abort(under);
            if had_rank {
                let new = contents::snapshot(job.registry.as_mut().unwrap());
                assert!(Some(new) == old, "seed {seed}, round {round}: old data changed");
            }
        }
        match job.begin(&next, &[]) {
            None => job.took_place(&next),
            Some(mut under) => {
                let registry = job.registry.as_mut().unwrap();
                match control::drive(
                    &mut under.movement,
                    registry,
                    under.transfer.transport(),
                    &under.control,
                ) {
                    Outcome::Complete { .. } => job.commit(under),
                    Outcome::Failed(error) => panic!("seed {seed}, round {round}: {error:?}"),
                }
            }
        }
        if let Some(registry) = &mut job.registry {
            contents::check(registry, round);
        }
    }
}

#[test]
fn an_aborted_move_leaves_old_data_bit_for_bit_with_3_processes() {
    let test = "abort::an_aborted_move_leaves_old_data_bit_for_bit_with_3_processes";
    under_mpi(test, 3, || {
        (100..120).for_each(|seed| abort_then_commit(seed, Method::default(), 1))
    });
}

#[test]
fn an_aborted_move_leaves_old_data_bit_for_bit_with_6_processes() {
    let test = "abort::an_aborted_move_leaves_old_data_bit_for_bit_with_6_processes";
    under_mpi(test, 6, || {
        (120..132).for_each(|seed| abort_then_commit(seed, Method::default(), 1))
    });
}

#[test]
fn an_aborted_move_by_any_method_leaves_old_data_bit_for_bit() {
    let test = "abort::an_aborted_move_by_any_method_leaves_old_data_bit_for_bit";
    under_mpi(test, 4, || {
        let methods = Method::all().step_by(2);
        (0..).zip(methods).for_each(|(n, method)| {
            (0..3).for_each(|seed| abort_then_commit(200 + 10 * n + seed, method, 1));
        });
    });
}

#[test]
fn an_aborted_move_leaves_large_rows_and_records_bit_for_bit() {
    let test = "abort::an_aborted_move_leaves_large_rows_and_records_bit_for_bit";
    under_mpi(test, 4, || {
        for (n, method) in (0..).zip(["merge-p2p-sync", "merge-collective-sync", "baseline-p2p-sync"]) {
            let method: Method = method.parse().unwrap();
            (0..4).for_each(|seed| abort_then_commit(300 + 10 * n + seed, method, pieces::LARGE));
        }
    });
}
