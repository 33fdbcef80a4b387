//! The costs of exchanges, as `pcmctl doctor --tune` measured them on this fabric. Reads a file; never measures.

use pcm_fabric::hybrid::Tuning;
use std::path::PathBuf;
use std::time::SystemTime;

#[derive(Debug)]
pub(super) struct TuningFile {
    path: PathBuf,
    written_at: Option<SystemTime>,
}

impl TuningFile {
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path, written_at: None }
    }

    /// What it says, if it was written since the last time.
    pub(super) fn read_changed(&mut self) -> Option<Tuning> {
        let written_at = std::fs::metadata(&self.path).and_then(|metadata| metadata.modified());
        let written_at = written_at.ok()?;
        if self.written_at.replace(written_at) == Some(written_at) {
            return None;
        }
        let text = std::fs::read(&self.path).unwrap_or_default();
        let tuning = serde_json::from_slice(&text);
        match &tuning {
            Ok(tuning) => tracing::info!(?tuning, "costs of exchanges on this fabric"),
            Err(error) => {
                let file = self.path.display();
                tracing::warn!(%file, %error, "not a tuning: run `pcmctl doctor --tune` again");
            }
        }
        tuning.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuning_is_read_when_it_was_written_and_nonsense_changes_nothing() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("fabric.json");
        let mut file = TuningFile::at(path.clone());
        assert_eq!(file.read_changed(), None);
        std::fs::write(&path, serde_json::to_vec(&Tuning::default()).unwrap()).unwrap();
        assert_eq!(file.read_changed(), Some(Tuning::default()));
        assert_eq!(file.read_changed(), None);
        std::fs::write(&path, "{").unwrap();
        assert_eq!(file.read_changed(), None);
    }
}
