//! The cluster that `doctor` examines: the one that is up, or one of its own for the time of the examination. Commands
//! run as a user would run them, each with a deadline.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::Link;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// What one command under examination may take.
const COMMAND_MAX: Duration = Duration::from_secs(60);

/// Nodes of a cluster of one's own: two, so that worlds on different nodes can meet.
const NODES: &str = "2";

/// What a command said, or why there is no answer.
pub(crate) struct Said {
    pub(crate) succeeded: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A cluster to examine.
pub(crate) struct Patient {
    dir: PathBuf,
    /// Removed at the end, where the cluster is of our own making.
    own: Option<PathBuf>,
}

impl Patient {
    /// Takes the running cluster, or boots one of its own.
    pub(crate) async fn admit(cluster: &ClusterDir) -> Result<Self, Failure> {
        if Link::open(cluster).await.is_ok() {
            return Ok(Self {
                dir: cluster.path().to_owned(),
                own: None,
            });
        }
        let folder = std::env::temp_dir().join(format!("pcm-doctor-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|error| Failure::file("create", &folder, &error))?;
        let patient = Self {
            dir: folder.join("cluster"),
            own: Some(folder),
        };
        let up = patient.pcmctl(["up", "--local", NODES]).await;
        if !up.succeeded {
            patient.discharge().await;
            return Err(Failure::boot(
                up.stderr.trim_start_matches("pcmctl: ").trim().to_owned(),
            ));
        }
        Ok(patient)
    }

    /// Whether the cluster is of our own making.
    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// The cluster under examination.
    pub(crate) fn cluster(&self) -> Result<ClusterDir, Failure> {
        ClusterDir::locate(Some(&self.dir))
    }

    /// A folder for files of the examination.
    pub(crate) fn folder(&self) -> &Path {
        self.own.as_deref().unwrap_or(&self.dir)
    }

    /// Runs `pcmctl` on the cluster.
    pub(crate) async fn pcmctl<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Said {
        let unsaid = |why: String| Said {
            succeeded: false,
            stdout: String::new(),
            stderr: why,
        };
        let Ok(program) = std::env::current_exe() else {
            return unsaid("the path of pcmctl is not known".to_owned());
        };
        let mut command = Command::new(program);
        command.arg("--cluster").arg(&self.dir).args(arguments);
        command.stdin(Stdio::null()).kill_on_drop(true);
        match tokio::time::timeout(COMMAND_MAX, command.output()).await {
            Ok(Ok(output)) => Said {
                succeeded: output.status.success(),
                stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
                stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            },
            Ok(Err(error)) => unsaid(error.to_string()),
            Err(_) => unsaid(format!("it did not end within {} s", COMMAND_MAX.as_secs())),
        }
    }

    /// Ends a cluster of our own and removes its files.
    pub(crate) async fn discharge(self) {
        let Some(folder) = &self.own else { return };
        self.pcmctl(["down", "--if-up"]).await;
        // What cannot be removed is in the temporary folder, where the system clears it.
        let _ = std::fs::remove_dir_all(folder);
    }
}
