//! Events and the report about the fabric: which transport carries messages to a node, and how a group is reached.
//! Never chooses a transport.

use super::daemon::Daemon;
use pcm_core::node::store::input::StoreInput;
use pcm_fabric::hybrid::Service;
use pcm_fabric::peers::{GroupRoute, PathChange, Transport};
use pcm_proto::event::EventKind;
use pcm_proto::fabric::FabricReport;
use pcm_proto::ids::{Bytes, Epoch, JobId, NodeName};
use pcm_proto::peer::{CoordinatorToNode, DaemonToDaemon};
use pcm_proto::tree;

impl Daemon {
    /// The transports of this node's messages and copies, and why better ones are not in use.
    pub(super) fn fabric_report(&self) -> FabricReport {
        let mut report = self.peers.report();
        report.copies = self.copy_routes_in_use();
        let has_device = self.peers.own_rdma_address().is_some();
        report
            .why_not
            .extend(self.store.why_not_rdma(self.out.now(), has_device));
        report
    }

    pub(super) fn on_path_changed(
        &mut self,
        node: &NodeName,
        (transport, change): (Transport, PathChange),
        carried_by: &str,
        reason: Option<&str>,
    ) {
        if (transport, change) == (Transport::Rdma, PathChange::Recovered) {
            self.store_input(StoreInput::RdmaHeard { node: node.clone() });
        }
        self.nodes.own_mut().fabric = self.fabric_report();
        let Some(reason) = reason else { return };
        let kind = EventKind::FabricChanged {
            name: node.clone(),
            by: carried_by.to_owned(),
            reason: reason.to_owned(),
        };
        self.note(None, Epoch(0), kind);
    }

    /// Notes how a start order reaches the nodes it goes to from here; once, with the first of them.
    pub(super) fn note_group(&mut self, job: JobId, node: &NodeName, message: &CoordinatorToNode) {
        let CoordinatorToNode::Start(order) = message else {
            return;
        };
        let children = &order.tree[tree::children(0, order.tree.len())];
        if order.worlds.is_empty() || children.first() != Some(node) {
            return;
        }
        // It is sent again to single nodes, on new links and when it is not confirmed.
        match self.jobs.get_mut(&job).map(|job| &mut job.order_noted) {
            Some(noted) if noted.is_none_or(|before| before < order.number) => *noted = Some(order.number),
            _ => return,
        }
        let message = DaemonToDaemon::Job {
            job,
            message: Box::new(message.clone().into()),
        };
        let GroupRoute { bytes, service, reason } = self.peers.group_route(children, &message);
        let kind = EventKind::GroupTold {
            what: "start".to_owned(),
            members: children.len() as u32,
            bytes: Bytes(bytes),
            by: name(service).to_owned(),
            reason,
        };
        self.note(Some(job), order.epoch, kind);
    }
}

fn name(service: Service) -> &'static str {
    match service {
        Service::Datagram => "datagrams",
        Service::Connection => "connections",
    }
}
