//! The wires between daemons, and who is cut off from whom. Messages keep their order, also over two wires; what is
//! on its way is lost when its wire breaks. A cut holds messages back, and breaks wires when it lasts.

use super::happening::Life;
use pcm_proto::peer::DaemonToDaemon;
use std::collections::{BTreeMap, VecDeque};

/// One connection of two daemons.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) ends: [Life; 2],
}

impl Wire {
    pub(super) fn other(&self, own: Life) -> Life {
        if self.ends[0] == own {
            self.ends[1]
        } else {
            self.ends[0]
        }
    }
}

/// All messages from one daemon to another, over whichever wires: their numbers keep them in order, as in `pcm-fabric`.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// When the last message comes out.
    last: u64,
    /// What a cut holds back, in order, with the wire that carries it.
    stalled: VecDeque<(u64, Box<DaemonToDaemon>)>,
}

impl Lane {
    /// When a message comes out that would take until `at`.
    pub(super) fn arrives(&mut self, at: u64) -> u64 {
        self.last = at.max(self.last + 1);
        self.last
    }

    pub(super) fn stall(&mut self, wire: u64, message: Box<DaemonToDaemon>) {
        self.stalled.push_back((wire, message));
    }

    pub(super) fn is_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    pub(super) fn take_stalled(&mut self) -> VecDeque<(u64, Box<DaemonToDaemon>)> {
        std::mem::take(&mut self.stalled)
    }
}

/// See the file head.
#[derive(Debug)]
pub(super) struct Network {
    wires: BTreeMap<u64, Wire>,
    /// By sender and receiver.
    lanes: BTreeMap<(Life, Life), Lane>,
    count: u64,
    /// Which side of a cut each machine is on.
    sides: Vec<u8>,
}

impl Network {
    pub(super) fn new(machines: usize) -> Self {
        Self {
            wires: BTreeMap::new(),
            lanes: BTreeMap::new(),
            count: 0,
            sides: vec![0; machines],
        }
    }

    pub(super) fn cut(&mut self, sides: Vec<u8>) {
        self.sides = sides;
    }

    pub(super) fn mend(&mut self) {
        self.sides.fill(0);
    }

    pub(super) fn is_cut(&self, one: usize, other: usize) -> bool {
        self.sides[one] != self.sides[other]
    }

    pub(super) fn connect(&mut self, one: Life, other: Life) -> u64 {
        self.count += 1;
        self.wires.insert(self.count, Wire { ends: [one, other] });
        self.count
    }

    pub(super) fn wire(&self, number: u64) -> Option<&Wire> {
        self.wires.get(&number)
    }

    pub(super) fn lane(&mut self, from: Life, to: Life) -> &mut Lane {
        self.lanes.entry((from, to)).or_default()
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Wire> {
        self.wires.remove(&number)
    }

    pub(super) fn of(&self, life: Life) -> Vec<u64> {
        let of = self.wires.iter().filter(|(_, wire)| wire.ends.contains(&life));
        of.map(|(number, _)| *number).collect()
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        self.wires.keys().copied().collect()
    }

    /// The wires that lead from one side of the cut to the other.
    pub(super) fn cut_wires(&self) -> Vec<u64> {
        let is_cut = |wire: &Wire| self.is_cut(wire.ends[0].machine, wire.ends[1].machine);
        let cut = self.wires.iter().filter(|(_, wire)| is_cut(wire));
        cut.map(|(number, _)| *number).collect()
    }
}
