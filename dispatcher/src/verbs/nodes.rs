//! `nodes`: one line per node.

use crate::cluster::ClusterDir;
use crate::cpus;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::output::{self, Align, Colour, Table};
use pcm_proto::control::{ControlToDaemon, DaemonToControl, NodeState, NodeStatus};
use pcm_proto::fabric::FabricReport;
use pcm_view::time;

const EXAMPLE: &str = "\
Example:
  pcmctl nodes
  pcmctl nodes --json";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Print one JSON document: a list of nodes; `ends` of each has `left_ms` and, by the node's own clock, `at_us`
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
    let has_ends = nodes.iter().any(|node| node.ends.is_some());
    let mut columns = vec![
        ("NODE", Align::Left),
        ("ADDRESS", Align::Left),
        ("SITE", Align::Left),
        ("CPUS", Align::Left),
        ("SPEED", Align::Right),
        ("OTHERS", Align::Right),
        ("RANKS", Align::Right),
        ("FABRIC", Align::Left),
        ("STATE", Align::Left),
    ];
    if has_ends {
        // Before the state, which stays the last word of a line.
        columns.insert(columns.len() - 1, ("LEFT", Align::Right));
    }
    let mut table = Table::new(&columns);
    for node in nodes {
        let mut row = vec![
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
        ];
        if has_ends {
            row.push(left(node));
        }
        row.push(state(node.state));
        table.row(row);
    }
    table.render()
}

/// Time that a node has left, as far as it said so.
pub(crate) fn left(node: &NodeStatus) -> String {
    match node.ends {
        Some(end) if node.state != NodeState::Gone => time::span(end.left_ms.saturating_mul(1000)),
        _ => "-".to_owned(),
    }
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

    fn node(name: &str, state: NodeState, left_ms: Option<u64>) -> NodeStatus {
        NodeStatus {
            name: pcm_proto::ids::NodeName::new(name).unwrap(),
            address: "h:1".to_owned(),
            site: "here".to_owned(),
            cpus: vec![0],
            state,
            speed: 1.0,
            load_by_others: 0.0,
            ranks: 0,
            free_memory: 0,
            daemon_pid: 1,
            fabric: FabricReport::default(),
            link: None,
            ends: left_ms.map(|left_ms| pcm_proto::node_end::NodeEnd {
                at_us: 0,
                left_ms,
                leaves_ms: 60_000,
            }),
        }
    }

    #[test]
    fn the_time_left_is_a_column_where_a_node_has_an_end_and_only_there() {
        let plain = table(&[node("a", NodeState::Up, None)]);
        assert!(!plain.contains("LEFT"), "{plain}");
        let told = table(&[
            node("a", NodeState::Up, None),
            node("b", NodeState::Up, Some(185_000)),
            node("c", NodeState::Gone, Some(40_000)),
        ]);
        let words: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(words[0].ends_with(&["LEFT", "STATE"]), "{told}");
        let lefts: Vec<&str> = words[1..].iter().map(|row| row[row.len() - 2]).collect();
        assert_eq!(lefts, ["-", "3m05s", "-"], "{told}");
    }

    #[test]
    fn nodes_stand_in_the_order_of_their_numbers() {
        let mut names = ["n10", "n9", "b", "n1"];
        names.sort_by_key(|name| order(name));
        assert_eq!(names, ["b", "n1", "n9", "n10"]);
    }
}
