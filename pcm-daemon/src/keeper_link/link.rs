//! [`KeeperLink`]: typed messages over tokio's readiness of the inherited socket.

use crate::packet::{Letter, letter_receive};
use crate::watched::watch;
use pcm_proto::boot::BootSpec;
use pcm_proto::checkpoint::BufferKey;
use pcm_proto::handshake::VersionMismatch;
use pcm_proto::ids::JobId;
use pcm_proto::keeper::{
    DaemonToKeeper, ExitStatus, HELD_DESCRIPTORS, HeldProcess, KEEPER_FD, KeeperToDaemon, ProcessKey, ProcessSpec,
    Standby,
};
use pcm_proto::parked::ParkKey;
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::{fmt, io};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Why the keeper cannot be talked to.
#[derive(Debug)]
pub enum LinkError {
    /// This process was not started by a keeper.
    NoKeeper,
    /// The socket failed.
    Socket {
        /// What was tried.
        doing: &'static str,
        /// How it failed.
        error: io::Error,
    },
    /// An order could not be put into a packet; the socket is as it was.
    Unsendable(io::Error),
    /// The keeper said something out of order.
    OutOfOrder {
        /// What was expected instead.
        expected: &'static str,
    },
    /// A process came with the wrong number of descriptors.
    Descriptors {
        key: ProcessKey,
        /// How many came.
        came: usize,
    },
    /// The keeper is of another version.
    Version(VersionMismatch),
    /// The keeper is dead.
    Closed,
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKeeper => write!(
                f,
                "`serve` is started by the keeper, which sets {KEEPER_FD}; start a cluster with `pcmctl up`"
            ),
            Self::Socket { doing, error } => write!(f, "{doing}: {error}"),
            Self::Unsendable(error) => write!(f, "an order to the keeper cannot be sent: {error}"),
            Self::OutOfOrder { expected } => write!(f, "the keeper did not send {expected} when it had to"),
            Self::Descriptors { key, came } => write!(
                f,
                "process {} of job {} came with {came} descriptors instead of {} or one more (out of open files?)",
                key.process,
                key.job,
                HELD_DESCRIPTORS.len()
            ),
            Self::Version(mismatch) => write!(f, "the keeper is of another version: {mismatch}"),
            Self::Closed => write!(f, "the keeper is dead"),
        }
    }
}

impl std::error::Error for LinkError {}

/// The daemon's ends of what a rank holds.
#[derive(Debug)]
pub struct Ends {
    /// PMI-1, a byte stream.
    pub pmi: OwnedFd,
    /// The library's channel, packets.
    pub channel: OwnedFd,
    /// Memory file of the shared page.
    pub page: OwnedFd,
    /// Read end of standard output.
    pub stdout: OwnedFd,
    /// Read end of standard error.
    pub stderr: OwnedFd,
    /// Write end of standard input, where there is one.
    pub stdin: Option<OwnedFd>,
}

/// A process with its descriptors.
#[derive(Debug)]
pub struct Handed {
    pub key: ProcessKey,
    /// Its process id.
    pub pid: u32,
    /// How it ended, when it has.
    pub ended: Option<ExitStatus>,
    pub ends: Ends,
}

/// What the keeper tells a daemon that just started.
#[derive(Debug)]
pub struct Welcome {
    /// The daemon's specification.
    pub spec: BootSpec,
    /// How many daemons there were before.
    pub restarts: u32,
    /// The processes that were there before.
    pub held: Vec<Handed>,
    /// The images that were parked before.
    pub parked: Vec<HandedImage>,
    /// The buffers of checkpoints that were held before.
    pub kept: Vec<HandedBuffer>,
    /// The levels of the log that an earlier daemon was told.
    pub levels: Option<String>,
}

impl Welcome {
    /// Whether the keeper has nothing that a daemon before this one began.
    pub fn holds_nothing(&self) -> bool {
        self.held.is_empty() && self.parked.is_empty() && self.kept.is_empty()
    }
}

/// A buffer of a checkpoint.
#[derive(Debug)]
pub struct HandedBuffer {
    pub key: BufferKey,
    pub bytes: u64,
    /// Its memory file.
    pub file: OwnedFd,
}

/// Parked data of a process.
#[derive(Debug)]
pub struct HandedImage {
    pub key: ParkKey,
    pub bytes: u64,
    /// Its memory file.
    pub file: OwnedFd,
}

/// What the keeper tells a running daemon.
#[derive(Debug)]
pub enum FromKeeper {
    /// A process runs.
    Started(Handed),
    /// A process could not be started; nothing of it is left.
    StartRefused {
        key: ProcessKey,
        /// As in [`pcm_proto::refusal`].
        code: String,
        /// What happened, to what.
        reason: String,
    },
    /// A process ended; its last output may still be in its pipes.
    Exited { key: ProcessKey, status: ExitStatus },
    /// The processes of a job's program that wait for it to grow.
    StandbysHeld { job: JobId, standbys: Vec<Standby> },
    /// An image is held by the keeper.
    Parked(HandedImage),
    /// A buffer of a checkpoint is held by the keeper, or why not.
    Kept {
        key: BufferKey,
        outcome: Result<(), String>,
    },
    /// An image could not be made, or cannot be held.
    NotParked {
        key: ParkKey,
        /// What happened, for a person.
        reason: String,
    },
    /// Nothing of a job is left on this node.
    JobCleared {
        job: JobId,
        /// Processes that had to be killed.
        killed: u32,
        /// Files of shared memory that had to be removed.
        segments: u32,
        /// Processes that did not end although killed.
        left: u32,
    },
}

/// The daemon's end of the socket.
#[derive(Debug)]
pub struct KeeperLink {
    socket: AsyncFd<OwnedFd>,
}

impl KeeperLink {
    /// Takes over the socket that the keeper left in this process. To be called once, at start, inside a tokio
    /// runtime.
    #[allow(
        unsafe_code,
        reason = "an inherited descriptor is only a number until it is taken over"
    )]
    pub fn inherit() -> Result<Self, LinkError> {
        let number: RawFd = std::env::var(KEEPER_FD)
            .ok()
            .and_then(|text| text.parse().ok())
            .filter(|number| *number > 2)
            .ok_or(LinkError::NoKeeper)?;
        // SAFETY: the number is above the standard streams and only looked at; a closed one is reported.
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        fcntl_getfd(borrowed).map_err(|_| LinkError::NoKeeper)?;
        // SAFETY: the keeper opened this descriptor for this process and nobody else in it knows the number.
        let socket = unsafe { OwnedFd::from_raw_fd(number) };
        let failed = |error: rustix::io::Errno| LinkError::Socket {
            doing: "keeping the keeper's socket",
            error: error.into(),
        };
        fcntl_setfd(&socket, FdFlags::CLOEXEC).map_err(failed)?;
        Self::new(socket)
    }

    /// What keeps the socket open beyond this link: a keeper kills a daemon that has closed it.
    pub fn held_open(&self) -> Result<OwnedFd, LinkError> {
        self.socket.get_ref().try_clone().map_err(|error| LinkError::Socket {
            doing: "keeping the keeper's socket",
            error,
        })
    }

    /// Wraps a socket.
    pub fn new(socket: OwnedFd) -> Result<Self, LinkError> {
        watch(socket)
            .map(|socket| Self { socket })
            .map_err(|error| LinkError::Socket {
                doing: "watching the keeper's socket",
                error,
            })
    }

    /// Waits for the keeper's first words.
    pub async fn welcome(&self) -> Result<Welcome, LinkError> {
        let (spec, restarts, count, images, buffers, levels) =
            match self.receive_raw().await?.ok_or(LinkError::Closed)? {
                (
                    KeeperToDaemon::Welcome {
                        spec,
                        restarts,
                        held,
                        parked,
                        kept,
                        levels,
                    },
                    _,
                ) => (*spec, restarts, held, parked, kept, levels),
                _ => {
                    return Err(LinkError::OutOfOrder {
                        expected: "its welcome",
                    });
                }
            };
        VersionMismatch::check(spec.version).map_err(LinkError::Version)?;
        let mut held = Vec::new();
        for _ in 0..count {
            match self.receive_raw().await?.ok_or(LinkError::Closed)? {
                (KeeperToDaemon::Held(process), descriptors) => held.push(handed(process, descriptors)?),
                _ => {
                    return Err(LinkError::OutOfOrder {
                        expected: "a process it holds",
                    });
                }
            }
        }
        let mut parked = Vec::new();
        for _ in 0..images {
            match self.receive_raw().await?.ok_or(LinkError::Closed)? {
                (KeeperToDaemon::Parked { key, bytes }, descriptors) => parked.extend(image(key, bytes, descriptors)),
                _ => {
                    return Err(LinkError::OutOfOrder {
                        expected: "an image it holds",
                    });
                }
            }
        }
        let mut kept = Vec::new();
        for _ in 0..buffers {
            match self.receive_raw().await?.ok_or(LinkError::Closed)? {
                (KeeperToDaemon::Kept { key, bytes }, descriptors) => {
                    let file = descriptors.into_iter().next();
                    kept.extend(file.map(|file| HandedBuffer { key, bytes, file }));
                }
                _ => {
                    return Err(LinkError::OutOfOrder {
                        expected: "a buffer it holds",
                    });
                }
            }
        }
        Ok(Welcome {
            spec,
            restarts,
            held,
            parked,
            kept,
            levels,
        })
    }

    /// The next fact; `None` when the keeper is dead.
    pub async fn receive(&self) -> Result<Option<FromKeeper>, LinkError> {
        let Some((message, descriptors)) = self.receive_raw().await? else {
            return Ok(None);
        };
        Ok(Some(match message {
            KeeperToDaemon::Started(process) => FromKeeper::Started(handed(process, descriptors)?),
            KeeperToDaemon::StartRefused { key, code, reason } => FromKeeper::StartRefused { key, code, reason },
            KeeperToDaemon::Exited { key, status } => FromKeeper::Exited { key, status },
            KeeperToDaemon::StandbysHeld { job, standbys } => FromKeeper::StandbysHeld { job, standbys },
            KeeperToDaemon::Parked { key, bytes } => match image(key, bytes, descriptors) {
                Some(image) => FromKeeper::Parked(image),
                None => FromKeeper::NotParked {
                    key,
                    reason: "it was dropped meanwhile".to_owned(),
                },
            },
            KeeperToDaemon::NotParked { key, reason } => FromKeeper::NotParked { key, reason },
            KeeperToDaemon::Holds { key } => FromKeeper::Kept { key, outcome: Ok(()) },
            KeeperToDaemon::NotKept { key, reason } => FromKeeper::Kept {
                key,
                outcome: Err(reason),
            },
            KeeperToDaemon::JobCleared {
                job,
                killed,
                segments,
                left,
            } => FromKeeper::JobCleared {
                job,
                killed,
                segments,
                left,
            },
            KeeperToDaemon::Welcome { .. } | KeeperToDaemon::Held(_) | KeeperToDaemon::Kept { .. } => {
                return Err(LinkError::OutOfOrder {
                    expected: "anything but a second welcome",
                });
            }
        }))
    }

    /// Orders the start of a process with this shared page.
    pub async fn start(&self, spec: ProcessSpec, page: BorrowedFd<'_>) -> Result<(), LinkError> {
        self.send_raw(&DaemonToKeeper::Start(spec), &[page]).await
    }

    /// Has an image held.
    pub async fn park(&self, key: ParkKey, bytes: u64, file: BorrowedFd<'_>) -> Result<(), LinkError> {
        self.send_raw(&DaemonToKeeper::Park { key, bytes }, &[file]).await
    }

    /// Has a buffer of a checkpoint held.
    pub async fn keep(&self, key: BufferKey, bytes: u64, file: BorrowedFd<'_>) -> Result<(), LinkError> {
        self.send_raw(&DaemonToKeeper::Keep { key, bytes }, &[file]).await
    }

    /// Sends any other order.
    pub async fn send(&self, order: &DaemonToKeeper) -> Result<(), LinkError> {
        self.send_raw(order, &[]).await
    }

    async fn send_raw(&self, order: &DaemonToKeeper, descriptors: &[BorrowedFd<'_>]) -> Result<(), LinkError> {
        let doing = "sending an order to the keeper";
        let letter = Letter::new(order).map_err(LinkError::Unsendable)?;
        self.socket
            .async_io(Interest::WRITABLE, |socket| letter.send(socket, descriptors))
            .await
            .map_err(|error| match error.kind() {
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => LinkError::Closed,
                _ => LinkError::Socket { doing, error },
            })
    }

    async fn receive_raw(&self) -> Result<Option<(KeeperToDaemon, Vec<OwnedFd>)>, LinkError> {
        let received = self
            .socket
            .async_io(Interest::READABLE, |socket| letter_receive(socket.as_fd()))
            .await;
        match received {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            Err(error) => Err(LinkError::Socket {
                doing: "hearing from the keeper",
                error,
            }),
            Ok(message) => Ok(message),
        }
    }
}

/// None when the image was dropped before the packet was sent.
fn image(key: ParkKey, bytes: u64, descriptors: Vec<OwnedFd>) -> Option<HandedImage> {
    let file = descriptors.into_iter().next()?;
    Some(HandedImage { key, bytes, file })
}

fn handed(process: HeldProcess, descriptors: Vec<OwnedFd>) -> Result<Handed, LinkError> {
    let came = descriptors.len();
    let mut descriptors = descriptors.into_iter();
    let mut next = || {
        descriptors
            .next()
            .ok_or(LinkError::Descriptors { key: process.key, came })
    };
    let ends = Ends {
        pmi: next()?,
        channel: next()?,
        page: next()?,
        stdout: next()?,
        stderr: next()?,
        stdin: if process.stdin { Some(next()?) } else { None },
    };
    if descriptors.next().is_some() {
        return Err(LinkError::Descriptors { key: process.key, came });
    }
    Ok(Handed {
        key: process.key,
        pid: process.pid,
        ended: process.ended,
        ends,
    })
}
