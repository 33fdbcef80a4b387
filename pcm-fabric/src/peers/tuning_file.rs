//! The costs of exchanges, as `pcmctl doctor --tune` measured them on this fabric. Reads a file; never measures.

use crate::hybrid::Tuning;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::SystemTime;

/// The tuning, and the file it is read from.
#[derive(Debug)]
pub(super) struct TuningFile {
    path: PathBuf,
    written_at: Option<SystemTime>,
    tuning: Tuning,
    /// A look at the file that is under way.
    look: Option<Receiver<Found>>,
}

#[derive(Debug)]
struct Found {
    written_at: SystemTime,
    text: Vec<u8>,
}

impl TuningFile {
    pub(super) fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            written_at: None,
            tuning: Tuning::default(),
            look: None,
        }
    }

    pub(super) fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// Has the file read if it was written since the last time; what was found is taken in at a later call. Never waits
    /// for the disk.
    pub(super) fn refresh(&mut self) {
        if let Some(look) = &self.look {
            match look.try_recv() {
                Ok(found) => self.take_in(found),
                Err(TryRecvError::Empty) => return,
                // No file, or the one that is known.
                Err(TryRecvError::Disconnected) => {}
            }
        }
        let (path, known) = (self.path.clone(), self.written_at);
        let (found, look) = channel();
        self.look = Some(look);
        tokio::task::spawn_blocking(move || {
            if let Some(news) = read_changed(&path, known) {
                // A daemon that has ended needs none.
                _ = found.send(news);
            }
        });
    }

    fn take_in(&mut self, found: Found) {
        self.written_at = Some(found.written_at);
        match serde_json::from_slice(&found.text) {
            Ok(tuning) => {
                self.tuning = tuning;
                tracing::info!(?tuning, "costs of exchanges on this fabric");
            }
            Err(error) => {
                let file = self.path.display();
                tracing::warn!(%file, %error, "not a tuning: run `pcmctl doctor --tune` again");
            }
        }
    }
}

fn read_changed(path: &Path, known: Option<SystemTime>) -> Option<Found> {
    let written_at = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?;
    let text = || std::fs::read(path).unwrap_or_default();
    (known != Some(written_at)).then(|| Found {
        written_at,
        text: text(),
    })
}
