//! What exchanges cost on a fabric: measured between this command and the daemons of a cluster, kept for the user's
//! next clusters, and put where the daemons of this one read it.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::kept;
use pcm_fabric::datagram::{Datagram, DatagramLimits, DatagramService as _, key_epoch};
use pcm_fabric::hybrid::{Cost, Sample, Tuning};
use pcm_fabric::{ClusterKey, Endpoint};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::envelope::encode_measuring;
use pcm_proto::fabric::TUNING_FILE;
use pcm_proto::handshake::{Identity, Role};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};
use tokio::task::JoinSet;

/// Group sizes: far enough apart to tell what a member costs from what a group does.
const MEMBERS: [usize; 4] = [1, 2, 4, 8];

/// Bytes to each: a question, a start order, and close to the longest datagram.
const LENGTHS: [usize; 3] = [200, 8 << 10, 48 << 10];

/// Repetitions, of which the middle one counts.
const ROUNDS: usize = 9;

/// What one exchange with a group may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// Measures and fits; the text of a failure says what could not be measured.
pub(crate) async fn measured(cluster: &ClusterDir) -> Result<Tuning, String> {
    let record = cluster.expect_record().map_err(|failure| failure.message)?;
    let key = ClusterKey::load(&cluster.key_path()).map_err(|error| error.to_string())?;
    let listens = |node: &crate::cluster::RecordedNode| {
        cluster
            .published_address(&node.spec.name)
            .or_else(|| node.listens.clone())
    };
    let addresses: Vec<String> = record.nodes.iter().filter_map(listens).collect();
    let mut ports = Vec::new();
    for address in &addresses {
        let mut found = tokio::net::lookup_host(address)
            .await
            .map_err(|error| format!("{address}: {error}"))?;
        ports.extend(found.next());
    }
    if ports.is_empty() {
        return Err("no daemon of the cluster says where it listens".to_owned());
    }
    let (mut by_datagram, mut by_connection) = (Vec::new(), Vec::new());
    for members in MEMBERS {
        for length in LENGTHS {
            let (mut datagram, mut connection) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                datagram.push(datagrams(&key, &ports, members, length).await?);
                connection.push(connections(&key, &addresses, members, length).await?);
            }
            by_datagram.push(middle(members, length, datagram));
            by_connection.push(middle(members, length, connection));
        }
    }
    let fitted = |samples: &[Sample]| Cost::fitted(samples).ok_or("the times measured fit no cost");
    Ok(Tuning {
        datagram: fitted(&by_datagram)?,
        connection: fitted(&by_connection)?,
    })
}

fn middle(members: usize, length: usize, mut times: Vec<Duration>) -> Sample {
    times.sort_unstable();
    (members, length, times[times.len() / 2])
}

/// A group of this size that nobody in it was met by before: endpoints of ours that are new, each to every daemon once.
async fn datagrams(key: &ClusterKey, ports: &[SocketAddr], members: usize, length: usize) -> Result<Duration, String> {
    let epoch = key_epoch(SystemTime::now());
    let mut ours = Vec::new();
    for _ in 0..members.div_ceil(ports.len()) {
        let any: IpAddr = if ports[0].is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let endpoint = Datagram::udp((any, 0).into(), key, epoch, DatagramLimits::default());
        ours.push(endpoint.await.map_err(|error| format!("no UDP port: {error}"))?);
    }
    let message = encode_measuring(length).map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let mut exchanges = JoinSet::new();
    for member in 0..members {
        let (endpoint, to) = (ours[member / ports.len()].clone(), ports[member % ports.len()]);
        let message = message.clone();
        exchanges.spawn(async move {
            let exchanged = endpoint.exchange(to, message, DEADLINE).await;
            exchanged.map_err(|error| format!("UDP to {to}: {error}"))
        });
    }
    while let Some(exchange) = exchanges.join_next().await {
        exchange.map_err(|error| error.to_string())??;
    }
    Ok(begun.elapsed())
}

async fn connections(
    key: &ClusterKey,
    addresses: &[String],
    members: usize,
    length: usize,
) -> Result<Duration, String> {
    let endpoint = Endpoint::new(key.clone(), Identity::new(Role::Control));
    let begun = Instant::now();
    let mut exchanges = JoinSet::new();
    for member in 0..members {
        let (endpoint, address) = (endpoint.clone(), addresses[member % addresses.len()].clone());
        exchanges.spawn(async move { tell(&endpoint, &address, length).await });
    }
    while let Some(exchange) = exchanges.join_next().await {
        exchange.map_err(|error| error.to_string())??;
    }
    Ok(begun.elapsed())
}

/// Input for no job, which a daemon drops, and a question behind it.
async fn tell(endpoint: &Endpoint, address: &str, length: usize) -> Result<(), String> {
    let failed = |what: String| format!("TCP to {address}: {what}");
    let connected = endpoint.connect(address, DEADLINE).await;
    let (sender, mut receiver) = connected.map_err(|error| error.to_string())?.split();
    for message in [
        ControlToDaemon::Stdin(vec![0; length]),
        ControlToDaemon::Ping { node: None },
    ] {
        let sent = sender.send(&message).await;
        sent.map_err(|error| failed(error.to_string()))?;
    }
    let answer = tokio::time::timeout(DEADLINE, receiver.recv::<DaemonToControl>()).await;
    match answer {
        Ok(Ok(DaemonToControl::Pong { .. })) => Ok(()),
        Ok(Ok(other)) => Err(failed(format!("{other:?} for an answer"))),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed(format!("no answer within {} s", DEADLINE.as_secs()))),
    }
}

/// Keeps a tuning for the user's next clusters and gives it to the daemons of this one, which look every second.
pub(crate) fn keep(cluster: &ClusterDir, tuning: &Tuning) -> Result<PathBuf, Failure> {
    let text = serde_json::to_vec_pretty(tuning)
        .map_err(|error| Failure::system(format!("the tuning cannot be written: {error}")))?;
    cluster.save_tuning(&text)?;
    kept::keep(TUNING_FILE, "the tuning", &text)
}

/// Gives a new cluster what was measured before, if anything was.
pub(crate) fn bring(cluster: &ClusterDir) -> Result<(), Failure> {
    match kept::kept(TUNING_FILE) {
        Some(text) => cluster.save_tuning(&text),
        None => Ok(()),
    }
}
