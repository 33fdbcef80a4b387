//! What background work with memory files reports to the loop.

use super::memory_file::Memory;
use pcm_core::node::store::image_key::ImageKey;
use pcm_core::node::store::not_come::NotCome;
use pcm_proto::checkpoint::{BufferKey, PartTally};
use pcm_proto::ids::CheckpointId;
use std::io;
use std::sync::Arc;
use tokio::sync::oneshot;

/// What came of blocks that were to come all at once.
#[derive(Debug)]
pub(in super::super) struct CameTogether {
    /// The memory they were to be written into, if no other thread may write into it any more.
    pub(super) memory: Option<Memory>,
    /// The checksum where all of it was verified.
    pub(super) outcome: Result<Option<PartTally>, NotCome>,
}

#[derive(Debug)]
pub(in super::super) enum MemoryEvent {
    /// The checksums of a part of a checkpoint were taken or verified.
    Summed {
        key: BufferKey,
        id: CheckpointId,
        tally: io::Result<PartTally>,
    },
    /// Another daemon of this host wants to read an image.
    Wanted {
        key: ImageKey,
        lend: oneshot::Sender<Option<Arc<Memory>>>,
    },
    /// Another daemon of this host lends an image, or does not.
    Lent {
        key: ImageKey,
        attempt: u64,
        lent: io::Result<Memory>,
    },
    /// Memory for an image is on offer.
    Offered {
        key: ImageKey,
        attempt: u64,
        region: [u8; 16],
    },
    /// Blocks of an image came all at once, or did not.
    Came {
        key: ImageKey,
        attempt: u64,
        came: CameTogether,
    },
    /// An image was written into memory that another daemon offered, or was not.
    Put { number: u64, outcome: Result<u64, String> },
}
