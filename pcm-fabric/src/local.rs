//! Links over unix sockets, for processes of one machine and one user: each side checks the other's user id with the
//! kernel, then both say who they are. Frames are the same as over the network, without encryption.

use crate::{
    counters::Counters,
    limits::Limits,
    link::{Checked, Link, PeerAddress},
    record::{Inbound, Outbound},
};
use pcm_proto::{
    frame::{Decoder, FrameKind, HEADER_LENGTH},
    handshake::{HelloError, IDENTITY_LENGTH_MAX, Identity, VersionMismatch},
};
use std::{
    ffi::OsStr,
    fmt, fs, io,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
    task::JoinSet,
    time,
};

/// Longest socket path in bytes: the kernel's 108 less the final zero.
const SOCKET_PATH_LENGTH_MAX: usize = 107;

/// Pause between two attempts while the listener's backlog is full.
const BACKLOG_RETRY: Duration = Duration::from_millis(5);

/// Where a local socket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalAddress {
    /// A file; give it a short directory that only its user can enter.
    Path(PathBuf),
    /// A name of the kernel's, gone with its process; anyone in the network namespace can try to connect, or take it.
    Abstract(String),
    /// No name at all: one end of a pair, which a process gave to another that it started.
    Given,
}

impl fmt::Display for LocalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Abstract(name) => write!(f, "@{name}"),
            Self::Given => f.write_str("the socket that this process was started with"),
        }
    }
}

impl LocalAddress {
    fn to_socket_path(&self) -> Result<PathBuf, usize> {
        let bytes = match self {
            Self::Path(path) => path.as_os_str().as_bytes().to_vec(),
            Self::Abstract(name) => [b"\0", name.as_bytes()].concat(),
            Self::Given => Vec::new(),
        };
        match bytes.len() {
            length if length > SOCKET_PATH_LENGTH_MAX => Err(length),
            _ => Ok(PathBuf::from(OsStr::from_bytes(&bytes))),
        }
    }
}

/// Why nothing listens on a local socket.
#[derive(Debug)]
pub enum LocalListenError {
    /// The path does not fit the kernel's address.
    PathTooLong { address: LocalAddress, length: usize },
    /// A living process listens there.
    Taken { address: LocalAddress },
    /// The system refused.
    Refused {
        address: LocalAddress,
        /// What it said.
        source: io::Error,
    },
}

impl fmt::Display for LocalListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PathTooLong { address, length } => write!(
                f,
                "socket path {address} has {length} bytes, the system allows {SOCKET_PATH_LENGTH_MAX}: use a shorter \
                 directory, such as one under XDG_RUNTIME_DIR or /tmp"
            ),
            Self::Taken { address } => {
                write!(
                    f,
                    "another process listens on {address}: this node's daemon is running already"
                )
            }
            Self::Refused { address, source } => write!(f, "cannot listen on {address}: {source}"),
        }
    }
}

impl std::error::Error for LocalListenError {}

/// Why no link to a local process could be made.
#[derive(Debug)]
pub enum LocalConnectError {
    /// Nobody listens, or the path is wrong or too long.
    Unreachable {
        address: LocalAddress,
        /// What the system said.
        source: io::Error,
    },
    /// The deadline passed.
    Deadline {
        address: LocalAddress,
        /// How long we tried.
        deadline: Duration,
    },
    /// The peer is not the same user.
    OtherUser(OtherUser),
    /// The peer speaks another version.
    Version(VersionMismatch),
    /// The peer sent something else than a hello, or went away.
    NotOurs { address: LocalAddress },
}

impl fmt::Display for LocalConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { address, source } => {
                write!(
                    f,
                    "cannot connect to {address}: {source}; is this node's daemon running?"
                )
            }
            Self::Deadline { address, deadline } => {
                write!(
                    f,
                    "{address} did not answer within {} ms: its daemon may be overloaded",
                    deadline.as_millis()
                )
            }
            Self::OtherUser(other) => other.fmt(f),
            Self::Version(mismatch) => mismatch.fmt(f),
            Self::NotOurs { address } => write!(f, "what listens on {address} did not answer as a pcm-daemon"),
        }
    }
}

impl std::error::Error for LocalConnectError {}

impl LocalConnectError {
    /// This process was started without a socket.
    pub fn not_given(source: io::Error) -> Self {
        let address = LocalAddress::Given;
        Self::Unreachable { address, source }
    }
}

/// A local peer that runs as another user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherUser {
    /// Who we are.
    pub ours: u32,
    /// Who the peer is.
    pub theirs: u32,
}

impl fmt::Display for OtherUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ours, theirs } = self;
        write!(
            f,
            "the process at the other end runs as user {theirs}, this one as user {ours}: use the user who made the \
             cluster"
        )
    }
}

#[derive(Debug)]
struct Shared {
    local: Identity,
    limits: Limits,
    counters: Arc<Counters>,
    user: u32,
}

/// Makes and accepts links between local processes of one user; clones are the same endpoint.
#[derive(Clone, Debug)]
pub struct LocalEndpoint {
    shared: Arc<Shared>,
}

impl LocalEndpoint {
    /// An endpoint with the usual limits.
    pub fn new(local: Identity) -> Self {
        Self::with_limits(local, Limits::default())
    }

    /// An endpoint with limits of its own.
    pub fn with_limits(local: Identity, limits: Limits) -> Self {
        Self::for_user(local, limits, rustix::process::geteuid().as_raw())
    }

    fn for_user(local: Identity, limits: Limits, user: u32) -> Self {
        Self {
            shared: Arc::new(Shared {
                local,
                limits,
                counters: Arc::default(),
                user,
            }),
        }
    }

    /// What this endpoint's links have seen and refused.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Listens. A socket file that a dead process left is replaced; one of a living process is not touched.
    pub async fn listen(&self, address: &LocalAddress) -> Result<LocalListener, LocalListenError> {
        let path = address
            .to_socket_path()
            .map_err(|length| LocalListenError::PathTooLong {
                address: address.clone(),
                length,
            })?;
        let refused = |source| LocalListenError::Refused {
            address: address.clone(),
            source,
        };
        let listener = match UnixListener::bind(&path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if !matches!(address, LocalAddress::Path(_)) || !is_left_behind(&path).await {
                    return Err(LocalListenError::Taken {
                        address: address.clone(),
                    });
                }
                fs::remove_file(&path).map_err(refused)?;
                UnixListener::bind(&path).map_err(refused)?
            }
            bound => bound.map_err(refused)?,
        };
        let file = match address {
            LocalAddress::Path(path) => {
                fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(refused)?;
                Some(path.clone())
            }
            LocalAddress::Abstract(_) | LocalAddress::Given => None,
        };
        Ok(LocalListener {
            listener,
            shared: Arc::clone(&self.shared),
            handshakes: JoinSet::new(),
            file,
        })
    }

    /// Makes a link within the deadline.
    pub async fn connect(&self, address: &LocalAddress, deadline: Duration) -> Result<Link, LocalConnectError> {
        match time::timeout(deadline, self.connect_unbounded(address)).await {
            Ok(result) => result,
            Err(_) => Err(LocalConnectError::Deadline {
                address: address.clone(),
                deadline,
            }),
        }
    }

    async fn connect_unbounded(&self, address: &LocalAddress) -> Result<Link, LocalConnectError> {
        let unreachable = |source| LocalConnectError::Unreachable {
            address: address.clone(),
            source,
        };
        let path = address
            .to_socket_path()
            .map_err(|_| unreachable(io::ErrorKind::InvalidFilename.into()))?;
        let stream = loop {
            match UnixStream::connect(&path).await {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => time::sleep(BACKLOG_RETRY).await,
                connected => break connected.map_err(unreachable)?,
            }
        };
        self.link_over(stream, address).await
    }

    /// Makes a link over one end of a pair of sockets within the deadline: no name, so no other user can take it.
    pub async fn over(&self, end: std::os::fd::OwnedFd, deadline: Duration) -> Result<Link, LocalConnectError> {
        let address = LocalAddress::Given;
        let end = std::os::unix::net::UnixStream::from(end);
        end.set_nonblocking(true).map_err(LocalConnectError::not_given)?;
        let stream = UnixStream::from_std(end).map_err(LocalConnectError::not_given)?;
        match time::timeout(deadline, self.link_over(stream, &address)).await {
            Ok(result) => result,
            Err(_) => Err(LocalConnectError::Deadline { address, deadline }),
        }
    }

    async fn link_over(&self, stream: UnixStream, address: &LocalAddress) -> Result<Link, LocalConnectError> {
        let link = check(stream, &self.shared).await.map_err(|refused| match refused {
            Refused::OtherUser(other) => LocalConnectError::OtherUser(other),
            Refused::Version(mismatch) => LocalConnectError::Version(mismatch),
            Refused::Hello | Refused::Lost => LocalConnectError::NotOurs {
                address: address.clone(),
            },
        })?;
        Counters::count(&self.shared.counters.connected);
        Ok(link)
    }
}

/// Accepts links from local processes; dropping it stops listening and removes its socket file.
#[derive(Debug)]
pub struct LocalListener {
    listener: UnixListener,
    shared: Arc<Shared>,
    handshakes: JoinSet<Option<Link>>,
    file: Option<PathBuf>,
}

impl LocalListener {
    /// Waits for the next link. Cancelling it loses nothing.
    pub async fn accept(&mut self) -> Link {
        loop {
            let full = self.handshakes.len() >= self.shared.limits.half_open_max;
            tokio::select! {
                biased;
                Some(done) = self.handshakes.join_next() => {
                    if let Ok(Some(link)) = done {
                        Counters::count(&self.shared.counters.accepted);
                        return link;
                    }
                }
                accepted = self.listener.accept(), if !full => match accepted {
                    Ok((stream, _)) => {
                        self.handshakes.spawn(receive(stream, Arc::clone(&self.shared)));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a local connection could not be accepted");
                        Counters::count(&self.shared.counters.accept_failed);
                        time::sleep(BACKLOG_RETRY).await;
                    }
                }
            }
        }
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // Gone already is as good; there is nobody to tell anything else.
            let _ = fs::remove_file(file);
        }
    }
}

async fn is_left_behind(path: &Path) -> bool {
    matches!(UnixStream::connect(path).await, Err(error) if error.kind() == io::ErrorKind::ConnectionRefused)
}

enum Refused {
    OtherUser(OtherUser),
    Version(VersionMismatch),
    Hello,
    Lost,
}

async fn receive(stream: UnixStream, shared: Arc<Shared>) -> Option<Link> {
    let counters = &shared.counters;
    let counter = match time::timeout(shared.limits.handshake_deadline, check(stream, &shared)).await {
        Ok(Ok(link)) => return Some(link),
        Ok(Err(Refused::OtherUser(_))) => &counters.rejected_user,
        Ok(Err(Refused::Version(_))) => &counters.rejected_version,
        Ok(Err(Refused::Hello)) => &counters.rejected_hello,
        Ok(Err(Refused::Lost)) => &counters.rejected_lost,
        Err(_) => &counters.rejected_deadline,
    };
    Counters::count(counter);
    None
}

/// The same on both sides: user id, then hellos in both directions at once.
async fn check(mut stream: UnixStream, shared: &Shared) -> Result<Link, Refused> {
    let credentials = stream.peer_cred().map_err(|_| Refused::Lost)?;
    if credentials.uid() != shared.user {
        return Err(Refused::OtherUser(OtherUser {
            ours: shared.user,
            theirs: credentials.uid(),
        }));
    }
    let hello = shared.local.to_frame().map_err(|_| Refused::Hello)?;
    stream.write_all(&hello).await.map_err(|_| Refused::Lost)?;
    let peer = read_hello(&mut stream, shared.local.version).await?;
    let (read, write) = stream.into_split();
    let checked = Checked {
        read: Box::new(read),
        write: Box::new(write),
        outbound: Outbound::Plain,
        inbound: Inbound::Plain,
        peer,
        address: PeerAddress::Local { pid: credentials.pid() },
    };
    Ok(Link::new(checked, &shared.limits, &shared.counters))
}

async fn read_hello(stream: &mut UnixStream, version: u16) -> Result<Identity, Refused> {
    let mut decoder = Decoder::new(IDENTITY_LENGTH_MAX);
    let mut header = [0; HEADER_LENGTH];
    stream.read_exact(&mut header).await.map_err(|_| Refused::Lost)?;
    decoder.push(&header);
    let need = match decoder.missing() {
        Ok(need) => need,
        Err(_) => return Err(Refused::Hello),
    };
    let mut payload = [0; IDENTITY_LENGTH_MAX];
    let payload = payload.get_mut(..need).ok_or(Refused::Hello)?;
    stream.read_exact(payload).await.map_err(|_| Refused::Lost)?;
    decoder.push(payload);
    match decoder.next_frame() {
        Ok(Some(frame)) if frame.kind == FrameKind::Hello => {
            Identity::from_payload(frame.payload, version).map_err(|error| match error {
                HelloError::Version(mismatch) => Refused::Version(mismatch),
                HelloError::TooShort | HelloError::Malformed(_) => Refused::Hello,
            })
        }
        _ => Err(Refused::Hello),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::handshake::Role;

    #[tokio::test]
    async fn a_process_of_another_user_is_refused_by_either_side() {
        let dir = tempfile::tempdir().unwrap();
        let address = LocalAddress::Path(dir.path().join("s"));
        let deadline = Duration::from_secs(10);
        let us = rustix::process::geteuid().as_raw();
        let (same, other) = (us, us.wrapping_add(1));
        let endpoint = |user| LocalEndpoint::for_user(Identity::new(Role::Control), Limits::default(), user);
        let server = endpoint(other);
        let mut listener = server.listen(&address).await.unwrap();
        let accepting = tokio::spawn(async move { listener.accept().await });
        let refused = endpoint(same).connect(&address, deadline).await.unwrap_err();
        assert!(matches!(refused, LocalConnectError::NotOurs { .. }), "{refused:?}");
        assert_eq!(server.counters().snapshot().rejected_user, 1);
        let refused = endpoint(other).connect(&address, deadline).await.unwrap_err();
        let expected = OtherUser {
            ours: other,
            theirs: us,
        };
        assert!(
            matches!(refused, LocalConnectError::OtherUser(found) if found == expected),
            "{refused:?}"
        );
        accepting.abort();
    }
}
