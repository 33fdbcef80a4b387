//! How nodes are: this node tells a few others at each beat, and takes in what they tell.

use super::daemon::Daemon;
use pcm_core::node::outbox::{Effect, LogsEffect};
use pcm_core::node::timer::Timer;
use pcm_core::reconfiguration::effects as reform;
use pcm_proto::ids::NodeName;
use pcm_proto::peer::{DaemonToDaemon, NodeReport};
use std::time::Duration;

/// How often a node says how it is.
const BEAT: Duration = Duration::from_secs(1);

impl Daemon {
    /// The ranks of all jobs on this node; spares are none.
    pub(super) fn ranks_here(&self) -> usize {
        let alive = |part: &super::parts::Part| part.state.alive().count();
        self.parts.values().map(alive).sum()
    }

    /// How this node is now.
    pub(super) fn report(&mut self) -> NodeReport {
        let ranks = self.ranks_here() as u32;
        let highest_job = self.highest_job;
        let own = self.nodes.own_mut();
        own.ranks = ranks;
        own.highest_job = highest_job;
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
        self.heard_of(report.highest_job);
        let node = report.node.clone();
        if self.nodes.note_report(report) {
            self.reform_node(&reform::Input::NodeReborn { node });
        }
    }

    /// Says how this node is.
    pub(super) fn on_beat(&mut self) {
        self.out.arm(BEAT, Timer::Beat);
        self.nodes.own_mut().fabric = self.fabric_report();
        self.sample_jobs();
        self.ask_silent_links();
        self.out.push(Effect::Logs(LogsEffect::Rotate));
        self.on_peers_tick();
        for node in self.nodes.take_turn() {
            self.say_report(&node);
        }
    }
}
