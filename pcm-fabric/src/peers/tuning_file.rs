//! The costs of exchanges, as `pcmctl doctor --tune` measured them on this fabric. Reads a file; never measures.

use crate::hybrid::Tuning;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The tuning, and the file it is read from.
#[derive(Debug)]
pub(super) struct TuningFile {
    path: PathBuf,
    written_at: Option<SystemTime>,
    tuning: Tuning,
}

impl TuningFile {
    pub(super) fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            written_at: None,
            tuning: Tuning::default(),
        }
    }

    pub(super) fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// Reads the file if it was written since the last time.
    pub(super) fn refresh(&mut self) {
        let written_at = std::fs::metadata(&self.path).and_then(|metadata| metadata.modified());
        let Ok(written_at) = written_at else { return };
        if self.written_at.replace(written_at) == Some(written_at) {
            return;
        }
        let text = std::fs::read(&self.path).unwrap_or_default();
        match serde_json::from_slice(&text) {
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
