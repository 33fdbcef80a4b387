//! [`RankHandle`]: one rank's descriptors, listened to by small tasks that only pass on.

use super::channel::Channel;
use super::output::{Output, pump};
use super::page::{PageFileError, PageMap};
use super::pmi_port::{Asked, PmiPort};
use crate::keeper_link::Handed;
use crate::watched::watch;
use pcm_core::pmi::wire::Request;
use pcm_proto::app::{AppToDaemon, DaemonToApp};
use pcm_proto::control::Stream;
use pcm_proto::keeper::ProcessKey;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use tokio::io::Interest;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;

/// Pieces of standard input that wait for a rank; with the pipe's own 64 KiB enough for steady flow.
const STDIN_PIECES_MAX: usize = 4;

/// What a rank says.
#[derive(Debug)]
pub enum RankEvent {
    /// It asks its process manager; to be answered by [`RankHandle::pmi_answer`].
    Pmi {
        key: ProcessKey,
        /// What it asks.
        request: Request,
    },
    /// What it wrote into its PMI socket makes no sense; nothing more is read from there.
    PmiBroken { key: ProcessKey, reason: String },
    /// It closed its PMI socket, by ending as a rule.
    PmiClosed { key: ProcessKey },
    /// Its library says something.
    App {
        key: ProcessKey,
        message: AppToDaemon,
        /// What came with it.
        descriptors: Vec<OwnedFd>,
    },
    /// What came on the library's channel makes no sense; nothing more is read from there.
    AppBroken { key: ProcessKey, reason: String },
    /// The library's channel is closed, by its end as a rule.
    AppClosed { key: ProcessKey },
}

/// Why a rank's descriptors cannot be used.
#[derive(Debug)]
pub enum AttachError {
    /// A socket or pipe cannot be watched.
    Watch(io::Error),
    /// The shared page cannot be used.
    Page(PageFileError),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Watch(error) => write!(f, "watching a rank's sockets: {error}"),
            Self::Page(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AttachError {}

/// One rank of this node.
#[derive(Debug)]
pub struct RankHandle {
    key: ProcessKey,
    pid: u32,
    pmi: Arc<PmiPort>,
    channel: Arc<Channel>,
    page: PageMap,
    stdin: Option<Sender<Vec<u8>>>,
    /// Standard output and error, while nobody reads them.
    unread: Option<[OwnedFd; 2]>,
    tasks: Vec<AbortHandle>,
}

impl RankHandle {
    /// Starts to listen to a process, but for what it prints. Must be called inside a tokio runtime.
    pub fn attach(handed: Handed, events: Sender<RankEvent>) -> Result<Self, AttachError> {
        let Handed { key, pid, ends, .. } = handed;
        let page = PageMap::new(ends.page.as_fd()).map_err(AttachError::Page)?;
        let pmi = Arc::new(PmiPort::new(ends.pmi, &page.page().head.orders.pmi_answering).map_err(AttachError::Watch)?);
        let channel = Arc::new(Channel::new(ends.channel).map_err(AttachError::Watch)?);
        let mut tasks = vec![
            tokio::spawn(pmi_listen(key, Arc::clone(&pmi), events.clone())).abort_handle(),
            tokio::spawn(channel_listen(key, Arc::clone(&channel), events)).abort_handle(),
        ];
        let stdin = ends.stdin.map(|pipe| {
            let (sender, receiver) = self::channel(STDIN_PIECES_MAX);
            tasks.push(tokio::spawn(stdin_feed(pipe, receiver)).abort_handle());
            sender
        });
        Ok(Self {
            key,
            pid,
            pmi,
            channel,
            page,
            stdin,
            unread: Some([ends.stdout, ends.stderr]),
            tasks,
        })
    }

    /// Begins to read what the process prints. Until then it waits when it has filled its pipes.
    pub fn read_output(&mut self, output: &Sender<Output>) {
        let Some([stdout, stderr]) = self.unread.take() else {
            return;
        };
        for (stream, pipe) in [(Stream::Stdout, stdout), (Stream::Stderr, stderr)] {
            let task = tokio::spawn(output_listen(self.key, stream, pipe, output.clone()));
            self.tasks.push(task.abort_handle());
        }
    }

    pub fn key(&self) -> ProcessKey {
        self.key
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether a PMI request stands unanswered in its socket.
    pub fn is_asking(&self) -> bool {
        self.pmi.is_asking()
    }

    /// Answers the present PMI request with a line. An error means that the process is dead or as good as dead.
    pub fn pmi_answer(&self, line: &str) -> io::Result<()> {
        self.pmi.answer(line, &self.page.page().head.orders.pmi_answering)
    }

    /// Tells the library something. `WouldBlock` means that it has not read its channel for long.
    pub fn app_send(&self, message: &DaemonToApp, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.channel.send(message, descriptors)
    }

    /// Its shared page.
    pub fn page(&self) -> &PageMap {
        &self.page
    }

    /// Where to send pieces of its standard input, for the one process that has any. Sending waits while the process
    /// does not read. To end the input, drop every sender, call [`RankHandle::stdin_close`] and order `CloseStdin`.
    pub fn stdin(&self) -> Option<Sender<Vec<u8>>> {
        self.stdin.clone()
    }

    /// Lets go of the handle's own sender.
    pub fn stdin_close(&mut self) {
        self.stdin = None;
    }
}

impl Drop for RankHandle {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn pmi_listen(key: ProcessKey, port: Arc<PmiPort>, events: Sender<RankEvent>) {
    loop {
        let (event, is_last) = match port.next().await {
            Ok(Asked::Request(request)) => (RankEvent::Pmi { key, request }, false),
            Ok(Asked::Closed) => (RankEvent::PmiClosed { key }, true),
            Err(error) => (
                RankEvent::PmiBroken {
                    key,
                    reason: error.to_string(),
                },
                true,
            ),
        };
        if events.send(event).await.is_err() || is_last {
            return;
        }
    }
}

async fn channel_listen(key: ProcessKey, channel: Arc<Channel>, events: Sender<RankEvent>) {
    loop {
        let (event, is_last) = match channel.next().await {
            Ok(Some((message, descriptors))) => (
                RankEvent::App {
                    key,
                    message,
                    descriptors,
                },
                false,
            ),
            Ok(None) => (RankEvent::AppClosed { key }, true),
            Err(error) => (
                RankEvent::AppBroken {
                    key,
                    reason: error.to_string(),
                },
                true,
            ),
        };
        if events.send(event).await.is_err() || is_last {
            return;
        }
    }
}

async fn output_listen(key: ProcessKey, stream: Stream, pipe: OwnedFd, output: Sender<Output>) {
    if let Err(error) = pump(key, stream, pipe, output.clone()).await {
        tracing::warn!(job = %key.job, process = %key.process, ?stream, %error, "output of a rank is lost");
        let _ = output.send(Output::End { key, stream }).await;
    }
}

async fn stdin_feed(pipe: OwnedFd, mut pieces: Receiver<Vec<u8>>) {
    let Ok(pipe) = watch(pipe) else { return };
    while let Some(piece) = pieces.recv().await {
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let written = pipe
                .async_io(Interest::WRITABLE, |pipe| {
                    rustix::io::write(pipe, rest).map_err(io::Error::from)
                })
                .await;
            match written {
                Ok(length) => rest = &rest[length..],
                // The process closed its input; what is typed from now on has no reader.
                Err(_) => return,
            }
        }
    }
}
