//! The codes of every refusal a daemon or `pcmctl` gives. They are a public interface: a code never changes its
//! meaning, and `docs/errors.md` has a section for each (a test compares the two).

use serde::{Deserialize, Serialize};

/// Why a request was refused. `code` is documented in `docs/errors.md` and stays the same across versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// A short stable name, such as `unknown_job`.
    pub code: String,
    /// What happened, to what, and what to do next.
    pub message: String,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*

        /// Every code, in the order of this file.
        pub const ALL: &[&str] = &[$($text),*];
    };
}

codes! {
    /// No job of this number or name.
    UNKNOWN_JOB = "unknown_job";
    /// The job has ended.
    JOB_ENDED = "job_ended";
    /// The job was started again before what was asked for was done.
    JOB_RESTARTED = "job_restarted";
    /// No node of this name.
    UNKNOWN_NODE = "unknown_node";
    /// The node exists but does not answer.
    NODE_UNREACHABLE = "node_unreachable";
    /// A node of this name is there already.
    NODE_EXISTS = "node_exists";
    /// The node runs ranks, so it can neither be removed nor drained.
    NODE_BUSY = "node_busy";
    /// The node ends too soon for ranks to go there.
    NODE_ENDS = "node_ends";
    /// The last node of a cluster leaves only by `down`.
    LAST_NODE = "last_node";
    /// The node could not be booted.
    BOOT_FAILED = "boot_failed";
    /// The program was not found on the node that was to start it.
    UNKNOWN_PROGRAM = "unknown_program";
    /// The program is there but cannot be executed.
    NOT_EXECUTABLE = "not_executable";
    /// The working directory is not there.
    BAD_DIRECTORY = "bad_directory";
    /// The number of ranks is outside what the job or the system allows.
    BAD_SIZE = "bad_size";
    /// No node is up that the job may use.
    NO_NODES = "no_nodes";
    /// Environment and arguments are larger than a start order may be.
    ENVIRONMENT_TOO_LARGE = "environment_too_large";
    /// A process could not be started for a reason of the system (limits, memory).
    START_FAILED = "start_failed";
    /// Not enough free shared memory on a node.
    SHARED_MEMORY_FULL = "shared_memory_full";
    /// The policy is not known.
    UNKNOWN_POLICY = "unknown_policy";
    /// A reconfiguration of the job is under way.
    RECONFIGURING = "reconfiguring";
    /// The ranks of the job have not begun to iterate; before long they may have.
    JOB_STARTING = "job_starting";
    /// What is asked for makes no layout of this job.
    BAD_LAYOUT = "bad_layout";
    /// The reconfiguration was given up; the job goes on as before.
    ABORTED = "aborted";
    /// The signal is not one a job can be sent.
    BAD_SIGNAL = "bad_signal";
    /// The levels of a log make no sense.
    BAD_LEVELS = "bad_levels";
    /// The job is attached to another `pcmctl`.
    ALREADY_ATTACHED = "already_attached";
    /// The daemon cannot do this yet, or this MPI cannot.
    NOT_SUPPORTED = "not_supported";
    /// The daemon is going down.
    GOING_DOWN = "going_down";
    /// As many jobs, links or ranks as the daemon takes are there already.
    LIMIT_REACHED = "limit_reached";
    /// This daemon does not coordinate the job.
    NOT_COORDINATOR = "not_coordinator";
    /// The job is lost and being ended.
    JOB_LOST = "job_lost";
    /// A checkpoint did not get into files; it is in memory.
    NOT_FILED = "not_filed";
    /// A rank or its node cannot hold its part of a checkpoint.
    NOT_KEPT = "not_kept";
    /// The request did not finish by its deadline.
    DEADLINE = "deadline";
}

impl Refusal {
    /// A refusal with one of the codes of this file.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn every_code_is_a_unique_lower_case_word() {
        for (index, code) in ALL.iter().enumerate() {
            assert!(code.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{code}");
            assert!(!ALL[..index].contains(code), "{code} stands twice");
        }
    }
}
