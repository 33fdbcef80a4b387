//! Links to other nodes, as this node measures them: which measurements count, and which nodes are asked. The numbers
//! are in [`crate::node::links`].

use crate::moment::Moment;
use crate::node::event::Transport;
use crate::node::links::{CopyGoes, Transfer};
use crate::node::machine::Node;
use crate::node::queries::{ANSWER_WITHIN, Asker};
use crate::node::store::step::RdmaReach;
use pcm_proto::control::NodeStatus;
use pcm_proto::ids::NodeName;
use pcm_proto::link::{LINKS_OF_JOB_MAX, LINKS_TOLD_MAX, LinkMeasured};
use pcm_proto::peer::Question;
use std::time::Duration;

impl Node {
    fn moment(&self) -> Moment {
        self.out.now()
    }

    /// The host of a live node to which there is a link. Ranks of one host share memory: what lies between its
    /// daemons says nothing.
    fn link_to(&self, node: &NodeName) -> Option<u64> {
        let host = self.nodes.host(node);
        let is_link = *node != self.own && host != self.nodes.own().host && self.nodes.is_live(node);
        is_link.then_some(host)
    }

    /// A datagram was confirmed. What InfiniBand or RoCE carries does not count: MPI goes over TCP.
    pub(in crate::node) fn measure_datagram(&mut self, node: &NodeName, transport: Transport, took: Duration) {
        let is_measured = transport == Transport::Udp;
        if let Some(host) = self.link_to(node).filter(|_| is_measured) {
            self.links.note_trip(self.moment(), (node, host), took);
        }
    }

    /// A node answered; where it confirms datagrams, these are measured more closely.
    pub(in crate::node) fn measure_answer(&mut self, node: &NodeName, took: Duration) {
        let is_measured = !self.transports.confirms_datagrams(node);
        if let Some(host) = self.link_to(node).filter(|_| is_measured) {
            self.links.note_trip(self.moment(), (node, host), took);
        }
    }

    /// A copy came from or went to another node over TCP.
    pub(in crate::node) fn measure_copy(&mut self, node: &NodeName, goes: CopyGoes, began: Moment, bytes: u64) {
        if let Some(host) = self.link_to(node) {
            let ended = self.moment();
            let of = (node, host);
            self.links.note_copy(of, goes, Transfer { began, ended, bytes });
        }
    }

    /// Asks nodes whose links the agent wants to know and that have confirmed nothing for a while.
    pub(in crate::node) fn ask_silent_links(&mut self) {
        let now = self.moment();
        let mut links = std::mem::take(&mut self.links);
        // Of what is confirmed over a device nothing is measured, however often it is asked.
        let is_measurable =
            |node: &NodeName| self.link_to(node).is_some() && self.transports.rdma_reach(node) != RdmaReach::There;
        let silent = links.take_silent(now, is_measurable);
        self.links = links;
        for node in silent {
            self.ask(&node, Question::Ping, Asker::Links, ANSWER_WITHIN);
        }
    }

    /// The links the agent may care about: to the nodes of its jobs, as far as it reports them, and to those it asks
    /// about.
    pub(in crate::node) fn links_for_agent(&mut self, about: &[NodeName]) -> Vec<LinkMeasured> {
        let mut nodes: Vec<NodeName> = Vec::new();
        let of_jobs = self.nodes_of_jobs();
        for node in of_jobs.iter().chain(about).take(4 * LINKS_TOLD_MAX) {
            if nodes.len() < LINKS_TOLD_MAX && !nodes.contains(node) && self.link_to(node).is_some() {
                nodes.push(node.clone());
            }
        }
        self.links.want(&nodes);
        let now = self.moment();
        nodes
            .iter()
            .filter_map(|node| self.links.measured(now, (node, self.link_to(node)?), node))
            .collect()
    }

    /// Of each job the coordinator, then the nodes whose ranks come after those here.
    fn nodes_of_jobs(&self) -> Vec<NodeName> {
        let mut found = Vec::new();
        for (_, known) in self.jobs.all() {
            let (Some(part), Some(layout)) = (known.machine.part(), known.machine.layout()) else {
                continue;
            };
            if part.is_ending() {
                continue;
            }
            let mut nodes = layout.nodes();
            let own = nodes.iter().position(|node| *node == self.own);
            nodes.rotate_left(own.map_or(0, |own| own + 1));
            let next = nodes.into_iter().take(LINKS_OF_JOB_MAX - 1);
            found.extend([part.coordinator().clone()].into_iter().chain(next));
        }
        found
    }

    /// The lines of `nodes`.
    pub(in crate::node) fn node_statuses(&self) -> Vec<NodeStatus> {
        let mut statuses = self.nodes.statuses();
        let now = self.moment();
        for status in &mut statuses {
            let host = self.link_to(&status.name);
            status.link = host.and_then(|host| self.links.measured(now, (&status.name, host), &self.own));
        }
        statuses
    }
}
