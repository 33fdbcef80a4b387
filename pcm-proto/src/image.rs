//! Images on their way between daemons: what ranks parked, and parts of checkpoints. What is said of them is the same.
//! Nothing here does I/O.

use crate::fabric::BulkAddress;
use crate::ids::{CheckpointId, ProcessId, Rank};
use crate::reconfiguration::Attempt;
use serde::{Deserialize, Serialize};

/// Names an image of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ImageName {
    /// What a process parked.
    Parked {
        /// For which attempt.
        attempt: Attempt,
        /// Whose data it is.
        process: ProcessId,
    },
    /// A part of a checkpoint.
    Part {
        /// Of which checkpoint.
        id: CheckpointId,
        rank: Rank,
    },
}

/// What two daemons tell each other about an image that one of them needs and the other has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageMessage {
    /// Send this block; one beyond the end to hear how long the image is.
    Want { block: u64 },
    /// A block; empty when it lies beyond the image's end.
    Block {
        block: u64,
        /// Bytes of the whole image.
        image_bytes: u64,
        /// CRC-64/NVME of the bytes.
        checksum: u64,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Write what it lacks into memory that the asking node offers.
    Put {
        /// The region on offer.
        region: [u8; 16],
        /// Where it is offered.
        at: BulkAddress,
    },
    /// It could not be written there.
    NotPut {
        /// The region that was on offer.
        region: [u8; 16],
        /// Why, for a person.
        reason: String,
    },
    /// It is not here.
    Gone {
        /// Why, for a person.
        reason: String,
    },
}
