//! One rank as the keeper holds it: its process, the daemon's ends of its descriptors, how it ended.

use super::program::program_find;
use super::start::{OfUser, Program, StartError, Step, TARGET_MAX, c_string, env_entry, start};
use super::start_refused::StartRefused;
use crate::packet::{packet_receive, packet_send};
use pcm_proto::app::environment::{CHANNEL_FD, PAGE_FD};
use pcm_proto::app::{StandbyCall, packet_encode};
use pcm_proto::keeper::{ExitStatus, HeldProcess, ProcessKey, ProcessSpec};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The numbers of a rank's descriptors: above what scripts use for their own, and the same for all.
const RANK_PMI: RawFd = 230;
const RANK_CHANNEL: RawFd = 231;
const RANK_PAGE: RawFd = 232;

#[derive(Debug)]
pub(super) struct Held {
    pub(super) key: ProcessKey,
    pub(super) pid: Pid,
    pub(super) ended: Option<ExitStatus>,
    /// Whether a daemon ordered a signal for it: its end by one is no surprise.
    pub(super) is_signalled: bool,
    pmi: OwnedFd,
    channel: OwnedFd,
    page: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    stdin: Option<OwnedFd>,
}

impl Held {
    /// Starts the process.
    pub(super) fn start(spec: &ProcessSpec, page: OwnedFd, of_user: OfUser) -> Result<Self, StartRefused> {
        let typed = spec.program.as_os_str().as_bytes();
        let file = program_find(typed, &spec.cwd, &spec.search_path)?;
        let started = Self::start_file(&file, spec, page, of_user);
        started.map_err(|error| StartRefused::by_system(&file, &error))
    }

    fn start_file(file: &Path, spec: &ProcessSpec, page: OwnedFd, of_user: OfUser) -> Result<Self, StartError> {
        let (pmi, rank_pmi) = socket_pair(SocketType::STREAM)?;
        let (channel, rank_channel) = socket_pair(SocketType::SEQPACKET)?;
        let rank_page = high(page.try_clone().map_err(|_| descriptors(Errno::MFILE))?)?;
        let (stdout, rank_stdout) = pipe_out()?;
        let (stderr, rank_stderr) = pipe_out()?;
        let (rank_stdin, stdin) = stdin_open(spec.stdin)?;
        let program = Program {
            file: c_string(file.as_os_str().as_bytes())?,
            args: arguments(file, spec)?,
            env: environment(spec)?,
            cwd: c_string(spec.cwd.as_os_str().as_bytes())?,
            descriptors: vec![
                (rank_stdin.as_fd(), 0),
                (rank_stdout.as_fd(), 1),
                (rank_stderr.as_fd(), 2),
                (rank_pmi.as_fd(), RANK_PMI),
                (rank_channel.as_fd(), RANK_CHANNEL),
                (rank_page.as_fd(), RANK_PAGE),
            ],
            cpus: &spec.cpus,
            dies_with_us: true,
            of_user: Some(of_user),
        };
        let pid = start(&program)?;
        Ok(Self {
            key: spec.key,
            pid,
            ended: None,
            is_signalled: false,
            pmi,
            channel,
            page,
            stdout,
            stderr,
            stdin,
        })
    }

    /// What a daemon is told of it.
    pub(super) fn process(&self) -> HeldProcess {
        HeldProcess {
            key: self.key,
            pid: self.pid.as_raw_nonzero().get().cast_unsigned(),
            ended: self.ended,
            stdin: self.stdin.is_some(),
        }
    }

    /// What goes to a daemon with it, in the agreed order.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let always = [&self.pmi, &self.channel, &self.page, &self.stdout, &self.stderr];
        always.into_iter().chain(&self.stdin).map(AsFd::as_fd).collect()
    }

    pub(super) fn stdin_close(&mut self) {
        self.stdin = None;
    }

    pub(super) fn is_alive(&self) -> bool {
        self.ended.is_none()
    }

    /// Its process number.
    pub(super) fn number(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Ends it with its group.
    pub(super) fn kill(&self) {
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = kill_process_group(self.pid, Signal::KILL);
    }

    /// Starts a standby: what comes later is no part of it yet.
    pub(super) fn start_standby(spec: &ProcessSpec, of_user: OfUser) -> Result<Self, StartRefused> {
        let page = memory_file("pcm-standby").map_err(|error| StartRefused::by_system(&spec.program, &error))?;
        Self::start(spec, page, of_user)
    }

    /// Whether this word is what the process said first, and has not been asked for yet.
    pub(super) fn has_said(&self, word: &[u8]) -> bool {
        let said = packet_receive(&self.channel, word.len());
        self.is_alive() && said.is_ok_and(|said| said.is_some_and(|said| said.bytes == word))
    }

    /// A standby becomes the process of this order; or nothing has changed, and the page comes back.
    pub(super) fn call(mut self, call: &StandbyCall, spec: &ProcessSpec, page: OwnedFd) -> Result<Self, OwnedFd> {
        let packet = packet_encode(call);
        if !packet.is_ok_and(|packet| packet_send(&self.channel, &packet, &[page.as_fd()]).is_ok()) {
            self.kill();
            return Err(page);
        }
        (self.key, self.page) = (spec.key, page);
        Ok(self)
    }
}

pub(super) fn descriptors(errno: Errno) -> StartError {
    StartError {
        step: Step::Descriptors,
        errno: errno.raw_os_error(),
    }
}

/// Moves a descriptor for a child out of the range of the numbers the child gives to its own.
fn high(descriptor: OwnedFd) -> Result<OwnedFd, StartError> {
    if descriptor.as_raw_fd() >= TARGET_MAX {
        return Ok(descriptor);
    }
    fcntl_dupfd_cloexec(&descriptor, TARGET_MAX).map_err(descriptors)
}

/// The daemon's end and the child's.
pub(super) fn socket_pair(kind: SocketType) -> Result<(OwnedFd, OwnedFd), StartError> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).map_err(descriptors)?;
    Ok((ours, high(theirs)?))
}

/// A memory file of a name, for a child.
pub(super) fn memory_file(name: &str) -> Result<OwnedFd, StartError> {
    high(memfd_create(name, MemfdFlags::CLOEXEC).map_err(descriptors)?)
}

fn pipe_out() -> Result<(OwnedFd, OwnedFd), StartError> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(descriptors)?;
    Ok((read, high(write)?))
}

fn stdin_open(is_pipe: bool) -> Result<(OwnedFd, Option<OwnedFd>), StartError> {
    if is_pipe {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(descriptors)?;
        return Ok((high(read)?, Some(write)));
    }
    Ok((null_open()?, None))
}

/// The empty file, for a child.
pub(super) fn null_open() -> Result<OwnedFd, StartError> {
    let null = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(descriptors)?;
    high(null)
}

fn arguments(file: &Path, spec: &ProcessSpec) -> Result<Vec<CString>, StartError> {
    [file.as_os_str().as_bytes().to_vec()]
        .into_iter()
        .chain(spec.args.iter().cloned())
        .map(c_string)
        .collect()
}

fn environment(spec: &ProcessSpec) -> Result<Vec<CString>, StartError> {
    let numbers = [("PMI_FD", RANK_PMI), (CHANNEL_FD, RANK_CHANNEL), (PAGE_FD, RANK_PAGE)];
    let own = numbers
        .iter()
        .map(|(name, number)| env_entry(name.as_bytes(), number.to_string().as_bytes()));
    spec.env
        .iter()
        .map(|(name, value)| env_entry(name, value))
        .chain(own)
        .collect()
}
