//! What the driver does with the files of a detached job.

use pcm_proto::control::Stream;
use pcm_proto::ids::{JobId, ProcessId};
use pcm_proto::peer::OutputPiece;

/// An order about the files of a job's output.
#[derive(Debug)]
pub enum FileEffect {
    /// Make the files, or go on at the end of those that are there.
    Open { job: JobId },
    /// Write pieces in this order, then report them as [`Filed`], all at once.
    Write { job: JobId, pieces: Vec<OutputPiece> },
    /// Close the files when what was ordered is written.
    Close { job: JobId },
}

/// A piece of output that was written to a file, up to this offset of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filed {
    pub process: ProcessId,
    pub stream: Stream,
    pub end: u64,
}
