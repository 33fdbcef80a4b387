//! `join`: adds one node to the cluster, or takes a drained one back.

use crate::cluster::{ClusterDir, RecordedNode};
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::{cpus, hostfile, output};
use pcm_proto::boot::{NodeSpec, Reach};
use pcm_proto::control::{ControlToDaemon, DaemonToControl, NodeState, NodeStatus};
use pcm_proto::ids::{NodeName, name_check};
use std::time::Duration;

const EXAMPLE: &str = "\
Example:
  pcmctl join n4                     one more virtual node on this machine
  pcmctl join fast --cpus 0-1
  pcmctl join n2                     undoes 'pcmctl drain n2'
  pcmctl join far --address far.example.org --site east";

/// The daemon that boots the node gives up before: after 10 s, or up to a minute where patience is the most.
pub(crate) const JOIN_MAX: Duration = Duration::from_secs(70);

/// Longest time that another change of the cluster's record may delay this one.
const RECORD_LOCK_MAX: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Name of the new node
    name: String,
    /// Its CPUs, as 0-1,4 [default: all]
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    cpus: String,
    /// Address on which its daemon listens [default: this machine's loopback]
    #[arg(long, value_name = "HOST")]
    address: Option<String>,
    /// Site of the node
    #[arg(long, value_name = "SITE", default_value = hostfile::SITE_DEFAULT)]
    site: String,
    /// Print one JSON document: the node
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let spec = spec(&args).map_err(Failure::usage)?;
    let mut link = Link::open(cluster).await?;
    let node = join(cluster, &mut link, spec).await?;
    if args.json {
        output::print_json(&node)?;
    } else {
        output::print(&format!("node {} is up at {}\n", node.name, node.address))?;
    }
    Ok(0)
}

fn spec(args: &Args) -> Result<NodeSpec, String> {
    name_check(&args.site).map_err(|error| format!("site {:?}: {error}", args.site))?;
    let mut spec = match &args.address {
        Some(address) => hostfile::parse_line(&format!("{} {address}", args.name))?,
        None => {
            let name = NodeName::new(&args.name).map_err(|error| format!("node name {:?}: {error}", args.name))?;
            hostfile::local_node(name, Vec::new())
        }
    };
    spec.cpus = cpus::parse_list(&args.cpus)?;
    spec.site.clone_from(&args.site);
    Ok(spec)
}

/// Boots the node through the cluster and records it; one that is drained takes ranks again.
pub(crate) async fn join(cluster: &ClusterDir, link: &mut Link, mut spec: NodeSpec) -> Result<NodeStatus, Failure> {
    let is_drained = |node: &NodeStatus| node.name == spec.name && node.state == NodeState::Draining;
    let comes_back = match link.ask(ControlToDaemon::Nodes, ASK_DEADLINE).await? {
        DaemonToControl::Nodes(nodes) => nodes.iter().any(is_drained),
        other => return Err(Failure::unexpected("Nodes", &other)),
    };
    if spec.reach == Reach::Local && !link.is_local() && !comes_back {
        return Err(Failure::usage(format!(
            "node {} would be on the machine of the answering daemon, which is not this one: give its address with \
             --address",
            spec.name
        )));
    }
    let node = match link.ask(ControlToDaemon::Join(spec.clone()), JOIN_MAX).await? {
        DaemonToControl::Joined(node) => node,
        other => return Err(Failure::unexpected("Join", &other)),
    };
    if comes_back {
        // It is recorded as it was booted.
        return Ok(node);
    }
    spec.cpus.clone_from(&node.cpus);
    let _lock = cluster.lock_within(RECORD_LOCK_MAX)?;
    let mut record = cluster.expect_record()?;
    record.nodes.retain(|known| known.spec.name != spec.name);
    record.nodes.push(RecordedNode {
        spec,
        listens: Some(node.address.clone()),
    });
    cluster.save(&record)?;
    Ok(node)
}
