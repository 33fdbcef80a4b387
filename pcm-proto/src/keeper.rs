//! Messages between a daemon and its keeper.
//!
//! The keeper is the parent of the daemon and of every rank on the node. It holds the other ends of the ranks' sockets
//! and pipes, their shared pages and their exit statuses, so that a daemon which is killed and started again finds
//! everything where it was. One message is one packet on an inherited `SOCK_SEQPACKET` socket pair; descriptors travel
//! with the packet that names them.

use crate::boot::BootSpec;
use crate::ids::{JobId, ProcessId};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Largest packet either side sends: a start order with a large environment. Linux allows about 200 KiB by default on
/// a seqpacket socket; environments above that are refused at `run`.
pub const KEEPER_PACKET_BYTES_MAX: usize = 160 * 1024;

/// A process of a job on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessKey {
    /// Its job.
    pub job: JobId,
    /// Its number in the job.
    pub process: ProcessId,
}

/// Order to start one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSpec {
    /// Which one.
    pub key: ProcessKey,
    /// Program file, already resolved against the search path.
    pub program: PathBuf,
    /// Arguments, without the program's name.
    pub args: Vec<Vec<u8>>,
    /// The whole environment but for the descriptors' numbers, which the keeper adds.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Working directory.
    pub cwd: PathBuf,
    /// CPUs to bind to; empty binds to nothing.
    pub cpus: Vec<u32>,
    /// Whether standard input is a pipe from the daemon (else it is empty).
    pub stdin: bool,
    /// Size of the shared page.
    pub page_bytes: u64,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitStatus {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl ExitStatus {
    /// The code a shell would report: the code itself, or 128 + the signal.
    pub fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// Orders to the keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DaemonToKeeper {
    /// Start a process; answered by `Started` or `StartRefused`.
    Start(ProcessSpec),
    /// Send a signal to the process and everything it started.
    Signal {
        /// Which one.
        key: ProcessKey,
        /// The signal's number.
        signal: i32,
    },
    /// End every process of a job, by SIGKILL, with everything they started, and remove the shared memory they left.
    EndJob {
        /// The job.
        job: JobId,
    },
    /// The end of this process was heard and acted on: release what is held for it.
    Forget {
        /// Which one.
        key: ProcessKey,
    },
    /// The daemon ends on purpose: end every process and the keeper itself.
    Quit,
}

/// A process the keeper holds, as a starting daemon hears of it. The packet carries its descriptors in the order of
/// [`HELD_DESCRIPTORS`], standard input last and only where there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldProcess {
    /// Which one.
    pub key: ProcessKey,
    /// Its process id.
    pub pid: u32,
    /// How it ended, when it has.
    pub ended: Option<ExitStatus>,
    /// Whether a descriptor for its standard input follows.
    pub stdin: bool,
}

/// The order of descriptors that travel with `Started` and `Held`.
pub const HELD_DESCRIPTORS: [&str; 5] = ["pmi socket", "library channel", "shared page", "stdout", "stderr"];

/// What the keeper says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeeperToDaemon {
    /// First packet to every daemon it starts.
    Welcome {
        /// The daemon's own specification.
        spec: Box<BootSpec>,
        /// How often a daemon was started before this one; 0 for the first.
        restarts: u32,
        /// How many `Held` packets follow.
        held: u32,
    },
    /// A process that was there before this daemon.
    Held(HeldProcess),
    /// The process runs.
    Started(HeldProcess),
    /// The process could not be started; nothing of it is left.
    StartRefused {
        /// Which one.
        key: ProcessKey,
        /// The system's error number, 0 where there is none.
        errno: i32,
        /// What happened, to what.
        reason: String,
    },
    /// The process ended.
    Exited {
        /// Which one.
        key: ProcessKey,
        /// How.
        status: ExitStatus,
    },
}
