//! What the daemon says of the ways its messages take: events where a way changed and where one was chosen for a group.
//! Chooses nothing.

use super::carriers::Carrier;
use super::daemon::Daemon;
use super::datagram_way::Turn;
use super::datagrams::Sent;
use pcm_core::job::tree;
use pcm_fabric::hybrid::Service;
use pcm_proto::event::EventKind;
use pcm_proto::fabric::{FabricReport, Told};
use pcm_proto::ids::{Bytes, Epoch, JobId, NodeName};
use pcm_proto::peer::{CoordinatorToNode, DaemonToDaemon};

impl Daemon {
    /// What carries this node's messages and copies, and why nothing better does.
    pub(super) fn fabric_report(&self) -> FabricReport {
        let mut report = self.peers.datagrams.report();
        report.copies = self.copy_ways_in_use();
        report.why_not.extend(self.why_not_rdma_copies());
        report
    }

    pub(super) fn on_datagram_said(&mut self, node: &NodeName, carrier: Carrier, told: Told) {
        self.peers.on_heard(node, carrier);
        self.on_peer_told(node, told);
    }

    pub(super) fn on_datagram_sent(&mut self, sent: Sent) {
        self.measure_datagram(&sent);
        let (node, carrier) = (sent.node.clone(), sent.carrier);
        if let Some(turn) = self.peers.on_sent(sent) {
            if (carrier, turn) == (Carrier::Rdma, Turn::Heard) {
                self.on_rdma_heard(&node);
            }
            self.note_turn(&node, carrier, turn);
        }
    }

    fn note_turn(&mut self, node: &NodeName, carrier: Carrier, turn: Turn) {
        self.nodes.own_mut().fabric = self.fabric_report();
        let Some((by, reason)) = self.peers.datagrams.news(node, carrier, turn) else {
            return;
        };
        let kind = EventKind::FabricChanged {
            name: node.clone(),
            by: by.to_owned(),
            reason: reason.to_owned(),
        };
        self.note(None, Epoch(0), kind);
    }

    /// Says how the nodes that a start order goes to from here are reached; once, with the first of them.
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
        let told = DaemonToDaemon::Job {
            job,
            message: Box::new(message.clone().into()),
        };
        let (bytes, service, reason) = self.peers.group_way(children, &told);
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
