//! Which part of the node asks another node something, and what for.

use crate::moment::Moment;
use crate::node::requester::Requester;
use pcm_proto::ids::JobId;
use pcm_proto::job::JobSpec;

/// The part of the node that asks, and what it needs when the answer arrives.
#[derive(Clone, Debug, PartialEq)]
pub enum Asker {
    /// A job that waits for its number.
    Number {
        from: Requester,
        spec: Box<JobSpec>,
        /// It is refused then.
        until: Moment,
    },
    /// A job that has to leave this node.
    Drain { job: JobId, step: DrainStep },
    /// A program that asked for another number of ranks.
    Program { job: JobId },
    /// This node's end: the other has heard what came before.
    Farewell,
    /// The measurements of links: only the time counts.
    Links,
}

/// What a job that has to leave this node was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainStep {
    Leave,
    /// A checkpoint before it leaves.
    Checkpoint,
    /// A checkpoint in files, for it cannot leave.
    Files,
}
