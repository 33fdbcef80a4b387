//! Checkpoints that are kept in memory, and what follows a crash: what ranks, daemons and keepers say about them.
//! Nothing here does I/O.
//!
//! Each rank copies its registered data into one of two memory files of its own, *buffers*, in the form of an image
//! ([`crate::parked`]). The keeper holds the buffers, so they outlive the rank and the daemon; a *copy* of a buffer's
//! contents may be held on another node. The job's coordinator knows what is where (`pcm-core/src/checkpoint`).

use crate::ids::{Bytes, CheckpointId, Epoch, Iteration, JobId, NodeName, ProcessId, Rank};
use serde::{Deserialize, Serialize};

/// What a checkpoint is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp {
    pub id: CheckpointId,
    /// The layout whose ranks made it.
    pub epoch: Epoch,
    /// The iteration whose top all ranks stood at.
    pub iteration: Iteration,
    /// Number of ranks, and so of parts.
    pub ranks: u32,
}

/// What all copies of one part have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartTally {
    /// Bytes of registered data.
    pub bytes: Bytes,
    pub checksum: u64,
}

/// Names a memory file with a part, on the node that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BufferKey {
    pub job: JobId,
    /// The process whose data it is.
    pub process: ProcessId,
    /// Counts the buffers that the process made; of a copy, those that were copied here.
    pub number: u32,
    /// Whether it was copied from another node.
    pub is_copy: bool,
}

/// What a rank tells its daemon about checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RankCheckpoint {
    /// Its data is in this buffer. The packet carries the memory file when the buffer is new.
    Kept {
        /// The buffer's number.
        buffer: u32,
        /// Of which checkpoint.
        id: CheckpointId,
        /// The iteration that whoever restores it begins with.
        iteration: Iteration,
        /// The process's rank.
        rank: Rank,
        /// Number of ranks.
        ranks: u32,
        /// Bytes of the image.
        bytes: u64,
        /// How long the application was held, in microseconds.
        held_us: u64,
    },
    /// It could not keep its data.
    NotKept {
        /// Of which checkpoint.
        id: CheckpointId,
        /// What happened, for a person.
        reason: String,
    },
    /// All ranks have written a checkpoint into files. Said by rank 0.
    Filed {
        /// The iteration that whoever restores it begins with.
        iteration: Iteration,
        /// Its directory, as bytes of a path.
        #[serde(with = "serde_bytes")]
        directory: Vec<u8>,
    },
    /// A checkpoint did not get into files. Said by rank 0.
    NotFiled {
        /// What happened, for a person.
        reason: String,
    },
}

/// What a daemon tells a rank about checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckpointOrder {
    /// This checkpoint is safe: what the rank keeps of others may be overwritten.
    Settled { id: CheckpointId },
    /// This checkpoint will never count: what the rank keeps of it may be overwritten.
    GivenUp { id: CheckpointId },
    /// Somebody wants a checkpoint. Said to rank 0.
    Make {
        /// In files, too.
        into: Option<IntoFiles>,
    },
}

/// Where files of a checkpoint go that somebody wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IntoFiles {
    /// Where those go that are due.
    Usual,
    /// Below this directory, as bytes of a path.
    Directory(#[serde(with = "serde_bytes")] Vec<u8>),
}

/// Where a new set of processes finds its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restores {
    pub stamp: Stamp,
    /// By old rank: nodes that hold its part, nearest first.
    pub sources: Vec<Vec<NodeName>>,
}

/// What daemons tell each other about the checkpoints of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckpointMessage {
    /// Node to coordinator: a part is here, whole, with checksums.
    Stored {
        /// Of which checkpoint.
        stamp: Stamp,
        rank: Rank,
        process: ProcessId,
        /// Whether it was copied from another node.
        is_copy: bool,
        /// What it is.
        tally: PartTally,
        /// How long the application was held for it, in microseconds; 0 for a copy.
        held_us: u64,
    },
    /// Node to coordinator: a part could not be kept.
    NotStored {
        /// Of which checkpoint.
        id: CheckpointId,
        /// Why, for a person.
        reason: String,
    },
    /// Node to coordinator: it cannot hold a copy of a part.
    NotCopied {
        /// Of which checkpoint.
        id: CheckpointId,
        rank: Rank,
        /// Why, for a person.
        reason: String,
    },
    /// Node to coordinator: a part that was here is overwritten or dropped.
    Overwritten {
        /// Of which checkpoint.
        id: CheckpointId,
        rank: Rank,
        /// Whether it was a copy from another node.
        is_copy: bool,
    },
    /// Coordinator to node: hold a copy of this part.
    Copy {
        /// Of which checkpoint.
        stamp: Stamp,
        rank: Rank,
        process: ProcessId,
        /// Where it is.
        from: NodeName,
    },
    /// Coordinator to the job's nodes: ranks may overwrite what they keep of others.
    Settled {
        /// Which one is safe.
        id: CheckpointId,
    },
    /// Coordinator to the job's nodes: it will never count.
    GivenUp { id: CheckpointId },
    /// Coordinator to node: nobody will ask for this copy.
    Drop {
        /// Of which checkpoint.
        id: CheckpointId,
        rank: Rank,
    },
    /// Coordinator to node: drop all of the job but this checkpoint.
    Forget {
        /// The one that is still needed.
        but: Option<CheckpointId>,
    },
    /// Coordinator to the job's nodes: the job goes on from this checkpoint, which may lack copies yet. What is newer
    /// is none; what is older may still be needed.
    RolledBack {
        /// The one it goes on from.
        to: CheckpointId,
    },
    /// Node to coordinator: before the job was ended here its ranks had begun these many iterations.
    Reached {
        /// The furthest iteration begun.
        iteration: Iteration,
    },
    /// Node to coordinator: a restored process has its data and runs.
    Restored { process: ProcessId },
    /// Node to coordinator: a process cannot take the checkpoint up.
    NotRestored {
        id: CheckpointId,
        /// What happened, for a person.
        reason: String,
        /// Whether it only got no answer: the data may be there.
        is_unanswered: bool,
    },
    /// Node to coordinator: a checkpoint was written into files.
    Filed {
        /// The iteration that whoever restores it begins with.
        iteration: Iteration,
        /// Its directory, as bytes of a path.
        #[serde(with = "serde_bytes")]
        directory: Vec<u8>,
    },
    /// Node to coordinator: a checkpoint did not get into files.
    NotFiled {
        /// What happened, for a person.
        reason: String,
    },
    /// Coordinator to the node of rank 0: somebody wants a checkpoint.
    Make {
        /// In files, too.
        into: Option<IntoFiles>,
    },
}
