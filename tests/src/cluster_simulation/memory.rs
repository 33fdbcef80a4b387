//! The memory files of one daemon, and work on them that is under way.

use super::image::File;
use pcm_core::node::memory::{MemoryFile, MemoryId};
use pcm_core::node::store::effect::Sums;
use pcm_core::node::store::image_key::ImageKey;
use pcm_proto::checkpoint::BufferKey;
use pcm_proto::ids::CheckpointId;
use std::collections::BTreeMap;

/// Checksums that are taken or verified.
#[derive(Debug)]
pub(super) struct Summing {
    pub(super) key: BufferKey,
    pub(super) id: CheckpointId,
    pub(super) file: File,
    pub(super) sums: Sums,
}

/// A daemon of this host is asked for an image.
#[derive(Debug)]
pub(super) struct Borrowing {
    pub(super) key: ImageKey,
    pub(super) attempt: u64,
    pub(super) file: Option<File>,
}

/// An image is copied and verified.
#[derive(Debug)]
pub(super) struct Copying {
    pub(super) key: ImageKey,
    pub(super) attempt: u64,
    pub(super) from: File,
    pub(super) into: MemoryId,
}

/// An image is written into memory that another daemon offers.
#[derive(Debug)]
pub(super) struct Putting {
    pub(super) number: u64,
    pub(super) file: File,
    pub(super) to: usize,
    pub(super) region: [u8; 16],
}

/// Memory that is on offer.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    pub(super) key: ImageKey,
    pub(super) memory: MemoryId,
    pub(super) region: [u8; 16],
}

/// A daemon that waits for an image, with its own number for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Borrower {
    pub(super) of: super::happening::Life,
    pub(super) key: ImageKey,
    pub(super) attempt: u64,
}

/// See the file head.
#[derive(Debug, Default)]
pub(super) struct Memory {
    files: BTreeMap<MemoryId, File>,
    received: u64,
    pub(super) offers: BTreeMap<u64, Offer>,
    pub(super) puts: BTreeMap<u64, ()>,
    pub(super) borrowers: BTreeMap<u64, Borrower>,
    borrowed: u64,
}

impl Memory {
    /// Takes in a file that was handed over.
    pub(super) fn receive(&mut self, file: File) -> MemoryFile {
        self.received += 1;
        let (id, bytes) = (MemoryId(self.received), file.borrow().len() as u64);
        self.files.insert(id, file);
        MemoryFile { id, bytes }
    }

    pub(super) fn make(&mut self, memory: MemoryFile) {
        self.files
            .insert(memory.id, super::image::file(vec![0; memory.bytes as usize]));
    }

    pub(super) fn file(&self, id: MemoryId) -> Option<File> {
        self.files.get(&id).cloned()
    }

    pub(super) fn release(&mut self, ids: &[MemoryId]) {
        for id in ids {
            self.files.remove(id);
        }
    }

    /// Memory files that are held.
    pub(super) fn count(&self) -> usize {
        self.files.len()
    }

    pub(super) fn borrower(&mut self, borrower: Borrower) -> u64 {
        self.borrowed += 1;
        self.borrowers.insert(self.borrowed, borrower);
        self.borrowed
    }
}
