//! Drives the failure detector: gives it time, packets and broken links, sends what it wants sent, and tells the jobs
//! what it finds.

use crate::job::coordinator;
use crate::membership::{Change, Details, Effect, Health, Target};
use crate::moment::Moment;
use crate::node::machine::Node;
use crate::node::outbox::{self, PeersEffect};
use crate::node::record::Record;
use crate::node::store::input::StoreInput;
use crate::node::timer::Timer;
use crate::reconfiguration::effects as reform;
use pcm_proto::control::NodeState;
use pcm_proto::event::EventKind;
use pcm_proto::ids::{Epoch, NodeName};
use pcm_proto::peer::DaemonToDaemon;
use std::time::Duration;

/// Pause between two attempts to reach a node that has part in a job of ours.
const REDIAL: Duration = Duration::from_millis(200);

/// A daemon that was started again knows its cluster after this time; nodes of its jobs that are not there are gone.
pub(in crate::node) const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// Time as the failure detector counts it.
pub(in crate::node) fn since_1970(now: Moment) -> Duration {
    Duration::from_micros(now.0)
}

impl Node {
    pub(in crate::node) fn on_membership_timer(&mut self) {
        let now = since_1970(self.out.now());
        let mut effects = Vec::new();
        self.nodes.members.on_tick(now, &mut effects);
        let after = self
            .nodes
            .members
            .next_tick()
            .saturating_sub(since_1970(self.out.now()));
        self.out.arm(after, Timer::Membership);
        self.carry_out_membership(effects);
    }

    fn on_membership(&mut self, node: &NodeName, bytes: &[u8]) {
        let now = since_1970(self.out.now());
        let mut effects = Vec::new();
        if let Err(error) = self.nodes.members.on_message(now, node, bytes, &mut effects) {
            tracing::warn!(%node, ?error, "a packet of the failure detector is refused");
        }
        self.carry_out_membership(effects);
    }

    fn carry_out_membership(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send {
                    to: Target::Node(node),
                    bytes,
                } => {
                    self.update_addresses(&node);
                    self.send(&node, DaemonToDaemon::Membership(bytes));
                }
                Effect::Send {
                    to: Target::Seed(address),
                    bytes,
                } => {
                    let message = DaemonToDaemon::Membership(bytes);
                    self.peers(PeersEffect::SendToAddress { address, message });
                }
                Effect::Report { node, change } => self.on_member_changed(&node, change),
                Effect::Superseded { boot } => {
                    tracing::error!(boot, "another daemon bears this node's name: this one ends");
                    self.quit();
                }
                Effect::LeaveComplete => self.quit(),
            }
        }
    }

    /// The addresses of a node by its own account.
    fn update_addresses(&mut self, node: &NodeName) {
        if let Some(member) = self.nodes.members.member(node) {
            let Details { address, ud, .. } = &member.details;
            let (address, ud) = (address.clone(), *ud);
            self.set_address(node, &address);
            self.set_rdma_address(node, ud);
        }
    }

    fn on_member_changed(&mut self, node: &NodeName, change: Change) {
        tracing::info!(%node, ?change, "membership");
        match change {
            Change::Joined | Change::Restarted | Change::Returned => self.on_member_there(node, change),
            Change::Suspected => self.note_once(EventKind::NodeSuspect { name: node.clone() }),
            Change::Recovered | Change::Draining | Change::Undrained => {}
            Change::Failed => self.on_node_gone(node, false),
            Change::Left => self.on_node_gone(node, true),
        }
    }

    fn on_member_there(&mut self, node: &NodeName, change: Change) {
        self.update_addresses(node);
        // Another daemon, with other ports.
        self.store_input(StoreInput::NodeReplaced { node: node.clone() });
        let report = self.nodes.others().find(|report| report.node == *node);
        if let Some(report) = report {
            self.quorum.note_host(node, report.host == self.nodes.own().host);
            self.record(Record::Node(Box::new(report)));
        }
        if change == Change::Returned {
            self.note_once(EventKind::NodeUp { name: node.clone() });
        }
        if matches!(change, Change::Returned | Change::Restarted) {
            self.reform_node(&reform::Input::NodeBack { node: node.clone() });
        }
        self.say_report(node);
        self.boot_node_heard(node);
        self.leave_wills();
    }

    /// What every daemon sees is noted by the first of them only.
    fn note_once(&mut self, kind: EventKind) {
        if *self.nodes.numbering() == self.own {
            self.note(None, Epoch(0), kind);
        }
    }

    /// A node left or is taken for dead.
    fn on_node_gone(&mut self, node: &NodeName, on_purpose: bool) {
        self.note_once(EventKind::NodeGone {
            name: node.clone(),
            on_purpose,
        });
        if !on_purpose {
            self.note_loss(node);
        }
        self.on_lead_node_gone(node);
        self.end_on_node(node);
        self.reform_node(&reform::Input::NodeGone { node: node.clone() });
        self.queries.on_node_gone(node, &mut self.out);
        self.out.push(outbox::Effect::ForgetLinks { node: node.clone() });
        self.links.forget(node);
        self.on_wills_node_gone();
    }

    fn end_on_node(&mut self, node: &NodeName) {
        let with_node = self
            .jobs
            .coordinators()
            .filter(|(_, coordinator)| coordinator.has_node(node));
        for job in with_node.map(|(job, _)| job).collect::<Vec<_>>() {
            self.coordinate(job, coordinator::Input::NodeGone { node: node.clone() });
        }
    }

    /// Some time after a restart: nodes of our jobs that nobody has seen since are gone.
    pub(in crate::node) fn on_settled(&mut self) {
        let nodes = self
            .jobs
            .coordinators()
            .flat_map(|(_, coordinator)| coordinator.active_nodes().cloned());
        let mut missing: Vec<NodeName> = nodes.filter(|node| !self.nodes.is_live(node)).collect();
        missing.sort();
        missing.dedup();
        missing.iter().for_each(|node| self.note_loss(node));
        self.tell_doubt();
        for node in missing {
            tracing::warn!(%node, "this node of a job was not seen since the daemon started again");
            self.on_lead_node_gone(&node);
            self.end_on_node(&node);
            self.reform_node(&reform::Input::NodeGone { node });
        }
    }

    pub(in crate::node) fn on_peer_linked(&mut self, node: &NodeName) {
        self.on_jobs_linked(node);
        self.store_input(StoreInput::NodeLinked { node: node.clone() });
    }

    pub(in crate::node) fn on_peer_unlinked(&mut self, node: &NodeName) {
        tracing::debug!(%node, "no link to this node any more");
        self.on_unreachable(node);
        self.queries.on_node_gone(node, &mut self.out);
        self.on_jobs_unlinked(node);
        if self.has_job_with(node) {
            self.dial(node);
        }
    }

    pub(in crate::node) fn on_peer_unreachable(&mut self, node: &NodeName, reason: &str) {
        tracing::debug!(%node, reason, "a node was not reached");
        self.on_unreachable(node);
        self.queries.on_node_gone(node, &mut self.out);
        if self.has_job_with(node) {
            self.out.arm(REDIAL, Timer::Redial(node.clone()));
        }
    }

    fn on_unreachable(&mut self, node: &NodeName) {
        self.nodes.members.on_unreachable(node);
    }

    pub(in crate::node) fn on_redial(&mut self, node: &NodeName) {
        if self.has_job_with(node) {
            self.dial(node);
        }
    }

    /// Whether a job runs here and there, so that a broken link must be mended before somebody has something to say.
    fn has_job_with(&self, node: &NodeName) -> bool {
        let is_gone = self
            .nodes
            .members
            .member(node)
            .is_some_and(|member| !member.health.is_live());
        let coordinates = || {
            self.jobs
                .coordinators()
                .any(|(_, coordinator)| coordinator.has_node(node))
        };
        let takes_part = || self.jobs.parts().any(|(_, part)| part.has_part_with(node));
        !is_gone && (coordinates() || takes_part())
    }

    /// Whether the node takes new ranks from now on.
    pub(in crate::node) fn set_draining(&mut self, is_draining: bool) {
        self.nodes.own_mut().state = if is_draining {
            NodeState::Draining
        } else {
            NodeState::Up
        };
        self.record(Record::Draining { is_draining });
        let now = since_1970(self.out.now());
        let mut effects = Vec::new();
        self.nodes.members.drain(is_draining, now, &mut effects);
        self.carry_out_membership(effects);
    }

    /// The node leaves a cluster that goes on; the daemon ends when it has told.
    pub(in crate::node) fn leave(&mut self) {
        let now = since_1970(self.out.now());
        let mut effects = Vec::new();
        self.nodes.members.leave(now, &mut effects);
        self.carry_out_membership(effects);
    }

    pub(in crate::node) fn on_peer_said(&mut self, node: &NodeName, message: DaemonToDaemon) {
        match message {
            DaemonToDaemon::Membership(bytes) => self.on_membership(node, &bytes),
            DaemonToDaemon::Report(report) => self.on_report(*report),
            DaemonToDaemon::Job { job, message } => self.on_job_message(job, node, *message),
            DaemonToDaemon::Ask { ask, question } => self.on_question(node, ask, *question),
            DaemonToDaemon::Answer { ask, answer } => self.queries.on_answer(node, ask, *answer, &mut self.out),
            DaemonToDaemon::Agent(message) => self.agent.on_heard(node, message, &mut self.out),
        }
    }

    /// Whether this node still announces itself as a member.
    pub(in crate::node) fn is_leaving(&self) -> bool {
        self.nodes.members.own_health() == Health::Left
    }
}
