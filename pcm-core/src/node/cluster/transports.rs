//! What the node knows of its transports to other nodes, and what it makes of their news. Never chooses a transport.

use crate::node::event::{PeerFact, Reach, Transport};
use crate::node::machine::Node;
use crate::node::outbox::{Effect, PeersEffect};
use crate::node::store::input::StoreInput;
use crate::node::store::step::RdmaReach;
use pcm_proto::event::EventKind;
use pcm_proto::fabric::{FabricReport, UdAddress};
use pcm_proto::ids::{Epoch, JobId, NodeName};
use pcm_proto::peer::{CoordinatorToNode, DaemonToDaemon};
use pcm_proto::tree;
use std::collections::{BTreeMap, BTreeSet};

/// The transports as they were reported last.
#[derive(Debug)]
pub(in crate::node) struct Transports {
    report: FabricReport,
    /// Whether this node uses an InfiniBand or RoCE device.
    has_device: bool,
    linked: BTreeSet<NodeName>,
    reach: BTreeMap<NodeName, Reach>,
}

impl Transports {
    pub(in crate::node) fn new(report: FabricReport, has_device: bool) -> Self {
        Self {
            report,
            has_device,
            linked: BTreeSet::new(),
            reach: BTreeMap::new(),
        }
    }

    pub(in crate::node) fn is_linked(&self, node: &NodeName) -> bool {
        self.linked.contains(node)
    }

    pub(in crate::node) fn confirms_datagrams(&self, node: &NodeName) -> bool {
        self.reach.get(node).is_some_and(|reach| reach.confirms_datagrams)
    }

    /// Whether InfiniBand or RoCE leads to a node.
    pub(in crate::node) fn rdma_reach(&self, node: &NodeName) -> RdmaReach {
        self.reach.get(node).map_or(RdmaReach::NoDevice, |reach| reach.rdma)
    }

    /// Takes in a fact that is about transports alone.
    fn note(&mut self, fact: &PeerFact) {
        match fact {
            PeerFact::Linked(node) => _ = self.linked.insert(node.clone()),
            PeerFact::Unlinked(node) => _ = self.linked.remove(node),
            PeerFact::Reach { node, reach } => _ = self.reach.insert(node.clone(), *reach),
            PeerFact::Transports(report) => self.report = (**report).clone(),
            _ => {}
        }
    }
}

impl Node {
    /// Each fact goes to the part of the node that it concerns.
    pub(in crate::node) fn on_peer(&mut self, fact: PeerFact) {
        self.transports.note(&fact);
        match fact {
            PeerFact::Linked(node) => self.on_peer_linked(&node),
            PeerFact::Unlinked(node) => self.on_peer_unlinked(&node),
            PeerFact::Unreachable { node, reason } => self.on_peer_unreachable(&node, &reason),
            PeerFact::Said { node, message } => self.on_peer_said(&node, message),
            PeerFact::Confirmed { node, transport, took } => self.measure_datagram(&node, transport, took),
            PeerFact::PathChanged {
                node,
                transport,
                is_recovered,
                carried_by,
                reason,
            } => self.on_path_changed(&node, (transport, is_recovered), carried_by, reason),
            PeerFact::Reach { .. } => {}
            PeerFact::Transports(_) => self.nodes.own_mut().fabric = self.fabric_report(),
        }
    }

    /// The transports of this node's messages and copies, and why better ones are not in use.
    pub(in crate::node) fn fabric_report(&self) -> FabricReport {
        let mut report = self.transports.report.clone();
        report.copies = self.copy_routes_in_use();
        let has_device = self.transports.has_device;
        report
            .why_not
            .extend(self.store.why_not_rdma(self.out.now(), has_device));
        report
    }

    fn on_path_changed(
        &mut self,
        node: &NodeName,
        (transport, is_recovered): (Transport, bool),
        carried_by: String,
        reason: Option<String>,
    ) {
        if (transport, is_recovered) == (Transport::Rdma, true) {
            self.store_input(StoreInput::RdmaHeard { node: node.clone() });
        }
        self.nodes.own_mut().fabric = self.fabric_report();
        let Some(reason) = reason else { return };
        let kind = EventKind::FabricChanged {
            name: node.clone(),
            by: carried_by,
            reason,
        };
        self.note(None, Epoch(0), kind);
    }

    /// Notes how a start order reaches the nodes it goes to from here; once, with the first of them.
    pub(in crate::node) fn note_group(&mut self, job: JobId, node: &NodeName, message: &CoordinatorToNode) {
        let CoordinatorToNode::Start(order) = message else {
            return;
        };
        let children = &order.tree[tree::children(0, order.tree.len())];
        if order.worlds.is_empty() || children.first() != Some(node) {
            return;
        }
        // It is sent again to single nodes, on new links and when it is not confirmed.
        match self.jobs.led_mut(job).map(|led| &mut led.order_noted) {
            Some(noted) if noted.is_none_or(|before| before < order.number) => *noted = Some(order.number),
            _ => return,
        }
        let message = DaemonToDaemon::Job {
            job,
            message: Box::new(message.clone().into()),
        };
        self.peers(PeersEffect::NoteRoute {
            job,
            epoch: order.epoch,
            nodes: children.to_vec(),
            message,
        });
    }

    pub(in crate::node) fn peers(&mut self, effect: PeersEffect) {
        self.out.push(Effect::Peers(effect));
    }

    pub(in crate::node) fn set_address(&mut self, node: &NodeName, address: &str) {
        let (node, address) = (node.clone(), address.to_owned());
        self.peers(PeersEffect::SetAddress { node, address });
    }

    pub(in crate::node) fn set_rdma_address(&mut self, node: &NodeName, address: Option<UdAddress>) {
        let node = node.clone();
        self.peers(PeersEffect::SetRdmaAddress { node, address });
    }

    pub(in crate::node) fn dial(&mut self, node: &NodeName) {
        self.peers(PeersEffect::Dial { node: node.clone() });
    }
}
