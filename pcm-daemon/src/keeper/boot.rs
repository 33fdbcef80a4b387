//! From a started program to a keeper: reads the specification, opens the log, leaves the session of whoever started
//! it, unless it is to stay in the foreground. What goes wrong here is told on the standard error of the one who
//! started it.
#![allow(unsafe_code, reason = "fork, before there is any thread, and limits of the process")]

use super::foreground::Stance;
use super::start::{OfUser, TARGET_MAX};
use own_files::Foreign;
use pcm_proto::boot::BootSpec;
use pcm_proto::handshake::VersionMismatch;
use pcm_proto::keeper::UMASK;
use pcm_proto::open_files;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, chdir, getrlimit, setrlimit, setsid};
use serde::Deserialize;
use std::fmt;
use std::io::{self, Read};
use std::os::fd::{OwnedFd, RawFd};
use std::path::PathBuf;

/// Longest specification: ten thousand nodes with long names.
const SPEC_BYTES_MAX: u64 = 8 << 20;

/// What a umask is made of.
const UMASK_BITS: u32 = 0o777;

/// Why this process cannot be a keeper.
#[derive(Debug)]
pub enum BootError {
    /// The specification on standard input cannot be read.
    Spec(String),
    /// What boots this node is of another version.
    Version(VersionMismatch),
    /// A directory or file of the node cannot be made.
    File {
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The cluster's directory is another user's, or another user may write into it.
    Foreign(Foreign),
    /// The system refused something a keeper needs.
    System {
        doing: &'static str,
        /// What the system says.
        error: io::Error,
    },
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec(reason) => write!(
                f,
                "no specification on standard input ({reason}): pcm-daemon is started by `pcmctl up`, not by hand"
            ),
            Self::Version(mismatch) => write!(f, "the node is not booted: {mismatch}"),
            Self::File { path, error } => {
                write!(
                    f,
                    "{}: {error}; the cluster's directory must be writable on every node",
                    path.display()
                )
            }
            Self::Foreign(foreign) => write!(f, "{foreign} directory for the cluster"),
            Self::System { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

impl std::error::Error for BootError {}

/// What a keeper starts with.
#[derive(Debug)]
pub struct Booted {
    pub(super) spec: BootSpec,
    /// Where the first daemon reports, until it is started.
    pub(super) report: Option<OwnedFd>,
    pub(super) of_user: OfUser,
    pub(super) stance: Stance,
    /// The standard error it was started with, for its last word; only in the foreground.
    pub(super) console: Option<OwnedFd>,
}

/// Turns this process into a keeper. Unless it stays in the foreground, the keeper gets a session of its own, and the
/// process that was started ends with code 0.
pub fn become_keeper(stance: Stance) -> Result<Booted, BootError> {
    inherited_close()?;
    let spec = spec_read(io::stdin().lock())?;
    let log = log_open(&spec)?;
    let system = |doing| {
        move |error: rustix::io::Errno| BootError::System {
            doing,
            error: error.into(),
        }
    };
    // What this node writes holds environments of jobs; what ranks write is their user's.
    let own = rustix::process::umask(Mode::RWXG | Mode::RWXO).bits();
    let told = std::env::var(UMASK).ok();
    let umask = told.and_then(|told| u32::from_str_radix(&told, 8).ok()).unwrap_or(own) & UMASK_BITS;
    let files_max = files_raise();
    let report =
        rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), TARGET_MAX).map_err(system("keeping the report"))?;
    let null = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(system("opening /dev/null"))?;
    let console = if stance == Stance::Detached {
        leave_session()?;
        None
    } else {
        let kept = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), TARGET_MAX);
        Some(kept.map_err(system("keeping standard error"))?)
    };
    chdir("/").map_err(system("entering /"))?;
    rustix::stdio::dup2_stdin(&null).map_err(system("closing standard input"))?;
    rustix::stdio::dup2_stdout(&null).map_err(system("closing standard output"))?;
    rustix::stdio::dup2_stderr(&log).map_err(system("opening the log"))?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(system("adopting orphans"))?;
    rustix::thread::set_name(c"pcm-keeper").map_err(system("taking its name"))?;
    Ok(Booted {
        spec,
        report: Some(report),
        of_user: OfUser { files_max, umask },
        stance,
        console,
    })
}

/// Goes on in a child that leads a session; the process that was started ends.
fn leave_session() -> Result<(), BootError> {
    let failed = |error| BootError::System {
        doing: "leaving the session",
        error,
    };
    // SAFETY: this process has one thread, and the child goes on as this program.
    match unsafe { libc::fork() } {
        0 => setsid().map(|_| ()).map_err(|error| failed(error.into())),
        pid if pid > 0 => std::process::exit(0),
        _ => Err(failed(io::Error::last_os_error())),
    }
}

/// Closes whatever the one who started us left open: ranks would inherit it, and hold it open for as long as they run.
fn inherited_close() -> Result<(), BootError> {
    let failed = |error| BootError::System {
        doing: "closing inherited descriptors",
        error,
    };
    let open = std::fs::read_dir("/proc/self/fd").map_err(failed)?;
    let numbers: Vec<RawFd> = open
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in numbers {
        // SAFETY: called first of all, when no object of this program owns a descriptor but the standard streams; the
        // folder that was read is closed by now, and closing its number again only fails.
        unsafe { libc::close(number) };
    }
    Ok(())
}

fn spec_read(from: impl Read) -> Result<BootSpec, BootError> {
    let mut text = String::new();
    from.take(SPEC_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| BootError::Spec(error.to_string()))?;
    let malformed = |error: serde_json::Error| BootError::Spec(error.to_string());
    let stated: Stated = serde_json::from_str(&text).map_err(malformed)?;
    VersionMismatch::check(stated.version).map_err(BootError::Version)?;
    let spec: BootSpec = serde_json::from_str(&text).map_err(malformed)?;
    match spec.fault() {
        Some(fault) => Err(BootError::Spec(fault)),
        None => Ok(spec),
    }
}

/// What is read of a specification of any version; 0 where it says none.
#[derive(Deserialize)]
struct Stated {
    #[serde(default)]
    version: u16,
}

fn log_open(spec: &BootSpec) -> Result<OwnedFd, BootError> {
    own_files::check_directory(&spec.cluster_dir).map_err(BootError::Foreign)?;
    let directory = spec.cluster_dir.join("nodes").join(spec.node.name.as_str());
    own_files::make_directory(&directory).map_err(|error| BootError::File {
        path: directory.clone(),
        error,
    })?;
    let path = directory.join("daemon.log");
    own_files::append(&path)
        .map(OwnedFd::from)
        .map_err(|error| BootError::File { path, error })
}

/// Raises the own limit of open files; the limit that was, for the ranks. A refusal only means fewer ranks.
fn files_raise() -> libc::rlimit {
    let before = getrlimit(Resource::Nofile);
    let wanted = before
        .maximum
        .unwrap_or(open_files::LIMIT_MAX)
        .min(open_files::LIMIT_MAX)
        .max(before.current.unwrap_or(0));
    let raised = rustix::process::Rlimit {
        current: Some(wanted),
        maximum: before.maximum,
    };
    let _ = setrlimit(Resource::Nofile, raised);
    libc::rlimit {
        rlim_cur: before.current.unwrap_or(libc::RLIM_INFINITY),
        rlim_max: before.maximum.unwrap_or(libc::RLIM_INFINITY),
    }
}

/// The own limit of open files, as it is now.
pub(super) fn own_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specification_of_another_version_is_refused_before_the_rest_of_it_is_read() {
        for (text, theirs) in [
            (r#"{"version": 9999, "future": 1}"#, 9999),
            (r#"{"cluster_id": "c"}"#, 0),
        ] {
            let refused = spec_read(text.as_bytes()).unwrap_err();
            assert!(
                matches!(refused, BootError::Version(mismatch) if mismatch.theirs == theirs),
                "{refused}"
            );
        }
        assert!(matches!(spec_read(&b"{"[..]), Err(BootError::Spec(_))));
    }
}
