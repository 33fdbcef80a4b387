//! A node under test: a real keeper whose daemon is played by the test.

use crate::relay::{self, RELAY, Relayed};
use pcm_daemon::keeper_link::{FromKeeper, Handed, KeeperLink, Welcome};
use pcm_daemon::rank::PageFile;
use pcm_proto::boot::{BootSpec, NodeSpec, Reach};
use pcm_proto::fabric::FabricWish;
use pcm_proto::handshake::PROTOCOL_VERSION;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::keeper::{DaemonToKeeper, ExitStatus, ProcessKey, ProcessSpec};
use pcm_proto::secret::Secret;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::cell::RefCell;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// No single wait of a test takes longer, on a machine that does much else at the same time.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Node {
    pub link: KeeperLink,
    pub keeper: i32,
    pub daemon: i32,
    pub cluster_id: String,
    pub name: NodeName,
    pub directory: tempfile::TempDir,
    /// What the worlds that were started here call their shared memory.
    pub segments: RefCell<Vec<String>>,
    listener: OwnedFd,
    leash: Option<OwnedFd>,
}

/// Waits for a condition; panics with what was awaited.
pub fn await_that(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn is_alive(pid: i32) -> bool {
    proc_files::ProcessStat::of(pid.cast_unsigned()).is_some_and(|stat| stat.is_alive())
}

pub fn kill(pid: i32) {
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
}

pub fn key(job: u64, process: u32) -> ProcessKey {
    ProcessKey {
        job: JobId(job),
        process: ProcessId(process),
    }
}

impl Node {
    pub async fn boot() -> (Self, Welcome) {
        Self::boot_by(Command::new(env!("CARGO_BIN_EXE_pcm-daemon"))).await
    }

    /// Boots it by this command, which becomes the program.
    pub async fn boot_by(mut program: Command) -> (Self, Welcome) {
        let directory = tempfile::Builder::new().prefix("pcm keeper ").tempdir().unwrap();
        let path = directory.path().join("relay");
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&listener, 8).unwrap();
        let random = directory
            .path()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .replace("pcm keeper ", "");
        let (cluster_id, name) = (format!("test-{random}"), NodeName::new("n0").unwrap());
        let spec = BootSpec {
            version: PROTOCOL_VERSION,
            cluster_id: cluster_id.clone(),
            cluster_dir: directory.path().to_owned(),
            key: Secret::new("00".repeat(32)),
            node: NodeSpec {
                name: name.clone(),
                address: "127.0.0.1".to_owned(),
                site: "here".to_owned(),
                cpus: vec![],
                reach: Reach::Local,
            },
            subtree: vec![],
            seeds: vec![],
            fabric: FabricWish::Auto,
            is_rdma_sealed: false,
            patience_ms: 2400,
        };
        let mut keeper = program
            .env("PCM_DAEMON_PROGRAM", std::env::current_exe().unwrap())
            .env(RELAY, &path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = keeper.stdin.take().unwrap();
        stdin.write_all(&serde_json::to_vec(&spec).unwrap()).unwrap();
        drop(stdin);
        assert!(
            keeper.wait().unwrap().success(),
            "the program that becomes a keeper says so with code 0"
        );
        let (link, relayed) = Self::next_link(&listener).await;
        let welcome = link.welcome().await.unwrap();
        assert_eq!(welcome.spec, spec);
        let node = Self {
            link,
            keeper: relayed.0,
            daemon: relayed.1,
            cluster_id,
            name,
            directory,
            segments: RefCell::default(),
            listener,
            leash: Some(relayed.2),
        };
        (node, welcome)
    }

    async fn next_link(listener: &OwnedFd) -> (KeeperLink, (i32, i32, OwnedFd)) {
        let listener = listener.try_clone().unwrap();
        let accepted = tokio::task::spawn_blocking(move || relay::accept(&listener));
        let relayed = tokio::time::timeout(PATIENCE, accepted)
            .await
            .expect("a daemon in time")
            .unwrap();
        let Relayed {
            keeper,
            daemon,
            socket,
            leash,
        } = relayed.expect("a daemon that can be used");
        (KeeperLink::new(socket).unwrap(), (keeper, daemon, leash))
    }

    /// Takes over as the next daemon.
    pub async fn succeed(&mut self) -> Welcome {
        let (link, (keeper, daemon, leash)) = Self::next_link(&self.listener).await;
        assert_eq!(keeper, self.keeper);
        (self.link, self.daemon, self.leash) = (link, daemon, Some(leash));
        self.link.welcome().await.unwrap()
    }

    /// Lets the daemon end: with code 0, or with the one that asks not to be started again.
    pub fn daemon_end(&mut self, is_final: bool) {
        let leash = self.leash.take().unwrap();
        if is_final {
            rustix::io::write(&leash, b"x").unwrap();
        }
    }

    /// No further daemon will find the test.
    pub fn refuse_daemons(&self) {
        std::fs::remove_file(self.directory.path().join("relay")).unwrap();
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("nodes/n0/daemon.log")).unwrap_or_default()
    }

    /// An order to run a program with the marks of a rank in its environment.
    pub fn spec(&self, key: ProcessKey, program: &str, args: &[&str]) -> ProcessSpec {
        let own = [
            ("PCM_CLUSTER_ID", self.cluster_id.clone()),
            ("PCM_NODE", self.name.to_string()),
            ("PCM_JOB", key.job.to_string()),
            ("PCM_PROCESS", key.process.to_string()),
            ("PATH", std::env::var("PATH").unwrap()),
        ];
        ProcessSpec {
            key,
            program: PathBuf::from(program),
            search_path: Vec::new(),
            args: args.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
            env: own
                .map(|(name, value)| (name.as_bytes().to_vec(), value.into_bytes()))
                .to_vec(),
            cwd: self.directory.path().to_owned(),
            cpus: vec![],
            stdin: false,
            segments: vec![],
        }
    }

    pub async fn order_start(&self, spec: ProcessSpec) {
        self.segments.borrow_mut().extend(spec.segments.clone());
        let page = PageFile::new(4).unwrap();
        self.link.start(spec, page.as_fd()).await.unwrap();
    }

    pub async fn start(&self, spec: ProcessSpec) -> Handed {
        self.order_start(spec).await;
        match self.hear().await {
            FromKeeper::Started(handed) => handed,
            other => panic!("{other:?} instead of a start"),
        }
    }

    pub async fn hear(&self) -> FromKeeper {
        let heard = tokio::time::timeout(PATIENCE, self.link.receive())
            .await
            .expect("a word of the keeper in time");
        heard.unwrap().expect("a living keeper")
    }

    pub async fn hear_exit(&self) -> (ProcessKey, ExitStatus) {
        match self.hear().await {
            FromKeeper::Exited { key, status } => (key, status),
            other => panic!("{other:?} instead of an end"),
        }
    }

    /// Ends a job and returns how many processes had to be killed and segments removed.
    pub async fn end_job(&self, job: u64) -> (u32, u32) {
        self.link
            .send(&DaemonToKeeper::EndJob { job: JobId(job) })
            .await
            .unwrap();
        loop {
            match self.hear().await {
                FromKeeper::JobCleared {
                    job: cleared,
                    killed,
                    segments,
                    left,
                } => {
                    assert_eq!((cleared, left), (JobId(job), 0));
                    return (killed, segments);
                }
                FromKeeper::Exited { key, .. } => self.link.send(&DaemonToKeeper::Forget { key }).await.unwrap(),
                other => panic!("{other:?} instead of the end of a job"),
            }
        }
    }

    /// Ends the keeper as a daemon does that ends on purpose.
    pub async fn quit(mut self) {
        self.link
            .send(&DaemonToKeeper::Quit { is_taken_away: false })
            .await
            .unwrap();
        while let Ok(Some(_)) = tokio::time::timeout(PATIENCE, self.link.receive())
            .await
            .expect("a last word")
        {}
        self.daemon_end(false);
        await_that("the end of the keeper", || !is_alive(self.keeper));
        assert_eq!(self.segments_left(), Vec::<String>::new());
    }

    /// Files in `/dev/shm` of the worlds that were started here.
    pub fn segments_left(&self) -> Vec<String> {
        let files = std::fs::read_dir("/dev/shm").unwrap().flatten();
        let names = files.filter_map(|file| file.file_name().into_string().ok());
        let segments = self.segments.borrow();
        names
            .filter(|name| segments.iter().any(|segment| name.starts_with(segment)))
            .collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if is_alive(self.keeper) {
            kill(self.keeper);
        }
        if self.leash.is_some() && is_alive(self.daemon) {
            kill(self.daemon);
        }
        pcm_daemon::keeper::sweep(&self.cluster_id, &self.name, &self.segments.borrow());
    }
}
