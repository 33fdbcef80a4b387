//! A local cluster of the daemons that were just built, for a bench or the demo. Must never outlive its user: dropping
//! it takes it down.

use crate::{environment::Environment, failure::Failure, trial::must};
use limited_nodes::network::Network;
use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{self, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// What `pcmctl` is started by, and the folder, of each cluster that is up, for an end that comes from outside.
static UP: Mutex<Vec<(Words, PathBuf)>> = Mutex::new(Vec::new());

/// The first words of each command line.
type Words = Vec<OsString>;

/// Takes down what is up, whoever waits for something in it.
pub fn take_down_all() {
    let up = UP.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for (words, folder) in up {
        let Some((program, words)) = words.split_first() else {
            continue;
        };
        let mut command = Command::new(program);
        command.process_group(0).args(words).arg("--cluster").arg(&folder);
        let _ = command.args(["down", "--if-up"]).stdout(Stdio::null()).status();
    }
}

/// A running cluster.
pub struct OwnCluster<'a> {
    environment: &'a Environment,
    folder: PathBuf,
    is_up: bool,
    /// The network that its nodes and `pcmctl` stand in, if that is not the machine's.
    network: Option<Network>,
}

impl<'a> OwnCluster<'a> {
    /// Boots so many virtual nodes.
    pub fn up(environment: &'a Environment, nodes: u32) -> Result<Self, Failure> {
        let arguments = ["--local", &nodes.to_string()];
        Self::boot(environment, &arguments, Stdio::null(), None)
    }

    /// Boots the nodes of a network.
    pub fn up_in(environment: &'a Environment, network: Network) -> Result<Self, Failure> {
        let hosts = network.host_file().display().to_string();
        Self::boot(environment, &["--hosts", &hosts], Stdio::null(), Some(network))
    }

    /// Boots a virtual node on each of these sets of CPUs.
    pub fn up_on(environment: &'a Environment, cpus: &[&str]) -> Result<Self, Failure> {
        let arguments = ["--local", &cpus.len().to_string(), "--cpus", &cpus.join(";")];
        Self::boot(environment, &arguments, Stdio::null(), None)
    }

    /// As [`OwnCluster::up`], with the table of nodes on standard output.
    pub fn up_shown(environment: &'a Environment, nodes: u32) -> Result<Self, Failure> {
        let arguments = ["--local", &nodes.to_string()];
        Self::boot(environment, &arguments, Stdio::inherit(), None)
    }

    fn boot(
        environment: &'a Environment,
        nodes: &[&str],
        stdout: Stdio,
        network: Option<Network>,
    ) -> Result<Self, Failure> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("pcm-bench-{}-{number}", process::id()));
        let mut cluster = Self {
            environment,
            folder,
            is_up: true,
            network,
        };
        let command = cluster.program();
        let words = [command.get_program()].into_iter().chain(command.get_args());
        let entry = (words.map(OsString::from).collect(), cluster.folder.clone());
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

    fn program(&self) -> Command {
        let program = self.environment.program("pcmctl");
        match &self.network {
            Some(network) => network.command(self.environment.command("nsenter"), &program),
            None => self.environment.command(program),
        }
    }

    /// `pcmctl` on this cluster.
    pub fn pcmctl(&self, arguments: &[&str]) -> Command {
        let mut command = self.program();
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
