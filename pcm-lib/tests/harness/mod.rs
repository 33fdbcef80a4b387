//! Runs MPI programs with and without libpcm, and plays the daemon for them: makes the shared page and the channel of
//! each rank. Ranks are started by the mpiexec of the MPI in use, which passes descriptors on.
#![allow(
    clippy::unwrap_used,
    unsafe_code,
    reason = "a test that maps memory as a daemon does"
)]
#![allow(dead_code, reason = "each test target uses a part")]

use memmap2::MmapMut;
use pcm_proto::{
    app::{AppToDaemon, PACKET_BYTES_MAX, environment},
    frame,
    page::{Page, page_size},
};
use rustix::{
    fs::{MemfdFlags, ftruncate, memfd_create},
    net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair},
};
use std::{
    env,
    io::Read,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::symlink,
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// No run takes more than a second on an idle machine; a loaded one gets much more.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// How libpcm comes into the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum With {
    /// Not at all.
    Nothing,
    Preload,
    Shared,
    Static,
    /// Not at all, and the program is a library.
    Library,
}

/// What the daemon has of one rank.
pub(crate) struct Rank {
    map: MmapMut,
    channel: OwnedFd,
}

/// A program that runs.
pub(crate) struct Running {
    child: Child,
    output: Option<thread::JoinHandle<String>>,
    pub(crate) ranks: Vec<Rank>,
}

/// Folder of the libpcm that belongs to this test.
pub(crate) fn library_folder() -> PathBuf {
    env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Compiles a program of `tests/programs`.
pub(crate) fn compile(folder: &Path, source: &str, with: With) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let name = Path::new(source).file_stem().unwrap();
    let program = folder.join(format!("{}-{with:?}", name.to_string_lossy()));
    let libraries = library_folder();
    let mut compiler = Command::new(env::var_os("MPICC").unwrap_or_else(|| "mpicc".into()));
    compiler
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root.join("include"));
    compiler
        .arg("-o")
        .arg(&program)
        .arg(root.join("tests/programs").join(source));
    match with {
        With::Nothing | With::Preload => {}
        With::Library => {
            compiler.args(["-shared", "-fPIC"]);
        }
        With::Shared => {
            compiler
                .arg("-L")
                .arg(&libraries)
                .args(["-lpcm", "-Xlinker", "-rpath", "-Xlinker"])
                .arg(folder);
            // By this name a linked program asks for it.
            let link = folder.join("libpcm.so.0");
            if !link.exists() {
                symlink(libraries.join("libpcm.so"), link).unwrap();
            }
        }
        With::Static => {
            compiler
                .arg(libraries.join("libpcm.a"))
                .args(["-lpthread", "-ldl", "-lm"]);
        }
    }
    let output = compiler.output().unwrap();
    assert!(
        output.status.success(),
        "{source}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}

/// The launcher of the MPI in use.
pub(crate) fn mpiexec() -> Command {
    let compiler = PathBuf::from(env::var_os("MPICC").unwrap_or_else(|| "mpicc".into()));
    let beside = || compiler.with_file_name("mpiexec").into_os_string();
    let mut command = Command::new(env::var_os("PCM_MPIEXEC").unwrap_or_else(beside));
    // The provider that works on every machine.
    command.env("MPIR_CVAR_CH4_NETMOD", "ofi").env("FI_PROVIDER", "tcp");
    // Ranks outnumber CPUs; the default collectives then take milliseconds.
    command.env("MPIR_CVAR_COLL_SHM_LIMIT_PER_NODE", "0");
    // A file in /tmp in which it hands over the machine's topology, and leaves when a program aborts; given a name it
    // makes none.
    command.env("HWLOC_XMLFILE", "/nonexistent");
    // Cargo's own entries lead to the libpcm.so of an older build.
    command.env_remove("LD_LIBRARY_PATH");
    command
}

/// Starts ranks without a daemon.
pub(crate) fn start_plain(ranks: usize, program: &Path, arguments: &[&str], with: With) -> Running {
    let mut command = mpiexec();
    command.args(["-n", &ranks.to_string()]);
    rank_program(&mut command, program, arguments, with);
    spawn(command, Vec::new())
}

/// Starts ranks as a daemon does.
pub(crate) fn start(ranks: usize, program: &Path, arguments: &[&str], with: With) -> Running {
    let mut command = mpiexec();
    let mut sides = Vec::new();
    let mut inherited = Vec::new();
    for rank in 0..ranks {
        if rank > 0 {
            command.arg(":");
        }
        let (side, page, channel) = rank_sides(ranks);
        command.args(["-n", "1"]);
        for (name, value) in [
            (environment::PAGE_FD, page.as_raw_fd().to_string()),
            (environment::CHANNEL_FD, channel.as_raw_fd().to_string()),
            (environment::JOB, "7".to_owned()),
            (environment::PROCESS, rank.to_string()),
            (environment::WORLD, "0".to_owned()),
            (environment::NODE, "n0".to_owned()),
        ] {
            command.args(["-env", name, &value]);
        }
        rank_program(&mut command, program, arguments, with);
        sides.push(side);
        inherited.extend([page, channel]);
    }
    spawn(command, sides)
}

fn rank_program(command: &mut Command, program: &Path, arguments: &[&str], with: With) {
    if with == With::Preload {
        for (name, value) in preload() {
            command.args(["-env", name]).arg(value);
        }
    }
    command.arg(program).args(arguments);
}

/// What makes the dynamic linker load libpcm first. `LD_PRELOAD` is cut at blanks, so the folder stands apart.
pub(crate) fn preload() -> [(&'static str, PathBuf); 2] {
    [
        ("LD_PRELOAD", "libpcm.so".into()),
        ("LD_LIBRARY_PATH", library_folder()),
    ]
}

/// A rank's page and channel: the daemon's side, and the two descriptors to inherit.
pub(crate) fn rank_sides(peers_max: usize) -> (Rank, OwnedFd, OwnedFd) {
    let page = memfd_create("pcm-page", MemfdFlags::empty()).unwrap();
    ftruncate(&page, page_size(peers_max) as u64).unwrap();
    // SAFETY: the file was made here and is not shrunk.
    let mut map = unsafe { MmapMut::map_mut(&page) }.unwrap();
    Page::create(&mut map, peers_max).unwrap();
    let (channel, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::empty(), None).unwrap();
    rustix::io::fcntl_setfd(&channel, rustix::io::FdFlags::CLOEXEC).unwrap();
    (Rank { map, channel }, page, theirs)
}

fn spawn(mut command: Command, ranks: Vec<Rank>) -> Running {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut errors = child.stderr.take().unwrap();
    let errors = thread::spawn(move || {
        let mut text = String::new();
        errors.read_to_string(&mut text).unwrap();
        text
    });
    let output = thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).unwrap();
        text + &errors.join().unwrap()
    });
    Running {
        child,
        output: Some(output),
        ranks,
    }
}

impl Running {
    /// Waits for the end of all ranks.
    pub(crate) fn end(&mut self) -> (ExitStatus, String) {
        let started = Instant::now();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if started.elapsed() > LIMIT => panic!("the ranks did not end in {LIMIT:?}"),
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        (status, self.output.take().unwrap().join().unwrap())
    }

    /// The output of ranks that all end well.
    pub(crate) fn output(&mut self) -> String {
        let (status, output) = self.end();
        assert!(status.success(), "{status}: {output}");
        output
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ends the ranks too: mpiexec takes them with it on SIGTERM, which `kill` of the library would not send.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let pid = rustix::process::Pid::from_child(&self.child);
            _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            _ = self.child.wait();
        }
    }
}

impl Rank {
    pub(crate) fn page(&mut self) -> Page<'_> {
        Page::open(&mut self.map).unwrap()
    }

    /// Waits until the page shows what `is_there` asks for.
    pub(crate) fn await_page<T>(&mut self, what: &str, mut is_there: impl FnMut(Page<'_>) -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(found) = is_there(self.page()) {
                return found;
            }
            assert!(
                started.elapsed() < LIMIT,
                "{what} did not show on the page in {LIMIT:?}"
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// All messages that wait on the channel.
    pub(crate) fn messages(&self) -> Vec<AppToDaemon> {
        let mut packet = vec![0; PACKET_BYTES_MAX];
        let mut messages = Vec::new();
        while let Ok((_, length)) = recv(&self.channel, &mut packet[..], RecvFlags::DONTWAIT) {
            if length == 0 {
                break;
            }
            messages.push(frame::decode(&packet[..length]).unwrap());
        }
        messages
    }

    /// The daemon's side of the channel.
    pub(crate) fn channel(&self) -> &OwnedFd {
        &self.channel
    }
}
