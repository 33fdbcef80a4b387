//! One process's place on the network: its key, its identity, its limits and counters; makes links to others.

use crate::{
    accept::{BindError, Listener},
    counters::Counters,
    handshake::{self, Failure},
    key::ClusterKey,
    limits::Limits,
    link::{Checked, Link, PeerAddress},
    noise::{Rejection, Session},
    record,
};
use pcm_proto::handshake::{Identity, VersionMismatch};
use rustix::net::sockopt;
use std::{
    fmt, io,
    net::SocketAddr,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};
use tokio::{net::TcpStream, time};

/// After this time without an acknowledgement the system gives a connection up; longer than the stall deadline, which
/// counts the same thing where it can.
const USER_TIMEOUT_MS: u32 = 10_000;

/// A link on which nothing is said is tried after this time, and again as often, so that an end that only listens
/// notices within the time above that the other end is out of reach.
const PROBE_EVERY: Duration = Duration::from_secs(2);

/// Why no link could be made. Nothing is left of the attempt.
#[derive(Debug)]
pub enum ConnectError {
    /// No connection: host unknown, nobody listening, no route.
    Unreachable {
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The deadline passed.
    Deadline {
        address: String,
        /// How long we tried.
        deadline: Duration,
    },
    /// Something answered that is not a daemon of this project, or one with another handshake.
    NotOurs {
        /// Where it is.
        address: String,
    },
    /// The peer does not accept our key, or cannot prove that it has it.
    WrongKey {
        /// Where it is.
        address: String,
        /// The cluster whose key we hold.
        cluster_id: String,
    },
    /// The peer speaks another version of the protocol.
    Version {
        /// Where it is.
        address: String,
        /// The two versions.
        mismatch: VersionMismatch,
    },
    /// The peer went away during the handshake.
    Lost {
        /// Where it was.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The handshake could not be computed.
    Handshake {
        /// The peer's address.
        address: String,
        rejection: Rejection,
    },
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { address, source } => {
                write!(
                    f,
                    "cannot connect to {address}: {source}; is its daemon running and the address right?"
                )
            }
            Self::Deadline { address, deadline } => write!(
                f,
                "no link to {address} within {} ms: its host may be down or overloaded, or a firewall may drop the \
                 connection",
                deadline.as_millis()
            ),
            Self::NotOurs { address } => write!(
                f,
                "what listens on {address} is not a pcm-daemon of this release: check the address, and that every node \
                 runs the same release"
            ),
            Self::WrongKey { address, cluster_id } => write!(
                f,
                "the daemon at {address} does not share the key of cluster {cluster_id}: it belongs to another cluster \
                 or was started before this one; check --cluster, or take the old cluster down"
            ),
            Self::Version { address, mismatch } => write!(f, "the daemon at {address} cannot be used: {mismatch}"),
            Self::Lost { address, source } => {
                write!(
                    f,
                    "{address} closed the connection during the handshake ({source}): try again, it may be restarting"
                )
            }
            Self::Handshake { address, rejection } => write!(f, "the handshake with {address} failed: {rejection}"),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable { source, .. } | Self::Lost { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) key: ClusterKey,
    pub(crate) local: Identity,
    pub(crate) limits: Limits,
    pub(crate) counters: Arc<Counters>,
}

/// Makes and accepts links to members of one cluster; clones are the same endpoint.
#[derive(Clone, Debug)]
pub struct Endpoint {
    shared: Arc<Shared>,
}

impl Endpoint {
    /// An endpoint with the usual limits.
    pub fn new(key: ClusterKey, local: Identity) -> Self {
        Self::with_limits(key, local, Limits::default())
    }

    /// An endpoint with limits of its own.
    pub fn with_limits(key: ClusterKey, local: Identity, limits: Limits) -> Self {
        Self {
            shared: Arc::new(Shared {
                key,
                local,
                limits,
                counters: Arc::default(),
            }),
        }
    }

    /// What this endpoint's links have seen and refused.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Listens; port 0 lets the system choose one.
    pub async fn listen(&self, address: SocketAddr) -> Result<Listener, BindError> {
        Listener::bind(address, Arc::clone(&self.shared)).await
    }

    /// Makes a link to `host:port` within the deadline.
    pub async fn connect(&self, address: &str, deadline: Duration) -> Result<Link, ConnectError> {
        match time::timeout(deadline, self.connect_unbounded(address)).await {
            Ok(result) => result,
            Err(_) => Err(ConnectError::Deadline {
                address: address.to_owned(),
                deadline,
            }),
        }
    }

    async fn connect_unbounded(&self, address: &str) -> Result<Link, ConnectError> {
        let unreachable = |source| ConnectError::Unreachable {
            address: address.to_owned(),
            source,
        };
        let mut stream = TcpStream::connect(address).await.map_err(unreachable)?;
        let peer_address = stream.peer_addr().map_err(unreachable)?;
        configure(&stream).map_err(unreachable)?;
        let (session, peer) = handshake::initiate(&mut stream, &self.shared.key, &self.shared.local)
            .await
            .map_err(|failure| self.connect_error(address, failure))?;
        Counters::count(&self.shared.counters.connected);
        Ok(link(stream, session, peer, peer_address, &self.shared))
    }

    fn connect_error(&self, address: &str, failure: Failure) -> ConnectError {
        let address = address.to_owned();
        match failure {
            Failure::Refused | Failure::Rejected(Rejection::Key) => ConnectError::WrongKey {
                address,
                cluster_id: self.shared.key.cluster_id().to_owned(),
            },
            Failure::Rejected(Rejection::NotOurs) => ConnectError::NotOurs { address },
            Failure::Rejected(Rejection::Version(mismatch)) => ConnectError::Version { address, mismatch },
            Failure::Rejected(rejection) => ConnectError::Handshake { address, rejection },
            Failure::Io(source) => ConnectError::Lost { address, source },
        }
    }
}

/// Settings of every TCP connection, on both sides.
pub(crate) fn configure(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PROBE_EVERY)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_EVERY)?;
    Ok(sockopt::set_tcp_user_timeout(stream, USER_TIMEOUT_MS)?)
}

pub(crate) fn link(stream: TcpStream, session: Session, peer: Identity, address: SocketAddr, shared: &Shared) -> Link {
    let (read, write) = stream.into_split();
    let (outbound, inbound) = record::sealed(session);
    let address = PeerAddress::Network(address);
    let checked = Checked {
        read: Box::new(read),
        write: Box::new(write),
        outbound,
        inbound,
        peer,
        address,
    };
    Link::new(checked, &shared.limits, &shared.counters)
}

/// Which counter a refused peer belongs to.
pub(crate) fn rejection_counter<'a>(failure: &Failure, counters: &'a Counters) -> &'a AtomicU64 {
    match failure {
        Failure::Rejected(Rejection::NotOurs) => &counters.rejected_not_ours,
        Failure::Rejected(Rejection::Key) => &counters.rejected_key,
        Failure::Rejected(Rejection::Version(_)) => &counters.rejected_version,
        Failure::Rejected(Rejection::Hello | Rejection::Library(_)) => &counters.rejected_hello,
        Failure::Refused | Failure::Io(_) => &counters.rejected_lost,
    }
}
