//! Many detectors and the network between them, under one virtual clock and one seed.

use pcm_core::membership::{Change, Details, Effect, Health, LocalNode, Membership, Target, timing};
use pcm_proto::ids::NodeName;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    time::Duration,
};

pub(crate) const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Seeds of one scenario; `MEMBERSHIP_TIMES` multiplies their number, `MEMBERSHIP_SEED` picks one.
#[expect(clippy::disallowed_methods, reason = "a person chooses the seed of a replay")]
pub(crate) fn seeds(count: u64) -> Vec<u64> {
    let number = |variable| {
        std::env::var(variable)
            .ok()
            .map(|text: String| text.parse::<u64>().unwrap())
    };
    match number("MEMBERSHIP_SEED") {
        Some(seed) => vec![seed],
        None => (0..count * number("MEMBERSHIP_TIMES").unwrap_or(1)).collect(),
    }
}

pub(crate) fn name(index: usize) -> NodeName {
    NodeName::new(format!("n{index}")).unwrap()
}

pub(crate) fn local(index: usize, boot: u64) -> LocalNode {
    let details = Details {
        address: format!("host{index}:1"),
        site: "s".into(),
        cpus: vec![0, 1],
        host: 1,
        ud: None,
    };
    LocalNode {
        node: name(index),
        boot,
        details,
        patience: timing::PATIENCE,
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Conditions {
    pub(crate) loss_percent: u64,
    pub(crate) delay_ms: (u64, u64),
    pub(crate) tick_late_ms: u64,
}

pub(crate) const GOOD: Conditions = Conditions {
    loss_percent: 0,
    delay_ms: (0, 5),
    tick_late_ms: 5,
};
pub(crate) const LOSSY: Conditions = Conditions {
    loss_percent: 10,
    delay_ms: (0, 50),
    tick_late_ms: 20,
};
pub(crate) const SLOW: Conditions = Conditions {
    loss_percent: 0,
    delay_ms: (0, 300),
    tick_late_ms: 20,
};
pub(crate) const SLOW_AND_LOSSY: Conditions = Conditions {
    loss_percent: 10,
    delay_ms: (0, 300),
    tick_late_ms: 20,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) at: Duration,
    pub(crate) by: NodeName,
    pub(crate) node: NodeName,
    pub(crate) change: Change,
}

struct Node {
    detector: Membership,
    tick_at: Duration,
}

/// Time of delivery, a number that keeps the order total, receiver, sender, packet.
type InFlight = Reverse<(Duration, u64, NodeName, NodeName, Vec<u8>)>;

pub(crate) struct Network {
    pub(crate) now: Duration,
    pub(crate) conditions: Conditions,
    pub(crate) reports: Vec<Report>,
    pub(crate) superseded: Vec<NodeName>,
    pub(crate) left: Vec<NodeName>,
    pub(crate) packets: u64,
    nodes: BTreeMap<NodeName, Node>,
    in_flight: BinaryHeap<InFlight>,
    cut: BTreeSet<(NodeName, NodeName)>,
    random: Random,
}

impl Network {
    pub(crate) fn new(seed: u64, conditions: Conditions) -> Self {
        Self {
            now: ms(1000),
            conditions,
            reports: Vec::new(),
            superseded: Vec::new(),
            left: Vec::new(),
            packets: 0,
            nodes: BTreeMap::new(),
            in_flight: BinaryHeap::new(),
            cut: BTreeSet::new(),
            random: Random(seed),
        }
    }

    /// A cluster in which everybody knows everybody and all news has been told.
    pub(crate) fn settled(seed: u64, size: usize, conditions: Conditions) -> Self {
        let mut network = Self::new(seed, GOOD);
        for index in 0..size {
            network.start(index, 1);
        }
        network.run_until_or(ms(60_000), Network::is_whole);
        network.run(ms(5_000));
        network.conditions = conditions;
        network.reports.clear();
        network
    }

    /// Starts a daemon; node 0 and 1 are the seeds of all.
    pub(crate) fn start(&mut self, index: usize, boot: u64) {
        let seeds = vec!["host0:1".into(), "host1:1".into()];
        let detector = Membership::new(local(index, boot), seeds, self.now);
        let tick_at = self.now + ms(self.random.below(125));
        self.nodes.insert(name(index), Node { detector, tick_at });
    }

    pub(crate) fn crash(&mut self, index: usize) {
        self.nodes.remove(&name(index)).unwrap();
    }

    /// Cuts or mends one direction between two nodes.
    pub(crate) fn cut(&mut self, from: usize, to: usize, is_cut: bool) {
        let edge = (name(from), name(to));
        match is_cut {
            true => self.cut.insert(edge),
            false => self.cut.remove(&edge),
        };
    }

    pub(crate) fn partition(&mut self, one: &[usize], other: &[usize], is_cut: bool) {
        for a in one {
            for b in other {
                self.cut(*a, *b, is_cut);
                self.cut(*b, *a, is_cut);
            }
        }
    }

    /// Keeps a node from running: its next tick comes this much later.
    pub(crate) fn stall(&mut self, index: usize, time: Duration) {
        self.nodes.get_mut(&name(index)).unwrap().tick_at += time;
    }

    pub(crate) fn act(&mut self, index: usize, act: impl FnOnce(&mut Membership, Duration, &mut Vec<Effect>)) {
        let mut out = Vec::new();
        act(
            &mut self.nodes.get_mut(&name(index)).unwrap().detector,
            self.now,
            &mut out,
        );
        self.perform(&name(index), out);
    }

    pub(crate) fn size(&self) -> usize {
        self.nodes.len()
    }

    /// Whether everybody that runs takes everybody that runs for up or draining.
    pub(crate) fn is_whole(&self) -> bool {
        self.nodes.iter().all(|(name, node)| {
            self.nodes.keys().filter(|other| *other != name).all(|other| {
                let member = node.detector.member(other);
                member.is_some_and(|member| matches!(member.health, Health::Up | Health::Draining))
            })
        })
    }

    /// Whether all others agree on the health of one node.
    pub(crate) fn all_hold(&self, index: usize, health: Health) -> bool {
        let about = name(index);
        self.nodes.iter().filter(|(name, _)| **name != about).all(|(_, node)| {
            node.detector
                .member(&about)
                .is_some_and(|member| member.health == health)
        })
    }

    pub(crate) fn run(&mut self, time: Duration) {
        self.run_until_or(time, |_| false);
    }

    /// Runs until a condition holds, at most `time`; returns how long it took if it holds.
    pub(crate) fn run_until_or(&mut self, time: Duration, reached: impl Fn(&Self) -> bool) -> Option<Duration> {
        let begun = self.now;
        let mut look_at = begun;
        while self.now < begun + time {
            // A look costs more than a step, so not every step is followed by one.
            if self.now >= look_at {
                if reached(self) {
                    return Some(self.now - begun);
                }
                look_at = self.now + ms(10);
            }
            self.step();
        }
        reached(self).then_some(time)
    }

    fn step(&mut self) {
        let tick = self
            .nodes
            .iter()
            .min_by_key(|(_, node)| node.tick_at)
            .map(|(name, node)| (node.tick_at, name.clone()));
        let packet = self.in_flight.peek().map(|Reverse((at, ..))| *at);
        match (tick, packet) {
            (Some((tick, _)), Some(packet)) if packet <= tick => self.deliver(),
            (None, Some(_)) => self.deliver(),
            (Some((at, name)), _) => self.tick(at, &name),
            (None, None) => self.now += ms(1000),
        }
    }

    fn tick(&mut self, at: Duration, name: &NodeName) {
        self.now = at;
        let late = ms(self.random.below(self.conditions.tick_late_ms + 1));
        let node = self.nodes.get_mut(name).unwrap();
        let mut out = Vec::new();
        node.detector.on_tick(at, &mut out);
        node.tick_at = node.detector.next_tick() + late;
        self.perform(name, out);
    }

    fn deliver(&mut self) {
        let Some(Reverse((at, _, to, from, bytes))) = self.in_flight.pop() else {
            return;
        };
        self.now = at;
        if let Some(node) = self.nodes.get_mut(&to) {
            let mut out = Vec::new();
            node.detector.on_message(at, &from, &bytes, &mut out).unwrap();
            self.perform(&to, out);
        }
    }

    fn perform(&mut self, by: &NodeName, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send {
                    to: Target::Node(to),
                    bytes,
                } => self.send(by, to, bytes),
                Effect::Send {
                    to: Target::Seed(address),
                    bytes,
                } => {
                    let index = address
                        .trim_start_matches("host")
                        .trim_end_matches(":1")
                        .parse()
                        .unwrap();
                    self.send(by, name(index), bytes);
                }
                Effect::Report { node, change } => {
                    self.reports.push(Report {
                        at: self.now,
                        by: by.clone(),
                        node,
                        change,
                    });
                }
                Effect::Superseded { .. } => self.superseded.push(by.clone()),
                Effect::LeaveComplete => {
                    self.left.push(by.clone());
                    self.nodes.remove(by);
                }
            }
        }
    }

    fn send(&mut self, from: &NodeName, to: NodeName, bytes: Vec<u8>) {
        self.packets += 1;
        let is_lost = self.random.below(100) < self.conditions.loss_percent;
        let (least, most) = self.conditions.delay_ms;
        let delay = ms(least + self.random.below(most - least + 1));
        if !is_lost && !self.cut.contains(&(from.clone(), to.clone())) {
            self.in_flight
                .push(Reverse((self.now + delay, self.packets, to, from.clone(), bytes)));
        }
    }
}
