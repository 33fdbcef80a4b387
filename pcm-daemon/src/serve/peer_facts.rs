//! What the fabric reports about other daemons: each fact goes to the part of the daemon that it concerns. Never sends
//! and never chooses a transport.

use super::daemon::Daemon;
use pcm_fabric::peers::{PeerEvent, PeerFact};
use std::time::Instant;

impl Daemon {
    pub(super) fn on_peer_event(&mut self, event: PeerEvent) {
        let facts = self.peers.handle(event, Instant::now());
        self.on_peer_facts(facts);
    }

    /// Messages that waited for others in vain are among the facts of a second.
    pub(super) fn on_peers_tick(&mut self) {
        let facts = self.peers.on_tick(Instant::now());
        self.on_peer_facts(facts);
    }

    fn on_peer_facts(&mut self, facts: Vec<PeerFact>) {
        for fact in facts {
            match fact {
                PeerFact::Linked(node) => self.on_peer_linked(&node),
                PeerFact::Unlinked(node) => self.on_peer_unlinked(&node),
                PeerFact::Unreachable { node, reason } => self.on_peer_unreachable(&node, &reason),
                PeerFact::Said { node, message } => self.on_peer_said(&node, message),
                PeerFact::Confirmed { node, transport, took } => self.measure_datagram(&node, transport, took),
                PeerFact::PathChanged {
                    node,
                    transport,
                    change,
                    carried_by,
                    reason,
                } => self.on_path_changed(&node, (transport, change), carried_by, reason),
            }
        }
    }
}
