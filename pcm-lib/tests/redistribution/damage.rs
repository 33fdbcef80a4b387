//! A chunk that changes on its way is found by its receiver, whatever way it travels. Here one bit of one message is
//! changed between the library and MPI.
#![allow(unsafe_code, reason = "stands in for the layer over MPI")]

use crate::{
    contents,
    control::{self, Outcome},
    job::Job,
    launch::under_mpi,
};
use pcm_lib::{
    mpi::{AllToAll, MpiError, Request, Stretch, Transport},
    redistribute::{Limits, MoveError},
};
use pcm_proto::method::{Method, Operation};
use pcm_proto::random::Random;
use std::cell::Cell;

/// The tag of chunks, and none of the others.
const TAG_DATA: u32 = 1;

/// Longest note about the lengths of the five opaque regions.
const LENGTHS_MAX: usize = 56;

/// Changes one bit of what a process gives to another.
#[derive(Debug)]
struct Damaging<'a> {
    real: &'a dyn Transport,
    /// Chunks, or stretches of a collective operation, until one is changed. Lengths of opaque data are left out:
    /// without them nobody knows how to go on, and the operation is given up, not drained.
    until: Cell<i64>,
}

impl Damaging<'_> {
    /// The bytes in the place of these; left behind, as MPI sends from them.
    fn passed(&self, bytes: &[u8]) -> Option<&'static mut [u8]> {
        if self.until.replace(self.until.get() - 1) != 0 {
            return None;
        }
        let damaged = bytes.to_vec().leak();
        damaged[bytes.len() / 2] ^= 4;
        Some(damaged)
    }
}

impl Transport for Damaging<'_> {
    fn rank(&self) -> Result<u32, MpiError> {
        self.real.rank()
    }

    fn size(&self) -> Result<u32, MpiError> {
        self.real.size()
    }

    unsafe fn isend(&self, bytes: &[u8], to: u32, tag: u32) -> Result<Request, MpiError> {
        let is_chunk = tag == TAG_DATA && !bytes.is_empty();
        let damaged = if is_chunk { self.passed(bytes) } else { None };
        // SAFETY: by contract.
        unsafe { self.real.isend(damaged.as_deref().unwrap_or(bytes), to, tag) }
    }

    unsafe fn irecv(&self, room: &mut [u8], from: u32, tag: u32) -> Result<Request, MpiError> {
        // SAFETY: by contract.
        unsafe { self.real.irecv(room, from, tag) }
    }

    unsafe fn ibcast_of_first(&self, bytes: &mut [u8]) -> Result<Vec<Request>, MpiError> {
        // SAFETY: by contract.
        unsafe { self.real.ibcast_of_first(bytes) }
    }

    unsafe fn iallreduce_min(&self, own: &u64, least: &mut [u64; 2]) -> Result<Vec<Request>, MpiError> {
        // SAFETY: by contract.
        unsafe { self.real.iallreduce_min(own, least) }
    }

    unsafe fn ialltoallv(&self, out: &[Stretch], into: &[Stretch]) -> Result<AllToAll, MpiError> {
        let mut out = out.to_vec();
        for stretch in out.iter_mut().filter(|stretch| stretch.length > LENGTHS_MAX) {
            // SAFETY: by contract the bytes are there.
            let bytes = unsafe { std::slice::from_raw_parts(stretch.first, stretch.length) };
            if let Some(damaged) = self.passed(bytes) {
                stretch.first = damaged.as_mut_ptr();
            }
        }
        // SAFETY: by contract.
        unsafe { self.real.ialltoallv(&out, into) }
    }
}

/// Damages the first, the second, … piece of data that process 0 sends in a move from `0, 1` to `next`: a chunk, or, of
/// a collective move, a stretch. How many of them were sent and found out.
fn damage(seed: u64, next: &[u32], method: Method) -> u64 {
    let mut found = 0;
    for nth in 0..4 {
        let mut random = Random::new(seed);
        let forms: Vec<_> = (0..3).map(|_| contents::random_form(&mut random)).collect();
        let limits = Limits {
            chunk_bytes: 512,
            ..Limits::default()
        };
        let mut job = Job::new(2, forms, limits);
        job.method = method;
        if let Some(registry) = &mut job.registry {
            contents::fill(registry, 1);
        }
        let old = job.registry.as_mut().map(contents::snapshot);
        let had_rank = job.rank().is_some();
        let mut under = job.begin(next, &[]).unwrap();
        let planted = if job.me == 0 { nth } else { -1 };
        let damaging = Damaging {
            real: under.transfer.transport(),
            until: Cell::new(planted),
        };
        let registry = job.registry.as_mut().unwrap();
        let outcome = control::drive(&mut under.movement, registry, &damaging, &under.control);
        let was_planted = job.me == 0 && damaging.until.get() < 0;
        // A bit in the lengths that go before a stretch of a collective move changes what is expected.
        let is_found = match &outcome {
            Outcome::Failed(Some(MoveError::Corrupt { from: 0, .. })) => true,
            Outcome::Failed(Some(MoveError::Unexpected { from: 0, .. })) => method.operation == Operation::Collective,
            _ => false,
        };
        let [planted, caught] = control::sum(&job.world, [u64::from(was_planted), u64::from(is_found)]);
        assert_eq!(planted, caught, "{method}, seed {seed}, piece {nth}");
        found += caught;
        if caught == 0 {
            assert!(matches!(outcome, Outcome::Complete { .. }));
            job.commit(under);
            continue;
        }
        assert!(matches!(outcome, Outcome::Failed(_)));
        job.abort(under);
        if had_rank {
            assert!(Some(contents::snapshot(job.registry.as_mut().unwrap())) == old);
        }
    }
    found
}

#[test]
fn a_chunk_with_one_changed_bit_is_found_by_its_receiver() {
    let test = "damage::a_chunk_with_one_changed_bit_is_found_by_its_receiver";
    under_mpi(test, 3, || {
        for (seed, next) in [(1, &[2, 1][..]), (2, &[0, 1, 2]), (5, &[1, 2])] {
            let found = damage(seed, next, Method::default());
            assert!(found > 0, "seed {seed}: nothing was sent");
        }
    });
}

#[test]
fn a_collective_operation_with_one_changed_bit_is_found_by_its_receiver() {
    let test = "damage::a_collective_operation_with_one_changed_bit_is_found_by_its_receiver";
    under_mpi(test, 3, || {
        for next in [&[2, 1][..], &[0, 1, 2]] {
            let found = damage(1, next, "merge-collective-sync".parse().unwrap());
            assert!(found > 1, "{found} stretches were sent");
        }
    });
}
