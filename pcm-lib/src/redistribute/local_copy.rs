//! Copies of cells that stay with a process but change their place, a bounded number of bytes at a time so that
//! messages go on between. Never sends anything.
#![allow(unsafe_code, reason = "copies within the storage of arrays")]

use pcm_core::redistribution::{CopyRun, CopyRuns, Piece};
use std::{ops::Range, ptr::NonNull};

/// Copies that are still to be made.
#[derive(Debug)]
pub(crate) struct LocalCopies {
    from: NonNull<u8>,
    to: NonNull<u8>,
    /// Of the bytes that are copied to, those meant.
    meant: Meant,
    /// Last to first.
    pieces: Vec<Piece>,
    runs: Option<CopyRuns>,
    /// What is left of a run, meant or not.
    rest: Option<CopyRun>,
}

#[derive(Clone, Debug)]
enum Meant {
    All,
    Within(Range<u64>),
    Outside(Range<u64>),
}

impl Meant {
    /// The first part of a run that is meant.
    fn first_of(&self, run: CopyRun) -> Option<CopyRun> {
        let end = run.target + run.length;
        let part = |from: u64, to: u64| (from < to).then(|| rest_from(run, from, to - from));
        match self {
            Self::All => Some(run),
            Self::Within(window) => part(run.target.max(window.start), end.min(window.end)),
            Self::Outside(window) => {
                part(run.target, end.min(window.start)).or_else(|| part(run.target.max(window.end), end))
            }
        }
    }
}

/// So many bytes of a run, the first of which is copied to `target`.
fn rest_from(run: CopyRun, target: u64, length: u64) -> CopyRun {
    CopyRun {
        source: run.source + (target - run.target),
        target,
        length,
    }
}

impl LocalCopies {
    pub(crate) fn new(from: NonNull<u8>, to: NonNull<u8>, pieces: impl IntoIterator<Item = Piece>) -> Self {
        let mut pieces: Vec<_> = pieces.into_iter().collect();
        pieces.reverse();
        Self {
            from,
            to,
            meant: Meant::All,
            pieces,
            runs: None,
            rest: None,
        }
    }

    /// Only what is copied to these bytes.
    #[must_use]
    pub(crate) fn within(mut self, window: Range<u64>) -> Self {
        self.meant = Meant::Within(window);
        self
    }

    /// All but what is copied to these bytes.
    #[must_use]
    pub(crate) fn outside(mut self, window: Range<u64>) -> Self {
        self.meant = Meant::Outside(window);
        self
    }

    /// Nothing to copy.
    pub(crate) fn none() -> Self {
        Self::new(NonNull::dangling(), NonNull::dangling(), [])
    }

    /// Copies some `bytes`; says whether there was anything to copy.
    ///
    /// # Safety
    /// Both storages are there, the pieces lie in them, and nobody else uses those bytes.
    pub(crate) unsafe fn step(&mut self, bytes: u64) -> bool {
        let mut left = bytes;
        while left > 0 {
            let Some(run) = self.next_run() else {
                break;
            };
            let length = run.length.min(left);
            // SAFETY: by the contract. In one storage source and target may overlap.
            unsafe {
                let to = self.to.add(run.target as usize).as_ptr();
                to.copy_from(self.from.add(run.source as usize).as_ptr(), length as usize);
            }
            left -= length;
            if length < run.length {
                let behind = self.rest.map_or(0, |rest| rest.length);
                self.rest = Some(rest_from(run, run.target + length, run.length - length + behind));
            }
        }
        left < bytes
    }

    fn next_run(&mut self) -> Option<CopyRun> {
        loop {
            let run = match self.rest.take().or_else(|| self.runs.as_mut().and_then(CopyRuns::next)) {
                Some(run) => run,
                None => {
                    let piece = self.pieces.pop()?;
                    self.runs = Some(piece.source.copies_to(&piece.target));
                    continue;
                }
            };
            if let Some(part) = self.meant.first_of(run) {
                let (end, passed) = (run.target + run.length, part.target + part.length);
                self.rest = (passed < end).then(|| rest_from(run, passed, end - passed));
                return Some(part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_core::{
        partition::{ArraySpec, AxisSpec, Partition},
        redistribution::{ArrayPlan, HaloFill, RankChange},
    };
    use pcm_proto::ids::ProcessId;

    #[test]
    fn steps_of_any_length_copy_every_kept_byte_to_its_place() {
        let spec = ArraySpec::new(3, [AxisSpec::whole(5), AxisSpec::block(11)]);
        let [before, after] = [3, 2].map(|ranks| Partition::new(&spec, ranks).expect("valid"));
        let ids = |n| (0..n).map(ProcessId).collect();
        let change = RankChange::new(ids(3), ids(2)).expect("distinct");
        let plan = ArrayPlan::for_process(&before, &after, &change, ProcessId(1), HaloFill::Stale).expect("valid");
        let mut from: Vec<u8> = (0..before.local_bytes(1)).map(|n| n as u8 + 1).collect();
        for step in [1, 2, 3, 7, 1000] {
            let mut to = vec![0_u8; after.local_bytes(1) as usize];
            let [first, second] = [&mut from, &mut to].map(|bytes| NonNull::new(bytes.as_mut_ptr()).expect("bytes"));
            let mut copies = LocalCopies::new(first, second, plan.kept().iter().copied());
            // SAFETY: both storages live; nobody else uses them.
            let steps = (0..).take_while(|_| unsafe { copies.step(step) }).count() as u64;
            assert_eq!(steps, plan.totals().keep.div_ceil(step));
            for cell in 0..55 {
                let index = [cell / 11, cell % 11];
                let [old, new] = [&before, &after].map(|partition| partition.local_offset(1, &index));
                if let (Some(old), Some(new)) = (old, new) {
                    assert_eq!(
                        to[new as usize * 3..][..3],
                        from[old as usize * 3..][..3],
                        "cell {index:?}"
                    );
                }
            }
            assert_eq!(to.iter().filter(|byte| **byte != 0).count() as u64, plan.totals().keep);
        }
    }

    #[test]
    fn what_lies_in_a_window_and_what_does_not_are_copied_apart() {
        let spec = ArraySpec::new(1, [AxisSpec::whole(5), AxisSpec::block(11)]);
        let partition = Partition::new(&spec, 1).expect("valid");
        let change = RankChange::new(vec![ProcessId(0)], vec![ProcessId(0)]).expect("distinct");
        let plan =
            ArrayPlan::for_process(&partition, &partition, &change, ProcessId(0), HaloFill::Stale).expect("valid");
        let mut from: Vec<u8> = (1..=55).collect();
        for (window, step) in [
            (0..0, 4),
            (0..7, 1),
            (20..31, 3),
            (20..31, 100),
            (40..55, 9),
            (0..55, 8),
        ] {
            for is_within in [true, false] {
                let mut to = [0_u8; 55];
                let [first, second] = [&mut from[..], &mut to[..]].map(|bytes| NonNull::from(bytes).cast());
                let copies = LocalCopies::new(first, second, plan.kept().iter().copied());
                let mut copies = match is_within {
                    true => copies.within(window.clone()),
                    false => copies.outside(window.clone()),
                };
                // SAFETY: both storages live; nobody else uses them.
                unsafe { while copies.step(step) {} }
                let meant = |at: usize| window.contains(&(at as u64)) == is_within;
                for (at, byte) in to.into_iter().enumerate() {
                    assert_eq!(
                        byte,
                        if meant(at) { from[at] } else { 0 },
                        "{window:?} {is_within} byte {at}"
                    );
                }
            }
        }
    }
}
