//! Where the threads of a rank are, read from outside: frames of the program with their lines, for `stacks` and
//! `ps --stuck`.

use crate::ids::{NodeName, ProcessId, Rank};
use serde::{Deserialize, Serialize};

/// Most threads of one process that are read; programs with more have many alike.
pub const THREADS_READ_MAX: usize = 16;

/// Most frames of one thread; a deeper recursion is cut at its outer end.
pub const FRAMES_MAX: usize = 64;

/// Where one rank is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankStack {
    /// Rank in the current communicator.
    pub rank: Rank,
    /// The process behind it.
    pub process: ProcessId,
    pub node: NodeName,
    /// What was read of the process.
    pub stack: ProcessStack,
}

/// What was read of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStack {
    /// State of the main thread as the kernel names it: R runs, S sleeps, D waits in the kernel, T is stopped by a
    /// signal, t by a debugger, Z has ended.
    pub state: String,
    /// Longest time for which a thread was stopped, in microseconds.
    pub stopped_us: u32,
    /// Threads with frames of the program, the main thread first.
    pub threads: Vec<ThreadStack>,
    /// Why there is less than could be wished, for a person.
    pub note: Option<String>,
}

impl ProcessStack {
    /// Whether anything of it was read.
    pub fn is_read(&self) -> bool {
        !self.threads.is_empty() || !self.state.is_empty()
    }
}

/// The frames of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadStack {
    /// The kernel's number of it.
    pub thread: u32,
    pub is_main: bool,
    /// Whether the innermost frame of the program called MPI or libpcm.
    pub is_in_mpi: bool,
    /// Whether an interpreter runs in it whose own frames were not read: where it is, cannot be said.
    pub is_interpreted: bool,
    /// Frames of the program, innermost first.
    pub frames: Vec<StackFrame>,
    /// Why there are no more frames or names, for a person.
    pub note: Option<String>,
}

/// A call in progress and where in the source it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StackFrame {
    /// None in a program without names. Of Python with the classes and functions around it; `<module>` outside of all.
    pub function: Option<String>,
    /// Source file as the compiler or Python was given it; none without debug information.
    pub file: Option<String>,
    pub line: Option<u32>,
    /// File name of the program or library; of a Python function, that of the interpreter.
    pub module: String,
}
