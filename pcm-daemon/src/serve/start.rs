//! From a process the keeper started to a daemon that serves: takes over what the keeper holds and the journal says,
//! opens its sockets, publishes where it listens, and runs the loop.

use super::control_link::listen_to_control;
use super::event::Event;
use super::files::{EventLog, Files, FilesSpec, node_dir, publish};
use super::hands::Hands;
use super::host::{Host, cpus_allowed};
use super::journal::{Journal, JournalError, inherited_files};
use super::keeper_orders::KeeperOrders;
use super::memory::{Bulk, RdmaWish, lend, lending_name};
use super::pmix;
use super::preemption::{hear_notice, notice_time};
use super::replay;
use super::shell::Shell;
use super::timers::Clock;
use crate::keeper_link::{KeeperLink, Welcome};
use crate::node_end;
use crate::ranks::libraries_in_front;
use anyhow::{Context, anyhow};
use pcm_core::membership::{Details, LocalNode, Membership};
use pcm_core::node::cluster::nodes::Nodes;
use pcm_core::node::record::Past;
use pcm_core::node::requester::LinkId;
use pcm_core::node::store::route::AllowedRoutes;
use pcm_core::node::{Beginnings, Heritage, Node};
use pcm_core::reconfiguration::limits::Limits;
use pcm_fabric::peers::{LocalDaemon, Peers};
use pcm_fabric::{BindError, ClusterKey, Endpoint, Link, Listener};
use pcm_proto::boot::{BootReport, BootSpec};
use pcm_proto::control::NodeState;
use pcm_proto::fabric::{FabricReport, UdAddress};
use pcm_proto::handshake::{Identity, Role};
use pcm_proto::keeper::DAEMON_EXIT_FINAL;
use pcm_proto::peer::NodeReport;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// Events that wait to be handled; tasks that bring more wait, and so their peers.
const EVENTS_MAX: usize = 1024;

/// Names the best route that images may take, for measurements and tests; set it for `pcmctl up`.
const COPIES_VARIABLE: &str = "PCM_COPIES";

/// Names limits of reconfigurations that differ from the defaults; set it for `pcmctl up`.
const LIMITS_VARIABLE: &str = "PCM_LIMITS";

/// Runs the daemon until it has to end; the exit code, as the keeper understands it.
pub fn run() -> i32 {
    node_log::begin();
    // Ranks that share the CPU may only be spinning while they wait for what the daemon says.
    let _turns = cpu_turns::ShortTurns::begin();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "the daemon cannot start");
            return 1;
        }
    };
    let code = runtime.block_on(serve_or_report());
    // Tasks that still hold something are not waited for.
    runtime.shutdown_background();
    code
}

/// A daemon that cannot even begin tells whoever booted it, and need not be tried again.
async fn serve_or_report() -> i32 {
    let begun = async {
        let link = KeeperLink::inherit()?;
        let welcome = link.welcome().await?;
        let held_open = link.held_open()?;
        anyhow::Ok((link, held_open, welcome))
    };
    // Until it has said why it cannot begin.
    let (link, _held_open, welcome) = match begun.await {
        Ok(begun) => begun,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "the daemon cannot start");
            eprintln!("pcm-daemon: {error:#}");
            return DAEMON_EXIT_FINAL;
        }
    };
    let (is_first, node) = (welcome.restarts == 0, welcome.spec.node.name.clone());
    let Err(error) = serve(link, welcome).await else {
        return 0;
    };
    tracing::error!(error = format!("{error:#}"), "the daemon cannot start");
    if matches!(error.downcast_ref(), Some(JournalError::Head { .. })) && !is_first {
        return DAEMON_EXIT_FINAL;
    }
    if !is_first {
        return 1;
    }
    let failed = &BootReport::Failed {
        node,
        reason: format!("{error:#}"),
    };
    if let Err(error) = super::boot::report(failed) {
        tracing::debug!(%error, "nobody reads that it failed");
    }
    DAEMON_EXIT_FINAL
}

async fn serve(link: KeeperLink, welcome: Welcome) -> anyhow::Result<()> {
    let is_first = welcome.restarts == 0;
    let spec = welcome.spec.clone();
    let node = &spec.node.name;
    let (restarts, held) = (welcome.restarts, welcome.held.len());
    tracing::info!(%node, restarts, held, pid = std::process::id(), "the daemon starts");
    let limits = limits()?;
    let dir = take_place(&spec, is_first)?;
    let may_begin = is_first || welcome.holds_nothing();
    let mut past = Past::new(node.clone(), limits.clone());
    let mut journal = Journal::open(inherited_files()?, may_begin, |record| replay::take(&mut past, record))?;
    if !past.lost.is_empty() {
        journal.spoil();
    }
    let doors = open_doors(&spec, past.address.as_deref()).await?;
    if is_first {
        publish(&dir, &doors.address).with_context(|| format!("{} takes no file", dir.display()))?;
        pmix::clear_folders(&spec.cluster_id, node);
    }
    let (events, mut receiver) = mpsc::channel(EVENTS_MAX);
    let clock = Clock::start(|system| past.next_boot(system));
    let boot = clock.now().0;
    let Doors {
        key,
        identity,
        endpoint,
        listener,
        address,
    } = doors;
    let peers = Peers::open(LocalDaemon {
        node: node.clone(),
        boot,
        endpoint,
        port: listener.address(),
        key: &key,
        wish: spec.fabric,
    });
    let peers = peers.await?;
    let own_device = peers.own_rdma_address();
    let log = open_log(&spec, (dir, address.clone()), is_first, events.clone()).await?;
    let keeper = KeeperOrders::start(link, events.clone());
    let mut hands = Hands::new(spec.clone(), address, (log, keeper), peers, events.clone());
    let bulk = open_bulk(listener.address().ip(), (key, identity), &spec, &events).await;
    let node = Node::new(Beginnings {
        nodes: nodes(&spec, &hands, own_device, &past, (clock, boot))?,
        now: clock.now(),
        limits,
        notice: notice_time(),
        libraries: libraries_in_front(),
        numbers: past.numbers.clone(),
        address: hands.address.clone(),
        cpus: cpus(&spec),
        has_device: own_device.is_some(),
        routes: allowed_routes()?,
        bulk: bulk.as_ref().map(|bulk| bulk.addresses().clone()),
        spec,
    });
    if let Some(bulk) = bulk {
        hands.use_bulk(bulk);
    }
    hear_notice(events.clone())?;
    let links = Arc::new(AtomicU64::new(0));
    let others = move |link| serve_control(link, &links, &events);
    hands.peers.accept(listener, others);
    let heritage = heritage(welcome, past, &mut hands);
    let mut shell = Shell::new(node, hands, clock, journal);
    shell.run(heritage, &mut receiver).await?;
    shell.farewell(receiver).await;
    Ok(())
}

/// The node's events and the thread for its files.
async fn open_log(
    spec: &BootSpec,
    (node_dir, address): (PathBuf, String),
    is_new: bool,
    answers: mpsc::Sender<Event>,
) -> std::io::Result<EventLog> {
    let files = FilesSpec {
        node_dir,
        cluster_dir: spec.cluster_dir.clone(),
        is_new,
        address,
    };
    let (files, earlier) = Files::start(files, answers).await?;
    let mut log = EventLog::new(spec.node.name.clone(), files);
    log.take_earlier(earlier);
    Ok(log)
}

/// The sockets on which a daemon is reached.
struct Doors {
    key: ClusterKey,
    identity: Identity,
    endpoint: Endpoint,
    listener: Listener,
    /// Where others reach it.
    address: String,
}

/// Opens the sockets, where they were before if that is known.
async fn open_doors(spec: &BootSpec, before: Option<&str>) -> anyhow::Result<Doors> {
    let node = &spec.node.name;
    let key = ClusterKey::from_hex(&spec.cluster_id, spec.key.reveal())?;
    let identity = Identity::new(Role::Daemon { node: node.clone() });
    let endpoint = Endpoint::new(key.clone(), identity.clone());
    let listener = bind(&endpoint, spec, before).await?;
    let address = address_of(spec, listener.address());
    Ok(Doors {
        key,
        identity,
        endpoint,
        listener,
        address,
    })
}

/// Opens what images come over: from nodes of this host, and from other hosts if that is possible.
async fn open_bulk(
    daemon_ip: IpAddr,
    identity: (ClusterKey, Identity),
    spec: &BootSpec,
    events: &mpsc::Sender<Event>,
) -> Option<Bulk> {
    if let Err(error) = lend(&lending_name(&spec.cluster_id, &spec.node.name), events.clone()) {
        tracing::warn!(%error, "images come from nodes of this host over links");
    }
    let bulk = Bulk::open(daemon_ip, identity, RdmaWish::of(spec), events.clone()).await;
    let bulk = bulk.inspect_err(|error| tracing::warn!(%error, "images come from and go to other hosts over links"));
    bulk.ok()
}

/// The CPUs of this node's ranks.
fn cpus(spec: &BootSpec) -> Vec<u32> {
    if spec.node.cpus.is_empty() {
        cpus_allowed()
    } else {
        spec.node.cpus.clone()
    }
}

/// The nodes of the cluster as this one knows them at its start.
fn nodes(
    spec: &BootSpec,
    hands: &Hands,
    own_device: Option<UdAddress>,
    past: &Past,
    (clock, boot): (Clock, u64),
) -> anyhow::Result<Nodes> {
    let (host, cpus, address) = (Host::look(), cpus(spec), &hands.address);
    let itself = LocalNode {
        node: spec.node.name.clone(),
        boot,
        details: Details {
            address: address.clone(),
            site: spec.node.site.clone(),
            cpus: cpus.clone(),
            host: host.number,
            ud: own_device,
        },
        patience: spec.patience(),
    };
    let own_report = NodeReport {
        fabric: hands.peers.report(),
        ends: node_end::of_daemon(|name| std::env::var(name).ok())?,
        ..own_report(spec, address, &cpus, host, past, boot)
    };
    Ok(Nodes::new(own_report, membership(itself, spec, past, clock)))
}

/// The node's folder. A node begins in no directory of another user; one that runs already goes on, whatever became of
/// its directory.
fn take_place(spec: &BootSpec, is_first: bool) -> anyhow::Result<PathBuf> {
    let dir = node_dir(&spec.cluster_dir, &spec.node.name);
    if is_first {
        let checked = own_files::check_directory(&spec.cluster_dir);
        checked.map_err(|foreign| anyhow!("{foreign} directory for the cluster"))?;
        own_files::make_directory(&dir).with_context(|| format!("{} cannot be made", dir.display()))?;
    }
    Ok(dir)
}

/// What the keeper holds and the journal says, with all files taken over.
fn heritage(welcome: Welcome, past: Past, hands: &mut Hands) -> Heritage {
    let Welcome {
        restarts,
        held,
        parked,
        kept,
        levels,
        ..
    } = welcome;
    hands.disk.levels.take_over(levels.as_deref());
    Heritage {
        restarts,
        held: held.into_iter().map(|handed| hands.hold(handed)).collect(),
        parked: parked.into_iter().map(|image| hands.hold_image(image)).collect(),
        buffers: kept.into_iter().map(|buffer| hands.hold_buffer(buffer)).collect(),
        past,
    }
}

/// The limits of reconfigurations on this cluster.
fn limits() -> anyhow::Result<Limits> {
    let text = std::env::var(LIMITS_VARIABLE).unwrap_or_default();
    Limits::default()
        .changed_by(&text)
        .with_context(|| LIMITS_VARIABLE.to_owned())
}

/// The routes that images may take between nodes.
fn allowed_routes() -> anyhow::Result<AllowedRoutes> {
    let text = std::env::var(COPIES_VARIABLE).unwrap_or_default();
    AllowedRoutes::parse(&text).ok_or_else(|| anyhow!("{COPIES_VARIABLE}={text} names no way that copies take"))
}

/// Listens where it listened before, so that others find a daemon that was started again; else where there is room.
async fn bind(endpoint: &Endpoint, spec: &BootSpec, before: Option<&str>) -> anyhow::Result<Listener> {
    let mut wanted = resolve(&spec.node.address).await?;
    let port = before.and_then(|address| address.rsplit(':').next()?.parse().ok());
    if let Some(port) = port {
        wanted.set_port(port);
        match endpoint.listen(wanted).await {
            Err(BindError::PortTaken { .. }) => wanted.set_port(0),
            bound => return Ok(bound?),
        }
    }
    Ok(endpoint.listen(wanted).await?)
}

async fn resolve(address: &str) -> anyhow::Result<SocketAddr> {
    // A node's address may name a port; without one the system chooses.
    let with_port = if address.parse::<SocketAddr>().is_ok() {
        address.to_owned()
    } else {
        format!("{address}:0")
    };
    let mut found = tokio::net::lookup_host(&with_port)
        .await
        .with_context(|| format!("the node's address {address} is not known: correct it in the host file"))?;
    found
        .next()
        .ok_or_else(|| anyhow!("the node's address {address} stands for no number: correct it in the host file"))
}

/// Where others reach the daemon: the address its owner gave, which may be a name, with the port it listens on.
fn address_of(spec: &BootSpec, listens: SocketAddr) -> String {
    let given = &spec.node.address;
    if given.parse::<SocketAddr>().is_ok() || given.parse::<std::net::IpAddr>().is_ok() {
        return listens.to_string();
    }
    format!("{given}:{}", listens.port())
}

fn own_report(spec: &BootSpec, address: &str, cpus: &[u32], host: Host, past: &Past, now_us: u64) -> NodeReport {
    NodeReport {
        node: spec.node.name.clone(),
        address: address.to_owned(),
        site: spec.node.site.clone(),
        cpus: cpus.to_vec(),
        state: if past.is_draining {
            NodeState::Draining
        } else {
            NodeState::Up
        },
        host: host.number,
        host_name: host.name,
        speed: 0.0,
        load_by_others: 0.0,
        ranks: 0,
        free_memory: 0,
        daemon_pid: std::process::id(),
        highest_job: past.numbers.highest(),
        keeper_since_us: past.keeper_since_us.unwrap_or(now_us),
        fabric: FabricReport::default(),
        ends: None,
    }
}

/// A daemon that was started again finds its cluster through everybody it knew.
fn membership(local: LocalNode, spec: &BootSpec, past: &Past, clock: Clock) -> Membership {
    let known = past.nodes.iter().map(|report| report.address.clone());
    let seeds = known.chain(spec.seeds.clone()).collect();
    Membership::new(local, seeds, Duration::from_micros(clock.now().0))
}

/// The next number of a link of this daemon.
fn next_link(links: &AtomicU64) -> LinkId {
    LinkId(links.fetch_add(1, Ordering::Relaxed) + 1)
}

/// Serves a link that is not another daemon's.
fn serve_control(link: Link, links: &AtomicU64, events: &mpsc::Sender<Event>) {
    if link.peer().role != Role::Control {
        return tracing::warn!(role = %link.peer().role, "only pcmctl is served here");
    }
    let (id, events) = (next_link(links), events.clone());
    tokio::spawn(async move { listen_to_control(link, id, &events).await });
}
