//! The node's logs: where they are, their last lines, and a limit to their size. One of the daemon and its
//! keeper, one of the agent; both only append, so a log can be emptied under them.

use pcm_proto::control::LogOf;
use pcm_proto::ids::NodeName;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Most of the log that is looked at and sent: far below a frame, a thousand lines and more.
const TAIL_BYTES_MAX: u64 = 256 * 1024;

/// Above this a log is put aside; with the one before it, a node's logs stay below 32 MiB.
const LOG_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Where a node's files are.
pub(in super::super) fn node_dir(cluster_dir: &Path, node: &NodeName) -> PathBuf {
    cluster_dir.join("nodes").join(node.as_str())
}

/// Where a log is.
pub(super) fn path(node_dir: &Path, of: LogOf) -> PathBuf {
    node_dir.join(match of {
        LogOf::Daemon => "daemon.log",
        LogOf::Agent => "agent.log",
    })
}

/// Puts logs aside that have grown too long.
pub(super) fn rotate_all(node_dir: &Path) {
    for of in [LogOf::Daemon, LogOf::Agent] {
        let path = path(node_dir, of);
        if let Err(error) = rotate(&path, LOG_BYTES_MAX)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "a log cannot be put aside: is its disk full?");
        }
    }
}

/// Copies the log to `NAME.1` and empties it. It is not renamed, because those who write hold it open; what they write
/// between the two steps is lost.
fn rotate(path: &Path, bytes_max: u64) -> io::Result<()> {
    let mut log = own_files::open(path)?;
    if log.metadata()?.len() <= bytes_max {
        return Ok(());
    }
    let mut aside = path.as_os_str().to_owned();
    aside.push(".1");
    let aside = Path::new(&aside);
    // What it leads to, where it is a link, is not written.
    match std::fs::remove_file(aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    io::copy(&mut log, &mut own_files::append(aside)?)?;
    own_files::append(path)?.set_len(0)
}

/// The last lines of a log, newest last; empty when there is none.
pub(super) fn last_lines(path: &Path, lines: u32) -> String {
    let tail = || -> io::Result<String> {
        let mut file = own_files::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES_MAX)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = tail().unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    let mut last = all[all.len().saturating_sub(lines as usize)..].join("\n");
    if !last.is_empty() {
        last.push('\n');
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{read_to_string, write};
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_newest_lines_come_last_and_no_more_than_asked() {
        let directory = tempfile::tempdir().unwrap();
        let log = path(
            &node_dir(directory.path(), &NodeName::new("n0").unwrap()),
            LogOf::Daemon,
        );
        assert_eq!(last_lines(&log, 5), "");
        std::fs::create_dir_all(log.parent().unwrap()).unwrap();
        own_files::replace(&log, b"a\nb\nc\n").unwrap();
        assert_eq!(last_lines(&log, 2), "b\nc\n");
    }

    #[test]
    fn a_log_that_is_too_long_is_put_aside_under_who_writes_it() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("daemon.log");
        assert_eq!(rotate(&log, 4).unwrap_err().kind(), io::ErrorKind::NotFound);
        let mut writer = own_files::append(&log).unwrap();
        writer.write_all(b"old\n").unwrap();
        rotate(&log, 4).unwrap();
        assert_eq!(read_to_string(&log).unwrap(), "old\n", "not too long yet");
        writer.write_all(b"more\n").unwrap();
        rotate(&log, 4).unwrap();
        writer.write_all(b"new\n").unwrap();
        assert_eq!(read_to_string(&log).unwrap(), "new\n");
        assert_eq!(
            read_to_string(directory.path().join("daemon.log.1")).unwrap(),
            "old\nmore\n"
        );
    }

    #[test]
    fn a_log_is_not_put_aside_where_a_planted_link_leads() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        own_files::replace(&path("agent.log"), b"long").unwrap();
        write(path("victim"), "mine").unwrap();
        symlink(path("victim"), path("agent.log.1")).unwrap();
        rotate(&path("agent.log"), 2).unwrap();
        assert_eq!(read_to_string(path("victim")).unwrap(), "mine");
        assert_eq!(read_to_string(path("agent.log.1")).unwrap(), "long");
        assert_eq!(read_to_string(path("agent.log")).unwrap(), "");
    }
}
