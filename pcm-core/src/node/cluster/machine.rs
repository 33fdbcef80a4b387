//! The cluster as one node sees it: drives the failure detector, keeps the addresses of the other nodes, measures the
//! links to them, and says whether this node sees enough of them. Other parts hear of changes as [`ClusterFact`].

use super::fact::ClusterFact;
use super::nodes::Nodes;
use super::partners::Partners;
use super::quorum::Quorum;
use super::transports::Transports;
use crate::membership::{Change, Details, Effect, Health, Target};
use crate::moment::Moment;
use crate::node::event::PeerFact;
use crate::node::links::{CopyGoes, Links, Transfer};
use crate::node::outbox::{self, Inward, Outbox, PeersEffect};
use crate::node::reach::{RdmaReach, Transport};
use crate::node::record::Record;
use crate::node::timer::Timer;
use crate::wide::link::Link;
use pcm_proto::agent::NodeProfile;
use pcm_proto::control::{NodeState, NodeStatus};
use pcm_proto::event::EventKind;
use pcm_proto::fabric::UdAddress;
use pcm_proto::ids::{Epoch, NodeName};
use pcm_proto::link::{LINKS_TOLD_MAX, LinkMeasured};
use pcm_proto::peer::{DaemonToDaemon, NodeReport};
use std::collections::BTreeSet;
use std::time::Duration;

/// A word of another node may be so old when it comes: by an older word the node has that much more time left.
const ON_ITS_WAY: Duration = Duration::from_secs(2);

/// See the file head.
pub(in crate::node) struct Cluster {
    own: NodeName,
    nodes: Nodes,
    quorum: Quorum,
    transports: Transports,
    links: Links,
    /// Nodes that an earlier daemon knew and that were not seen since.
    awaited: BTreeSet<NodeName>,
    /// Nodes that an earlier daemon knew and that have not said how they are since.
    unheard: BTreeSet<NodeName>,
    /// Whether those had their time to be seen, or no other is known to be there.
    is_settled: bool,
    /// Addresses of nodes that were there before this one.
    seeds: Vec<String>,
    is_parting: bool,
}

/// Whether a node was born again since it last said how it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::node) enum Birth {
    /// It is the one that was known, or there was none.
    Known,
    /// It was, while this daemon looked.
    Seen,
    /// It was, and no daemon was here to notice that the one before was lost.
    Unseen,
}

/// Time as the failure detector counts it.
fn since_1970(now: Moment) -> Duration {
    Duration::from_micros(now.0)
}

impl Cluster {
    pub(in crate::node) fn new(own: NodeName, nodes: Nodes, patience: Duration, has_device: bool) -> Self {
        Self {
            quorum: Quorum::new(own.clone(), patience),
            transports: Transports::new(nodes.own().fabric.clone(), has_device),
            links: Links::default(),
            awaited: BTreeSet::new(),
            unheard: BTreeSet::new(),
            is_settled: false,
            seeds: Vec::new(),
            is_parting: false,
            own,
            nodes,
        }
    }

    pub(in crate::node) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    pub(in crate::node) fn transports(&self) -> &Transports {
        &self.transports
    }

    /// Takes in hosts by the account of a job's coordinator.
    pub(in crate::node) fn note_hosts(&mut self, hosts: Vec<(NodeName, u64)>) {
        self.nodes.note_hosts(hosts);
    }

    /// Takes in what a daemon before this one knew of a node.
    pub(in crate::node) fn remember(&mut self, report: &NodeReport, out: &mut Outbox) {
        set_address(&report.node, &report.address, out);
        self.awaited.insert(report.node.clone());
        self.unheard.insert(report.node.clone());
        self.note_host(report);
        if report.keeper_since_us != 0 {
            // How old its word about its own end is cannot be known; the node says it again.
            let report = NodeReport {
                ends: None,
                ..report.clone()
            };
            self.nodes.note_report(out.now(), report);
        }
    }

    /// The daemon begins; `seeds` are the addresses of other nodes that were named to it.
    pub(in crate::node) fn begin(&mut self, seeds: &[String]) {
        self.is_settled = seeds.is_empty() && self.awaited.is_empty();
        self.seeds = seeds.to_vec();
    }

    /// What nodes said to an earlier daemon that have said nothing to this one: a later daemon, too, must see that they
    /// were born again.
    fn unheard(&self) -> impl Iterator<Item = NodeReport> + '_ {
        let unseen = self.unheard.iter().filter(|node| !self.nodes.is_live(node));
        unseen.filter_map(|node| self.nodes.last_report(node).cloned())
    }

    /// The nodes that an earlier daemon knew had their time to be seen; those that were not.
    pub(in crate::node) fn settle(&mut self) -> BTreeSet<NodeName> {
        self.is_settled = true;
        let mut missing = std::mem::take(&mut self.awaited);
        missing.retain(|node| !self.nodes.is_live(node));
        missing
    }

    /// Whether this node has not heard of another one, and may as it was just started.
    pub(in crate::node) fn may_hear_of(&self, node: &NodeName) -> bool {
        !self.is_settled && self.nodes.state(node).is_none()
    }

    /// Whether this node can know which other nodes there are: one that was there before is seen, or time is up.
    /// A node that is as new as this one knows no more.
    pub(in crate::node) fn is_settled(&self) -> bool {
        let mut others = self.nodes.others();
        let is_named = |address: &String| self.seeds.is_empty() || self.seeds.contains(address);
        self.is_settled || others.any(|report| is_named(&report.address))
    }

    fn note_host(&mut self, report: &NodeReport) {
        self.quorum
            .note_host(&report.node, report.host == self.nodes.own().host);
    }

    /// Another node says how it is.
    pub(in crate::node) fn note_report(&mut self, report: NodeReport, out: &mut Outbox) -> Birth {
        if !self.nodes.is_known_keeper(&report) {
            out.record(Record::Node(Box::new(report.clone())));
        }
        let is_first = self.unheard.remove(&report.node);
        match self.nodes.note_report(out.now(), report) {
            false => Birth::Known,
            true if is_first => Birth::Unseen,
            true => Birth::Seen,
        }
    }

    /// How this node is; the caller knows the fields that other parts own.
    pub(in crate::node) fn own_report(&mut self) -> &mut NodeReport {
        self.nodes.own_mut()
    }

    pub(in crate::node) fn say_report(&self, node: &NodeName, out: &mut Outbox) {
        let report = Box::new(self.nodes.own().clone());
        out.send(node, DaemonToDaemon::Report(report));
    }

    /// Says how this node is to the nodes whose turn it is.
    pub(in crate::node) fn say_reports(&mut self, out: &mut Outbox) {
        for node in self.nodes.take_turn() {
            self.say_report(&node, out);
        }
    }

    /// The node itself and all others that are there.
    pub(in crate::node) fn all_nodes(&self) -> Vec<NodeName> {
        let mut nodes = self.nodes.reachable();
        nodes.push(self.own.clone());
        nodes
    }

    /// The nodes that may hold copies for each other.
    pub(in crate::node) fn partners(&self) -> Partners {
        let all: Vec<_> = self.nodes.others().chain([self.nodes.own().clone()]).collect();
        let is_in = |state: NodeState| move |report: &NodeReport| report.state == state;
        // One that was taken for dead and has dialled again is seen in a moment.
        let is_coming = |node: &NodeName| all.iter().all(|report| report.node != *node);
        let may_grow =
            !self.is_settled || all.iter().any(is_in(NodeState::Suspect)) || self.transports.linked().any(is_coming);
        Partners::among(all.into_iter().filter(is_in(NodeState::Up)), may_grow)
    }

    /// Nodes that would lead a job of this one, the first that lives: such as hold copies of its checkpoints.
    pub(in crate::node) fn heirs(&self, count: usize) -> Vec<NodeName> {
        let mut ring = self.partners().ring(&self.own);
        ring.truncate(count);
        ring
    }

    /// Adds an event that every node sees: only the first by name notes it.
    fn note_once(&self, kind: EventKind, out: &mut Outbox) {
        if *self.nodes.numbering() == self.own {
            out.note(None, Epoch(0), kind);
        }
    }

    // Membership.

    pub(in crate::node) fn on_membership_timer(&mut self, out: &mut Outbox) {
        let now = since_1970(out.now());
        let mut effects = Vec::new();
        self.nodes.members.on_tick(now, &mut effects);
        let after = self.nodes.members.next_tick().saturating_sub(now);
        out.arm(after, Timer::Membership);
        self.carry_out(effects, out);
    }

    pub(in crate::node) fn on_membership(&mut self, node: &NodeName, bytes: &[u8], out: &mut Outbox) {
        let mut effects = Vec::new();
        let now = since_1970(out.now());
        if let Err(error) = self.nodes.members.on_message(now, node, bytes, &mut effects) {
            tracing::warn!(%node, ?error, "a packet of the failure detector is refused");
        }
        self.carry_out(effects, out);
    }

    fn carry_out(&mut self, effects: Vec<Effect>, out: &mut Outbox) {
        for effect in effects {
            match effect {
                Effect::Send {
                    to: Target::Node(node),
                    bytes,
                } => {
                    self.update_addresses(&node, out);
                    out.send(&node, DaemonToDaemon::Membership(bytes));
                }
                Effect::Send {
                    to: Target::Seed(address),
                    bytes,
                } => {
                    let message = DaemonToDaemon::Membership(bytes);
                    out.push(outbox::Effect::Peers(PeersEffect::SendToAddress { address, message }));
                }
                Effect::Report { node, change } => self.on_changed(node, change, out),
                Effect::Superseded { boot } => {
                    tracing::error!(boot, "another daemon bears this node's name: this one ends");
                    out.inward(Inward::Cluster(ClusterFact::Left));
                }
                Effect::LeaveComplete => out.inward(Inward::Cluster(ClusterFact::Left)),
            }
        }
    }

    fn on_changed(&mut self, node: NodeName, change: Change, out: &mut Outbox) {
        tracing::info!(%node, ?change, "membership");
        let fact = match change {
            Change::Joined | Change::Restarted | Change::Returned => {
                self.on_there(&node, change, out);
                ClusterFact::There { node, change }
            }
            Change::Suspected => {
                self.note_once(EventKind::NodeSuspect { name: node.clone() }, out);
                let is_silent = true;
                ClusterFact::Silent { node, is_silent }
            }
            Change::Recovered => {
                let is_silent = false;
                ClusterFact::Silent { node, is_silent }
            }
            Change::Draining => return self.note_end_of(&node, out),
            Change::Undrained => return,
            Change::Failed | Change::Left => {
                let on_purpose = change == Change::Left;
                if on_purpose {
                    out.record(Record::NodeLeft(node.clone()));
                } else {
                    // Before any part acts on the first of several that are lost at once.
                    self.note_loss(out.now(), &node);
                }
                let name = node.clone();
                self.note_once(EventKind::NodeGone { name, on_purpose }, out);
                ClusterFact::Gone { node, on_purpose }
            }
        };
        out.inward(Inward::Cluster(fact));
    }

    /// A node takes no ranks any more; says so where that is because its time is nearly up. What a node that leaves
    /// says of itself leaves with it.
    pub(in crate::node) fn note_end_of(&self, node: &NodeName, out: &mut Outbox) {
        let now = out.now();
        let end = self.nodes.end_of(now, node);
        let end = end.filter(|end| end.left() <= end.leaves() + ON_ITS_WAY);
        if let Some(end) = end.filter(|_| *self.nodes.survivor_of(node) == self.own) {
            let kind = EventKind::NodeEnds {
                name: node.clone(),
                left_ms: end.left_ms,
                has_refuge: self.nodes.has_refuge(now, node),
            };
            out.note(None, Epoch(0), kind);
        }
    }

    fn on_there(&mut self, node: &NodeName, change: Change, out: &mut Outbox) {
        self.update_addresses(node, out);
        let report = self.nodes.others().find(|report| report.node == *node);
        if let Some(report) = report {
            self.note_host(&report);
            out.record(Record::Node(Box::new(report)));
        }
        if change == Change::Returned {
            self.note_once(EventKind::NodeUp { name: node.clone() }, out);
        }
    }

    /// The addresses of a node by its own account.
    fn update_addresses(&self, node: &NodeName, out: &mut Outbox) {
        if let Some(member) = self.nodes.members.member(node) {
            let Details { address, ud, .. } = &member.details;
            set_address(node, address, out);
            set_rdma_address(node, *ud, out);
        }
    }

    /// All links to a node that is gone are dropped.
    pub(in crate::node) fn forget_links(&mut self, node: &NodeName, out: &mut Outbox) {
        let gone = node.clone();
        out.push(outbox::Effect::ForgetLinks { node: gone });
        self.transports.forget_link(node);
        self.links.forget(node);
    }

    pub(in crate::node) fn on_unreachable(&mut self, node: &NodeName) {
        self.nodes.members.on_unreachable(node);
    }

    /// Whether the failure detector does not take a node for dead.
    pub(in crate::node) fn may_live(&self, node: &NodeName) -> bool {
        let member = self.nodes.members.member(node);
        member.is_none_or(|member| member.health.is_live())
    }

    /// Whether a node is there, or was for an earlier daemon and had no time to be seen since.
    pub(in crate::node) fn may_answer(&self, node: &NodeName) -> bool {
        self.nodes.is_live(node) || self.awaited.contains(node)
    }

    /// Whether the node takes new ranks from now on.
    pub(in crate::node) fn set_draining(&mut self, is_draining: bool, out: &mut Outbox) {
        self.nodes.own_mut().state = if is_draining {
            NodeState::Draining
        } else {
            NodeState::Up
        };
        out.record(Record::Draining { is_draining });
        let mut effects = Vec::new();
        self.nodes
            .members
            .drain(is_draining, since_1970(out.now()), &mut effects);
        self.carry_out(effects, out);
    }

    /// The node says its last words, and then leaves.
    pub(in crate::node) fn begin_to_leave(&mut self) {
        self.is_parting = true;
    }

    /// The node leaves a cluster that goes on; [`ClusterFact::Left`] when the others know.
    pub(in crate::node) fn leave(&mut self, out: &mut Outbox) {
        let mut effects = Vec::new();
        self.nodes.members.leave(since_1970(out.now()), &mut effects);
        self.carry_out(effects, out);
    }

    /// Whether this node has begun to leave.
    pub(in crate::node) fn is_leaving(&self) -> bool {
        self.is_parting || self.nodes.members.own_health() == Health::Left
    }

    // Quorum.

    /// Something happens to the node: when nothing did for long, it stood still.
    pub(in crate::node) fn note_time(&mut self, now: Moment) {
        self.quorum.note_time(now);
    }

    /// Whether the node stood still until a moment ago: others may have taken it for dead.
    pub(in crate::node) fn is_just_awake(&self, now: Moment) -> bool {
        self.quorum.is_just_awake(now)
    }

    /// Whether a node was lost so lately that others may be about to be.
    pub(in crate::node) fn is_just_lost(&self, now: Moment, node: &NodeName) -> bool {
        self.quorum.is_just_lost(now, node)
    }

    /// A node is gone that did not say so.
    pub(in crate::node) fn note_loss(&mut self, now: Moment, node: &NodeName) {
        self.quorum.note_loss(now, node, &self.nodes);
    }

    pub(in crate::node) fn is_cut_off(&self, now: Moment) -> bool {
        self.quorum.is_cut_off(now, &self.nodes)
    }

    pub(in crate::node) fn is_in_doubt(&self, now: Moment) -> bool {
        self.quorum.is_in_doubt(now, &self.nodes)
    }

    pub(in crate::node) fn note_rejoined(&mut self, now: Moment) {
        self.quorum.note_rejoined(now, &self.nodes);
    }

    // Transports and links.

    /// Takes in what a fact says about transports and links.
    pub(in crate::node) fn note_peer(&mut self, fact: &PeerFact, now: Moment) {
        self.transports.note(fact);
        if let PeerFact::Confirmed { node, transport, took } = fact
            && *transport == Transport::Udp
        {
            // What InfiniBand or RoCE carries does not count: MPI goes over TCP.
            self.measure_trip(now, node, *took);
        }
    }

    fn measure_trip(&mut self, now: Moment, node: &NodeName, took: Duration) {
        if let Some(host) = self.link_to(node) {
            self.links.note_trip(now, (node, host), took);
        }
    }

    /// A node answered; where it confirms datagrams, these are measured more closely.
    pub(in crate::node) fn measure_answer(&mut self, now: Moment, node: &NodeName, took: Duration) {
        if !self.transports.confirms_datagrams(node) {
            self.measure_trip(now, node, took);
        }
    }

    /// A copy came from or went to another node over TCP.
    pub(in crate::node) fn measure_copy(&mut self, node: &NodeName, goes: CopyGoes, copied: Transfer) {
        if let Some(host) = self.link_to(node) {
            self.links.note_copy((node, host), goes, copied);
        }
    }

    /// The host of a live node to which there is a link. Ranks of one host share memory: what lies between its
    /// daemons says nothing.
    fn link_to(&self, node: &NodeName) -> Option<u64> {
        let host = self.nodes.host(node);
        let is_link = *node != self.own && host != self.nodes.own().host && self.nodes.is_live(node);
        is_link.then_some(host)
    }

    /// Nodes whose links the agent wants to know and that have confirmed nothing for a while.
    pub(in crate::node) fn take_silent(&mut self, now: Moment) -> Vec<NodeName> {
        let mut links = std::mem::take(&mut self.links);
        // Of what is confirmed over a device nothing is measured, however often it is asked.
        let is_measurable =
            |node: &NodeName| self.link_to(node).is_some() && self.transports.rdma_reach(node) != RdmaReach::There;
        let silent = links.take_silent(now, is_measurable);
        self.links = links;
        silent
    }

    /// Links for the agent, to the first of these nodes that are on other hosts.
    pub(in crate::node) fn links_among(&mut self, now: Moment, candidates: &[NodeName]) -> Vec<LinkMeasured> {
        let mut nodes: Vec<NodeName> = Vec::new();
        for node in candidates.iter().take(4 * LINKS_TOLD_MAX) {
            if nodes.len() < LINKS_TOLD_MAX && !nodes.contains(node) && self.link_to(node).is_some() {
                nodes.push(node.clone());
            }
        }
        self.links.want(&nodes);
        let measured = |node| self.links.measured(now, (node, self.link_to(node)?), node);
        nodes.iter().filter_map(measured).collect()
    }

    pub(in crate::node) fn on_agent_gone(&mut self) {
        self.links.on_agent_gone();
    }

    /// The agent has measured this node.
    pub(in crate::node) fn note_profile(&mut self, profile: &NodeProfile) {
        let own = self.own_report();
        own.speed = profile.speed;
        own.load_by_others = profile.load_by_others;
        own.free_memory = profile.free_memory;
    }

    /// Everything a successor would have to know of the nodes.
    pub(in crate::node) fn records(&self) -> Vec<Record> {
        let nodes = &self.nodes;
        let mut records = vec![
            Record::Draining {
                is_draining: nodes.is_draining(),
            },
            Record::Boot(nodes.members.own_boot()),
            Record::KeeperSince(nodes.own().keeper_since_us),
        ];
        let known = nodes.others().chain(self.unheard());
        records.extend(known.map(|report| Record::Node(Box::new(report))));
        records
    }

    /// The slowest link from here to a node of another site; `None` where none is up.
    pub(in crate::node) fn slowest_between_sites(&self, now: Moment) -> Option<Link> {
        let far = self.nodes.at_other_sites();
        let measured = |report: NodeReport| self.links.measured(now, (&report.node, report.host), &self.own);
        (!far.is_empty()).then(|| Link::slowest(&far.into_iter().filter_map(measured).collect::<Vec<_>>()))
    }

    /// The lines of `nodes`.
    pub(in crate::node) fn statuses(&self, now: Moment) -> Vec<NodeStatus> {
        let mut statuses = self.nodes.statuses(now);
        for status in &mut statuses {
            let host = self.link_to(&status.name);
            status.link = host.and_then(|host| self.links.measured(now, (&status.name, host), &self.own));
        }
        statuses
    }
}

pub(in crate::node) fn set_address(node: &NodeName, address: &str, out: &mut Outbox) {
    let (node, address) = (node.clone(), address.to_owned());
    out.push(outbox::Effect::Peers(PeersEffect::SetAddress { node, address }));
}

fn set_rdma_address(node: &NodeName, address: Option<UdAddress>, out: &mut Outbox) {
    let node = node.clone();
    out.push(outbox::Effect::Peers(PeersEffect::SetRdmaAddress { node, address }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::CopyTo;
    use crate::node::cluster::nodes::tests::{alone, report};

    /// Whoever acts on the loss of the first must know already that most of the cluster is lost.
    #[test]
    fn nodes_that_are_lost_at_once_are_all_noted_before_anybody_acts_on_the_first() {
        let nodes = alone(report("a", 1, 0.0));
        let own = nodes.own().node.clone();
        let mut cluster = Cluster::new(own.clone(), nodes, Duration::from_secs(1), false);
        let now = Moment(5);
        let mut out = Outbox::new(own, now);
        let lost = ["b", "c"].map(|name| NodeName::new(name).unwrap());
        let effects = lost.clone().map(|node| Effect::Report {
            node,
            change: Change::Failed,
        });
        cluster.carry_out(effects.into(), &mut out);
        let first = Inward::Cluster(ClusterFact::Gone {
            node: lost[0].clone(),
            on_purpose: false,
        });
        assert_eq!(
            out.take_inward().map(|fact| format!("{fact:?}")),
            Some(format!("{first:?}"))
        );
        assert!(lost.iter().all(|node| cluster.is_just_lost(now, node)));
        assert!(cluster.is_cut_off(now), "one node of three is left");
    }

    #[test]
    fn copies_wait_for_a_node_that_is_linked_and_not_seen_yet() {
        let (nodes, other) = (alone(report("a", 1, 0.0)), NodeName::new("b").unwrap());
        let own = nodes.own().node.clone();
        let mut cluster = Cluster::new(own.clone(), nodes, Duration::from_secs(1), false);
        cluster.begin(&[]);
        assert_eq!(cluster.partners().copy_to(&own), CopyTo::Nowhere);
        cluster.note_peer(&PeerFact::Linked(other.clone()), Moment(0));
        assert_eq!(cluster.partners().copy_to(&own), CopyTo::NodeToCome);
        cluster.note_peer(&PeerFact::Unlinked(other), Moment(0));
        assert_eq!(cluster.partners().copy_to(&own), CopyTo::Nowhere);
    }
}
