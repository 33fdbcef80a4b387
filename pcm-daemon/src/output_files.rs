//! The files of detached jobs, `jobs/ID/stdout` and `jobs/ID/stderr` in the cluster's directory, each job's written
//! by a task of its own. Decides nothing: what is written, and when, [`pcm_core::node::streams::job_output`] says.

use pcm_core::node::streams::effect::{FileEffect, Filed};
use pcm_proto::control::Stream;
use pcm_proto::ids::JobId;
use pcm_proto::peer::OutputPiece;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

/// Batches on their way to the files of a job; the machine orders no more before one is reported.
const BATCHES_MAX: usize = 8;

/// What was written of a job's output.
#[derive(Debug)]
pub struct Written {
    pub job: JobId,
    pub pieces: Vec<Filed>,
}

/// The ways to the files of all detached jobs.
#[derive(Debug)]
pub struct OutputFiles<E> {
    cluster_dir: PathBuf,
    events: mpsc::Sender<E>,
    jobs: BTreeMap<JobId, mpsc::Sender<Vec<OutputPiece>>>,
}

impl<E: From<Written> + Send + 'static> OutputFiles<E> {
    pub fn new(cluster_dir: PathBuf, events: mpsc::Sender<E>) -> Self {
        Self {
            cluster_dir,
            events,
            jobs: BTreeMap::new(),
        }
    }

    /// Must be called inside a tokio runtime.
    pub fn carry_out(&mut self, effect: FileEffect) {
        match effect {
            FileEffect::Open { job } => {
                let directory = self.cluster_dir.join("jobs").join(job.to_string());
                let (batches, receiver) = mpsc::channel(BATCHES_MAX);
                let events = self.events.clone();
                tokio::task::spawn_blocking(move || write_all(&directory, job, receiver, &events));
                self.jobs.insert(job, batches);
            }
            FileEffect::Write { job, pieces } => {
                let batches = self.jobs.get(&job);
                if batches.is_none_or(|batches| batches.try_send(pieces).is_err()) {
                    tracing::error!(%job, "output of a detached job is lost: its writer has ended");
                }
            }
            FileEffect::Close { job } => _ = self.jobs.remove(&job),
        }
    }
}

fn write_all<E: From<Written>>(
    directory: &Path,
    job: JobId,
    mut batches: mpsc::Receiver<Vec<OutputPiece>>,
    events: &mpsc::Sender<E>,
) {
    let open = |name: &str| -> io::Result<File> {
        own_files::make_directory(directory)?;
        own_files::append(&directory.join(name))
    };
    let (mut stdout, mut stderr) = (open("stdout"), open("stderr"));
    while let Some(pieces) = batches.blocking_recv() {
        let mut filed = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let file = match piece.stream {
                Stream::Stdout => &mut stdout,
                Stream::Stderr => &mut stderr,
            };
            let written = match file {
                Ok(file) => file.write_all(&piece.bytes),
                Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
            };
            if let Err(error) = written {
                tracing::error!(%job, directory = %directory.display(), %error, "output of a detached job is lost");
            }
            let end = piece.offset + piece.bytes.len() as u64;
            filed.push(Filed {
                process: piece.process,
                stream: piece.stream,
                end,
            });
        }
        let written = Written { job, pieces: filed };
        if events.blocking_send(written.into()).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn output_goes_to_files_of_ones_own_and_not_where_a_planted_link_leads() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("jobs/1");
        own_files::make_directory(&directory).unwrap();
        let victim = home.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        symlink(&victim, directory.join("stdout")).unwrap();
        let (batches, receiver) = mpsc::channel(1);
        let (events, mut written) = mpsc::channel::<Written>(1);
        let piece = |stream| OutputPiece {
            process: pcm_proto::ids::ProcessId(0),
            stream,
            offset: 0,
            available_from: 0,
            bytes: b"said".to_vec(),
        };
        let pieces = vec![piece(Stream::Stdout), piece(Stream::Stderr)];
        batches.try_send(pieces).unwrap();
        drop(batches);
        write_all(&directory, JobId(1), receiver, &events);
        assert_eq!(written.try_recv().unwrap().pieces.len(), 2);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        let stderr = directory.join("stderr");
        assert_eq!(fs::read_to_string(&stderr).unwrap(), "said");
        assert_eq!(fs::metadata(&stderr).unwrap().mode() & 0o777, 0o600);
    }
}
