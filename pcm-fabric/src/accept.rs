//! Accepting links: strangers wait in the door, and only peers that finished the handshake are handed on.

use crate::{
    counters::Counters,
    door::Door,
    endpoint::{self, Shared},
    handshake,
    link::Link,
};
use std::{fmt, io, net::SocketAddr, sync::Arc};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::AbortHandle,
    time,
};

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
        let door = Door::new(listener, &shared.limits, Arc::clone(&shared.counters));
        let of_handshakes = Arc::clone(&shared);
        let run = door.run(
            move |stream, from| receive(stream, from, Arc::clone(&of_handshakes)),
            move |link| hand_on(link, &finished, &shared.counters),
        );
        Ok(Self {
            address,
            links,
            task: tokio::spawn(run).abort_handle(),
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

fn hand_on(link: Link, finished: &mpsc::Sender<Link>, counters: &Counters) {
    match finished.try_send(link) {
        Ok(()) => Counters::count(&counters.accepted),
        Err(_) => Counters::count(&counters.accept_queue_full),
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
