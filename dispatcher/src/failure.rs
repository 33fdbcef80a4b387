//! What a verb ends with when it does not succeed: a stable code, an exit code, one line that says what happened, to
//! what, and what to do next. Codes and exit codes are documented in `docs/errors.md`.

use pcm_proto::control::Refusal;
use pcm_proto::refusal;
use pcm_view::plain::plain;
use std::fmt;
use std::path::Path;

/// Codes that `pcmctl` itself gives, beside those of daemons in [`pcm_proto::refusal`].
pub const CODES: &[&str] = &[
    "usage",
    "no_cluster",
    "cluster_running",
    CLUSTER_LOCKED,
    FOREIGN_CLUSTER,
    "wrong_key",
    LINK_LOST,
    UNEXPECTED_ANSWER,
    "system",
    "broken",
    "checkpoint",
];

/// Another `up` or `down` holds the directory.
pub const CLUSTER_LOCKED: &str = "cluster_locked";

/// The directory is another user's, or another user may write into it.
pub const FOREIGN_CLUSTER: &str = "foreign_cluster";

/// The link to a daemon was lost.
pub const LINK_LOST: &str = "link_lost";

/// `pcmctl` and the daemon are of different releases.
const UNEXPECTED_ANSWER: &str = "unexpected_answer";

/// The exit codes of `pcmctl`; `run` also passes on its job's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The system refused something `pcmctl` needed.
    System = 1,
    /// The command line is invalid.
    Usage = 2,
    /// No cluster is running.
    NoCluster = 3,
    /// The cluster refused.
    Refused = 4,
    /// A deadline passed.
    Deadline = 5,
    /// A daemon could not be booted.
    Boot = 6,
    /// The link to the daemon was lost or its answer was invalid.
    Link = 7,
    /// `doctor` found something broken, or a checkpoint is damaged.
    Broken = 8,
}

/// Why a verb did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// A short stable name.
    pub code: String,
    /// What happened, to what, and what to do next.
    pub message: String,
}

impl Failure {
    fn new(exit: Exit, code: &str, message: impl Into<String>) -> Self {
        debug_assert!(
            CODES.contains(&code) || refusal::ALL.contains(&code),
            "code {code} is listed"
        );
        Self {
            exit,
            code: code.to_owned(),
            message: message.into(),
        }
    }

    /// The command line is invalid.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// Nothing listens for this directory.
    pub fn no_cluster(dir: &Path, detail: &str) -> Self {
        Self::new(
            Exit::NoCluster,
            "no_cluster",
            format!(
                "no cluster is running in {}{detail}: start one with 'pcmctl up --local 4', or name another with \
                 --cluster DIR",
                dir.display()
            ),
        )
    }

    /// A cluster is running where a new one was to be booted.
    pub fn cluster_running(message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, "cluster_running", message)
    }

    /// Another `up` or `down` holds the directory.
    pub fn cluster_locked(dir: &Path) -> Self {
        Self::new(
            Exit::Refused,
            CLUSTER_LOCKED,
            format!(
                "another 'pcmctl up' or 'down' is running on {}: wait until it has finished, or use another \
                 directory with --cluster DIR",
                dir.display()
            ),
        )
    }

    /// Others could have put anything into the directory.
    pub fn foreign_cluster(message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, FOREIGN_CLUSTER, message)
    }

    /// The cluster could not be booted.
    pub fn boot(message: impl Into<String>) -> Self {
        Self::new(Exit::Boot, refusal::BOOT_FAILED, message)
    }

    /// Something took longer than allowed.
    pub fn deadline(message: impl Into<String>) -> Self {
        Self::new(Exit::Deadline, refusal::DEADLINE, message)
    }

    /// The link to a daemon was lost.
    pub fn link(message: impl Into<String>) -> Self {
        Self::new(Exit::Link, LINK_LOST, message)
    }

    /// The daemon's answer does not fit the question.
    pub fn unexpected(asked: &str, answer: &impl fmt::Debug) -> Self {
        let mut shown = format!("{answer:?}");
        shown.truncate(shown.char_indices().nth(80).map_or(shown.len(), |(at, _)| at));
        Self::new(
            Exit::Link,
            UNEXPECTED_ANSWER,
            format!(
                "the daemon answered {asked} with {shown}: pcmctl and pcm-daemon are of different builds, install the \
                 same one"
            ),
        )
    }

    /// The daemon speaks another version of the protocol.
    pub fn other_version(message: impl Into<String>) -> Self {
        Self::new(Exit::Link, UNEXPECTED_ANSWER, message)
    }

    /// The key of the directory is missing, damaged, exposed or not the cluster's.
    pub fn wrong_key(message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, "wrong_key", message)
    }

    /// The system refused a file operation.
    pub fn file(action: &str, path: &Path, error: &std::io::Error) -> Self {
        Self::new(
            Exit::System,
            "system",
            format!(
                "cannot {action} {}: {error}; check that it is yours and its disk is not full",
                path.display()
            ),
        )
    }

    /// The system refused something else.
    pub fn system(message: impl Into<String>) -> Self {
        Self::new(Exit::System, "system", message)
    }

    /// A checkpoint is damaged, not complete or not there.
    pub fn checkpoint(message: impl Into<String>) -> Self {
        Self::new(Exit::Broken, "checkpoint", message)
    }

    /// `doctor` found something broken.
    pub fn broken(message: impl Into<String>) -> Self {
        Self::new(Exit::Broken, "broken", message)
    }
}

impl From<Refusal> for Failure {
    fn from(refused: Refusal) -> Self {
        let exit = match refused.code.as_str() {
            refusal::DEADLINE => Exit::Deadline,
            refusal::BOOT_FAILED => Exit::Boot,
            _ => Exit::Refused,
        };
        Self {
            exit,
            code: refused.code,
            message: refused.message,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Code and heading of its section on the page are the same.
        let message = plain(&self.message);
        write!(f, "{message} [{code}] (docs/errors.md#{code})", code = self.code)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../docs/errors.md");

    #[test]
    fn every_code_has_a_section_on_the_page_of_errors_and_no_section_is_of_an_unknown_code() {
        let known: Vec<&str> = CODES.iter().chain(refusal::ALL).copied().collect();
        for code in &known {
            assert!(PAGE.contains(&format!("\n### `{code}`\n")), "{code} is missing");
        }
        for section in PAGE
            .lines()
            .filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'))
        {
            assert!(known.contains(&section), "{section} is not a code");
        }
    }

    #[test]
    fn a_message_names_its_code_and_where_it_is_explained() {
        let shown = Failure::usage("no").to_string();
        assert_eq!(shown, "no [usage] (docs/errors.md#usage)");
        let of_a_rank = Failure::usage("rank 0 says \x1b[2J").to_string();
        assert!(!of_a_rank.contains('\x1b'), "{of_a_rank:?}");
    }

    #[test]
    fn every_exit_code_is_on_the_page_of_errors() {
        use Exit::{Boot, Broken, Deadline, Link, NoCluster, Refused, System, Usage};
        for exit in [System, Usage, NoCluster, Refused, Deadline, Boot, Link, Broken] {
            assert!(PAGE.contains(&format!("\n| {} |", exit as i32)), "{exit:?} is missing");
        }
    }
}
