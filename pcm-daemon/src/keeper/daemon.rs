//! The keeper's child that decides: the daemon. Started, started again with growing pauses, given up after too many
//! failures in a row; and the queue of what it has to be told.

use super::checkpoint_store::Buffers;
use super::held::{Held, descriptors, null_open, socket_pair};
use super::images::Images;
use super::start::{OWN_PROGRAM, Program, StartError, TARGET_MAX, c_string, env_entry, start};
use crate::packet::{Letter, letter_receive};
use pcm_proto::checkpoint::BufferKey;
use pcm_proto::keeper::{DaemonToKeeper, JOURNAL_FDS, KEEPER_FD, KeeperToDaemon, ProcessKey, UMASK};
use pcm_proto::parked::ParkKey;
use rustix::net::SocketType;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, Instant};

/// Another program in the daemon's place, for tests and for running it under a debugger or checker.
const DAEMON_PROGRAM: &str = "PCM_DAEMON_PROGRAM";

/// Pauses before the next start after 1, 2, … failures in a row: the first costs the ranks nothing, the last gives a
/// full disk or a busy port time to pass. One failure more and the keeper gives up.
const PAUSES: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1600),
    Duration::from_millis(6400),
];

/// A daemon that lived this long had read its journal and come up; its end is a failure of its own and not one more in
/// a row.
const HEALTHY_AFTER: Duration = Duration::from_secs(1);

/// The socket's number in the daemon.
const DAEMON_SOCKET: RawFd = 3;

/// A daemon that runs.
#[derive(Debug)]
pub(super) struct Daemon {
    pub(super) pid: Pid,
    socket: OwnedFd,
    began: Instant,
    queue: VecDeque<Told>,
}

#[derive(Debug)]
struct Told {
    letter: Letter,
    with: With,
}

/// Whose descriptors go with a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum With {
    Nothing,
    Process(ProcessKey),
    Image(ParkKey),
    Buffer(BufferKey),
}

/// What the daemon's socket gave.
#[derive(Debug)]
pub(super) enum Heard {
    Order(DaemonToKeeper, Option<OwnedFd>),
    Nothing,
    /// The daemon closed it, or said something that is no order.
    Broken(String),
}

impl Daemon {
    /// Starts a daemon with its journal. `report` becomes its standard output; `umask` is for nodes that it boots.
    pub(super) fn start(report: Option<&OwnedFd>, journal: &[OwnedFd; 2], umask: u32) -> Result<Self, StartError> {
        let (socket, theirs) = socket_pair(SocketType::SEQPACKET)?;
        let null = null_open()?;
        let log = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), TARGET_MAX).map_err(descriptors)?;
        let program = Program {
            file: file()?,
            args: vec![c_string("pcm-daemon")?, c_string("serve")?],
            env: environment(umask)?,
            cwd: c_string("/")?,
            descriptors: vec![
                (null.as_fd(), 0),
                (report.unwrap_or(&null).as_fd(), 1),
                (log.as_fd(), 2),
                (theirs.as_fd(), DAEMON_SOCKET),
                (journal[0].as_fd(), JOURNAL_FDS[0]),
                (journal[1].as_fd(), JOURNAL_FDS[1]),
            ],
            cpus: &[],
            dies_with_us: false,
            of_user: None,
        };
        let pid = start(&program)?;
        Ok(Self {
            pid,
            socket,
            began: Instant::now(),
            queue: VecDeque::new(),
        })
    }

    /// Puts a message in the queue. It holds at most a few messages per rank, because each rank starts and ends once.
    pub(super) fn tell(&mut self, message: &KeeperToDaemon, with: With) -> io::Result<()> {
        self.queue.push_back(Told {
            letter: Letter::new(message)?,
            with,
        });
        Ok(())
    }

    /// Whether something waits for room in the socket.
    pub(super) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Sends what there is room for.
    pub(super) fn flush(
        &mut self,
        table: &BTreeMap<ProcessKey, Held>,
        images: &Images,
        buffers: &Buffers,
    ) -> io::Result<()> {
        while let Some(told) = self.queue.front() {
            let descriptors = match told.with {
                With::Nothing => Vec::new(),
                With::Process(key) => table.get(&key).map(Held::descriptors).unwrap_or_default(),
                With::Buffer(key) => buffers.get(key).map(|image| image.file.as_fd()).into_iter().collect(),
                With::Image(key) => images.get(key).map(|image| image.file.as_fd()).into_iter().collect(),
            };
            match told.letter.send(&self.socket, &descriptors) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                result => result?,
            }
            self.queue.pop_front();
        }
        Ok(())
    }

    pub(super) fn hear(&self) -> Heard {
        match letter_receive(&self.socket) {
            Ok(Some((order, descriptors))) => Heard::Order(order, descriptors.into_iter().next()),
            Ok(None) => Heard::Broken("it closed its socket".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Heard::Nothing,
            Err(error) => Heard::Broken(error.to_string()),
        }
    }

    pub(super) fn number(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    pub(super) fn was_healthy(&self) -> bool {
        self.began.elapsed() >= HEALTHY_AFTER
    }

    /// Closes the socket in our direction: the daemon hears that the keeper has nothing more to say.
    pub(super) fn farewell(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// Kills it and what it started in its own group.
    pub(super) fn kill(&self) {
        let _ = kill_process_group(self.pid, Signal::KILL);
    }
}

impl AsFd for Daemon {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// When to start the next daemon.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    /// Daemons so far.
    pub(super) count: u32,
    failures: usize,
}

impl Restarts {
    /// A daemon ended; the pause before the next one, or `None` when there shall be no next one.
    pub(super) fn on_end(&mut self, was_healthy: bool) -> Option<Duration> {
        self.failures = if was_healthy { 1 } else { self.failures + 1 };
        self.count += 1;
        PAUSES.get(self.failures - 1).copied()
    }
}

fn file() -> Result<CString, StartError> {
    match std::env::var_os(DAEMON_PROGRAM) {
        Some(path) => c_string(path.into_vec()),
        None => Ok(OWN_PROGRAM.to_owned()),
    }
}

fn environment(umask: u32) -> Result<Vec<CString>, StartError> {
    let inherited = std::env::vars_os().filter(|(name, _)| name != KEEPER_FD && name != UMASK);
    let own = [(KEEPER_FD, DAEMON_SOCKET.to_string()), (UMASK, format!("{umask:03o}"))];
    let own = own.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    inherited
        .chain(own)
        .map(|(name, value)| env_entry(name.as_bytes(), value.as_bytes()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_fails_too_often_in_a_row_is_given_up() {
        let mut restarts = Restarts::default();
        for pause in PAUSES {
            assert_eq!(restarts.on_end(false), Some(pause));
        }
        assert_eq!(restarts.on_end(false), None);
    }

    #[test]
    fn a_daemon_that_had_come_up_is_started_again_at_once() {
        let mut restarts = Restarts::default();
        for _ in 0..20 {
            assert_eq!(restarts.on_end(true), Some(Duration::ZERO));
        }
        assert_eq!(restarts.count, 20);
    }
}
