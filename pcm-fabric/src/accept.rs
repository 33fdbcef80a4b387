//! Accepting links: strangers wait here, a limited number for a limited time, and only peers that finished the
//! handshake are handed on. A flood of strangers cannot keep members out: the oldest unfinished handshake makes room.

use crate::{
    counters::Counters,
    endpoint::{self, Shared},
    handshake,
    link::Link,
};
use std::{collections::VecDeque, fmt, io, net::SocketAddr, sync::Arc};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::{AbortHandle, JoinSet},
    time::{self, Duration, Instant},
};

/// Pause after a failed accept, which mostly means that descriptors are short; the connection waits in the kernel.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Why nothing listens.
#[derive(Debug)]
pub enum BindError {
    /// Somebody listens there already.
    PortTaken { address: SocketAddr },
    /// The system refused.
    Refused {
        address: SocketAddr,
        /// What it said.
        source: io::Error,
    },
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PortTaken { address } => write!(
                f,
                "port {} of {} is taken by another process: stop it (an older cluster: `pcmctl down`), or use port 0 \
                 to let the system choose",
                address.port(),
                address.ip()
            ),
            Self::Refused { address, source } => {
                write!(
                    f,
                    "cannot listen on {address}: {source}; is it an address of this host?"
                )
            }
        }
    }
}

impl std::error::Error for BindError {}

/// Accepts links from members of the cluster. Dropping it stops listening; links it handed out live on.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    links: mpsc::Receiver<Link>,
    task: AbortHandle,
}

impl Listener {
    pub(crate) async fn bind(address: SocketAddr, shared: Arc<Shared>) -> Result<Self, BindError> {
        let refused = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => BindError::PortTaken { address },
            _ => BindError::Refused { address, source },
        };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let (finished, links) = mpsc::channel(shared.limits.accept_queue_max);
        let door = Door {
            listener,
            shared,
            finished,
            handshakes: JoinSet::new(),
            half_open: VecDeque::new(),
        };
        Ok(Self {
            address,
            links,
            task: tokio::spawn(door.run()).abort_handle(),
        })
    }

    /// Where it listens, with the port the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the next link. `None` only when the runtime is going down. Cancelling it loses nothing.
    pub async fn accept(&mut self) -> Option<Link> {
        self.links.recv().await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Door {
    listener: TcpListener,
    shared: Arc<Shared>,
    finished: mpsc::Sender<Link>,
    handshakes: JoinSet<Option<Link>>,
    half_open: VecDeque<(Instant, AbortHandle)>,
}

impl Door {
    async fn run(mut self) {
        loop {
            let full = self.half_open.len() >= self.shared.limits.half_open_max;
            let grace_ends = self
                .half_open
                .front()
                .map(|(begun, _)| *begun + self.shared.limits.half_open_grace);
            tokio::select! {
                biased;
                Some(done) = self.handshakes.join_next() => {
                    self.half_open.retain(|(_, handshake)| !handshake.is_finished());
                    if let Ok(Some(link)) = done {
                        self.hand_on(link);
                    }
                }
                accepted = self.listener.accept(), if !full => match accepted {
                    Ok((stream, from)) => self.begin(stream, from),
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        Counters::count(&self.shared.counters.accept_failed);
                        time::sleep(ACCEPT_RETRY).await;
                    }
                },
                () = time::sleep_until(grace_ends.unwrap_or_else(Instant::now)), if full => {
                    if let Some((_, oldest)) = self.half_open.pop_front() {
                        oldest.abort();
                        Counters::count(&self.shared.counters.half_open_displaced);
                    }
                }
            }
        }
    }

    fn begin(&mut self, stream: TcpStream, from: SocketAddr) {
        let shared = Arc::clone(&self.shared);
        let handshake = self.handshakes.spawn(receive(stream, from, shared));
        self.half_open.push_back((Instant::now(), handshake));
    }

    fn hand_on(&self, link: Link) {
        let counters = &self.shared.counters;
        match self.finished.try_send(link) {
            Ok(()) => Counters::count(&counters.accepted),
            Err(_) => Counters::count(&counters.accept_queue_full),
        }
    }
}

async fn receive(mut stream: TcpStream, from: SocketAddr, shared: Arc<Shared>) -> Option<Link> {
    let counters = &shared.counters;
    if endpoint::configure(&stream).is_err() {
        Counters::count(&counters.rejected_lost);
        return None;
    }
    let handshake = handshake::respond(&mut stream, &shared.key, &shared.local);
    match time::timeout(shared.limits.handshake_deadline, handshake).await {
        Ok(Ok((session, peer))) => Some(endpoint::link(stream, session, peer, from, &shared)),
        Ok(Err(failure)) => {
            tracing::debug!(%from, ?failure, "refused a connection");
            Counters::count(endpoint::rejection_counter(&failure, counters));
            None
        }
        Err(_) => {
            tracing::debug!(%from, "a handshake was not finished in time");
            Counters::count(&counters.rejected_deadline);
            None
        }
    }
}
