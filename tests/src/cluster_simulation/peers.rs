//! The other daemons as one daemon's transport knows them: addresses, wires, and messages that wait for a wire.

use pcm_proto::peer::DaemonToDaemon;
use std::collections::{BTreeMap, VecDeque};

/// Messages that wait for a wire, as in `pcm-fabric`.
const WAITING_MAX: usize = 1024;

#[derive(Debug, Default)]
struct Peer {
    has_address: bool,
    /// The newest is the last.
    wires: Vec<u64>,
    is_dialling: bool,
    waiting: VecDeque<DaemonToDaemon>,
}

/// See the file head.
#[derive(Debug, Default)]
pub(super) struct Peers {
    peers: BTreeMap<usize, Peer>,
}

/// What a dial begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dial {
    Begins,
    /// There is a wire, or one is being made, or no address is known.
    IsNotNeeded,
}

impl Peers {
    fn peer(&mut self, other: usize) -> &mut Peer {
        self.peers.entry(other).or_default()
    }

    pub(super) fn set_address(&mut self, other: usize) {
        self.peer(other).has_address = true;
    }

    pub(super) fn has_address(&self, other: usize) -> bool {
        self.peers.get(&other).is_some_and(|peer| peer.has_address)
    }

    pub(super) fn wire(&self, other: usize) -> Option<u64> {
        self.peers.get(&other)?.wires.last().copied()
    }

    pub(super) fn enqueue(&mut self, other: usize, message: DaemonToDaemon) {
        let waiting = &mut self.peer(other).waiting;
        if waiting.len() < WAITING_MAX {
            waiting.push_back(message);
        }
    }

    pub(super) fn take_waiting(&mut self, other: usize) -> VecDeque<DaemonToDaemon> {
        std::mem::take(&mut self.peer(other).waiting)
    }

    pub(super) fn begin_dial(&mut self, other: usize) -> Dial {
        let peer = self.peer(other);
        if peer.is_dialling || !peer.wires.is_empty() {
            return Dial::IsNotNeeded;
        }
        if !peer.has_address {
            peer.waiting.clear();
            return Dial::IsNotNeeded;
        }
        peer.is_dialling = true;
        Dial::Begins
    }

    pub(super) fn on_dial_failed(&mut self, other: usize) {
        let peer = self.peer(other);
        peer.is_dialling = false;
        if peer.wires.is_empty() {
            peer.waiting.clear();
        }
    }

    pub(super) fn on_linked(&mut self, other: usize, wire: u64, is_own_dial: bool) {
        let peer = self.peer(other);
        peer.wires.push(wire);
        peer.is_dialling &= !is_own_dial;
    }

    /// Returns whether another wire is left.
    pub(super) fn on_ended(&mut self, other: usize, wire: u64) -> bool {
        let wires = &mut self.peer(other).wires;
        wires.retain(|known| *known != wire);
        !wires.is_empty()
    }

    /// The node is taken for dead.
    pub(super) fn forget(&mut self, other: usize) {
        self.peer(other).waiting.clear();
    }
}
