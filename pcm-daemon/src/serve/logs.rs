//! The last lines of the node's log.

use pcm_proto::ids::NodeName;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Most of the log that is looked at and sent: far below a frame, a thousand lines and more.
const TAIL_BYTES_MAX: u64 = 256 * 1024;

/// Where a node's files are.
pub(super) fn node_dir(cluster_dir: &Path, node: &NodeName) -> PathBuf {
    cluster_dir.join("nodes").join(node.as_str())
}

/// The last lines of the daemon's log, newest last; empty when there is none.
pub(super) fn last_lines(cluster_dir: &Path, node: &NodeName, lines: u32) -> String {
    let path = node_dir(cluster_dir, node).join("daemon.log");
    let tail = || -> std::io::Result<String> {
        let mut file = File::open(&path)?;
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

    #[test]
    fn the_newest_lines_come_last_and_no_more_than_asked() {
        let directory = tempfile::tempdir().unwrap();
        let node = NodeName::new("n0").unwrap();
        assert_eq!(last_lines(directory.path(), &node, 5), "");
        std::fs::create_dir_all(node_dir(directory.path(), &node)).unwrap();
        std::fs::write(node_dir(directory.path(), &node).join("daemon.log"), "a\nb\nc\n").unwrap();
        assert_eq!(last_lines(directory.path(), &node, 2), "b\nc\n");
    }
}
