//! Whole nodes that know when they end: each leaves before its time is up, by the time that is left and not by a clock
//! that others share, and says so. Messages arrive at once unless a test makes them late.

mod one_node;

use one_node::{address, heritage, name, no_past};
use pcm_core::moment::Moment;
use pcm_core::node::Node;
use pcm_core::node::event::{ControlFact, Event, PeerFact};
use pcm_core::node::outbox::{Effect, PeersEffect};
use pcm_core::node::requester::LinkId;
use pcm_core::node::timer::Timer;
use pcm_proto::control::{ControlToDaemon, DaemonToControl, NodeStatus};
use pcm_proto::event::EventKind;
use pcm_proto::node_end::NodeEnd;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const NOTICE: Duration = Duration::from_secs(25);
const SECOND: u64 = 1_000_000;

/// Most steps of one history; more would be a loop.
const STEPS_MAX: usize = 200_000;

struct Machine {
    node: Node,
    /// Ahead of the first one's clock.
    ahead_us: u64,
    /// By when they are due and the order in which they were armed.
    timers: BTreeMap<(u64, usize), Timer>,
    notes: Vec<(u64, EventKind)>,
    told: Option<Vec<NodeStatus>>,
    ended_at: Option<u64>,
}

struct World {
    now_us: u64,
    armed: usize,
    machines: Vec<Machine>,
    /// By when they arrive, each with its receiver.
    mail: VecDeque<(u64, usize, Event)>,
    /// What is said before this moment takes so long.
    late: Option<(u64, Duration)>,
}

impl World {
    /// Nodes that have so many seconds left and leave so many before; each clock is ahead of the one before by `skew`.
    fn new(ends: &[Option<(u64, u64)>], skew: Duration) -> Self {
        let mut world = Self {
            now_us: 1_000_000_000 * SECOND,
            armed: 0,
            machines: Vec::new(),
            mail: VecDeque::new(),
            late: None,
        };
        for (index, ends) in ends.iter().enumerate() {
            let ahead_us = index as u64 * skew.as_micros() as u64;
            let now = Moment(world.now_us + ahead_us);
            let ends = ends.map(|(left, leaves)| NodeEnd {
                at_us: now.0 + left * SECOND,
                left_ms: left * 1000,
                leaves_ms: leaves * 1000,
            });
            world.machines.push(Machine {
                node: one_node::node(index, now, NOTICE, ends),
                ahead_us,
                timers: BTreeMap::new(),
                notes: Vec::new(),
                told: None,
                ended_at: None,
            });
            let effects = world.machines[index].node.begin(heritage(no_past(index)));
            world.carry_out(index, effects);
        }
        world
    }

    fn carry_out(&mut self, from: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Arm { at, timer } => {
                    self.armed += 1;
                    let at_us = at.0 - self.machines[from].ahead_us;
                    self.machines[from].timers.insert((at_us, self.armed), timer);
                }
                Effect::Note { kind, .. } => self.machines[from].notes.push((self.now_us, kind)),
                Effect::Send { node, message } => {
                    let to = (0..self.machines.len()).find(|index| name(*index) == node);
                    self.post(from, to, message);
                }
                Effect::Peers(PeersEffect::SendToAddress { address: to, message }) => {
                    let to = (0..self.machines.len()).find(|index| address(*index) == to);
                    self.post(from, to, message);
                }
                Effect::Control { message, .. } => {
                    if let DaemonToControl::Nodes(nodes) = *message {
                        self.machines[from].told = Some(nodes);
                    }
                }
                _ => {}
            }
        }
        if self.machines[from].node.is_over() && self.machines[from].ended_at.is_none() {
            self.machines[from].ended_at = Some(self.now_us);
        }
    }

    fn post(&mut self, from: usize, to: Option<usize>, message: pcm_proto::peer::DaemonToDaemon) {
        let node = name(from);
        if let Some(to) = to {
            let late = self.late.filter(|(until, _)| self.now_us < *until);
            let said = self.now_us + late.map_or(0, |(_, late)| late.as_micros() as u64);
            let before = self.mail.back().map_or(0, |(at, ..)| *at);
            let message = Event::Peer(PeerFact::Said { node, message });
            self.mail.push_back((said.max(before), to, message));
        }
    }

    fn event(&mut self, at: usize, event: Event) {
        if self.machines[at].ended_at.is_some() {
            return;
        }
        let now = Moment(self.now_us + self.machines[at].ahead_us);
        let effects = self.machines[at].node.handle(now, event);
        self.carry_out(at, effects);
    }

    /// Lets time pass.
    fn run(&mut self, span: Duration) {
        let until = self.now_us + span.as_micros() as u64;
        for _ in 0..STEPS_MAX {
            let arrives = self.mail.front().map(|(at, ..)| *at);
            if arrives.is_some_and(|at| at <= self.now_us) {
                let (_, to, event) = self.mail.pop_front().expect("looked at");
                self.event(to, event);
                continue;
            }
            let next = self.machines.iter().enumerate().filter_map(|(index, machine)| {
                let (key, _) = machine.timers.first_key_value()?;
                Some((*key, index))
            });
            let next = next.min().filter(|((at, _), _)| *at <= until);
            if let Some(at) = arrives.filter(|at| *at <= next.map_or(until, |((due, _), _)| due)) {
                self.now_us = at;
                continue;
            }
            let Some((key, index)) = next else {
                self.now_us = until;
                return;
            };
            self.now_us = self.now_us.max(key.0);
            if let Some(timer) = self.machines[index].timers.remove(&key) {
                self.event(index, Event::Timer(timer));
            }
        }
        panic!("the nodes never rest");
    }

    /// What a node tells a person of all nodes.
    fn nodes(&mut self, at: usize) -> Vec<NodeStatus> {
        let link = LinkId(1);
        self.event(at, Event::Control(ControlFact::Linked { link }));
        let message = Box::new(ControlToDaemon::Nodes);
        self.event(at, Event::Control(ControlFact::Said { link, message }));
        self.run(Duration::ZERO);
        self.machines[at].told.take().expect("an answer")
    }

    /// Seconds from the beginning to the note of a node that it ends, and whether others last longer.
    fn leaving(&self, of: usize) -> Option<(u64, bool)> {
        let began_us = 1_000_000_000 * SECOND;
        let notes: Vec<&(u64, EventKind)> = self.machines.iter().flat_map(|machine| &machine.notes).collect();
        let mut leaving = notes.iter().filter_map(|(at, kind)| match kind {
            EventKind::NodeEnds {
                name: ends, has_refuge, ..
            } if *ends == name(of) => Some(((at - began_us) / SECOND, *has_refuge)),
            _ => None,
        });
        let first = leaving.next();
        assert!(leaving.next().is_none(), "said twice: {notes:?}");
        first
    }
}

#[test]
fn a_node_leaves_before_its_time_is_up_and_says_so_once() {
    let mut world = World::new(&[None, Some((100, 60))], Duration::ZERO);
    world.run(Duration::from_secs(39));
    assert_eq!(world.leaving(1), None);
    assert_eq!(world.machines[1].ended_at, None);
    world.run(Duration::from_secs(30));
    assert_eq!(world.leaving(1), Some((40, true)));
    assert!(world.machines[1].ended_at.is_some(), "it has left");
    assert!(world.machines[1].node.is_taken_away());
    assert_eq!((world.leaving(0), world.machines[0].ended_at), (None, None));
}

/// The word of its end took longer on its way than the word that it leaves: for the other it still has more time left
/// than it leaves before.
#[test]
fn a_node_whose_words_took_unequal_times_is_said_to_end_as_well() {
    let mut world = World::new(&[None, Some((100, 60))], Duration::ZERO);
    let until = world.now_us + 39 * SECOND + SECOND * 9 / 10;
    world.late = Some((until, Duration::from_millis(400)));
    world.run(Duration::from_secs(60));
    assert_eq!(world.leaving(1), Some((40, true)));
}

#[test]
fn nodes_that_end_at_once_stay_until_no_more_than_the_time_of_a_notice_is_left() {
    let mut world = World::new(&[Some((100, 60)), Some((101, 60))], Duration::ZERO);
    world.run(Duration::from_secs(74));
    assert_eq!((world.leaving(0), world.leaving(1)), (None, None));
    world.run(Duration::from_secs(20));
    assert_eq!(world.leaving(0), Some((75, false)));
    assert_eq!(world.leaving(1), Some((76, false)));
    assert!(world.machines.iter().all(|machine| machine.ended_at.is_some()));
}

#[test]
fn a_short_time_before_the_end_is_not_made_longer_by_the_time_of_a_notice() {
    let mut world = World::new(&[Some((30, 5))], Duration::ZERO);
    world.run(Duration::from_secs(24));
    assert_eq!(world.leaving(0), None);
    world.run(Duration::from_secs(4));
    assert_eq!(world.leaving(0), Some((25, false)));
}

/// The clock of each node is an hour ahead of the one before.
#[test]
fn what_is_left_does_not_depend_on_whose_clock_is_right() {
    let skew = Duration::from_secs(3600);
    let mut world = World::new(&[Some((500, 60)), Some((300, 60)), None], skew);
    world.run(Duration::from_secs(100));
    for asked in 0..3 {
        let told = world.nodes(asked);
        let left: Vec<Option<u64>> = told
            .iter()
            .map(|node| node.ends.map(|end| end.left().as_secs()))
            .collect();
        let near = |index: usize, wanted: u64| left[index].is_some_and(|left| left.abs_diff(wanted) <= 1);
        assert!(near(0, 400) && near(1, 200) && left[2].is_none(), "n{asked}: {left:?}");
        let at = told[1].ends.expect("an end").at_us;
        assert_eq!(at, (1_000_000_000 + 3600 + 300) * SECOND, "by its own clock");
    }
    world.run(Duration::from_secs(150));
    assert_eq!(world.leaving(1), Some((240, true)));
}

#[test]
fn a_node_without_an_end_and_one_whose_time_is_over_already() {
    let mut world = World::new(&[None, Some((0, 60))], Duration::ZERO);
    world.run(Duration::from_secs(10));
    assert_eq!(world.leaving(0), None);
    assert_eq!(world.leaving(1), Some((1, true)));
    let told = world.nodes(0);
    assert!(
        told.iter().all(|node| node.name == name(0) && node.ends.is_none()),
        "{told:?}"
    );
}
