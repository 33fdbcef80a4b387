//! A local cluster of the daemons that were just built, for a bench or the demo. Must never outlive its user: dropping
//! it takes it down.

use crate::{environment::Environment, failure::Failure, trial::must};
use std::{
    env, fs,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{self, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Program and folder of each cluster that is up, for an end that comes from outside.
static UP: Mutex<Vec<(PathBuf, PathBuf)>> = Mutex::new(Vec::new());

/// Takes down what is up, whoever waits for something in it.
pub fn take_down_all() {
    let up = UP.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for (pcmctl, folder) in up {
        let mut command = Command::new(pcmctl);
        command.process_group(0).arg("--cluster").arg(&folder);
        let _ = command.args(["down", "--if-up"]).stdout(Stdio::null()).status();
    }
}

/// A running cluster.
pub struct OwnCluster<'a> {
    environment: &'a Environment,
    folder: PathBuf,
    is_up: bool,
}

impl<'a> OwnCluster<'a> {
    /// Boots so many virtual nodes.
    pub fn up(environment: &'a Environment, nodes: u32) -> Result<Self, Failure> {
        Self::boot(environment, &["--local", &nodes.to_string()], Stdio::null())
    }

    /// Boots a virtual node on each of these sets of CPUs.
    pub fn up_on(environment: &'a Environment, cpus: &[&str]) -> Result<Self, Failure> {
        let arguments = ["--local", &cpus.len().to_string(), "--cpus", &cpus.join(";")];
        Self::boot(environment, &arguments, Stdio::null())
    }

    /// As [`OwnCluster::up`], with the table of nodes on standard output.
    pub fn up_shown(environment: &'a Environment, nodes: u32) -> Result<Self, Failure> {
        Self::boot(environment, &["--local", &nodes.to_string()], Stdio::inherit())
    }

    fn boot(environment: &'a Environment, nodes: &[&str], stdout: Stdio) -> Result<Self, Failure> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("pcm-bench-{}-{number}", process::id()));
        let mut cluster = Self {
            environment,
            folder,
            is_up: true,
        };
        let entry = (environment.program("pcmctl"), cluster.folder.clone());
        UP.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        let mut up = cluster.pcmctl(&["up"]);
        let booted = must(up.args(nodes).stdout(stdout));
        cluster.is_up = booted.is_ok();
        booted.map(|()| cluster)
    }

    /// Its id, which all its processes bear in their environment.
    pub fn id(&self) -> Option<String> {
        let record = fs::read(self.folder.join("cluster.json")).ok()?;
        let record: serde_json::Value = serde_json::from_slice(&record).ok()?;
        record["id"].as_str().map(str::to_owned)
    }

    /// Words of which each of its programs has one in its environment or its arguments.
    pub fn marks(&self) -> Vec<String> {
        let folder = self.folder.display().to_string();
        self.id().into_iter().chain([folder]).collect()
    }

    /// `pcmctl` on this cluster.
    pub fn pcmctl(&self, arguments: &[&str]) -> Command {
        let mut command = self.environment.command(self.environment.program("pcmctl"));
        // In a group of its own: ctrl-C is for us, who take the cluster down in order.
        command
            .process_group(0)
            // Benches and demo change jobs themselves, unless they say otherwise.
            .env("PCM_POLICY", "none")
            .arg("--cluster")
            .arg(&self.folder)
            .args(arguments);
        command
    }

    /// Takes it down; an error when that fails.
    pub fn down(mut self) -> Result<(), Failure> {
        self.is_up = false;
        must(self.pcmctl(&["down"]).stdout(Stdio::null()))
    }
}

impl Drop for OwnCluster<'_> {
    fn drop(&mut self) {
        if self.is_up {
            let _ = self.pcmctl(&["down", "--if-up"]).stdout(Stdio::null()).status();
        }
        UP.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(_, folder)| *folder != self.folder);
        // There only where detached jobs left output, or `down` failed and said so.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
