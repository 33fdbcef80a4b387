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
