//! `nodes`: one line per node.

use crate::cluster::ClusterDir;
use crate::cpus;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::output::{self, Align, Colour, Table};
use pcm_proto::control::{ControlToDaemon, DaemonToControl, NodeState, NodeStatus};
use pcm_proto::fabric::FabricReport;

const EXAMPLE: &str = "\
Example:
  pcmctl nodes
  pcmctl nodes --json";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Print one JSON document: a list of nodes
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let nodes = list(&mut Link::open(cluster).await?).await?;
    if args.json {
        output::print_json(&nodes)?;
    } else {
        output::print(&table(&nodes))?;
    }
    Ok(0)
}

/// All nodes, by name with numbers in their order.
pub(crate) async fn list(link: &mut Link) -> Result<Vec<NodeStatus>, Failure> {
    match link.ask(ControlToDaemon::Nodes, ASK_DEADLINE).await? {
        DaemonToControl::Nodes(mut nodes) => {
            nodes.sort_by_key(|node| order(node.name.as_str()));
            Ok(nodes)
        }
        other => Err(Failure::unexpected("Nodes", &other)),
    }
}

pub(crate) fn table(nodes: &[NodeStatus]) -> String {
    let mut table = Table::new(&[
        ("NODE", Align::Left),
        ("ADDRESS", Align::Left),
        ("SITE", Align::Left),
        ("CPUS", Align::Left),
        ("SPEED", Align::Right),
        ("OTHERS", Align::Right),
        ("RANKS", Align::Right),
        ("FABRIC", Align::Left),
        ("STATE", Align::Left),
    ]);
    for node in nodes {
        table.row(vec![
            node.name.to_string(),
            node.address.clone(),
            node.site.clone(),
            cpus::format_list(&node.cpus),
            if node.speed > 0.0 {
                format!("{:.2}", node.speed)
            } else {
                "-".to_owned()
            },
            format!("{:.2}", node.load_by_others),
            node.ranks.to_string(),
            fabric(&node.fabric),
            state(node.state),
        ]);
    }
    table.render()
}

/// Transport of a node's messages, in a word; the JSON and `doctor` give the reason.
fn fabric(fabric: &FabricReport) -> String {
    match (fabric.datagrams.as_str(), fabric.connections.as_str()) {
        ("", "") => "-".to_owned(),
        ("none", connections) => connections.to_owned(),
        (datagrams, connections) => format!("{datagrams}+{connections}"),
    }
}

fn state(state: NodeState) -> String {
    match state {
        NodeState::Up => output::paint("up", Colour::Green),
        NodeState::Suspect => output::paint("suspect", Colour::Yellow),
        NodeState::Draining => output::paint("draining", Colour::Yellow),
        NodeState::Gone => output::paint("gone", Colour::Red),
    }
}

/// Makes `n10` come after `n9`.
fn order(name: &str) -> (String, u64, String) {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (stem, number) = name.split_at(name.len() - digits);
    (stem.to_owned(), number.parse().unwrap_or(0), name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_stand_in_the_order_of_their_numbers() {
        let mut names = ["n10", "n9", "b", "n1"];
        names.sort_by_key(|name| order(name));
        assert_eq!(names, ["b", "n1", "n9", "n10"]);
    }
}
