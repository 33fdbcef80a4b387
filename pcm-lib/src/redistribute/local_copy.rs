//! Copies of cells that stay with a process but change their place, a bounded number of bytes at a time so that
//! messages go on between. Never sends anything.
#![allow(unsafe_code, reason = "copies within the storage of arrays")]

use pcm_core::redistribution::{CopyRun, CopyRuns, Piece};
use std::ptr::NonNull;

/// Copies that are still to be made.
#[derive(Debug)]
pub(super) struct LocalCopies {
    from: NonNull<u8>,
    to: NonNull<u8>,
    /// Last to first.
    pieces: Vec<Piece>,
    runs: Option<CopyRuns>,
    /// What is left of a run longer than one step.
    rest: Option<CopyRun>,
}

impl LocalCopies {
    pub(super) fn new(from: NonNull<u8>, to: NonNull<u8>, pieces: impl IntoIterator<Item = Piece>) -> Self {
        let mut pieces: Vec<_> = pieces.into_iter().collect();
        pieces.reverse();
        Self {
            from,
            to,
            pieces,
            runs: None,
            rest: None,
        }
    }

    /// Nothing to copy.
    pub(super) fn none() -> Self {
        Self::new(NonNull::dangling(), NonNull::dangling(), [])
    }

    /// Copies some `bytes`; says whether there was anything to copy.
    ///
    /// # Safety
    /// Both storages are there, the pieces lie in them, and nobody else uses those bytes.
    pub(super) unsafe fn step(&mut self, bytes: u64) -> bool {
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
            self.rest = (length < run.length).then(|| CopyRun {
                source: run.source + length,
                target: run.target + length,
                length: run.length - length,
            });
        }
        left < bytes
    }

    fn next_run(&mut self) -> Option<CopyRun> {
        if let Some(rest) = self.rest.take() {
            return Some(rest);
        }
        loop {
            if let Some(run) = self.runs.as_mut().and_then(CopyRuns::next) {
                return Some(run);
            }
            let piece = self.pieces.pop()?;
            self.runs = Some(piece.source.copies_to(&piece.target));
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
}
