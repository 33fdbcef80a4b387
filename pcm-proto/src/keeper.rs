//! Messages between a daemon and its keeper.
//!
//! The keeper is the parent of the daemon and of every rank on the node. It holds the other ends of the ranks' sockets
//! and pipes, their shared pages and their exit statuses, so that a daemon which is killed and started again finds
//! everything where it was. One message is one packet on an inherited `SOCK_SEQPACKET` socket pair; descriptors travel
//! with the packet that names them. A message longer than [`INLINE_BYTES_MAX`] travels in a memory file whose
//! descriptor is the packet's first. The variable [`KEEPER_FD`] tells the daemon the number of its end; the files of
//! its journal have the numbers [`JOURNAL_FDS`].

use crate::boot::BootSpec;
use crate::checkpoint::BufferKey;
use crate::ids::{JobId, ProcessId};
use crate::parked::ParkKey;
use crate::reconfiguration::Attempt;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Names the daemon's end of the socket pair in the daemon's environment.
pub const KEEPER_FD: &str = "PCM_KEEPER_FD";

/// The umask of whoever booted the node, in octal digits, in the daemon's environment: daemons boot other nodes, and a
/// keeper that finds it gives it to its ranks. Keepers and daemons have one that closes their files to others.
pub const UMASK: &str = "PCM_UMASK";

/// Numbers of the memory files that hold the daemon's journal: the keeper has them as long as it lives, so no disk that
/// is full or away costs a daemon its memory of the past.
pub const JOURNAL_FDS: [i32; 2] = [4, 5];

/// Longest message that is a packet of its own; well below the kernel's limit for one (208 KiB by default).
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Longest message: a start order with arguments and environment, which the kernel limits to 2 MiB on a default stack;
/// twice that leaves room for what goes with it.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Standbys are ended when the daemon has not asked for them again within this time: a job that is over, or a daemon
/// that died, cannot take them back.
pub const STANDBYS_HELD_FOR: Duration = Duration::from_secs(30);

/// A daemon that ends with this code must not be started again: it said why on its report or log, and a new one would
/// fail in the same way. `EX_CONFIG` of sysexits.
pub const DAEMON_EXIT_FINAL: i32 = 78;

/// A process of a job on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessKey {
    pub job: JobId,
    /// Its number in the job.
    pub process: ProcessId,
}

/// Order to start one process. The packet carries the descriptor of its shared page, which the daemon made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSpec {
    pub key: ProcessKey,
    /// The program as it was typed.
    pub program: PathBuf,
    /// Directories in which a program without a slash is searched, as in `PATH`.
    #[serde(with = "serde_bytes")]
    pub search_path: Vec<u8>,
    /// Arguments, without the program's name.
    #[serde(with = "crate::byte_lists::strings")]
    pub args: Vec<Vec<u8>>,
    /// The whole environment but for the descriptors' numbers, which the keeper adds.
    #[serde(with = "crate::byte_lists::pairs")]
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    pub cwd: PathBuf,
    /// CPUs to bind to; empty binds to nothing.
    pub cpus: Vec<u32>,
    /// Whether standard input is a pipe from the daemon (else it is empty).
    pub stdin: bool,
    /// Beginnings of the names that MPI gives to shared memory (in `/dev/shm`) of this process's world and of no other.
    /// What is left of them is removed when the job's last process on this node is gone.
    pub segments: Vec<String>,
}

/// A process that waits for the job to need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standby {
    /// Its process id.
    pub pid: u32,
    /// Whether it has come to `MPI_Init`.
    pub is_ready: bool,
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
    /// Start a process; answered by `Started` or `StartRefused`. A process that is already held is not started
    /// again: the answer hands it over once more.
    Start(ProcessSpec),
    /// Keep so many processes of this program started and held before `MPI_Init`, whatever their key: the next `Start`
    /// of the same program takes one. Holds for [`STANDBYS_HELD_FOR`]. Answered by `StandbysHeld`.
    Standbys { count: u32, spec: Box<ProcessSpec> },
    /// End the job's standbys. Not answered.
    EndStandbys { job: JobId },
    /// Send a signal to the process and everything it started.
    Signal {
        key: ProcessKey,
        /// The signal's number.
        signal: i32,
    },
    /// Close the process's standard input, so that it reads the end of file. The daemon closes its own end too.
    CloseStdin { key: ProcessKey },
    /// End every process of a job, by SIGKILL, with everything they started, and remove the shared memory they left.
    /// Also the right end of a job whose processes all returned: it finds what they started and left. Answered by
    /// `JobCleared`; asking again is harmless.
    EndJob { job: JobId },
    /// The end of this process was heard and acted on: release what is held for it.
    Forget { key: ProcessKey },
    /// Hold this image, whose descriptor comes with the packet. Answered by `Parked`.
    Park { key: ParkKey, bytes: u64 },
    /// Make an image of a process that hangs, by copying its memory. Answered by `Parked` or `NotParked`.
    Salvage {
        key: ParkKey,
        /// Address, in the process, of the table of stretches.
        table: u64,
        /// Its number of entries.
        stretches: u32,
    },
    /// Drop the job's images of this attempt and of those before.
    DropParked {
        job: JobId,
        /// The last attempt whose images are dropped.
        attempt: Attempt,
    },
    /// Hold this buffer of a checkpoint, whose descriptor comes with the packet, also when its job is ended.
    /// Answered by `Holds` or `NotKept`.
    Keep { key: BufferKey, bytes: u64 },
    /// Drop these buffers.
    DropKept { keys: Vec<BufferKey> },
    /// Write the log with these levels from now on, all of them; the next daemon is told them too. Not answered.
    Levels(String),
    /// The daemon ends on purpose: end every process and the keeper itself.
    Quit {
        /// Whether the node is left because it will be taken away.
        is_taken_away: bool,
    },
}

/// A process the keeper holds, as a starting daemon hears of it. The packet carries its descriptors in the order of
/// [`HELD_DESCRIPTORS`], standard input last and only where there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldProcess {
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
        /// How many `Parked` packets follow these.
        parked: u32,
        /// How many `Kept` packets follow these.
        kept: u32,
        /// The levels of the log that an earlier daemon was told, if any was.
        levels: Option<String>,
    },
    /// A process that was there before this daemon.
    Held(HeldProcess),
    /// The process runs.
    Started(HeldProcess),
    /// The process could not be started; nothing of it is left.
    StartRefused {
        key: ProcessKey,
        /// As in [`crate::refusal`].
        code: String,
        /// What happened, to what.
        reason: String,
    },
    /// The process ended. Its last output may still be in its pipes.
    Exited { key: ProcessKey, status: ExitStatus },
    /// All standbys of a job here, after an order for some.
    StandbysHeld { job: JobId, standbys: Vec<Standby> },
    /// An image is held; the packet carries its descriptor.
    Parked { key: ParkKey, bytes: u64 },
    /// A buffer of a checkpoint that was held before this daemon; the packet carries its descriptor.
    Kept { key: BufferKey, bytes: u64 },
    /// A buffer of a checkpoint is held from now on.
    Holds { key: BufferKey },
    /// A buffer of a checkpoint cannot be held.
    NotKept {
        key: BufferKey,
        /// Why, for a person.
        reason: String,
    },
    /// An image could not be made, or cannot be held.
    NotParked {
        key: ParkKey,
        /// What happened, for a person.
        reason: String,
    },
    /// Nothing of the job is left on this node; its processes' `Exited` came before.
    JobCleared {
        job: JobId,
        /// Processes that had to be killed.
        killed: u32,
        /// Files of shared memory that had to be removed.
        segments: u32,
        /// Processes that did not end although killed (they hang in the kernel).
        left: u32,
    },
}
