//! Whether this node sees enough of the cluster to decide for it. A node that lost sight of most of it may be cut off:
//! then others lead its jobs, so it must leave open what cannot be taken back. Of two equal halves the one with the
//! first node by name goes on, also when each half is a single node: the other half cannot tell a cut from a death, and
//! two halves that both went on would run a job twice. Nodes of the own host cannot be cut off from it: those are known
//! to be dead, and do not count.

use super::nodes::Nodes;
use crate::moment::Moment;
use pcm_proto::ids::NodeName;
use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// What the failure detector may be off by when it says how long a node was silent.
const ROUNDING: Duration = Duration::from_millis(100);

/// A node that was cut off and is back sees the others, and hears who leads what, within this time.
const REJOINS_WITHIN: Duration = Duration::from_secs(6);

/// A node to which nothing happens for so long was stopped: its failure detector alone has eight ticks a second.
const STANDSTILL_MIN: Duration = Duration::from_millis(800);

/// Losses that are remembered; more nodes than that do not fail in seconds, or nothing can be done about it.
const LOSSES_MAX: usize = 1024;

/// What this node lost sight of lately.
#[derive(Debug)]
pub struct Quorum {
    own: NodeName,
    /// Nodes that one reason took out of reach are all found within this time after the first: until then nobody can
    /// know whether it is cut off itself.
    certain_after: Duration,
    losses: VecDeque<(Moment, NodeName)>,
    /// Nodes that were lost at one time and outweighed those that stayed.
    outweighing: BTreeSet<NodeName>,
    /// Since when enough of them are back.
    rejoined: Option<Moment>,
    /// Nodes on the own host.
    same_host: BTreeSet<NodeName>,
    /// When something happened to the node last, and when it did after a standstill.
    happened: Option<Moment>,
    awake: Option<Moment>,
}

impl Quorum {
    /// `patience` is how long a node may be silent before it is taken for dead.
    pub fn new(own: NodeName, patience: Duration) -> Self {
        Self {
            own,
            certain_after: patience + ROUNDING,
            losses: VecDeque::new(),
            outweighing: BTreeSet::new(),
            rejoined: None,
            same_host: BTreeSet::new(),
            happened: None,
            awake: None,
        }
    }

    /// Something happens to the node.
    pub fn note_time(&mut self, now: Moment) {
        let last = self.happened.replace(now);
        if last.is_some_and(|last| now.since(last) >= STANDSTILL_MIN) {
            self.awake = Some(now);
        }
    }

    /// Whether the node stood still, and had no time since to hear what the others did meanwhile.
    pub fn is_just_awake(&self, now: Moment) -> bool {
        self.awake.is_some_and(|awake| now.since(awake) < self.certain_after)
    }

    /// A node is, or was, on the own host or elsewhere.
    pub fn note_host(&mut self, node: &NodeName, is_own: bool) {
        if is_own {
            self.same_host.insert(node.clone());
        } else {
            self.same_host.remove(node);
        }
    }

    /// A node is gone that did not say so.
    pub fn note_loss(&mut self, now: Moment, node: &NodeName, nodes: &Nodes) {
        if nodes.host(node) == nodes.own().host {
            self.note_host(node, true);
        }
        self.losses.push_back((now, node.clone()));
        // Nodes that are lost within this time are taken to be lost for one reason: they died together, or this one is
        // cut off.
        let one_reason_within = self.certain_after * 2;
        self.losses.retain(|(at, _)| now.since(*at) < one_reason_within);
        if self.losses.len() > LOSSES_MAX {
            self.losses.pop_front();
        }
        let lost = self.lost_elsewhere();
        if outweighs(&lost, &self.seen(nodes)) {
            self.outweighing.extend(lost);
            self.rejoined = None;
        }
    }

    /// Enough of the cluster may be in sight again.
    pub fn note_rejoined(&mut self, now: Moment, nodes: &Nodes) {
        if self.sees_enough(nodes) {
            self.rejoined.get_or_insert(now);
        } else {
            self.rejoined = None;
        }
    }

    /// Whether a node was lost so lately that others may be about to be.
    pub fn is_just_lost(&self, now: Moment, node: &NodeName) -> bool {
        let mut losses = self.losses.iter();
        losses.any(|(at, known)| known == node && now.since(*at) < self.certain_after)
    }

    /// Whether most of the cluster went out of reach at one time and is not back, or came back just now: others may go
    /// on with its jobs.
    pub fn is_cut_off(&self, now: Moment, nodes: &Nodes) -> bool {
        let since = self.rejoined.filter(|_| self.sees_enough(nodes));
        let is_back = since.is_some_and(|at| now.since(at) >= REJOINS_WITHIN);
        !self.outweighing.is_empty() && !is_back
    }

    /// Whether that is so, or may be found out any moment.
    pub fn is_in_doubt(&self, now: Moment, nodes: &Nodes) -> bool {
        self.is_cut_off(now, nodes) || self.is_any_lost_elsewhere(now, self.certain_after)
    }

    /// Nodes of other hosts that were lost lately.
    fn lost_elsewhere(&self) -> BTreeSet<NodeName> {
        let lost = self.losses.iter().map(|(_, node)| node);
        lost.filter(|node| !self.same_host.contains(*node)).cloned().collect()
    }

    fn is_any_lost_elsewhere(&self, now: Moment, within: Duration) -> bool {
        let mut losses = self.losses.iter();
        losses.any(|(at, node)| now.since(*at) < within && !self.same_host.contains(node))
    }

    fn sees_enough(&self, nodes: &Nodes) -> bool {
        let lost = self.outweighing.iter().filter(|node| !nodes.is_live(node));
        !outweighs(&lost.cloned().collect(), &self.seen(nodes))
    }

    /// The nodes that are there, this one with them.
    fn seen(&self, nodes: &Nodes) -> BTreeSet<NodeName> {
        let others = nodes.others().map(|report| report.node);
        others.chain([self.own.clone()]).collect()
    }
}

/// Whether the nodes that were lost go on, if they live, and those that are seen do not. The two sides of a cut come to
/// opposite answers, whatever their sizes.
fn outweighs(lost: &BTreeSet<NodeName>, seen: &BTreeSet<NodeName>) -> bool {
    match lost.len().cmp(&seen.len()) {
        Ordering::Greater => true,
        Ordering::Equal => lost.first() < seen.first(),
        Ordering::Less => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn nodes(names: &str) -> BTreeSet<NodeName> {
        names.split_whitespace().map(node).collect()
    }

    #[test]
    fn a_node_of_the_own_host_is_dead_and_not_out_of_sight() {
        let mut quorum = Quorum::new(node("own"), Duration::from_secs(1));
        quorum.note_host(&node("a"), true);
        for name in ["a", "b"] {
            quorum.losses.push_back((Moment(5), node(name)));
        }
        assert_eq!(quorum.lost_elsewhere(), nodes("b"));
        let (now, within) = (Moment(10), Duration::from_secs(600));
        assert!(quorum.is_any_lost_elsewhere(now, within));
        quorum.note_host(&node("b"), true);
        assert!(!quorum.is_any_lost_elsewhere(now, within));
        quorum.note_host(&node("b"), false);
        assert!(quorum.is_any_lost_elsewhere(now, within) && !quorum.is_any_lost_elsewhere(now, Duration::ZERO));
    }

    #[test]
    fn a_loss_is_recent_until_all_that_one_reason_took_are_found() {
        let mut quorum = Quorum::new(node("own"), Duration::from_secs(1));
        quorum.losses.push_back((Moment(0), node("b")));
        let certain = Moment(0).plus(quorum.certain_after);
        assert!(quorum.is_just_lost(Moment(certain.0 - 1), &node("b")));
        assert!(!quorum.is_just_lost(certain, &node("b")));
        assert!(!quorum.is_just_lost(Moment(0), &node("c")));
    }

    #[test]
    fn exactly_one_side_of_a_cut_goes_on_whatever_its_sizes() {
        let cluster = ["a", "b", "c", "d", "e", "f"];
        for size in 2..=cluster.len() {
            for bits in 1..(1_u32 << size) - 1 {
                let side = |is_in: bool| {
                    let names = cluster[..size].iter().enumerate();
                    let chosen = names.filter(|(at, _)| (bits >> at & 1 == 1) == is_in);
                    chosen.map(|(_, name)| node(name)).collect::<BTreeSet<_>>()
                };
                let (one, other) = (side(true), side(false));
                assert_ne!(
                    outweighs(&one, &other),
                    outweighs(&other, &one),
                    "{one:?} and {other:?}"
                );
            }
        }
    }

    #[test]
    fn of_two_halves_the_one_with_the_first_node_goes_on() {
        assert!(outweighs(&nodes("a d"), &nodes("b c")));
        assert!(!outweighs(&nodes("b c"), &nodes("a d")));
        assert!(outweighs(&nodes("a"), &nodes("b")));
        assert!(!outweighs(&nodes("b"), &nodes("a")));
    }
}
