//! What happens to the store.

use super::image_key::ImageKey;
use super::not_come::NotCome;
use crate::node::memory::MemoryFile;
use pcm_proto::checkpoint::{BufferKey, CheckpointMessage, PartTally, RankCheckpoint};
use pcm_proto::ids::{CheckpointId, JobId, NodeName, ProcessId};
use pcm_proto::image::ImageMessage;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::parked::{ParkKey, RestoreAsk};
use pcm_proto::reconfiguration::{Attempt, ReconfigurationReport};

/// A block as it came over a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockCame {
    pub block: u64,
    pub image_bytes: u64,
    /// Whether its checksum is that of its bytes.
    pub is_sound: bool,
    pub bytes: Vec<u8>,
}

/// A fact or a request for the store.
#[derive(Debug)]
pub enum StoreInput {
    /// The driver took or verified checksums.
    Summed {
        key: BufferKey,
        id: CheckpointId,
        tally: Result<PartTally, String>,
    },
    /// The keeper holds a buffer, or says why not.
    Kept {
        key: BufferKey,
        outcome: Result<(), String>,
    },
    /// A block of an image could not be written.
    Unwritable {
        key: ImageKey,
        attempt: u64,
        reason: String,
    },
    /// Another daemon of this host wants to read an image.
    BorrowerAsks { number: u64, key: ImageKey },
    /// Another daemon of this host lends an image, or does not.
    Lent {
        key: ImageKey,
        attempt: u64,
        lent: Result<MemoryFile, String>,
    },
    /// Memory for an image is on offer.
    Offered {
        key: ImageKey,
        attempt: u64,
        region: [u8; 16],
    },
    /// What was to come all at once came, or did not.
    Came {
        key: ImageKey,
        attempt: u64,
        /// Whether the memory can still be used.
        is_memory_left: bool,
        /// The checksum where all of the image was verified.
        outcome: Result<Option<PartTally>, NotCome>,
    },
    /// So many bytes of an image were written to another node, or it failed.
    PutEnded { number: u64, outcome: Result<u64, String> },
    /// The keeper holds an image, and handed its memory unless it is no image.
    Parked { key: ParkKey, memory: Option<MemoryFile> },
    /// The keeper does not hold an image.
    NotParked { key: ParkKey, reason: String },
    /// A rank hands over its data, if it is a sealed image of the stated length.
    ParkHanded { key: ParkKey, memory: Option<MemoryFile> },
    /// What others need of a rank's constant data can be copied while it computes on.
    ConstantData { key: ParkKey, table: u64, stretches: u32 },
    /// A rank says something about a reconfiguration.
    Report {
        process: ProcessKey,
        report: ReconfigurationReport,
    },
    /// A restored rank asks for data, or one before a meeting for what travels ahead.
    RestoreAsked { asker: ProcessKey, ask: RestoreAsk },
    /// A restored rank cannot take its data up.
    RestoreFailed {
        process: ProcessKey,
        reason: String,
        is_unanswered: bool,
    },
    /// A rank says something about a checkpoint, and hands over a memory file.
    RankCheckpoint {
        from: ProcessKey,
        said: RankCheckpoint,
        memory: Option<MemoryFile>,
    },
    /// A block of an image came over a link.
    Block {
        key: ImageKey,
        node: NodeName,
        came: BlockCame,
    },
    /// Another node says something else about an image.
    Image {
        key: ImageKey,
        node: NodeName,
        message: ImageMessage,
    },
    /// The coordinator of a job says something about its checkpoints.
    Checkpoint {
        job: JobId,
        node: NodeName,
        message: CheckpointMessage,
    },
    /// A node is linked (again), perhaps with a daemon that knows nothing of what is on offer to it.
    NodeLinked { node: NodeName },
    /// A node is linked (again): it may coordinate jobs whose checkpoints are here.
    CoordinatorLinked { node: NodeName },
    /// A node has another daemon.
    NodeReplaced { node: NodeName },
    /// A node is gone.
    NodeGone { node: NodeName },
    /// The device of a node is heard again.
    RdmaHeard { node: NodeName },
    /// Another daemon leads a job.
    Led { job: JobId, by: NodeName },
    /// A process is to hear the plan ahead of its meeting.
    TellPlanAhead { job: JobId, process: ProcessId },
    /// Data is to be copied out of a process that hangs.
    Salvage { key: ParkKey },
    /// A job's images up to an attempt are not needed any more.
    DropParked { job: JobId, attempt: Attempt },
    /// A job has no process here any more; the keeper drops what it holds with the job's end.
    JobEmptied { job: JobId },
    /// A job is over here.
    JobOver { job: JobId },
    /// Parts of checkpoints may be held for jobs that are over.
    HeldTimer,
    /// Blocks may have been lost, or there may be room for more offers.
    ImagesTimer,
    /// An image should not be needed any more.
    UnneededTimer(ParkKey),
    /// A rank has had its time for what it does ahead of a meeting.
    AheadTimer(ParkKey),
    /// Copies that a node's daemon had ordered may be of no use.
    OrphansTimer(NodeName),
}
