//! What this daemon knows of the nodes of its cluster: who is a member, by the failure detector, and how each said it
//! is, which may be a moment old.

use crate::job::at_node::Hosts;
use crate::job::placement::NodeView;
use crate::membership::{Health, Member, Membership};
use crate::moment::Moment;
use pcm_proto::control::{NodeState, NodeStatus};
use pcm_proto::fabric::FabricReport;
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::node_end::NodeEnd;
use pcm_proto::peer::NodeReport;
use std::collections::BTreeMap;

/// Nodes told at each beat; in a larger cluster they take turns, so that a node's messages do not grow with it.
const TOLD_PER_BEAT: usize = 8;

/// The nodes of the cluster.
pub struct Nodes {
    own: NodeReport,
    pub members: Membership,
    reports: BTreeMap<NodeName, NodeReport>,
    /// Hosts of nodes by the account of a job's coordinator.
    hosts: BTreeMap<NodeName, u64>,
    /// When nodes end, this one too, and when that was so.
    ends: BTreeMap<NodeName, (Moment, NodeEnd)>,
    turn: usize,
}

impl Hosts for Nodes {
    fn host(&self, node: &NodeName) -> u64 {
        Self::host(self, node)
    }
}

impl Nodes {
    pub fn new(own: NodeReport, members: Membership) -> Self {
        Self {
            own,
            members,
            reports: BTreeMap::new(),
            hosts: BTreeMap::new(),
            ends: BTreeMap::new(),
            turn: 0,
        }
    }

    pub fn own(&self) -> &NodeReport {
        &self.own
    }

    pub fn own_mut(&mut self) -> &mut NodeReport {
        &mut self.own
    }

    /// From now on the time of this node passes.
    pub fn begin_countdown(&mut self, now: Moment) {
        let own = self.own.clone();
        self.note_end(now, &own);
    }

    /// Another clock says when the node ends: what counts is the time left, from the moment it was said.
    fn note_end(&mut self, now: Moment, report: &NodeReport) {
        match report.ends {
            Some(end) => _ = self.ends.insert(report.node.clone(), (now, end)),
            None => _ = self.ends.remove(&report.node),
        }
    }

    /// When a node ends, as far as it said so.
    pub fn end_of(&self, now: Moment, node: &NodeName) -> Option<NodeEnd> {
        let (at, end) = self.ends.get(node)?;
        Some(end.after(now.since(*at)))
    }

    /// Whether ranks of a node can go to another one.
    pub fn has_refuge(&self, now: Moment, from: &NodeName) -> bool {
        let is_near = |node: &NodeName| self.end_of(now, node).is_some_and(|end| end.is_near());
        let mut all = self.others().chain([self.own.clone()]);
        all.any(|report| report.node != *from && report.state == NodeState::Up && !is_near(&report.node))
    }

    /// The node that speaks for one that goes: the first by name among the others that are there, else itself.
    pub fn survivor_of<'a>(&'a self, node: &'a NodeName) -> &'a NodeName {
        let live = self.members.members().filter(|(_, member)| member.health.is_live());
        let others = live.map(|(other, _)| other).chain([&self.own.node]);
        others.filter(|other| *other != node).min().unwrap_or(node)
    }

    /// Takes in how another node says it is; whether it was born again since it last did.
    pub fn note_report(&mut self, now: Moment, report: NodeReport) -> bool {
        self.note_end(now, &report);
        let since_us = report.keeper_since_us;
        let before = self.reports.insert(report.node.clone(), report);
        before.is_some_and(|before| before.keeper_since_us != since_us)
    }

    /// Whether a node has the keeper that it had when it last said how it is.
    pub fn is_known_keeper(&self, report: &NodeReport) -> bool {
        let before = self.reports.get(&report.node);
        before.is_some_and(|before| before.keeper_since_us == report.keeper_since_us)
    }

    /// What a node said of itself last.
    pub fn last_report(&self, node: &NodeName) -> Option<&NodeReport> {
        self.reports.get(node)
    }

    pub fn is_draining(&self) -> bool {
        self.own.state == NodeState::Draining
    }

    /// The other nodes that are there, each with its last report, or what the detector knows.
    pub fn others(&self) -> impl Iterator<Item = NodeReport> + '_ {
        let live = self.members.members().filter(|(_, member)| member.health.is_live());
        live.map(|(node, member)| self.report_of(node, member))
    }

    fn report_of(&self, node: &NodeName, member: &Member) -> NodeReport {
        let details = &member.details;
        let before = self.reports.get(node).cloned();
        let report = before.unwrap_or_else(|| NodeReport {
            node: node.clone(),
            address: String::new(),
            site: details.site.clone(),
            cpus: details.cpus.clone(),
            state: NodeState::Up,
            host: details.host,
            host_name: String::new(),
            speed: 0.0,
            load_by_others: 0.0,
            ranks: 0,
            free_memory: 0,
            daemon_pid: 0,
            highest_job: JobId(0),
            keeper_since_us: 0,
            fabric: FabricReport::default(),
            ends: None,
        });
        NodeReport {
            address: details.address.clone(),
            state: state_of(member.health),
            ..report
        }
    }

    /// The host a node stands on; a node nobody knows is alone on its own.
    pub fn host(&self, node: &NodeName) -> u64 {
        if *node == self.own.node {
            return self.own.host;
        }
        match self.members.member(node) {
            Some(member) => member.details.host,
            None => self.hosts.get(node).copied().unwrap_or(0),
        }
    }

    /// A coordinator tells the hosts of nodes that may not have been heard of here yet.
    pub fn note_hosts(&mut self, hosts: Vec<(NodeName, u64)>) {
        self.hosts.extend(hosts);
    }

    /// Names of the other nodes that are there.
    pub fn reachable(&self) -> Vec<NodeName> {
        let live = self.members.members().filter(|(_, member)| member.health.is_live());
        live.map(|(node, _)| node.clone()).collect()
    }

    /// The state of a node; `None` for one that nobody knows or that left.
    pub fn state(&self, node: &NodeName) -> Option<NodeState> {
        if *node == self.own.node {
            return Some(self.own.state);
        }
        let member = self
            .members
            .member(node)
            .filter(|member| member.health != Health::Left)?;
        Some(state_of(member.health))
    }

    /// Nodes of other sites that are up.
    pub fn at_other_sites(&self) -> Vec<NodeReport> {
        let up = self.others().filter(|report| report.state == NodeState::Up);
        up.filter(|report| report.site != self.own.site).collect()
    }

    /// Whether a node is there.
    pub fn is_live(&self, node: &NodeName) -> bool {
        self.state(node).is_some_and(|state| state != NodeState::Gone)
    }

    /// Which start of a node's daemon is there, or was there last; a later one has a greater number.
    pub fn boot(&self, node: &NodeName) -> u64 {
        self.members.member(node).map_or(0, |member| member.boot)
    }

    /// The node that gives numbers to new jobs: the first by name among those that are there.
    pub fn numbering(&self) -> &NodeName {
        let live = self.members.members().filter(|(_, member)| member.health.is_live());
        live.map(|(node, _)| node)
            .chain([&self.own.node])
            .min()
            .unwrap_or(&self.own.node)
    }

    /// What placement has to know, in natural order. Nodes that share their CPUs share their load and speed: what the
    /// one measures as taken by others is the other's too.
    pub fn views(&self, now: Moment) -> Vec<NodeView> {
        let mut reports: Vec<NodeReport> = self.others().chain([self.own.clone()]).collect();
        let pools = pools(&reports);
        for report in &mut reports {
            let pool = &pools[&(report.host, report.cpus.clone())];
            report.load_by_others = pool.load / pool.nodes;
            report.speed = pool.speed / pool.nodes;
        }
        let near = |node| self.end_of(now, node).filter(NodeEnd::is_near);
        let mut views: Vec<NodeView> = reports.iter().map(|report| view(report, near(&report.node))).collect();
        views.sort_by_key(|view| natural_key(view.name.as_str()));
        views
    }

    /// One line of `nodes` for each node, dead ones too, in natural order.
    pub fn statuses(&self, now: Moment) -> Vec<NodeStatus> {
        let known = self
            .members
            .members()
            .filter(|(_, member)| member.health != Health::Left);
        let others = known.map(|(node, member)| self.report_of(node, member));
        let with_end = |report: NodeReport| NodeStatus {
            ends: self.end_of(now, &report.node),
            ..status(report)
        };
        let mut statuses: Vec<NodeStatus> = others.chain([self.own.clone()]).map(with_end).collect();
        statuses.sort_by_key(|status| natural_key(status.name.as_str()));
        statuses
    }

    /// How many CPUs the nodes of a host have together.
    pub fn cpus_of_host(&self, host: u64) -> usize {
        let reports = self.others().chain([self.own.clone()]);
        let of_host = reports.filter(|report| report.host == host);
        let mut cpus: Vec<u32> = of_host.flat_map(|report| report.cpus).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus.len()
    }

    /// The nodes to be told at this beat.
    pub fn take_turn(&mut self) -> Vec<NodeName> {
        let nodes = self.reachable();
        let count = nodes.len().min(TOLD_PER_BEAT);
        let first = self.turn;
        self.turn = self.turn.wrapping_add(count);
        (0..count)
            .map(|offset| nodes[first.wrapping_add(offset) % nodes.len()].clone())
            .collect()
    }
}

struct Pool {
    nodes: f64,
    load: f64,
    speed: f64,
}

fn pools(reports: &[NodeReport]) -> BTreeMap<(u64, Vec<u32>), Pool> {
    let mut pools = BTreeMap::new();
    for report in reports {
        let empty = Pool {
            nodes: 0.0,
            load: 0.0,
            speed: 0.0,
        };
        let pool: &mut Pool = pools.entry((report.host, report.cpus.clone())).or_insert(empty);
        pool.nodes += 1.0;
        pool.load += report.load_by_others;
        pool.speed += report.speed;
    }
    pools
}

fn state_of(health: Health) -> NodeState {
    match health {
        Health::Up => NodeState::Up,
        Health::Draining => NodeState::Draining,
        Health::Suspect => NodeState::Suspect,
        Health::Gone | Health::Left => NodeState::Gone,
    }
}

fn view(report: &NodeReport, near_end: Option<NodeEnd>) -> NodeView {
    NodeView {
        name: report.node.clone(),
        is_open: report.state == NodeState::Up,
        cpus: report.cpus.len() as u32,
        speed: report.speed,
        load_by_others: report.load_by_others,
        ranks: report.ranks,
        host: report.host,
        near_end,
    }
}

fn status(report: NodeReport) -> NodeStatus {
    NodeStatus {
        name: report.node,
        address: report.address,
        site: report.site,
        cpus: report.cpus,
        state: report.state,
        speed: report.speed,
        load_by_others: report.load_by_others,
        ranks: report.ranks,
        free_memory: report.free_memory,
        daemon_pid: report.daemon_pid,
        fabric: report.fabric,
        link: None,
        ends: None,
    }
}

/// Numbers at the end of a name count as numbers: `n2` comes before `n10`.
fn natural_key(name: &str) -> (String, u64, String) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (
        stem.to_owned(),
        name[stem.len()..].parse().unwrap_or(0),
        name.to_owned(),
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::membership::{Details, LocalNode, timing};
    use std::time::Duration;

    pub(in crate::node::cluster) fn report(name: &str, host: u64, load: f64) -> NodeReport {
        NodeReport {
            node: NodeName::new(name).unwrap(),
            address: String::new(),
            site: String::new(),
            cpus: vec![0, 1],
            state: NodeState::Up,
            host,
            host_name: String::new(),
            speed: 1.0,
            load_by_others: load,
            ranks: 0,
            free_memory: 0,
            daemon_pid: 0,
            highest_job: JobId(0),
            keeper_since_us: 0,
            fabric: FabricReport::default(),
            ends: None,
        }
    }

    #[test]
    fn nodes_are_listed_in_the_order_a_person_counts() {
        let mut names = ["n10", "n2", "a", "n1"];
        names.sort_by_key(|name| natural_key(name));
        assert_eq!(names, ["a", "n1", "n2", "n10"]);
    }

    #[test]
    fn nodes_that_share_cpus_share_their_load() {
        let pools = pools(&[report("a", 1, 2.0), report("b", 1, 1.0), report("c", 2, 0.5)]);
        let shared = &pools[&(1, vec![0, 1])];
        assert_eq!((shared.load / shared.nodes, pools[&(2, vec![0, 1])].load), (1.5, 0.5));
    }

    pub(in crate::node::cluster) fn alone(own: NodeReport) -> Nodes {
        let details = Details {
            address: "h:1".into(),
            site: String::new(),
            cpus: vec![0],
            host: own.host,
            ud: None,
        };
        let local = LocalNode {
            node: own.node.clone(),
            boot: 1,
            details,
            patience: timing::PATIENCE,
        };
        Nodes::new(own, Membership::new(local, Vec::new(), Duration::ZERO))
    }

    #[test]
    fn a_node_alone_numbers_its_own_jobs() {
        let mut nodes = alone(report("b", 1, 0.0));
        assert_eq!(nodes.numbering().as_str(), "b");
        assert!(nodes.take_turn().is_empty() && nodes.reachable().is_empty());
        assert_eq!(nodes.state(&NodeName::new("c").unwrap()), None);
    }

    #[test]
    fn a_node_that_was_not_heard_of_stands_where_a_coordinator_says() {
        let mut nodes = alone(report("b", 7, 0.0));
        let other = NodeName::new("c").unwrap();
        assert_eq!(nodes.host(&other), 0);
        nodes.note_hosts(vec![(other.clone(), 7), (nodes.own().node.clone(), 9)]);
        assert_eq!(nodes.host(&other), 7);
        assert_eq!(nodes.host(&NodeName::new("b").unwrap()), 7, "its own it knows itself");
    }
}
