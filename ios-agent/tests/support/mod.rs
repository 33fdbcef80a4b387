//! Views and reports for the tests of the pure parts.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test target uses its part"
)]

use ios_agent::decide::links::Links;
use ios_agent::decide::view::{NodeView, RankView, View};
use pcm_proto::ids::NodeName;
use pcm_proto::link::LinkMeasured;
use pcm_proto::rank_counts::RankCounts;
use std::collections::BTreeMap;

pub fn name(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

/// An idle node with so many CPUs of its own.
pub fn node(of: &str, cpus: u32) -> NodeView {
    NodeView {
        name: name(of),
        site: "here".into(),
        host: of.bytes().fold(7, |sum, byte| sum * 31 + u64::from(byte)),
        cpus: (0..cpus).collect(),
        speed: 1.0,
        demand: 0.0,
        others_since_s: 0.0,
        ranks: 0,
        free_memory: 1e9,
        is_draining: false,
        is_open: true,
    }
}

pub fn rank(node: usize, useful_ms: f64) -> RankView {
    RankView {
        node,
        useful_ms,
        cpu_share: 1.0,
        registered: 1e6,
        data: 1.0,
        sends: Vec::new(),
    }
}

/// A job of fixed size whose ranks are on the nodes named by index; a millisecond of an iteration is communication.
pub fn view(mut nodes: Vec<NodeView>, ranks: Vec<RankView>) -> View {
    for rank in &ranks {
        nodes[rank.node].ranks += 1;
    }
    let slowest = ranks.iter().map(|rank| rank.useful_ms).fold(0.0, f64::max);
    View {
        iteration_ms: slowest + 1.0,
        remaining: 10_000.0,
        min: ranks.len(),
        max: ranks.len(),
        counts: RankCounts::default(),
        follows_shares: true,
        started_with: ranks.len(),
        fixed_cost_ms: 60.0,
        megabytes_per_s: 500.0,
        measured_sizes: BTreeMap::new(),
        ranks,
        nodes,
        links: Links::default(),
    }
}

/// A view whose first node leads and measured these latencies to the nodes after it.
pub fn measured(mut view: View, latencies_us: &[Option<f64>]) -> View {
    let names: Vec<&NodeName> = view.nodes.iter().map(|node| &node.name).collect();
    let link = |(latency_us, node): (&Option<f64>, &&NodeName)| LinkMeasured {
        node: (*node).clone(),
        latency_us: *latency_us,
        megabytes_per_s: None,
    };
    let told: Vec<LinkMeasured> = latencies_us.iter().zip(&names[1..]).map(link).collect();
    view.links = Links::of(&names, names[0], [(names[0], told.as_slice())].into_iter());
    view
}
