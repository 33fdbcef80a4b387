//! What the node knows of its transports to other nodes. Never chooses a transport.

use crate::node::event::PeerFact;
use crate::node::reach::{RdmaReach, Reach};
use pcm_proto::fabric::FabricReport;
use pcm_proto::ids::NodeName;
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

    /// Takes in a fact that is about transports.
    pub(in crate::node) fn note(&mut self, fact: &PeerFact) {
        match fact {
            PeerFact::Linked(node) => _ = self.linked.insert(node.clone()),
            PeerFact::Unlinked(node) => _ = self.linked.remove(node),
            PeerFact::Reach { node, reach } => _ = self.reach.insert(node.clone(), *reach),
            PeerFact::Transports(report) => self.report = (**report).clone(),
            _ => {}
        }
    }

    /// The links to a node are dropped.
    pub(in crate::node) fn forget_link(&mut self, node: &NodeName) {
        self.linked.remove(node);
    }

    pub(in crate::node) fn report(&self) -> &FabricReport {
        &self.report
    }

    pub(in crate::node) fn has_device(&self) -> bool {
        self.has_device
    }

    /// The nodes that are linked.
    pub(in crate::node) fn linked(&self) -> impl Iterator<Item = &NodeName> {
        self.linked.iter()
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
}
