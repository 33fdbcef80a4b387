//! Finds the daemons that introduce a node which joins by itself: the list of nodes says who, their files say where,
//! and one that answers says whether there is room for the node's name.

use super::options::Options;
use crate::cluster_record;
use pcm_fabric::{ClusterKey, ConnectError, Endpoint};
use pcm_proto::cluster_record::ClusterRecord;
use pcm_proto::control::{ControlToDaemon, DaemonToControl, NodeState, NodeStatus};
use pcm_proto::handshake::{Identity, Role};
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};

/// Most addresses that a daemon is given: one that answers is enough, and more may end meanwhile.
const SEEDS_MAX: usize = 8;

/// What one daemon may take to answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// A cluster that is being made has a list within this time.
const MADE_WITHIN: Duration = Duration::from_secs(10);

/// Pauses between two looks: starts on many nodes at once are told apart by a file system that shares late.
const PAUSE: Duration = Duration::from_millis(30);

/// What introduces the node.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) seeds: Vec<String>,
    /// Own address as the daemon that answered sees it.
    pub(super) address: Option<String>,
}

/// Waits for a daemon that answers and knows no living node of this name.
pub(super) fn find(options: &Options) -> Result<Found, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("an event loop cannot be set up: {error}"))?;
    runtime.block_on(search(options))
}

async fn search(options: &Options) -> Result<Found, String> {
    let dir = &options.cluster_dir;
    let begun = Instant::now();
    let (made_until, until) = (begun + MADE_WITHIN.min(options.wait), begun + options.wait);
    loop {
        let now = Instant::now();
        let reason = match known(dir) {
            Ok(Some((key, addresses))) => match introduced(key, &addresses, options).await {
                Ok(found) => return Ok(found),
                Err(Trouble::Final(reason)) => return Err(reason),
                Err(Trouble::Passing(reason)) => reason,
            },
            Ok(None) if now >= made_until => return Err(over(dir)),
            Ok(None) => over(dir),
            Err(reason) => return Err(reason),
        };
        if now >= until {
            return Err(reason);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The cluster's key and where its daemons say that they listen; `None` while there is no cluster.
fn known(dir: &Path) -> Result<Option<(ClusterKey, Vec<String>)>, String> {
    let record = cluster_record::read(dir).map_err(|error| super::unusable(dir, &error))?;
    let Some(record) = record else { return Ok(None) };
    let key = ClusterKey::load(&dir.join("key")).map_err(|error| error.to_string())?;
    Ok(Some((key, addresses(dir, &record))))
}

fn addresses(dir: &Path, record: &ClusterRecord) -> Vec<String> {
    let published = |node: &str| fs::read_to_string(dir.join("nodes").join(node).join("address")).ok();
    let known = record.nodes.iter().filter_map(|node| {
        let published = published(node.spec.name.as_str()).map(|text| text.trim().to_owned());
        published
            .filter(|address| !address.is_empty())
            .or_else(|| node.listens.clone())
    });
    known.collect()
}

/// Why no daemon introduced the node.
enum Trouble {
    /// It may do so soon.
    Passing(String),
    Final(String),
}

async fn introduced(key: ClusterKey, addresses: &[String], options: &Options) -> Result<Found, Trouble> {
    let dir = options.cluster_dir.display();
    let endpoint = Endpoint::new(key, Identity::new(Role::Control));
    for (index, address) in addresses.iter().enumerate() {
        match ask(&endpoint, address).await {
            Ok(nodes) if is_taken(&nodes, options) => {
                return Err(Trouble::Passing(format!(
                    "a node {} is there already: give this one another name with --node, or wait until it has left",
                    options.node
                )));
            }
            Ok(_) => {
                let others = addresses.iter().cycle().skip(index).take(addresses.len());
                return Ok(Found {
                    seeds: others.take(SEEDS_MAX).cloned().collect(),
                    address: own_address_towards(address),
                });
            }
            Err(error @ (ConnectError::WrongKey { .. } | ConnectError::Version { .. })) => {
                return Err(Trouble::Final(error.to_string()));
            }
            Err(_) => {}
        }
    }
    Err(Trouble::Passing(format!(
        "none of the {} daemons in {dir} answers: 'pcmctl nodes' shows whether the cluster is up",
        addresses.len()
    )))
}

/// The nodes that a daemon knows.
async fn ask(endpoint: &Endpoint, address: &str) -> Result<Vec<NodeStatus>, ConnectError> {
    let mut link = endpoint.connect(address, ANSWERS_WITHIN).await?;
    let lost = || ConnectError::Deadline {
        address: address.to_owned(),
        deadline: ANSWERS_WITHIN,
    };
    let asked = async {
        link.send(&ControlToDaemon::Nodes).await.ok()?;
        match link.recv().await.ok()? {
            DaemonToControl::Nodes(nodes) => Some(nodes),
            _ => None,
        }
    };
    let answer = tokio::time::timeout(ANSWERS_WITHIN, asked).await;
    answer.ok().flatten().ok_or_else(lost)
}

fn is_taken(nodes: &[NodeStatus], options: &Options) -> bool {
    let mut of_name = nodes.iter().filter(|node| node.name == options.node);
    of_name.any(|node| node.state != NodeState::Gone)
}

/// The address from which this host would speak to another; nothing is sent.
pub(super) fn own_address_towards(address: &str) -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect(address).ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_unspecified()).then(|| own.to_string())
}

/// There is no cluster in the directory.
pub(super) fn over(dir: &Path) -> String {
    format!(
        "there is no cluster in {}: it is over, was never started, or the directory is not shared with this node",
        dir.display()
    )
}
