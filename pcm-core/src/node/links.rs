//! What this node measures of the links to nodes of other hosts: the time until a datagram is confirmed, of all that
//! are sent anyway, and the rate of copies of checkpoints. A node is asked something only for that when the agent
//! wants to know its link and nothing was confirmed there for a while: two nodes a second, however large the cluster.
//! Never decides anything.

use crate::link_window::LinkWindow;
use crate::moment::{Moment, micros};
use pcm_proto::ids::NodeName;
use pcm_proto::link::LinkMeasured;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Nodes that are asked at a beat, which is a second long.
const ASKED_PER_BEAT: usize = 2;

/// A link on which something was confirmed so lately needs no question.
const FRESH: Duration = Duration::from_secs(10);

/// Round trips: nodes talk a few times a second; a question each ten seconds makes six slots of a window.
const TRIP_SLOT: Duration = Duration::from_secs(2);
const TRIP_AGE_MAX: Duration = Duration::from_secs(60);

/// Copies: a checkpoint may be made once in ten minutes.
const COPY_SLOT: Duration = Duration::from_secs(1);
const COPY_AGE_MAX: Duration = Duration::from_secs(3600);

/// Shorter copies say more of how they are begun than of the link.
const COPY_BYTES_MIN: u64 = 1 << 20;

/// Links that are remembered: all of a small cluster; in a large one those on which something was measured last.
const LINKS_MAX: usize = 256;

/// A copy that took less than so many round trips says more of how it was begun: an offer, a connection and its keys
/// are three.
const COPY_TRIPS_MIN: f64 = 10.0;

/// What was measured of one link.
#[derive(Debug)]
struct Measurements {
    /// Where the other node stood.
    host: u64,
    /// Microseconds there and back.
    trips: LinkWindow,
    /// Microseconds for a byte.
    copies: LinkWindow,
    /// The last from there, and the last to there: a link carries as much either way at once.
    last_copies: [Option<Transfer>; 2],
}

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyGoes {
    /// From the other node.
    Here,
    /// To the other node.
    There,
}

/// A copy that came or went over the link.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    pub began: Moment,
    pub ended: Moment,
    pub bytes: u64,
}

impl Measurements {
    fn new(host: u64) -> Self {
        Self {
            host,
            trips: LinkWindow::new(TRIP_SLOT, TRIP_AGE_MAX),
            copies: LinkWindow::new(COPY_SLOT, COPY_AGE_MAX),
            last_copies: [None; 2],
        }
    }

    /// Copies that overlap and go one way share the link: together they show what it carries.
    fn note_copy(&mut self, goes: CopyGoes, copy: Transfer) {
        let last = &mut self.last_copies[usize::from(goes == CopyGoes::There)];
        let whole = match *last {
            Some(before) if copy.began < before.ended => Transfer {
                began: before.began.min(copy.began),
                ended: copy.ended,
                bytes: before.bytes.saturating_add(copy.bytes),
            },
            _ => copy,
        };
        *last = Some(whole);
        let us = micros(whole.ended.since(whole.began)).max(1) as f64;
        if self
            .trips
            .cost(copy.ended)
            .is_none_or(|trip| us >= COPY_TRIPS_MIN * trip)
        {
            self.copies.note(copy.ended, us / whole.bytes as f64);
        }
    }

    fn last(&self) -> Option<Moment> {
        self.trips.last().max(self.copies.last())
    }
}

/// The links from this node.
#[derive(Debug, Default)]
pub struct Links {
    of: BTreeMap<NodeName, Measurements>,
    /// Nodes whose links the agent wants to know, in the order in which they are asked.
    wanted: VecDeque<NodeName>,
}

impl Links {
    /// What is known of a node that stands on this host; what was measured while it stood on another one counts no
    /// more.
    fn of(&mut self, node: &NodeName, host: u64) -> &mut Measurements {
        if self.of.len() >= LINKS_MAX && !self.of.contains_key(node) {
            let oldest = self.of.iter().min_by_key(|(_, known)| known.last());
            if let Some(oldest) = oldest.map(|(node, _)| node.clone()) {
                self.of.remove(&oldest);
            }
        }
        let known = self.of.entry(node.clone());
        let known = known.or_insert_with(|| Measurements::new(host));
        if known.host != host {
            *known = Measurements::new(host);
        }
        known
    }

    /// A question or a datagram took this time there and back.
    pub fn note_trip(&mut self, now: Moment, (node, host): (&NodeName, u64), took: Duration) {
        self.of(node, host).trips.note(now, took.as_secs_f64() * 1e6);
    }

    /// A copy came or went.
    pub fn note_copy(&mut self, (node, host): (&NodeName, u64), goes: CopyGoes, copy: Transfer) {
        if copy.bytes >= COPY_BYTES_MIN {
            self.of(node, host).note_copy(goes, copy);
        }
    }

    /// What is known of a link to a node that stands on this host; `node` is the end that is told.
    pub fn measured(&self, now: Moment, (other, host): (&NodeName, u64), node: &NodeName) -> Option<LinkMeasured> {
        let known = self.of.get(other).filter(|known| known.host == host)?;
        let link = LinkMeasured {
            node: node.clone(),
            // A message goes one way, a datagram and its confirmation there and back.
            latency_us: known.trips.cost(now).map(|us| us / 2.0),
            megabytes_per_s: known.copies.cost(now).map(|us_per_byte| 1.0 / us_per_byte),
        };
        (link.latency_us.is_some() || link.megabytes_per_s.is_some()).then_some(link)
    }

    /// The agent wants to know these links from now on; who waited to be asked goes on waiting in its place.
    pub fn want(&mut self, nodes: &[NodeName]) {
        self.wanted.retain(|node| nodes.contains(node));
        for node in nodes {
            if !self.wanted.contains(node) {
                self.wanted.push_back(node.clone());
            }
        }
    }

    /// A node is gone; what comes back under its name is measured anew.
    pub fn forget(&mut self, node: &NodeName) {
        self.of.remove(node);
        self.wanted.retain(|wanted| wanted != node);
    }

    /// The agent that wanted to know is gone.
    pub fn on_agent_gone(&mut self) {
        self.wanted.clear();
    }

    /// Nodes to ask now, of those whose answers can be measured.
    pub fn take_silent(&mut self, now: Moment, is_measurable: impl Fn(&NodeName) -> bool) -> Vec<NodeName> {
        let mut silent = Vec::new();
        for _ in 0..self.wanted.len() {
            if silent.len() == ASKED_PER_BEAT {
                break;
            }
            // Those who were looked at wait behind the others.
            self.wanted.rotate_left(1);
            let Some(node) = self.wanted.back() else { break };
            let last = self.of.get(node).and_then(|known| known.trips.last());
            if last.is_none_or(|last| now.since(last) >= FRESH) && is_measurable(node) {
                silent.push(node.clone());
            }
        }
        silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    const HOST: u64 = 7;

    fn name(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn copy(began: u64, ended: u64, bytes: u64) -> Transfer {
        Transfer {
            began: Moment(began * SECOND),
            ended: Moment(ended * SECOND),
            bytes,
        }
    }

    #[test]
    fn a_message_takes_half_the_way_there_and_back() {
        let (mut links, there) = (Links::default(), name("n1"));
        for at in [0, 2, 4] {
            assert_eq!(links.measured(Moment(at * SECOND), (&there, HOST), &there), None);
            links.note_trip(Moment(at * SECOND), (&there, HOST), Duration::from_millis(20));
        }
        let link = links.measured(Moment(5 * SECOND), (&there, HOST), &there).unwrap();
        assert_eq!((link.latency_us, link.megabytes_per_s), (Some(10_000.0), None));
    }

    #[test]
    fn copies_that_share_a_link_one_way_show_together_what_it_carries() {
        let (mut links, there) = (Links::default(), name("n1"));
        for at in [0, 20, 40] {
            links.note_copy((&there, HOST), CopyGoes::Here, copy(at, at + 4, 40_000_000));
            links.note_copy((&there, HOST), CopyGoes::Here, copy(at + 1, at + 4, 40_000_000));
            links.note_copy((&there, HOST), CopyGoes::There, copy(at, at + 4, 80_000_000));
            links.note_copy((&there, HOST), CopyGoes::There, copy(at + 5, at + 6, 1000));
        }
        let link = links.measured(Moment(50 * SECOND), (&there, HOST), &there).unwrap();
        assert_eq!(link.latency_us, None);
        assert!((link.megabytes_per_s.unwrap() - 20.0).abs() < 1e-9, "{link:?}");
    }

    #[test]
    fn only_silent_nodes_are_asked_and_all_in_turn() {
        let mut links = Links::default();
        let nodes: Vec<NodeName> = (0..5).map(|number| name(&format!("n{number}"))).collect();
        links.want(&nodes);
        links.note_trip(Moment(0), (&nodes[1], HOST), Duration::from_micros(100));
        assert_eq!(
            links.take_silent(Moment(SECOND), |_| true),
            [nodes[0].clone(), nodes[2].clone()]
        );
    }

    #[test]
    fn nodes_that_never_answer_do_not_keep_others_from_being_asked() {
        let mut links = Links::default();
        let nodes: Vec<NodeName> = (0..5).map(|number| name(&format!("n{number}"))).collect();
        let mut asked = Vec::new();
        for beat in 0..5 {
            links.want(&nodes);
            let silent = links.take_silent(Moment(beat * SECOND), |_| true);
            assert!(silent.len() <= ASKED_PER_BEAT);
            asked.extend(silent);
        }
        assert!(
            nodes
                .iter()
                .all(|node| asked.iter().filter(|of| *of == node).count() == 2),
            "{asked:?}"
        );
    }

    #[test]
    fn only_so_many_links_are_remembered_and_the_latest_of_them() {
        let mut links = Links::default();
        for number in 0..2 * LINKS_MAX as u64 {
            links.note_trip(
                Moment(number),
                (&name(&format!("n{number}")), HOST),
                Duration::from_micros(100),
            );
        }
        assert_eq!(links.of.len(), LINKS_MAX);
        assert!(links.of.contains_key(&name("n511")) && !links.of.contains_key(&name("n0")));
    }

    #[test]
    fn a_copy_that_took_hardly_longer_than_its_beginning_says_nothing_of_the_bandwidth() {
        let (mut links, there) = (Links::default(), name("n1"));
        for at in [0, 2, 4] {
            links.note_trip(Moment(at * SECOND), (&there, HOST), Duration::from_millis(150));
        }
        let rate = |links: &Links, at: u64| {
            links
                .measured(Moment(at * SECOND), (&there, HOST), &there)
                .unwrap()
                .megabytes_per_s
        };
        for at in [5, 10, 15] {
            links.note_copy((&there, HOST), CopyGoes::Here, copy(at, at + 1, 10_000_000));
        }
        assert_eq!(rate(&links, 20), None);
        for at in [20, 25, 30] {
            links.note_copy((&there, HOST), CopyGoes::Here, copy(at, at + 2, 20_000_000));
        }
        assert!((rate(&links, 35).unwrap() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn what_was_measured_to_another_host_or_before_a_node_left_is_not_told() {
        let (mut links, there) = (Links::default(), name("n1"));
        let measure = |links: &mut Links| {
            for at in [0, 2, 4] {
                links.note_trip(Moment(at * SECOND), (&there, HOST), Duration::from_millis(20));
            }
        };
        let now = Moment(5 * SECOND);
        measure(&mut links);
        assert!(links.measured(now, (&there, HOST), &there).is_some());
        assert_eq!(links.measured(now, (&there, HOST + 1), &there), None);
        links.note_trip(now, (&there, HOST + 1), Duration::from_millis(1));
        assert_eq!(links.measured(now, (&there, HOST + 1), &there), None, "one is too few");
        let mut links = Links::default();
        measure(&mut links);
        links.forget(&there);
        assert_eq!(links.measured(now, (&there, HOST), &there), None);
    }

    #[test]
    fn who_left_cannot_be_measured_or_is_of_no_interest_any_more_is_not_asked() {
        let mut links = Links::default();
        let nodes: Vec<NodeName> = (0..3).map(|number| name(&format!("n{number}"))).collect();
        links.want(&nodes);
        assert_eq!(
            links.take_silent(Moment(SECOND), |node| *node == nodes[2]),
            [nodes[2].clone()]
        );
        links.forget(&nodes[0]);
        let asked: Vec<NodeName> = (2..6)
            .flat_map(|at| links.take_silent(Moment(at * SECOND), |_| true))
            .collect();
        assert!(asked.contains(&nodes[1]) && !asked.contains(&nodes[0]), "{asked:?}");
        links.on_agent_gone();
        assert_eq!(links.take_silent(Moment(9 * SECOND), |_| true), []);
    }
}
