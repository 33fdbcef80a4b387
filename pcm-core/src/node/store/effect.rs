//! What the driver does with memory files for the store. An effect on memory that could not be made or is not held any
//! more reports a failure where one is named here, and does nothing else.

use super::end::End;
use super::image_key::ImageKey;
use crate::node::memory::{MemoryFile, MemoryId};
use crate::parked::BlockSet;
use pcm_proto::app::DaemonToApp;
use pcm_proto::checkpoint::BufferKey;
use pcm_proto::fabric::BulkAddress;
use pcm_proto::ids::{CheckpointId, JobId, NodeName};
use pcm_proto::parked::ParkKey;

/// What is done with the checksums of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// Take and write them.
    Complete,
    /// Compare them with the data.
    Verify,
}

/// An order about memory files.
#[derive(Debug)]
pub enum StoreEffect {
    /// Make memory for a whole image, or for parts of one.
    Make {
        memory: MemoryFile,
        has_holes: bool,
    },
    /// Let go of memory; whatever still reads or writes it keeps it until it is done.
    Release {
        memories: Vec<MemoryId>,
    },
    /// Write a block of an image; [`super::input::StoreInput::Unwritable`] if it fails.
    Write {
        key: ImageKey,
        attempt: u64,
        memory: MemoryId,
        at: u64,
        bytes: Vec<u8>,
    },
    /// Take or verify checksums in the background; [`super::input::StoreInput::Summed`] in any case.
    Sum {
        key: BufferKey,
        id: CheckpointId,
        memory: MemoryId,
        sums: Sums,
    },
    /// Have the keeper hold a buffer of a checkpoint, too; [`super::input::StoreInput::Kept`] in any case.
    Keep {
        key: BufferKey,
        memory: MemoryId,
    },
    /// Give an image to the keeper, which hands back what it holds of it.
    Park {
        key: ParkKey,
        memory: MemoryId,
    },
    /// Send a message to the library in each process of a job here.
    TellRanks {
        job: JobId,
        message: Box<DaemonToApp>,
    },
    /// Send a block of an image to a node.
    GiveBlock {
        node: NodeName,
        key: ImageKey,
        block: u64,
        memory: MemoryId,
    },
    /// Answer the daemon of this host that asked with this number.
    Lend {
        number: u64,
        memory: Option<MemoryId>,
    },
    /// Ask the daemon of a node of this host for an image; [`super::input::StoreInput::Lent`] in any case.
    Borrow {
        key: ImageKey,
        attempt: u64,
        node: NodeName,
    },
    /// Copy an image in the background and verify it; [`super::input::StoreInput::Came`] in any case.
    Copy {
        key: ImageKey,
        attempt: u64,
        from: MemoryId,
        into: MemoryId,
    },
    /// Offer memory for what it lacks: [`super::input::StoreInput::Offered`], then
    /// [`super::input::StoreInput::Came`] unless it is withdrawn.
    Receive {
        key: ImageKey,
        attempt: u64,
        end: End,
        memory: MemoryId,
        lacks: BlockSet,
    },
    /// Withdraw what is on offer.
    Withdraw {
        attempt: u64,
    },
    /// Write an image into memory that a node offers; [`super::input::StoreInput::PutEnded`] in any case.
    Put {
        number: u64,
        node: NodeName,
        region: [u8; 16],
        at: BulkAddress,
        memory: MemoryId,
    },
    CancelPut {
        number: u64,
    },
}
