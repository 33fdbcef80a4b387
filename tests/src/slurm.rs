//! A Slurm of virtual nodes for one test: a real munged, slurmctld and one slurmd per node, on free ports, with all
//! their files in one folder. Nothing of the system's own Slurm is read or touched, and it needs no root.

use crate::{
    limited::{self, Outcome},
    logs, processes, wait,
};
use rustix::process::Signal;
use std::{
    fmt::Write as _,
    fs::{self, File, Permissions},
    io::Read,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;

/// What a client may take: without a controller it would wait for minutes.
const CLIENT: Duration = Duration::from_secs(20);

/// From the first daemon to the last idle node, on a machine that does much else.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// Daemons write their state when they are asked to end.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// It writes what has changed at most five seconds later.
const SAVED_WITHIN: Duration = Duration::from_secs(30);

/// An urgent job takes nodes from those of the last partition, after a notice.
const PARTITIONS: &str =
    "PartitionName=work Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=100 PreemptMode=OFF
PartitionName=idle Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=CANCEL GraceTime=30
";

/// What the daemons and clients are, for whoever lacks them.
pub const PACKAGES: &str = "slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins";

/// Names the folder of this Slurm in the environment of its daemons, and so of all they start.
pub const MARK: &str = "PCM_TEST_SLURM";

/// A daemon of Slurm, or munged.
struct Daemon {
    program: &'static str,
    options: Vec<String>,
    /// None while it is away.
    process: Option<Child>,
}

/// A running Slurm.
pub struct Slurm {
    home: TempDir,
    daemons: Vec<Daemon>,
}

impl Slurm {
    /// Starts one with nodes `v1` … of so many CPUs.
    ///
    /// # Panics
    /// When a program is missing, or it does not come up.
    pub fn start(nodes: usize, cpus: usize) -> Self {
        Self::start_tracking(nodes, cpus, "linuxproc")
    }

    /// The same, which finds the processes of a job by this plugin for `proctrack`.
    ///
    /// # Panics
    /// As [`Slurm::start`].
    pub fn start_tracking(nodes: usize, cpus: usize, proctrack: &str) -> Self {
        for program in ["munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol"] {
            assert!(
                found(program).is_some(),
                "{program} is missing: as root, run 'apt-get install --no-install-recommends {PACKAGES}'"
            );
        }
        let home = tempfile::Builder::new()
            .prefix("pcm-slurm-")
            .tempdir()
            .expect("a folder");
        // munged refuses a socket below a folder that others may not enter.
        fs::set_permissions(home.path(), Permissions::from_mode(0o755)).expect("a mode");
        let mut slurm = Self {
            home,
            daemons: Vec::new(),
        };
        slurm.write_files(nodes, cpus, proctrack);
        slurm.start_munged();
        slurm.start_daemon("slurmctld", &["-D", "-i"]);
        for node in 1..=nodes {
            slurm.start_daemon("slurmd", &["-D", "-N", &format!("v{node}")]);
        }
        slurm.wait_until_idle(nodes, STARTS_WITHIN);
        slurm
    }

    /// Its folder, for files of the test too.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    fn conf(&self) -> PathBuf {
        self.home().join("slurm.conf")
    }

    fn write_files(&self, nodes: usize, cpus: usize, proctrack: &str) {
        let home = self.home();
        for folder in ["munge", "state", "spool", "log"] {
            fs::create_dir(home.join(folder)).expect("a folder");
        }
        let mut secret = [0; 512];
        let mut random = File::open("/dev/urandom").expect("random bytes");
        random.read_exact(&mut secret).expect("random bytes");
        fs::write(home.join("munge/key"), secret).expect("a key");
        fs::set_permissions(home.join("munge/key"), Permissions::from_mode(0o400)).expect("a mode");
        // Held until all are chosen, so that none is chosen twice.
        let ports: Vec<TcpListener> = (0..=nodes)
            .map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"))
            .collect();
        let port = |index: usize| ports[index].local_addr().expect("its port").port();
        let host = host_name();
        let mut text = configuration(&home.display().to_string(), &host, &user_name(), port(0));
        writeln!(text, "ProctrackType=proctrack/{proctrack}").expect("a line");
        for node in 1..=nodes {
            fs::create_dir(home.join(format!("spool/v{node}"))).expect("a folder");
            let port = port(node);
            writeln!(
                text,
                "NodeName=v{node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} RealMemory=2000"
            )
            .expect("a line");
        }
        text.push_str(PARTITIONS);
        fs::write(self.conf(), text).expect("slurm.conf");
    }

    fn start_munged(&mut self) {
        let folder = self.home().join("munge");
        let option = |name: &str, file: &str| format!("--{name}={}", folder.join(file).display());
        let options = [
            "--foreground".to_owned(),
            option("socket", "socket"),
            option("key-file", "key"),
            option("pid-file", "pid"),
            option("log-file", "log"),
            option("seed-file", "seed"),
        ];
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        self.start_daemon("munged", &options);
        wait::until("munged's socket", STARTS_WITHIN, || {
            folder.join("socket").exists().then_some(())
        });
    }

    fn start_daemon(&mut self, program: &'static str, options: &[&str]) {
        self.daemons.push(Daemon {
            program,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            process: None,
        });
        self.start_again(self.daemons.len() - 1);
    }

    fn start_again(&mut self, number: usize) {
        let Daemon { program, options, .. } = &self.daemons[number];
        let log = self.home().join(format!("log/{program}-{number}.out"));
        let log = File::options().create(true).append(true).open(log).expect("a log");
        let mut command = self.command(found(program).expect("found before"));
        command
            .args(options)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log);
        self.daemons[number].process = Some(command.spawn().expect("a daemon of Slurm"));
    }

    /// Kills all daemons of a program, as a crash does.
    ///
    /// # Panics
    /// When one cannot be killed.
    pub fn crash(&mut self, program: &str) {
        for daemon in self.daemons.iter_mut().filter(|daemon| daemon.program == program) {
            let mut process = daemon.process.take().expect("a daemon that runs");
            process.kill().expect("a signal");
            process.wait().expect("its end");
        }
    }

    /// Waits until the controller has written what it knows of jobs since this file was written: one that crashes
    /// before takes a job that runs for one that waits, and ends it.
    ///
    /// # Panics
    /// When it does not.
    pub fn wait_until_saved(&self, since: &Path) {
        let written = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
        wait::until("the controller's state", SAVED_WITHIN, || {
            (written(&self.home().join("state/job_state"))? > written(since)?).then_some(())
        });
    }

    /// Starts what crashed again.
    pub fn come_back(&mut self) {
        for number in 0..self.daemons.len() {
            if self.daemons[number].process.is_none() {
                self.start_again(number);
            }
        }
    }

    /// A program in this Slurm's environment.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env("SLURM_CONF", self.conf())
            .env("PATH", format!("{path}:/usr/sbin"))
            .env(MARK, self.home())
            .env_remove("LD_LIBRARY_PATH")
            .current_dir(self.home());
        command
    }

    /// Runs a client to its end.
    pub fn client(&self, program: &str, arguments: &[&str]) -> Outcome {
        limited::run(self.command(program).args(arguments), CLIENT)
    }

    /// Submits a script with these options; the job's number.
    ///
    /// # Panics
    /// When it is refused.
    pub fn submit(&self, options: &[&str], script: &str) -> String {
        let mut command = self.command("sbatch");
        command.arg("--parsable").args(options);
        let outcome = limited::run_with_input(&mut command, script.as_bytes().to_vec(), CLIENT);
        assert!(outcome.status.success(), "sbatch: {outcome:?}");
        outcome.stdout.trim().to_owned()
    }

    /// A job's state, as `COMPLETED`; empty when Slurm does not say.
    pub fn state(&self, job: &str) -> String {
        self.field(job, "JobState=")
    }

    /// A field of what Slurm says of a job.
    pub fn field(&self, job: &str, name: &str) -> String {
        let shown = self.client("scontrol", &["--oneliner", "show", "job", job]).stdout;
        let field = shown.split_whitespace().find_map(|word| word.strip_prefix(name));
        field.unwrap_or_default().to_owned()
    }

    /// Waits until a job has ended; its state.
    ///
    /// # Panics
    /// When it has not in time.
    pub fn wait_for_end(&self, job: &str, limit: Duration) -> String {
        wait::until(&format!("the end of job {job}"), limit, || {
            let state = self.state(job);
            let is_over = !["PENDING", "CONFIGURING", "RUNNING", "COMPLETING", ""].contains(&state.as_str());
            is_over.then_some(state)
        })
    }

    /// Waits until every node is idle again: nothing of a job is left in Slurm's eyes.
    ///
    /// # Panics
    /// When that takes too long.
    pub fn wait_until_idle(&self, nodes: usize, limit: Duration) {
        wait::until("idle nodes", limit, || {
            // A node is named once for each of its partitions.
            let idle = [
                "--noheader",
                "--Node",
                "--partition=work",
                "--states=idle",
                "--format=%N",
            ];
            let idle = self.client("sinfo", &idle);
            (idle.stdout.lines().count() == nodes).then_some(())
        });
    }

    /// Living processes of jobs in this Slurm; its own daemons are none.
    pub fn processes_of_jobs(&self) -> Vec<u32> {
        let own = self.daemons.iter().filter_map(|daemon| daemon.process.as_ref());
        let own: Vec<u32> = own.map(Child::id).collect();
        let marked = processes::with_variable(MARK, &self.home().display().to_string());
        let is_of_job = |pid: &u32| !own.contains(pid) && processes::is_alive(*pid);
        marked.into_iter().filter(is_of_job).collect()
    }

    /// What its daemons wrote, for the message of a failed test.
    pub fn logs(&self) -> String {
        let files = fs::read_dir(self.home().join("log")).into_iter().flatten().flatten();
        logs::tails(files.map(|file| file.path()), 15)
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        let jobs = self.client("squeue", &["--noheader", "--format=%A"]).stdout;
        let jobs: Vec<&str> = jobs.split_whitespace().collect();
        if !jobs.is_empty() {
            self.client("scancel", &[&["--full", "--signal=KILL"], &jobs[..]].concat());
            self.client("scancel", &jobs);
            wait::within(ENDS_WITHIN, || {
                self.client("squeue", &["--noheader"])
                    .stdout
                    .trim()
                    .is_empty()
                    .then_some(())
            });
        }
        // slurmd first, so that its steps end with it; the controller; munged.
        while let Some(daemon) = self.daemons.pop() {
            let Some(mut process) = daemon.process else { continue };
            processes::send(process.id(), Signal::TERM);
            let ended = wait::within(ENDS_WITHIN, || process.try_wait().ok().flatten());
            if ended.is_none() {
                let _ = process.kill();
                let _ = process.wait();
            }
        }
        for pid in self.processes_of_jobs() {
            processes::send(pid, Signal::KILL);
        }
    }
}

/// A program in PATH or where Debian puts daemons.
fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/sbin"]);
    folders
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.is_file())
}

fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.split('.').next().unwrap_or_default().to_owned()
}

fn user_name() -> String {
    let named = limited::run(Command::new("id").arg("-un"), CLIENT).stdout;
    named.trim().to_owned()
}

/// No accounting, no cgroups: processes are found by their parents, and signalled one by one.
fn configuration(home: &str, host: &str, user: &str, port: u16) -> String {
    format!(
        "ClusterName=pcmtest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={home}/munge/socket
CredType=cred/munge
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool/%n
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd-%n.pid
SlurmctldLogFile={home}/log/slurmctld.log
SlurmdLogFile={home}/log/slurmd-%n.log
SwitchType=switch/none
MpiDefault=none
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
KillWait=30
SlurmdTimeout=60
InactiveLimit=0
MinJobAge=600
DefMemPerCPU=100
PropagateResourceLimitsExcept=MEMLOCK
"
    )
}
