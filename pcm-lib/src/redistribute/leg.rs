//! One transfer as one end of it sees it: its name, its length, and where its bytes are. Knows no messages.
#![allow(unsafe_code, reason = "reads and writes registered data")]

use crate::region::{Given, Landing, Pieces};
use pcm_core::redistribution::{ArrayPlan, ByteRun, ChunkHeader, Chunks, Transfer, TransferId};
use pcm_proto::ids::RegionId;
use std::{cell::RefCell, ptr::NonNull, rc::Rc, sync::Arc};
use zerocopy::FromZeros;

/// A transfer to, or from, one process.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) region: RegionId,
    pub(super) id: TransferId,
    pub(super) bytes: LegBytes,
}

/// Legs with the rank, in the transfer communicator, of the process at the other end.
pub(super) type LegsByProcess = Vec<(u32, Leg)>;

/// Where the bytes are.
#[derive(Debug)]
pub(super) enum LegBytes {
    /// In the storage of an array, by the plan.
    Array {
        first: NonNull<u8>,
        plan: Arc<ArrayPlan>,
        /// Place of the transfer among the plan's sends or receives.
        at: usize,
        is_send: bool,
    },
    /// Data that is given in its own place, which does not change before the commit, behind bytes that were made for
    /// it. It travels as opaque data.
    Lent {
        pieces: Pieces,
        #[allow(dead_code, reason = "owned until they have left")]
        made: Vec<u8>,
    },
    /// Opaque data; a receiver learns its length from the sender.
    Parcel(Option<Vec<u8>>),
    /// Such data that is received where it belongs, as one of several parts.
    Landing { landing: Rc<RefCell<Landing>>, part: usize },
}

impl From<Given> for LegBytes {
    fn from(given: Given) -> Self {
        if given.lent.length() == 0 {
            return Self::Parcel(Some(given.made));
        }
        let Given { made, lent } = given;
        let mut pieces = Pieces::of(&made);
        pieces.append(lent);
        Self::Lent { pieces, made }
    }
}

impl Leg {
    /// Takes the length of what comes, and makes room; none if that cannot be.
    pub(super) fn make_room(&mut self, length: u64) -> Option<()> {
        match &mut self.bytes {
            LegBytes::Landing { landing, part } => landing.borrow_mut().on_length(*part, length),
            LegBytes::Array { .. } | LegBytes::Lent { .. } | LegBytes::Parcel(_) => {
                let bytes = u8::new_vec_zeroed(usize::try_from(length).ok()?);
                self.bytes = LegBytes::Parcel(Some(bytes.ok()?));
            }
        }
        Some(())
    }

    /// Its chunks; none while the length is not known, or where they belong.
    pub(super) fn chunks(&self, chunk_max: u64) -> Option<Chunks> {
        match &self.bytes {
            LegBytes::Array { plan, .. } => Some(plan.chunks(self.region, self.transfer()?, chunk_max)),
            LegBytes::Landing { landing, part } if !landing.borrow().is_open() => {
                let is_empty = landing.borrow().length(*part) == Some(0);
                is_empty.then(|| Chunks::new(self.region, self.id, 0, chunk_max, 1))
            }
            LegBytes::Lent { .. } | LegBytes::Parcel(_) | LegBytes::Landing { .. } => {
                Some(Chunks::new(self.region, self.id, self.total()?, chunk_max, 1))
            }
        }
    }

    /// Its length, where that is known.
    pub(super) fn total(&self) -> Option<u64> {
        match &self.bytes {
            LegBytes::Array { .. } => self.transfer().map(Transfer::bytes),
            LegBytes::Lent { pieces, .. } => Some(pieces.length()),
            LegBytes::Landing { landing, part } => landing.borrow().length(*part),
            LegBytes::Parcel(bytes) => bytes.as_ref().map(|bytes| bytes.len() as u64),
        }
    }

    pub(super) fn is_parcel(&self) -> bool {
        !matches!(self.bytes, LegBytes::Array { .. })
    }

    /// The first byte of a chunk, if all of the chunk lies there in one piece.
    pub(super) fn direct(&mut self, chunk: &ChunkHeader) -> Option<NonNull<u8>> {
        if let LegBytes::Parcel(bytes) = &mut self.bytes {
            return NonNull::new(bytes.as_mut()?[chunk.offset as usize..].as_mut_ptr());
        }
        let mut whole = None;
        self.each_run(chunk, |first, run| {
            if run.length == chunk.length {
                // SAFETY: the plan's runs lie in the storage.
                whole = Some(unsafe { first.add(run.offset as usize) });
            }
            // The first run says it: a chunk is one run or begins with a shorter one.
            false
        });
        whole
    }

    /// Collects a chunk's bytes.
    ///
    /// # Safety
    /// The storage is there and nobody writes to those bytes.
    pub(super) unsafe fn gather(&self, chunk: &ChunkHeader, into: &mut [u8]) {
        let mut at = 0;
        self.each_run(chunk, |first, run| {
            let length = run.length as usize;
            // SAFETY: the plan's runs lie in the storage; `into` is checked to have the room.
            unsafe {
                let from = first.add(run.offset as usize).as_ptr();
                from.copy_to_nonoverlapping(into[at..at + length].as_mut_ptr(), length);
            }
            at += length;
            true
        });
    }

    /// Puts a chunk's bytes to their place.
    ///
    /// # Safety
    /// The storage is there and nobody reads or writes those bytes.
    pub(super) unsafe fn scatter(&self, chunk: &ChunkHeader, from: &[u8]) {
        let mut at = 0;
        self.each_run(chunk, |first, run| {
            let length = run.length as usize;
            // SAFETY: as in `gather`.
            unsafe {
                let to = first.add(run.offset as usize).as_ptr();
                to.copy_from_nonoverlapping(from[at..at + length].as_ptr(), length);
            }
            at += length;
            true
        });
    }

    fn transfer(&self) -> Option<&Transfer> {
        match &self.bytes {
            LegBytes::Array { plan, at, is_send, .. } if *is_send => plan.sends().get(*at),
            LegBytes::Array { plan, at, .. } => plan.receives().get(*at),
            LegBytes::Lent { .. } | LegBytes::Parcel(_) | LegBytes::Landing { .. } => None,
        }
    }

    /// Visits the runs of a chunk that may lie in several places until `visit` says false.
    fn each_run(&self, chunk: &ChunkHeader, mut visit: impl FnMut(NonNull<u8>, ByteRun) -> bool) {
        let mut in_pieces = |pieces: &Pieces| {
            let mut runs = pieces.of_bytes(chunk.offset, chunk.length);
            let whole = |length: usize| ByteRun {
                offset: 0,
                length: length as u64,
            };
            _ = runs.all(|(first, length)| visit(first, whole(length)));
        };
        let (first, is_send) = match &self.bytes {
            LegBytes::Array { first, is_send, .. } => (first, is_send),
            LegBytes::Lent { pieces, .. } => return in_pieces(pieces),
            LegBytes::Landing { landing, part } => return in_pieces(landing.borrow().pieces(*part)),
            LegBytes::Parcel(_) => return,
        };
        let Some(transfer) = self.transfer() else {
            return;
        };
        if *is_send {
            _ = transfer.source_runs(chunk).all(|run| visit(*first, run));
        } else {
            _ = transfer.target_runs(chunk).all(|run| visit(*first, run));
        }
    }
}
