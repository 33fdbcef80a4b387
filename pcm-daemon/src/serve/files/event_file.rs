//! The file of the node's events, which is rotated.

use pcm_proto::event::Event;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// The file is rotated at this size; one older file is kept.
const FILE_BYTES_MAX: u64 = 8 << 20;

#[derive(Debug)]
pub(super) struct EventFile {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
    /// Whether it ends within a line.
    is_torn: bool,
}

/// The events in the file.
pub(super) fn read(path: &Path) -> impl Iterator<Item = Event> {
    let lines = own_files::open(path)
        .into_iter()
        .flat_map(|file| BufReader::new(file).lines());
    lines
        .map_while(Result::ok)
        .filter_map(|line| serde_json::from_str(&line).ok())
}

impl EventFile {
    /// Nothing is opened before the first event; with `is_new` nothing of an earlier cluster is kept.
    pub(super) fn at(path: PathBuf, is_new: bool) -> Self {
        if is_new && let Err(error) = std::fs::remove_file(&path) {
            tracing::debug!(path = %path.display(), %error, "no earlier events");
        }
        Self {
            path,
            file: None,
            bytes: 0,
            is_torn: false,
        }
    }

    pub(super) fn add(&mut self, event: &Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        if self.is_torn {
            self.opened()?.write_all(b"\n")?;
            self.is_torn = false;
        }
        if let Err(error) = self.opened()?.write_all(&line) {
            (self.is_torn, self.file) = (true, None);
            return Err(error);
        }
        self.bytes += line.len() as u64;
        if self.bytes > FILE_BYTES_MAX {
            self.file = None;
            std::fs::rename(&self.path, self.path.with_extension("jsonl.1"))?;
        }
        Ok(())
    }

    fn opened(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let file = own_files::append(&self.path)?;
                self.bytes = file.metadata()?.len();
                file
            }
        };
        Ok(self.file.insert(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::event::EventKind;
    use pcm_proto::ids::{Epoch, NodeName};
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn events_are_not_written_where_a_planted_link_leads() {
        let home = tempfile::tempdir().unwrap();
        let (path, victim) = (home.path().join("events.jsonl"), home.path().join("victim"));
        own_files::replace(&victim, b"mine").unwrap();
        symlink(&victim, &path).unwrap();
        let event = Event {
            time_us: 1,
            job: None,
            epoch: Epoch(0),
            node: NodeName::new("n0").unwrap(),
            kind: EventKind::DaemonRestarted { processes: 0 },
        };
        assert!(EventFile::at(path.clone(), false).add(&event).is_err());
        EventFile::at(path.clone(), true).add(&event).unwrap();
        assert_eq!(read(&path).collect::<Vec<_>>(), [event]);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    }
}
