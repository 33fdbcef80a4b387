//! More bytes for one process than an int counts.
#![allow(unsafe_code, reason = "fills and reads the storage of an array")]

use crate::{
    control::{self, Outcome},
    job::Job,
    launch::under_mpi,
};
use pcm_core::{
    partition::{ArraySpec, AxisSpec},
    redistribution::HaloFill,
};
use pcm_lib::{
    redistribute::Limits,
    region::{ArrayForm, ElementType},
};
use pcm_proto::method::Method;

const BYTES: u64 = (1 << 31) + (5 << 20) + 1;

/// Bytes on both sides of every place where a count could break.
const MARKS: [usize; 5] = [0, 1 << 20, (1 << 31) - 1, 1 << 31, BYTES as usize - 1];

fn storage(job: &mut Job) -> &mut [u8] {
    let registry = job.registry.as_ref().unwrap();
    let storage = registry.array_named("array0").unwrap().storage();
    // SAFETY: nobody else uses it; only the marks are touched, the rest takes no memory where it was never written.
    unsafe { std::slice::from_raw_parts_mut(storage.pointer().as_ptr(), storage.length()) }
}

fn moves(method: &str) {
    let form = ArrayForm {
        element: ElementType::Uint8,
        spec: ArraySpec::new(1, [AxisSpec::block(BYTES)]),
        halo: HaloFill::Filled,
        is_scratch: false,
        is_constant: false,
    };
    let mut job = Job::new(1, vec![form], Limits::default());
    job.method = method.parse::<Method>().unwrap();
    if job.me == 0 {
        MARKS
            .iter()
            .for_each(|mark| storage(&mut job)[*mark] = (*mark % 251) as u8 + 1);
    }
    let mut under = job.begin(&[1], &[]).unwrap();
    let registry = job.registry.as_mut().unwrap();
    match control::drive(
        &mut under.movement,
        registry,
        under.transfer.transport(),
        &under.control,
    ) {
        Outcome::Complete { sent, received } => assert!(sent.bytes.0.max(received.bytes.0) >= BYTES),
        Outcome::Failed(error) => panic!("{method}: {error:?}"),
    }
    job.commit(under);
    if job.me == 1 {
        let bytes = storage(&mut job);
        assert_eq!(bytes.len() as u64, BYTES);
        MARKS
            .iter()
            .for_each(|mark| assert_eq!(bytes[*mark], (*mark % 251) as u8 + 1, "{method}, byte {mark}"));
        assert_eq!((bytes[1], bytes[(1 << 31) + 1]), (0, 0));
    }
}

#[test]
fn one_collective_operation_moves_more_bytes_than_an_int_counts() {
    let test = "large::one_collective_operation_moves_more_bytes_than_an_int_counts";
    under_mpi(test, 2, || {
        ["merge-collective-sync", "baseline-collective-sync"]
            .into_iter()
            .for_each(moves)
    });
}
