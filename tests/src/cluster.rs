//! A cluster of real daemons for one test: booted, used through `pcmctl`, taken down, and looked after: whatever the
//! test does, nothing of it is left.

use crate::{
    background::Background,
    binaries::built,
    leak::{Before, MARK_VARIABLE},
    limited::{self, Outcome},
    logs,
    network::Network,
    processes,
    shared_memory::OwnSharedMemory,
    wait,
};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use tempfile::TempDir;

/// What one command may take on a machine that does much else; each has tighter limits of its own.
pub const LIMIT: Duration = Duration::from_secs(60);

/// What `up --patience` is where nobody names it.
pub const DEFAULT_PATIENCE: (&str, &str) = ("PCM_PATIENCE", "2.4");

/// For tests that kill nodes and are not about how soon that is known: virtual machines stand still for two or three
/// seconds at times, one CPU without the other, and a node that is silent meanwhile is not to be taken for one that was
/// killed.
pub const CRASH_PATIENCE: (&str, &str) = ("PCM_PATIENCE", "5");

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A cluster, or a place for one.
pub struct Cluster {
    home: TempDir,
    mark: String,
    before: Before,
    shared_memory: Option<OwnSharedMemory>,
    id: Option<String>,
    network: Option<Network>,
}

impl Cluster {
    /// A place for a cluster: nothing runs yet.
    pub fn place() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{number}", std::process::id());
        let home = tempfile::Builder::new()
            .prefix("pcm test ")
            .tempdir()
            .expect("a temporary folder");
        fs::create_dir(home.path().join("tmp")).expect("a folder in it");
        let shared_memory = OwnSharedMemory::new(&mark);
        Self {
            before: Before::now(&mark, shared_memory.as_ref().map(OwnSharedMemory::folder)),
            shared_memory,
            home,
            mark,
            id: None,
            network: None,
        }
    }

    /// This place with a cluster whose nodes, like `pcmctl`, stand in this network.
    ///
    /// # Panics
    /// When it does not come up.
    #[must_use]
    pub fn booted_in(mut self, network: Network, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let hosts = network.host_file();
        self.network = Some(network);
        let hosts = hosts.to_str().expect("a path in UTF-8");
        self.booted(&[&["--hosts", hosts], arguments].concat(), variables)
    }

    /// The network it stands in, if that is its own.
    pub fn network(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    /// A cluster of so many virtual nodes.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn up(nodes: u32) -> Self {
        Self::up_with(&["--local", &nodes.to_string()])
    }

    /// A cluster of so many virtual nodes that takes silent ones for dead as soon as it would by default.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn alert(nodes: u32) -> Self {
        Self::place().booted(&["--local", &nodes.to_string()], &[DEFAULT_PATIENCE])
    }

    /// A cluster of so many virtual nodes that finds killed ones soon enough to wait for.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn that_crashes(nodes: u32) -> Self {
        Self::place().booted(&["--local", &nodes.to_string()], &[CRASH_PATIENCE])
    }

    /// A cluster by these arguments of `up`.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn up_with(arguments: &[&str]) -> Self {
        Self::place().booted(arguments, &[])
    }

    /// This place with the cluster that `up` boots with these arguments and variables of the environment.
    ///
    /// # Panics
    /// When it does not come up.
    #[must_use]
    pub fn booted(mut self, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let outcome = self.boot_with(arguments, variables);
        assert!(outcome.status.success(), "up: {outcome:?}");
        self
    }

    /// Runs `up` with these arguments.
    pub fn boot(&mut self, arguments: &[&str]) -> Outcome {
        self.boot_with(arguments, &[])
    }

    /// Runs `up` with these arguments and variables of the environment, which the daemons get.
    pub fn boot_with(&mut self, arguments: &[&str], variables: &[(&str, &str)]) -> Outcome {
        let mut command = self.pcmctl(&[&["up"], arguments].concat());
        command.envs(variables.iter().copied());
        let outcome = limited::run(&mut command, LIMIT);
        self.note_id();
        outcome
    }

    /// Remembers the cluster's id, under which its sockets would be found when it is down.
    pub fn note_id(&mut self) {
        let record = fs::read(self.dir().join("cluster.json")).unwrap_or_default();
        if let Ok(record) = serde_json::from_slice::<Value>(&record) {
            self.id = record["id"].as_str().map(str::to_owned);
        }
    }

    /// The cluster's directory. It has a blank in its name, as a user's may.
    pub fn dir(&self) -> PathBuf {
        self.home.path().join("cluster dir")
    }

    /// A folder for files of the test; it does not count as left behind.
    pub fn files(&self) -> &Path {
        self.home.path()
    }

    /// The cluster's id.
    ///
    /// # Panics
    /// When none was booted.
    pub fn id(&self) -> &str {
        self.id.as_deref().expect("a cluster was booted")
    }

    /// Any program, marked as this test's.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.marked(Command::new(program))
    }

    fn marked(&self, mut command: Command) -> Command {
        command
            .env("PCM_CLUSTER", self.dir())
            // Most tests change jobs themselves and hold that against what they asked for.
            .env("PCM_POLICY", "none")
            // Virtual machines stand still for seconds at times, one CPU without the other, and only some tests are
            // about what a cluster thinks of a silent node.
            .env("PCM_PATIENCE", "10")
            .env(MARK_VARIABLE, &self.mark)
            .env("TMPDIR", self.home.path().join("tmp"))
            // Cargo's own entries lead to the libpcm.so of another build.
            .env_remove("LD_LIBRARY_PATH")
            .current_dir(self.home.path());
        command
    }

    /// `pcmctl` with these arguments. What `up` and `doctor` boot has the test's own `/dev/shm`.
    pub fn pcmctl(&self, arguments: &[&str]) -> Command {
        let program = built("pcmctl");
        let mut command = match (&self.network, &self.shared_memory) {
            (Some(network), _) => network.command(self.command("nsenter"), &program),
            (None, Some(own)) if matches!(arguments.first(), Some(&"up" | &"doctor")) => {
                self.marked(own.command(&program))
            }
            _ => self.command(program),
        };
        command.args(arguments);
        command
    }

    /// `pcmctl` with these arguments in a node's network, where the nodes have networks of their own.
    ///
    /// # Panics
    /// When they have none.
    pub fn pcmctl_at(&self, node: &str, arguments: &[&str]) -> Command {
        let network = self.network.as_ref().expect("nodes with networks of their own");
        let mut command = network.command_at(node, self.command("nsenter"), &built("pcmctl"));
        command.args(arguments);
        command
    }

    /// `pcm-daemon` with these arguments, in the test's own `/dev/shm`; the process that is started becomes it.
    pub fn daemon(&self, arguments: &[&str]) -> Command {
        let program = built("pcm-daemon");
        let mut command = match &self.shared_memory {
            Some(own) => self.marked(own.command(&program)),
            None => self.command(program),
        };
        command.args(arguments);
        command
    }

    /// Runs `pcmctl` to its end.
    pub fn run(&self, arguments: &[&str]) -> Outcome {
        limited::run(&mut self.pcmctl(arguments), LIMIT)
    }

    /// Events of a kind so far, of one job or of all that happened.
    pub fn events(&self, job: Option<&str>, kind: &str) -> Vec<Value> {
        let arguments: Vec<&str> = ["events"].into_iter().chain(job).chain(["--json"]).collect();
        let told = self.run(&arguments).stdout;
        let events = told.lines().filter_map(|line| serde_json::from_str(line).ok());
        events.filter(|event: &Value| event["kind"] == kind).collect()
    }

    /// The processes of a job's ranks, in the order of ranks.
    pub fn pids_of(&self, job: &str) -> Vec<u32> {
        let told = self.run(&["ps", job, "--json"]).stdout;
        let document: Value = serde_json::from_str(&told).unwrap_or_default();
        let rows = document["ranks"].as_array().cloned().unwrap_or_default();
        let pids = rows.iter().filter_map(|row| u32::try_from(row["pid"].as_u64()?).ok());
        pids.filter(|pid| *pid != 0).collect()
    }

    /// Runs `pcmctl` with this on its standard input.
    pub fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Outcome {
        limited::run_with_input(&mut self.pcmctl(arguments), input.to_vec(), LIMIT)
    }

    /// Runs a job of the test program: `ranks` of `pcm-trial` with these arguments.
    pub fn trial(&self, ranks: u32, arguments: &[&str]) -> Outcome {
        limited::run(&mut self.trial_command(ranks, &[], arguments), LIMIT)
    }

    /// `pcmctl run` of the test program, with options of `run`.
    pub fn trial_command(&self, ranks: u32, options: &[&str], arguments: &[&str]) -> Command {
        let mut command = self.pcmctl(&["run", "-n", &ranks.to_string()]);
        command.args(options).arg("--").arg(built("pcm-trial")).args(arguments);
        command
    }

    /// Starts a job of the test program beside the test.
    pub fn trial_beside(&self, ranks: u32, arguments: &[&str]) -> Background {
        Background::start(&mut self.trial_command(ranks, &[], arguments))
    }

    /// The JSON document of a command that must succeed.
    ///
    /// # Panics
    /// When it fails, or prints anything but one document.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let outcome = self.run(&[arguments, &["--json"]].concat());
        assert!(outcome.status.success(), "{arguments:?}: {outcome:?}");
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {outcome:?}"))
    }

    /// The folder that nodes see as `/dev/shm`.
    pub fn shared_memory(&self) -> &Path {
        let own = self.shared_memory.as_ref().map(OwnSharedMemory::folder);
        own.unwrap_or(Path::new("/dev/shm"))
    }

    /// The process id of a node's daemon, as the cluster tells it.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn daemon_pid(&self, node: &str) -> u32 {
        let nodes = self.json(&["nodes"]);
        let status = nodes
            .as_array()
            .and_then(|nodes| nodes.iter().find(|status| status["name"] == node));
        let pid = status.and_then(|status| status["daemon_pid"].as_u64());
        pid.and_then(|pid| u32::try_from(pid).ok())
            .unwrap_or_else(|| panic!("no daemon of {node} in {nodes}"))
    }

    /// The state of a node, as the cluster tells it; empty when it is not known.
    pub fn node_state(&self, node: &str) -> String {
        let nodes = self.json(&["nodes"]);
        let status = nodes
            .as_array()
            .and_then(|nodes| nodes.iter().find(|status| status["name"] == node).cloned());
        status
            .and_then(|status| status["state"].as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    /// The processes of ranks: those that run this program.
    pub fn ranks_of(&self, program: &str) -> Vec<u32> {
        let marked = processes::with_variable(MARK_VARIABLE, &self.mark);
        let wanted = built(program).display().to_string();
        let is_rank = |pid: &u32| processes::command_line(*pid).starts_with(&wanted) && processes::is_alive(*pid);
        marked.into_iter().filter(is_rank).collect()
    }

    /// Living processes of this cluster whose environment has this variable with this value.
    pub fn processes_with(&self, name: &str, value: &str) -> Vec<u32> {
        let marked = processes::with_variable(MARK_VARIABLE, &self.mark);
        let wanted = processes::with_variable(name, value);
        let is_both = |pid: &u32| wanted.contains(pid) && processes::is_alive(*pid);
        marked.into_iter().filter(is_both).collect()
    }

    /// Waits until every rank of the first job has begun an iteration.
    ///
    /// # Panics
    /// When that takes too long.
    pub fn wait_until_ranks_iterate(&self) {
        self.wait_until_ranks_of_iterate("1");
    }

    /// The same with the job of this number.
    ///
    /// # Panics
    /// When that takes too long.
    pub fn wait_until_ranks_of_iterate(&self, job: &str) {
        wait::until("every rank to iterate", LIMIT, || self.is_iterating(job).then_some(()));
    }

    /// Whether every rank of a job has begun its loop.
    pub fn is_iterating(&self, job: &str) -> bool {
        let status = self.run(&["ps", job, "--json"]);
        let document: Value = serde_json::from_str(&status.stdout).unwrap_or_default();
        let rows = document["ranks"].as_array().map_or(&[][..], Vec::as_slice);
        !rows.is_empty() && rows.iter().all(|row| row["iteration"].as_u64() > Some(0))
    }

    /// Waits until no job runs any more and none of its processes is left.
    ///
    /// # Panics
    /// When that takes too long.
    pub fn wait_until_no_rank_of(&self, program: &str, limit: Duration) {
        wait::until(&format!("no rank of {program}"), limit, || {
            self.ranks_of(program).is_empty().then_some(())
        });
    }

    /// Takes the cluster down and sees that nothing is left.
    ///
    /// # Panics
    /// When `down` fails or something is left.
    pub fn down(self) {
        let outcome = self.run(&["down"]);
        assert!(outcome.status.success(), "down: {outcome:?}");
        self.assert_nothing_left();
    }

    /// Sees that nothing of the test is left, the cluster's directory included.
    ///
    /// # Panics
    /// When something is.
    pub fn assert_nothing_left(&self) {
        let left = self.before.left(self.id.as_deref(), &self.home.path().join("tmp"));
        assert!(left.is_empty(), "left behind:\n{}", left.join("\n"));
        assert!(
            !self.dir().exists(),
            "left behind: {:?}",
            fs::read_dir(self.dir()).map(|dir| dir.count())
        );
    }

    /// What the daemons wrote to their logs, for the message of a failed test.
    pub fn logs(&self) -> String {
        let nodes = fs::read_dir(self.dir().join("nodes")).into_iter().flatten().flatten();
        logs::tails(nodes.map(|node| node.path().join("daemon.log")), 20)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        // More than once: what was killed may have been starting another.
        for _ in 0..3 {
            for pid in processes::with_variable(MARK_VARIABLE, &self.mark) {
                processes::send(pid, Signal::KILL);
            }
        }
    }
}
