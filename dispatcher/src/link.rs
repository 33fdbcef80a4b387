//! The link from `pcmctl` to a daemon: finding one that answers, asking with a deadline, hearing what follows.

use crate::cluster::{ClusterDir, RecordedNode};
use crate::failure::{Failure, LINK_LOST};
use pcm_fabric::{ClusterKey, ConnectError, Endpoint, PeerAddress, Receiver, RecvError, SendError, Sender};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::handshake::{Identity, Role};
use pcm_proto::ids::NodeName;
use std::time::{Duration, Instant};

/// What a daemon may take for a request that waits for nothing but other daemons.
pub const ASK_DEADLINE: Duration = Duration::from_secs(10);

/// What one daemon may take to accept a link; a dead one on this machine refuses at once.
const CONNECT_DEADLINE: Duration = Duration::from_secs(2);

/// What finding a daemon may take over all, however many nodes are dead.
const FIND_DEADLINE: Duration = Duration::from_secs(8);

/// A link to one daemon.
#[derive(Debug)]
pub struct Link {
    sender: Sender,
    receiver: Receiver,
    node: NodeName,
    is_local: bool,
}

impl Link {
    /// A link to the first daemon of the cluster that answers.
    pub async fn open(cluster: &ClusterDir) -> Result<Self, Failure> {
        Self::open_preferring(cluster, None).await
    }

    /// A link to the daemon of this node, or to another where it does not answer.
    pub async fn open_preferring(cluster: &ClusterDir, preferred: Option<&NodeName>) -> Result<Self, Failure> {
        let mut nodes = cluster.expect_record()?.nodes;
        nodes.sort_by_key(|node| Some(&node.spec.name) != preferred);
        Self::open_first(cluster, &nodes).await
    }

    /// A link to the first daemon that answers, but not to that of this node.
    pub async fn open_elsewhere(cluster: &ClusterDir, but: &NodeName) -> Result<Self, Failure> {
        let mut nodes = cluster.expect_record()?.nodes;
        nodes.retain(|node| node.spec.name != *but);
        Self::open_first(cluster, &nodes).await
    }

    async fn open_first(cluster: &ClusterDir, nodes: &[RecordedNode]) -> Result<Self, Failure> {
        let key = ClusterKey::load(&cluster.key_path()).map_err(|error| Failure::wrong_key(error.to_string()))?;
        let endpoint = Endpoint::new(key, Identity::new(Role::Control));
        let deadline = Instant::now() + FIND_DEADLINE;
        let mut last = None;
        for node in nodes {
            let left = deadline.saturating_duration_since(Instant::now()).min(CONNECT_DEADLINE);
            if left.is_zero() {
                break;
            }
            match Self::connect(&endpoint, cluster, node, left).await {
                Ok(link) => return Ok(link),
                Err(ConnectError::Unreachable { .. }) => {}
                Err(error) => last = Some(error),
            }
        }
        Err(match last {
            Some(error @ ConnectError::WrongKey { .. }) => Failure::wrong_key(error.to_string()),
            Some(error @ ConnectError::Version { .. }) => Failure::other_version(error.to_string()),
            Some(error @ ConnectError::NotOurs { .. }) => Failure::link(error.to_string()),
            Some(error) => Failure::no_cluster(cluster.path(), &format!(" that answers ({error})")),
            None => Failure::no_cluster(
                cluster.path(),
                " (none of its daemons listens; 'pcmctl down' removes what they left)",
            ),
        })
    }

    async fn connect(
        endpoint: &Endpoint,
        cluster: &ClusterDir,
        node: &RecordedNode,
        within: Duration,
    ) -> Result<Self, ConnectError> {
        // A daemon that was started again listens elsewhere than at first, and says so in the directory.
        let address = cluster
            .published_address(&node.spec.name)
            .or_else(|| node.listens.clone());
        let address = address.unwrap_or_else(|| node.spec.address.clone());
        let link = endpoint.connect(&address, within).await?;
        let is_local = matches!(link.address(), PeerAddress::Network(address) if address.ip().is_loopback());
        let node = match &link.peer().role {
            Role::Daemon { node } => node.clone(),
            _ => return Err(ConnectError::NotOurs { address }),
        };
        let (sender, receiver) = link.split();
        Ok(Self {
            sender,
            receiver,
            node,
            is_local,
        })
    }

    /// The node of the daemon at the other end.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Whether that daemon is reached over loopback, and so stands on this machine.
    pub fn is_local(&self) -> bool {
        self.is_local
    }

    /// A handle that sends while answers are awaited elsewhere.
    pub fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// Sends a request.
    pub async fn send(&mut self, request: &ControlToDaemon) -> Result<(), Failure> {
        let sent = self.sender.send(request).await;
        sent.map_err(|error| match error {
            SendError::Encode(error) => Failure::usage(format!("the request cannot be sent: {error}")),
            error => self.lost(&error.to_string()),
        })
    }

    /// The next answer, whenever it comes; refusals are failures. Cancelling it loses nothing.
    pub async fn next(&mut self) -> Result<DaemonToControl, Failure> {
        match self.receiver.recv().await {
            Ok(DaemonToControl::Refused(refusal)) => Err(refusal.into()),
            Ok(answer) => Ok(answer),
            Err(RecvError::Message(error)) => Err(Failure::unexpected("a request", &error)),
            Err(error) => Err(self.lost(&error.to_string())),
        }
    }

    /// Sends a request and waits for its answer.
    pub async fn ask(&mut self, request: ControlToDaemon, within: Duration) -> Result<DaemonToControl, Failure> {
        self.send(&request).await?;
        match tokio::time::timeout(within, self.next()).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure::deadline(format!(
                "the daemon of node {} did not answer within {} s: it may be stopped or its machine overloaded; see \
                 'pcmctl logs {}'",
                self.node,
                within.as_secs(),
                self.node
            ))),
        }
    }

    fn lost(&self, how: &str) -> Failure {
        Failure::link(format!(
            "the link to the daemon of node {} was lost ({how}): try again, it is started again within a second unless \
             its machine is gone",
            self.node
        ))
    }
}

/// Whether a failure means that the daemon went away, and so may come back.
pub fn is_lost(failure: &Failure) -> bool {
    failure.code == LINK_LOST
}
