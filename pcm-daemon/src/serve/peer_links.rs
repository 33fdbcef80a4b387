//! The links to other daemons: carries out what the node wants of them, and tells the node what they report and how
//! each node is reached.

use super::files::EventLog;
use pcm_core::moment::Moment;
use pcm_core::node::event::{Event, PeerFact};
use pcm_core::node::outbox::PeersEffect;
use pcm_core::node::reach::{RdmaReach, Reach, Transport};
use pcm_fabric::hybrid::{Service, Tuning};
use pcm_fabric::peers::{self, GroupRoute, PathChange, PeerEvent, Peers};
use pcm_fabric::{Link, Listener, Sender};
use pcm_proto::event::EventKind;
use pcm_proto::fabric::FabricReport;
use pcm_proto::ids::{Bytes, NodeName};
use pcm_proto::peer::DaemonToDaemon;
use pcm_proto::sound::fault_of_peer;
use std::collections::BTreeMap;
use std::time::Instant;

/// See the file head.
pub(super) struct PeerLinks {
    peers: Peers,
    /// What the node was told last.
    reach: BTreeMap<NodeName, Reach>,
    report: FabricReport,
}

impl PeerLinks {
    pub(super) fn new(peers: Peers) -> Self {
        Self {
            report: peers.report(),
            peers,
            reach: BTreeMap::new(),
        }
    }

    pub(super) fn accept(&self, listener: Listener, others: impl FnMut(Link) + Send + 'static) {
        self.peers.accept(listener, others);
    }

    /// The transports in use, and why better ones are not.
    pub(super) fn report(&self) -> FabricReport {
        self.peers.report()
    }

    pub(super) async fn next_event(&mut self) -> PeerEvent {
        self.peers.next_event().await
    }

    pub(super) fn take_senders(&mut self) -> Vec<Sender> {
        self.peers.take_senders()
    }

    pub(super) fn handle(&mut self, event: PeerEvent) -> Vec<Event> {
        let facts = self.peers.handle(event, Instant::now());
        self.events(facts)
    }

    pub(super) fn send(&mut self, node: &NodeName, message: DaemonToDaemon) {
        self.peers.send(node, message, Instant::now());
    }

    pub(super) fn use_tuning(&mut self, tuning: Tuning) {
        self.peers.use_tuning(tuning);
    }

    pub(super) fn forget(&mut self, node: &NodeName) -> Vec<Event> {
        self.peers.forget(node);
        self.changed_reach(node).into_iter().collect()
    }

    /// The host of a node's daemon.
    pub(super) fn host(&self, node: &NodeName) -> Option<&str> {
        self.peers.address(node).and_then(host_of)
    }

    pub(super) fn carry_out(&mut self, effect: PeersEffect, now: Moment, log: &mut EventLog) -> Vec<Event> {
        match effect {
            PeersEffect::SetAddress { node, address } => self.peers.set_address(&node, &address),
            PeersEffect::SetRdmaAddress { node, address } => {
                self.peers.set_rdma_address(&node, address);
                return self.changed_reach(&node).into_iter().collect();
            }
            PeersEffect::Dial { node } => self.peers.dial(&node),
            PeersEffect::SendToAddress { address, message } => {
                self.peers.send_to_address(address, message, Instant::now());
            }
            PeersEffect::Tick => {
                let facts = self.peers.on_tick(Instant::now());
                let mut events = self.events(facts);
                events.extend(self.changed_report());
                return events;
            }
            PeersEffect::NoteRoute {
                job,
                epoch,
                nodes,
                message,
            } => {
                let GroupRoute { bytes, service, reason } = self.peers.group_route(&nodes, &message);
                let kind = EventKind::GroupTold {
                    what: "start".to_owned(),
                    members: nodes.len() as u32,
                    bytes: Bytes(bytes),
                    by: name(service).to_owned(),
                    reason,
                };
                tracing::info!(job = job.0, ?kind, "event");
                log.note(now.0, Some(job), epoch, kind);
            }
        }
        Vec::new()
    }

    fn events(&mut self, facts: Vec<peers::PeerFact>) -> Vec<Event> {
        let mut events = Vec::new();
        for fact in facts {
            // A message says nothing about the way to its sender; each other fact may.
            let is_about_way = !matches!(fact, peers::PeerFact::Said { .. });
            let (node, fact) = fact_of(fact);
            if let PeerFact::Said { message, .. } = &fact
                && let Some(fault) = fault_of_peer(message)
            {
                tracing::warn!(%node, fault, "a message that makes no sense is not acted on");
                continue;
            }
            if is_about_way {
                events.extend(self.changed_reach(&node));
                events.extend(self.changed_report());
            }
            events.push(Event::Peer(fact));
        }
        events
    }

    /// The transports in use, where the node was told of others.
    fn changed_report(&mut self) -> Option<Event> {
        let report = self.peers.report();
        if report == self.report {
            return None;
        }
        self.report = report.clone();
        Some(Event::Peer(PeerFact::Transports(Box::new(report))))
    }

    /// How a node is reached, where the node was told otherwise.
    fn changed_reach(&mut self, node: &NodeName) -> Option<Event> {
        let reach = Reach {
            confirms_datagrams: self.peers.confirms_datagrams(node),
            rdma: match self.peers.rdma_reach(node) {
                peers::RdmaReach::NoDevice => RdmaReach::NoDevice,
                peers::RdmaReach::Silent => RdmaReach::Silent,
                peers::RdmaReach::Reachable => RdmaReach::There,
            },
        };
        let told = self.reach.insert(node.clone(), reach);
        let node = node.clone();
        (told != Some(reach)).then_some(Event::Peer(PeerFact::Reach { node, reach }))
    }
}

fn fact_of(fact: peers::PeerFact) -> (NodeName, PeerFact) {
    let about = match &fact {
        peers::PeerFact::Linked(node)
        | peers::PeerFact::Unlinked(node)
        | peers::PeerFact::Unreachable { node, .. }
        | peers::PeerFact::Said { node, .. }
        | peers::PeerFact::Confirmed { node, .. }
        | peers::PeerFact::PathChanged { node, .. } => node.clone(),
    };
    let fact = match fact {
        peers::PeerFact::Linked(node) => PeerFact::Linked(node),
        peers::PeerFact::Unlinked(node) => PeerFact::Unlinked(node),
        peers::PeerFact::Unreachable { node, reason } => PeerFact::Unreachable { node, reason },
        peers::PeerFact::Said { node, message } => PeerFact::Said { node, message },
        peers::PeerFact::Confirmed { node, transport, took } => PeerFact::Confirmed {
            node,
            transport: transport_of(transport),
            took,
        },
        peers::PeerFact::PathChanged {
            node,
            transport,
            change,
            carried_by,
            reason,
        } => PeerFact::PathChanged {
            node,
            transport: transport_of(transport),
            is_recovered: change == PathChange::Recovered,
            carried_by: carried_by.to_owned(),
            reason: reason.map(str::to_owned),
        },
    };
    (about, fact)
}

fn transport_of(transport: peers::Transport) -> Transport {
    match transport {
        peers::Transport::Udp => Transport::Udp,
        peers::Transport::Rdma => Transport::Rdma,
    }
}

fn name(service: Service) -> &'static str {
    match service {
        Service::Datagram => "datagrams",
        Service::Connection => "connections",
    }
}

/// The host in a daemon's address.
fn host_of(address: &str) -> Option<&str> {
    let (host, _) = address.rsplit_once(':')?;
    Some(host.trim_matches(['[', ']']))
}

#[cfg(test)]
mod tests {
    use super::host_of;

    #[test]
    fn a_daemons_address_names_its_host() {
        assert_eq!(host_of("n1.example:70"), Some("n1.example"));
        assert_eq!(host_of("[::1]:70"), Some("::1"));
        assert_eq!(host_of("n1"), None);
    }
}
