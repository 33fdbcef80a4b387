//! What the driver does with the processes of a node's ranks, and what it reports. An effect on a process that the
//! driver does not hold does nothing, unless its answer is said to come in any case.

use super::launch::Launch;
use super::pages::{PageQuestion, Pages};
use crate::node::memory::MemoryId;
use pcm_proto::app::DaemonToApp;
use pcm_proto::ids::{Bytes, Iteration, JobId};
use pcm_proto::keeper::ProcessKey;
use pcm_proto::parked::ParkKey;
use std::time::Duration;

/// An order about ranks.
#[derive(Debug)]
pub enum RankEffect {
    /// Make the shared page and have the keeper start the process; [`RankFact::LaunchFailed`] if one
    /// of these fails.
    Launch(Box<Launch>),
    /// Send a message to the library in a process, and the memory file with it if one is named.
    Tell {
        key: ProcessKey,
        message: Box<DaemonToApp>,
        memory: Option<MemoryId>,
    },
    /// Answer the present PMI request of a process; [`RankFact::PmiAnswered`] when the process has the answer.
    AnswerPmi { key: ProcessKey, line: String },
    /// Write a ceiling on the page, then read how far the rank is: [`RankFact::CeilingWritten`].
    SetCeiling { key: ProcessKey, ceiling: Iteration },
    /// Take the ceiling off the page.
    LiftCeiling { key: ProcessKey },
    /// Write on every page whether processes outnumber the CPUs, and for how long one may still be starting.
    TellCrowd { is_crowded: bool, starting_for: Duration },
    /// Read how much data a process has: [`RankFact::DataWeighed`], in any case.
    WeighData { key: ParkKey },
    /// Read where the data of a process is: [`RankFact::DataFound`], in any case.
    FindData { key: ParkKey },
    /// Log what the kernel says of a process that is about to be ended.
    LogHang { key: ProcessKey, cause: String },
    /// Begin to read what a process prints.
    ReadOutput { key: ProcessKey },
    /// So many bytes of a job's output need no room any more.
    FreeOutput { job: JobId, bytes: u64 },
    /// Write a piece of standard input that ends at this offset, then report that offset.
    WriteStdin { key: ProcessKey, end: u64, bytes: Vec<u8> },
    /// Standard input ends when the pieces on their way are written.
    EndStdin { key: ProcessKey },
    /// Read the pages: [`RankFact::PagesRead`] with the same number, in any case.
    Read { number: u64, question: PageQuestion },
    /// Let go of a process that ended; the last state of its page stays.
    Forget { key: ProcessKey },
    /// Let go of all that is held of a job.
    ForgetJob { job: JobId },
}

/// What the driver reports of ranks, each time before it takes the next event.
#[derive(Debug)]
pub enum RankFact {
    /// A process was not started.
    LaunchFailed {
        key: ProcessKey,
        /// A code of [`pcm_proto::refusal`].
        code: String,
        reason: String,
    },
    /// A process has the answer to its PMI request.
    PmiAnswered { key: ProcessKey },
    /// A ceiling is on a page.
    CeilingWritten {
        key: ProcessKey,
        ceiling: Iteration,
        /// The iterations that the page announced as started when it was read afterwards.
        started: Iteration,
        /// The iteration at which the rank's loop ends, if it declared one.
        ends: Option<Iteration>,
    },
    /// How much data a process has; nothing if the driver does not hold it.
    DataWeighed {
        key: ParkKey,
        constant: Bytes,
        registered: Bytes,
    },
    /// Where the table of a process's data is; 0 if the driver does not hold it.
    DataFound { key: ParkKey, table: u64, stretches: u32 },
    /// What the pages show.
    PagesRead { number: u64, pages: Pages },
}

impl RankFact {
    /// The job that it concerns; none for pages, which may be of several.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Self::LaunchFailed { key, .. } | Self::PmiAnswered { key } | Self::CeilingWritten { key, .. } => {
                Some(key.job)
            }
            Self::DataWeighed { key, .. } | Self::DataFound { key, .. } => Some(key.job),
            Self::PagesRead { .. } => None,
        }
    }
}

/// A process that the driver holds from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    pub key: ProcessKey,
    /// Its process id.
    pub pid: u32,
    /// Whether it has not initialised MPI.
    pub is_starting: bool,
    /// Whether it has a PMI request that was not answered.
    pub is_asking: bool,
    /// Whether its standard input is a pipe.
    pub has_stdin: bool,
}
