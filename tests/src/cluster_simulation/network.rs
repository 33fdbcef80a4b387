//! The wires between daemons, and who is cut off from whom. A wire keeps its order; what is on its way is lost when it
//! breaks. A cut holds a wire's messages back, and breaks it when it lasts.

use super::happening::Life;
use pcm_proto::peer::DaemonToDaemon;
use std::collections::{BTreeMap, VecDeque};

/// One connection of two daemons.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) ends: [Life; 2],
    /// When the last message comes out, by the end that receives it.
    last: [u64; 2],
    /// What a cut holds back, in order.
    stalled: VecDeque<(Life, Box<DaemonToDaemon>)>,
}

impl Wire {
    pub(super) fn other(&self, own: Life) -> Life {
        if self.ends[0] == own {
            self.ends[1]
        } else {
            self.ends[0]
        }
    }

    /// When a message to an end comes out that would take until `at`.
    pub(super) fn arrives(&mut self, to: Life, at: u64) -> u64 {
        let last = &mut self.last[usize::from(self.ends[1] == to)];
        *last = at.max(*last + 1);
        *last
    }

    pub(super) fn stall(&mut self, to: Life, message: Box<DaemonToDaemon>) {
        self.stalled.push_back((to, message));
    }

    pub(super) fn is_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    pub(super) fn take_stalled(&mut self) -> VecDeque<(Life, Box<DaemonToDaemon>)> {
        std::mem::take(&mut self.stalled)
    }
}

/// See the file head.
#[derive(Debug)]
pub(super) struct Network {
    wires: BTreeMap<u64, Wire>,
    count: u64,
    /// Which side of a cut each machine is on.
    sides: Vec<u8>,
}

impl Network {
    pub(super) fn new(machines: usize) -> Self {
        Self {
            wires: BTreeMap::new(),
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
        let wire = Wire {
            ends: [one, other],
            last: [0; 2],
            stalled: VecDeque::new(),
        };
        self.wires.insert(self.count, wire);
        self.count
    }

    pub(super) fn wire(&mut self, number: u64) -> Option<&mut Wire> {
        self.wires.get_mut(&number)
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
