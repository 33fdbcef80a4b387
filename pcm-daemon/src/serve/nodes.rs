//! What this daemon knows of the nodes of its cluster: how they said they are, and when they were last heard.

use super::daemon::Daemon;
use super::event::LinkId;
use super::journal::Record;
use super::timers::Timer;
use pcm_core::job::coordinator;
use pcm_core::job::placement::NodeView;
use pcm_fabric::Sender;
use pcm_proto::control::{NodeState, NodeStatus};
use pcm_proto::event::EventKind;
use pcm_proto::ids::{Epoch, NodeName};
use pcm_proto::peer::{DaemonToDaemon, NodeReport};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often a node says how it is.
const BEAT: Duration = Duration::from_millis(500);

/// A node that was not heard for so long is suspected.
const SUSPECT_AFTER: Duration = Duration::from_millis(1500);

/// A node that was not heard for so long is taken for dead.
const GONE_AFTER: Duration = Duration::from_millis(2800);

/// Pause between two attempts to reach a node.
const REDIAL: Duration = Duration::from_millis(200);

/// A node and what became of it.
#[derive(Clone, Debug)]
struct Known {
    report: NodeReport,
    heard: Instant,
    state: NodeState,
}

/// The nodes of the cluster.
#[derive(Debug)]
pub(super) struct Nodes {
    own: NodeReport,
    others: BTreeMap<NodeName, Known>,
}

impl Nodes {
    pub(super) fn new(own: NodeReport) -> Self {
        Self {
            own,
            others: BTreeMap::new(),
        }
    }

    pub(super) fn own_mut(&mut self) -> &mut NodeReport {
        &mut self.own
    }

    pub(super) fn is_draining(&self) -> bool {
        self.own.state == NodeState::Draining
    }

    /// The last reports of the other nodes that are not gone.
    pub(super) fn others(&self) -> impl Iterator<Item = &NodeReport> {
        self.others
            .values()
            .filter(|known| known.state != NodeState::Gone)
            .map(|known| &known.report)
    }

    /// Names of the other nodes that answer.
    pub(super) fn reachable(&self) -> Vec<NodeName> {
        self.others().map(|report| report.node.clone()).collect()
    }

    pub(super) fn state(&self, node: &NodeName) -> Option<NodeState> {
        if *node == self.own.node {
            return Some(self.own.state);
        }
        self.others.get(node).map(|known| known.state)
    }

    /// Takes a report; returns whether the node was not there before.
    fn take(&mut self, report: NodeReport) -> bool {
        let state = report.state;
        let known = Known {
            heard: Instant::now(),
            state,
            report,
        };
        let before = self.others.insert(known.report.node.clone(), known);
        before.is_none_or(|before| before.state == NodeState::Gone)
    }

    fn heard(&mut self, node: &NodeName) {
        if let Some(known) = self.others.get_mut(node)
            && known.state != NodeState::Gone
        {
            known.heard = Instant::now();
            known.state = known.report.state;
        }
    }

    /// The node that gives numbers to new jobs: the first by name among those that answer.
    pub(super) fn numbering(&self) -> &NodeName {
        let up = self
            .others
            .values()
            .filter(|known| known.state != NodeState::Gone)
            .map(|known| &known.report.node);
        up.chain([&self.own.node]).min().unwrap_or(&self.own.node)
    }

    /// What placement has to know, in the order of names with numbers in them counted as numbers (`n2` before `n10`).
    pub(super) fn views(&self) -> Vec<NodeView> {
        let mut views: Vec<NodeView> = self
            .others
            .values()
            .map(|known| view(&known.report, known.state))
            .chain([view(&self.own, self.own.state)])
            .collect();
        views.sort_by_key(|view| natural_key(view.name.as_str()));
        views
    }

    /// One line of `nodes` for each node, in natural order.
    pub(super) fn statuses(&self) -> Vec<NodeStatus> {
        let own = (&self.own, self.own.state);
        let all = self
            .others
            .values()
            .map(|known| (&known.report, known.state))
            .chain([own]);
        let mut statuses: Vec<NodeStatus> = all.map(|(report, state)| status(report, state)).collect();
        statuses.sort_by_key(|status| natural_key(status.name.as_str()));
        statuses
    }

    /// CPUs and ranks-to-be per host decide whether ranks outnumber CPUs.
    pub(super) fn cpus_of_host(&self, host: u64) -> usize {
        let reports = self.others.values().map(|known| &known.report).chain([&self.own]);
        let mut cpus: Vec<u32> = reports
            .filter(|report| report.host == host)
            .flat_map(|report| report.cpus.iter().copied())
            .collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus.len()
    }
}

fn view(report: &NodeReport, state: NodeState) -> NodeView {
    NodeView {
        name: report.node.clone(),
        is_open: state == NodeState::Up,
        cpus: report.cpus.len() as u32,
        speed: report.speed,
        load_by_others: report.load_by_others,
        ranks: report.ranks,
        host: report.host,
    }
}

fn status(report: &NodeReport, state: NodeState) -> NodeStatus {
    NodeStatus {
        name: report.node.clone(),
        address: report.address.clone(),
        site: report.site.clone(),
        cpus: report.cpus.clone(),
        state,
        speed: report.speed,
        load_by_others: report.load_by_others,
        ranks: report.ranks,
        free_memory: report.free_memory,
        daemon_pid: report.daemon_pid,
    }
}

fn natural_key(name: &str) -> (String, u64, String) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (
        stem.to_owned(),
        name[stem.len()..].parse().unwrap_or(0),
        name.to_owned(),
    )
}

impl Daemon {
    /// How this node is now.
    pub(super) fn report(&mut self) -> NodeReport {
        let ranks = self
            .parts
            .values()
            .map(|part| part.state.processes().values().filter(|local| local.is_alive()).count());
        let ranks = ranks.sum::<usize>() as u32;
        let own = self.nodes.own_mut();
        own.ranks = ranks;
        own.highest_job = self.highest_job;
        own.clone()
    }

    pub(super) fn say_report(&mut self, node: &NodeName) {
        let report = self.report();
        self.send(node, DaemonToDaemon::Report(Box::new(report)));
    }

    /// Takes in how another node says it is.
    pub(super) fn on_report(&mut self, report: NodeReport) {
        if report.node == self.own {
            return;
        }
        let node = report.node.clone();
        self.heard_of(report.highest_job);
        self.peers.set_address(&node, &report.address);
        if self.nodes.take(report.clone()) {
            self.record(&Record::Node(Box::new(report.clone())));
            tracing::info!(%node, "a node is part of the cluster");
            self.introduce(&report);
        }
        self.boot_node_heard(&node);
    }

    /// Tells a new node of the others, and the others of it.
    fn introduce(&mut self, newcomer: &NodeReport) {
        let own = self.report();
        let mut known: Vec<NodeReport> = self.nodes.others().cloned().collect();
        known.retain(|report| report.node != newcomer.node);
        for report in &known {
            self.send(&report.node, DaemonToDaemon::Report(Box::new(newcomer.clone())));
        }
        for report in known.into_iter().chain([own]) {
            self.send(&newcomer.node, DaemonToDaemon::Report(Box::new(report)));
        }
    }

    pub(super) fn on_peer_linked(&mut self, link: LinkId, node: &NodeName, sender: Sender) {
        self.peers.on_linked(link, node, sender);
        self.nodes.heard(node);
        self.say_report(node);
        self.on_jobs_linked(node);
    }

    pub(super) fn on_peer_lost(&mut self, link: LinkId, node: &NodeName) {
        if !self.peers.on_lost(link, node) || self.nodes.state(node) == Some(NodeState::Gone) {
            return;
        }
        tracing::info!(%node, "no link to this node any more");
        self.on_jobs_unlinked(node);
        self.peers.dial(node);
    }

    pub(super) fn on_dial_failed(&mut self, node: &NodeName, reason: &str) {
        tracing::debug!(%node, reason, "a node was not reached");
        self.peers.on_dial_failed(node);
        if matches!(self.nodes.state(node), Some(state) if state != NodeState::Gone) {
            self.timers.arm(REDIAL, Timer::Redial(node.clone()));
        }
    }

    pub(super) fn on_redial(&mut self, node: &NodeName) {
        if matches!(self.nodes.state(node), Some(state) if state != NodeState::Gone) {
            self.peers.dial(node);
        }
    }

    /// Says how this node is, and looks who was not heard.
    pub(super) fn on_beat(&mut self) {
        self.timers.arm(BEAT, Timer::Beat);
        let mut silent = Vec::new();
        for (node, known) in &mut self.nodes.others {
            let silence = known.heard.elapsed();
            let state = match known.state {
                NodeState::Gone => continue,
                _ if silence > GONE_AFTER => NodeState::Gone,
                _ if silence > SUSPECT_AFTER => NodeState::Suspect,
                _ => continue,
            };
            if state != known.state {
                known.state = state;
                silent.push((node.clone(), state));
            }
        }
        for (name, state) in silent {
            match state {
                NodeState::Suspect => self.note_once(EventKind::NodeSuspect { name }),
                _ => self.on_node_gone(&name, false),
            }
        }
        for node in self.nodes.reachable() {
            self.say_report(&node);
        }
    }

    /// What every daemon sees is noted by the first of them only.
    fn note_once(&mut self, kind: EventKind) {
        if *self.nodes.numbering() == self.own {
            self.note(None, Epoch(0), kind);
        } else {
            tracing::info!(?kind, "seen");
        }
    }

    /// A node left or is taken for dead.
    pub(super) fn on_node_gone(&mut self, node: &NodeName, on_purpose: bool) {
        if let Some(known) = self.nodes.others.get_mut(node) {
            known.state = NodeState::Gone;
        }
        self.note_once(EventKind::NodeGone {
            name: node.clone(),
            on_purpose,
        });
        for job in self.jobs.keys().copied().collect::<Vec<_>>() {
            self.coordinate(job, coordinator::Input::NodeGone { node: node.clone() });
        }
        self.on_asked_node_gone(node);
        self.peers.forget(node);
        if on_purpose {
            self.nodes.others.remove(node);
        }
    }

    pub(super) fn on_peer_said(&mut self, link: Option<LinkId>, node: &NodeName, message: DaemonToDaemon) {
        if link.is_some() {
            self.nodes.heard(node);
        }
        match message {
            DaemonToDaemon::Membership(_) => {}
            DaemonToDaemon::Report(report) => self.on_report(*report),
            DaemonToDaemon::Job { job, message } => self.on_job_message(job, node, *message),
            DaemonToDaemon::Ask { ask, question } => self.on_question(node, ask, *question),
            DaemonToDaemon::Answer { ask, answer } => self.on_answer(node, ask, *answer),
            DaemonToDaemon::Leaving => self.on_node_gone(node, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_listed_in_the_order_a_person_counts() {
        let mut names = ["n10", "n2", "a", "n1"];
        names.sort_by_key(|name| natural_key(name));
        assert_eq!(names, ["a", "n1", "n2", "n10"]);
    }
}
