//! Whether this node sees enough of the cluster to decide for it. A node that lost sight of most of it may be cut off: then
//! others lead its jobs, so its coordinators are told to leave open what cannot be taken back, and an attached `pcmctl` is
//! told to look elsewhere. Of two equal halves that with the first node by name decides; of two nodes that lose each other
//! both do, as either is most likely dead. Nodes of the own host cannot be cut off from it: those are known to be dead.

use super::daemon::Daemon;
use pcm_core::job::coordinator::Input;
use pcm_core::node::requester::Requester;
use pcm_core::node::timer::Timer;
use pcm_proto::control::DaemonToControl;
use pcm_proto::ids::{JobId, NodeName};
use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// What the failure detector may be off by when it says how long a node was silent.
const ROUNDING: Duration = Duration::from_millis(100);

/// Who was cut off and is back sees the others, and hears who leads what, within this time.
const REJOINS_WITHIN: Duration = Duration::from_secs(6);

/// Who is in doubt looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// An attached `pcmctl` is told again: to look elsewhere takes it a second or two.
const TELL_AGAIN: Duration = Duration::from_secs(2);

/// Losses that are remembered; more nodes than that do not fail in seconds, or nothing can be done about it.
const LOSSES_MAX: usize = 1024;

/// What this node lost sight of lately.
#[derive(Debug, Default)]
pub(super) struct Sight {
    losses: VecDeque<(Instant, NodeName)>,
    /// Nodes that were lost at one time and outweighed those that stayed.
    outweighing: BTreeSet<NodeName>,
    /// Since when enough of them are back.
    rejoined: Option<Instant>,
    /// Nodes that stand on the own host.
    beside: BTreeSet<NodeName>,
    /// What the jobs were told last.
    is_in_doubt: bool,
    is_looking: bool,
    told: Option<Instant>,
}

impl Sight {
    /// A node stands, or stood, on the own host or elsewhere.
    pub(super) fn note_host(&mut self, node: &NodeName, is_own: bool) {
        if is_own {
            self.beside.insert(node.clone());
        } else {
            self.beside.remove(node);
        }
    }

    fn forget_losses(&mut self, older: Duration) {
        self.losses.retain(|(at, _)| at.elapsed() < older);
        if self.losses.len() > LOSSES_MAX {
            self.losses.pop_front();
        }
    }

    /// Nodes of other hosts that were lost lately.
    fn lost_elsewhere(&self) -> BTreeSet<NodeName> {
        let lost = self.losses.iter().map(|(_, node)| node);
        lost.filter(|node| !self.beside.contains(*node)).cloned().collect()
    }

    fn is_any_lost_elsewhere(&self, within: Duration) -> bool {
        let mut losses = self.losses.iter();
        losses.any(|(at, node)| at.elapsed() < within && !self.beside.contains(node))
    }
}

impl Daemon {
    /// Nodes that one reason took out of reach are all found within this time after the first: until then nobody can know
    /// whether it is cut off itself.
    fn certain_after(&self) -> Duration {
        self.spec.patience() + ROUNDING
    }

    /// Whether a node was lost so lately that others may be about to be.
    pub(super) fn is_just_lost(&self, node: &NodeName) -> bool {
        let mut losses = self.sight.losses.iter();
        losses.any(|(at, known)| known == node && at.elapsed() < self.certain_after())
    }

    /// A node is gone that did not say so. Before the jobs hear of it.
    pub(super) fn note_loss(&mut self, node: &NodeName) {
        let is_own = self.nodes.host(node) == self.nodes.own().host;
        if is_own {
            self.sight.note_host(node, true);
        }
        self.sight.losses.push_back((Instant::now(), node.clone()));
        // Nodes that are lost within this time are taken to be lost for one reason: they died together, or this one is cut off.
        let one_reason_within = self.certain_after() * 2;
        self.sight.forget_losses(one_reason_within);
        let lost = self.sight.lost_elsewhere();
        if outweighs(&lost, &self.seen()) {
            self.sight.outweighing.extend(lost);
            self.sight.rejoined = None;
        }
        self.look_around();
    }

    /// Whether most of the cluster went out of reach at one time and is not back, or came back just now: others may go on
    /// with its jobs.
    pub(super) fn is_cut_off(&self) -> bool {
        let since = self.sight.rejoined.filter(|_| self.sees_enough());
        let is_back = since.is_some_and(|at| at.elapsed() >= REJOINS_WITHIN);
        !self.sight.outweighing.is_empty() && !is_back
    }

    /// Whether that is so, or may be found out any moment.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.is_cut_off() || self.sight.is_any_lost_elsewhere(self.certain_after())
    }

    fn sees_enough(&self) -> bool {
        let lost = self.sight.outweighing.iter().filter(|node| !self.nodes.is_live(node));
        !outweighs(&lost.cloned().collect(), &self.seen())
    }

    /// The nodes that are there, this one with them.
    fn seen(&self) -> BTreeSet<NodeName> {
        let others = self.nodes.others().map(|report| report.node);
        others.chain([self.own.clone()]).collect()
    }

    /// Who was cut off may see enough of the cluster again.
    pub(super) fn note_rejoined(&mut self) {
        if self.sees_enough() {
            self.sight.rejoined.get_or_insert_with(Instant::now);
        } else {
            self.sight.rejoined = None;
        }
    }

    pub(super) fn on_sight_timer(&mut self) {
        self.sight.is_looking = false;
        self.look_around();
    }

    /// Tells the jobs coordinated here when doubt begins and ends, and whoever is attached to them to look elsewhere.
    fn look_around(&mut self) {
        self.note_rejoined();
        let is_in_doubt = self.is_in_doubt();
        if is_in_doubt != self.sight.is_in_doubt {
            self.tell_doubt();
        }
        if self.is_cut_off() {
            self.tell_attached();
        }
        if is_in_doubt && !std::mem::replace(&mut self.sight.is_looking, true) {
            self.out.arm(LOOK_AGAIN, Timer::Sight);
        }
    }

    /// Tells the jobs coordinated here whether there is doubt.
    pub(super) fn tell_doubt(&mut self) {
        let is_in_doubt = self.is_in_doubt();
        self.sight.is_in_doubt = is_in_doubt;
        for job in self.jobs.keys().copied().collect::<Vec<JobId>>() {
            self.coordinate(job, Input::Doubt { is_in_doubt });
        }
    }

    fn tell_attached(&mut self) {
        if self.sight.told.is_some_and(|at| at.elapsed() < TELL_AGAIN) {
            return;
        }
        self.sight.told = Some(Instant::now());
        let jobs = self.jobs.keys();
        let links: Vec<_> = jobs.filter_map(|job| self.controls.attached_to(*job)).collect();
        for link in links {
            self.answer(Requester::Control(link), DaemonToControl::CutOff);
        }
    }
}

/// Whether those that were lost go on, if they live, and those that are seen do not. Both sides of a cut come to opposite
/// answers, but for two single nodes: one that stopped to go on whenever the other is silent would outlive nobody.
fn outweighs(lost: &BTreeSet<NodeName>, seen: &BTreeSet<NodeName>) -> bool {
    match lost.len().cmp(&seen.len()) {
        Ordering::Greater => true,
        Ordering::Equal => seen.len() > 1 && lost.first() < seen.first(),
        Ordering::Less => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    #[test]
    fn a_node_of_the_own_host_is_dead_and_not_out_of_sight() {
        let mut sight = Sight::default();
        sight.note_host(&node("a"), true);
        for name in ["a", "b"] {
            sight.losses.push_back((Instant::now(), node(name)));
        }
        assert_eq!(sight.lost_elsewhere(), [node("b")].into());
        let within = Duration::from_secs(600);
        assert!(sight.is_any_lost_elsewhere(within));
        sight.note_host(&node("b"), true);
        assert!(!sight.is_any_lost_elsewhere(within));
        sight.note_host(&node("b"), false);
        assert!(sight.is_any_lost_elsewhere(within) && !sight.is_any_lost_elsewhere(Duration::ZERO));
    }

    fn nodes(names: &str) -> BTreeSet<NodeName> {
        names.split_whitespace().map(node).collect()
    }

    #[test]
    fn exactly_one_side_of_a_cut_goes_on_whatever_its_sizes() {
        let cluster = ["a", "b", "c", "d", "e", "f"];
        for size in 3..=cluster.len() {
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
    }

    #[test]
    fn one_of_two_nodes_goes_on_whichever_is_lost() {
        assert!(!outweighs(&nodes("a"), &nodes("b")));
        assert!(!outweighs(&nodes("b"), &nodes("a")));
    }
}
