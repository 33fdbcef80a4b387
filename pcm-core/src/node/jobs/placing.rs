//! Where the ranks of jobs go: asks the cluster as this node knows it, for a new job, for ranks that a job spawns, and
//! for a job that starts again.

use super::table::Table;
use crate::between_worlds::{self, is_shared_memory};
use crate::job::coordinator::{Coordinator, SpawnWant};
use crate::job::placement::{Ending, NodeView, PerNode, Placed, Share, Wanted};
use crate::job::recovery::Restarted;
use crate::node::context::Context;
use crate::node::layout_request::{ClusterView, JobView};
use pcm_proto::control::Refusal;
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::job::{JobSpec, RANKS_MAX};
use pcm_proto::peer::NodeReport;
use std::collections::BTreeMap;

/// The cluster, or what of it is on one host.
pub(super) fn with_cluster<T>(
    table: &Table,
    host: Option<u64>,
    act: impl FnOnce(&ClusterView<'_>) -> T,
    cx: &Context<'_>,
) -> T {
    let state = |node: &NodeName| cx.cluster.nodes().state(node);
    let placed = |node: &NodeName| table.coordinators().map(|(_, job)| job.alive_on(node)).sum();
    let mut nodes = cx.cluster.nodes().views(cx.now());
    nodes.retain(|view| host.is_none_or(|host| view.host == host));
    act(&ClusterView {
        own: &cx.settings.own,
        nodes,
        state: &state,
        placed: &placed,
    })
}

/// Finds places for so many ranks on these nodes, or on all nodes when none is named; on one host, where the job
/// has its ranks there. These ranks have no choice but not to run: where all nodes end soon they run on those. Says
/// what the nodes had, too.
fn place(
    table: &Table,
    (allowed, count): (&[NodeName], u32),
    per_node: Option<PerNode<'_>>,
    host: Option<u64>,
    cx: &Context<'_>,
) -> Result<(Vec<Share>, String), Refusal> {
    let on_host = |node: &&NodeName| host.is_none_or(|host| cx.cluster.nodes().host(node) == host);
    let of_host: Vec<NodeName> = allowed.iter().filter(on_host).cloned().collect();
    if let Some(node) = allowed.first().filter(|_| of_host.is_empty()) {
        return Err(between_worlds::other_host(node));
    }
    let wanted = Wanted {
        count,
        allowed: &of_host,
        ending: Ending::LastResort,
        per_node,
    };
    with_cluster(table, host, |cluster: &ClusterView<'_>| cluster.place(&wanted), cx)
}

/// Places the ranks of a new job.
pub(super) fn place_new(table: &Table, spec: &JobSpec, cx: &Context<'_>) -> Result<Placed, Refusal> {
    check_memory(spec, cx)?;
    let placed = place(table, (&spec.nodes, spec.size), PerNode::of(spec, &[]), None, cx)?;
    Ok(placed_for(spec, placed, cx))
}

/// Where so many further ranks of a job would go; nowhere when there is no place for all.
pub(super) fn place_next(table: &Table, coordinator: &Coordinator, count: u32, cx: &Context<'_>) -> Vec<Share> {
    let job = JobView {
        spec: coordinator.spec(),
        nodes: &coordinator.rank_nodes(),
        weights: &[],
    };
    let host = memory_host(coordinator, cx);
    let placed = with_cluster(table, host, |cluster| cluster.place_joining(job, count, &[]), cx);
    placed.map(|(shares, _)| shares).unwrap_or_default()
}

/// Places processes that a job spawns.
pub(super) fn place_spawn(
    table: &Table,
    job: JobId,
    wants: &[SpawnWant],
    cx: &Context<'_>,
) -> Result<Vec<Share>, String> {
    let coordinator = table.coordinator(job);
    let host = coordinator.and_then(|coordinator| memory_host(coordinator, cx));
    let of_job = coordinator.map(|coordinator| &coordinator.spec().nodes);
    let of_job = of_job.map_or(&[][..], Vec::as_slice);
    let mut shares = Vec::new();
    for SpawnWant { count, hosts } in wants {
        let named = hosts.iter().map(|host| nodes_of_host(host, cx));
        let named = named.collect::<Result<Vec<_>, String>>()?.concat();
        let allowed = if named.is_empty() { of_job } else { &named };
        let placed = place(table, (allowed, *count), None, host, cx);
        let (placed, _) = placed.map_err(|refusal| refusal.message)?;
        shares.extend(placed);
    }
    Ok(shares)
}

/// Where a job that crashed starts again, and from what.
pub(super) fn place_restarted(table: &Table, job: JobId, count: u32, cx: &Context<'_>) -> Result<Restarted, String> {
    let led = table.led(job).ok_or("the job is over")?;
    let coordinator = table.coordinator(job).ok_or("the job is over")?;
    if cx.is_cut_off() {
        return Err("most nodes of the cluster cannot be reached from its coordinator's".to_owned());
    }
    if led.leading.is_learning() {
        return Err("its nodes have not all said which checkpoints they hold".to_owned());
    }
    let spec = coordinator.spec();
    // Of all else a rank takes its share on any number of ranks.
    let of_checkpoint = led.leading.ranks_of_checkpoint().filter(|_| spec.registered.has_custom);
    let count = of_checkpoint.unwrap_or(count);
    let host = memory_host(coordinator, cx);
    let find = |per_node| place(table, (&spec.nodes, count), per_node, host, cx);
    // Nodes may be lost: closer together is better than not at all.
    let placed = find(PerNode::of(spec, &[])).or_else(|refusal| match spec.per_node {
        Some(_) => find(None),
        None => Err(refusal),
    });
    let placed = placed.map_err(|refusal| refusal.message + &led.leading.hint())?;
    led.leading.restarted(placed_for(spec, placed, cx))
}

/// The hosts of the nodes that are up and that a job may use, one for each node.
fn hosts_open_to(spec: &JobSpec, cx: &Context<'_>) -> Vec<u64> {
    let may_use = |view: &NodeView| view.is_open && (spec.nodes.is_empty() || spec.nodes.contains(&view.name));
    let views = cx.cluster.nodes().views(cx.now()).into_iter();
    views.filter(may_use).map(|view| view.host).collect()
}

/// The host of a job whose ranks share memory: that of its ranks, if a node that it may use is up there, else that of
/// any such node. None for another job.
pub(super) fn memory_host(coordinator: &Coordinator, cx: &Context<'_>) -> Option<u64> {
    let spec = coordinator.spec();
    if !is_shared_memory(spec) {
        return None;
    }
    let of_ranks = coordinator
        .rank_nodes()
        .first()
        .map(|node| cx.cluster.nodes().host(node));
    let open = hosts_open_to(spec, cx);
    let of_ranks_and_open = of_ranks.filter(|host| open.contains(host));
    of_ranks_and_open.or(open.first().copied()).or(of_ranks)
}

/// Whether ranks that are to share memory can.
fn check_memory(spec: &JobSpec, cx: &Context<'_>) -> Result<(), Refusal> {
    if !is_shared_memory(spec) {
        return Ok(());
    }
    between_worlds::check_start(spec, &hosts_open_to(spec, cx).into_iter().collect())
}

fn placed_for(spec: &JobSpec, (shares, why): (Vec<Share>, String), cx: &Context<'_>) -> Placed {
    let is_crowded = is_crowded(spec, &shares, cx);
    Placed {
        shares,
        is_crowded,
        why,
    }
}

/// Whether ranks of a job outnumber the CPUs of a host, or are going to.
fn is_crowded(spec: &JobSpec, shares: &[Share], cx: &Context<'_>) -> bool {
    let mut ranks: BTreeMap<u64, usize> = BTreeMap::new();
    for share in shares {
        *ranks.entry(share.host).or_default() += share.count as usize;
    }
    // Nobody who leaves the maximum as it is says that the job will grow that far.
    let is_going_to_grow = spec.max > spec.size && spec.max < RANKS_MAX;
    ranks.iter().any(|(host, ranks)| {
        let cpus = cx.cluster.nodes().cpus_of_host(*host);
        *ranks > cpus || (is_going_to_grow && spec.max as usize > cpus)
    })
}

/// The nodes that an application means by a host: a node's name, the name of its machine, or its address.
fn nodes_of_host(host: &str, cx: &Context<'_>) -> Result<Vec<NodeName>, String> {
    let nodes = cx.cluster.nodes();
    if let Some(node) = NodeName::new(host).ok().filter(|node| nodes.state(node).is_some()) {
        return Ok(vec![node]);
    }
    let reports: Vec<NodeReport> = [nodes.own().clone()].into_iter().chain(nodes.others()).collect();
    let is_meant = |report: &&NodeReport| {
        let address = report.address.rsplit_once(':').map(|(address, _)| address);
        report.host_name == host || address == Some(host)
    };
    let meant = reports.iter().filter(is_meant).map(|report| report.node.clone());
    let meant: Vec<NodeName> = meant.collect();
    if meant.is_empty() {
        let known: Vec<&str> = reports.iter().map(|report| report.node.as_str()).collect();
        let known = known.join(", ");
        return Err(format!(
            "host {host:?} is neither a node nor a machine of this cluster, which has {known}"
        ));
    }
    Ok(meant)
}
