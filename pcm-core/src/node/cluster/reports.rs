//! How nodes are: this node tells a few others at each beat, and takes in what they tell.

use crate::node::machine::Node;
use crate::node::outbox::{Effect, LogsEffect, PeersEffect};
use crate::node::timer::Timer;
use crate::reconfiguration::effects as reform;
use pcm_proto::ids::NodeName;
use pcm_proto::peer::{DaemonToDaemon, NodeReport};
use std::time::Duration;

/// How often a node says how it is.
const BEAT: Duration = Duration::from_secs(1);

impl Node {
    /// The ranks of all jobs on this node; spares are none.
    pub(in crate::node) fn ranks_here(&self) -> usize {
        self.jobs.parts().map(|(_, part)| part.alive().count()).sum()
    }

    /// How this node is now.
    pub(in crate::node) fn report(&mut self) -> NodeReport {
        let ranks = self.ranks_here() as u32;
        let highest_job = self.highest_job;
        let own = self.nodes.own_mut();
        own.ranks = ranks;
        own.highest_job = highest_job;
        own.clone()
    }

    pub(in crate::node) fn say_report(&mut self, node: &NodeName) {
        let report = self.report();
        self.send(node, DaemonToDaemon::Report(Box::new(report)));
    }

    /// Takes in how another node says it is.
    pub(in crate::node) fn on_report(&mut self, report: NodeReport) {
        if report.node == self.own {
            return;
        }
        self.heard_of(report.highest_job);
        let node = report.node.clone();
        if self.nodes.note_report(report) {
            self.reform_node(&reform::Input::NodeReborn { node });
        }
    }

    /// Says how this node is.
    pub(in crate::node) fn on_beat(&mut self) {
        self.out.arm(BEAT, Timer::Beat);
        self.nodes.own_mut().fabric = self.fabric_report();
        self.sample_jobs();
        self.ask_silent_links();
        self.out.push(Effect::Logs(LogsEffect::Rotate));
        self.peers(PeersEffect::Tick);
        for node in self.nodes.take_turn() {
            self.say_report(&node);
        }
    }
}
