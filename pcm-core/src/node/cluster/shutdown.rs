//! How daemons end: all together (`down`), one of an empty node (`remove`), or because the keeper died. Jobs first,
//! then the daemons, the one that was asked last.

use crate::job::coordinator::Input;
use crate::node::machine::Node;
use crate::node::outbox::Effect;
use crate::node::queries::Wanted;
use crate::node::requester::Requester;
use pcm_proto::control::{DaemonToControl, Refusal};
use pcm_proto::ids::NodeName;
use pcm_proto::peer::{Answer, CoordinatorToNode, DaemonToDaemon, Question};
use pcm_proto::refusal;
use std::time::Duration;

/// Ending all jobs takes at most this long, SIGTERM, SIGKILL and silent nodes included.
const END_JOBS_WITHIN: Duration = Duration::from_secs(15);

/// Time for the other daemons to say that they end.
const QUIT_WITHIN: Duration = Duration::from_secs(3);

/// How long the daemon goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::node) enum Stage {
    #[default]
    Serving,
    /// It takes no new jobs, ends those it has, and then answers these questions.
    EndingJobs { asked_by: Vec<(NodeName, u64)> },
    /// The loop ends now.
    Over,
}

impl Node {
    pub(in crate::node) fn is_going_down(&self) -> bool {
        self.stage != Stage::Serving
    }

    /// All jobs and daemons are to end.
    pub(in crate::node) fn on_down(&mut self, from: Requester) {
        if self.is_going_down() {
            let message = "the cluster is going down already: wait for it";
            return self.answer(
                from,
                DaemonToControl::Refused(Refusal::new(refusal::GOING_DOWN, message)),
            );
        }
        let nodes = self.all_nodes();
        self.queries.gather(
            from,
            Wanted::JobsEnded,
            &Question::EndJobs,
            &nodes,
            END_JOBS_WITHIN,
            &mut self.out,
        );
    }

    /// This daemon's jobs are to end.
    pub(in crate::node) fn on_end_jobs(&mut self, from: Requester) {
        let Requester::Peer { node, ask } = from else { return };
        match &mut self.stage {
            Stage::EndingJobs { asked_by } => asked_by.push((node, ask)),
            Stage::Over => return,
            Stage::Serving => {
                self.stage = Stage::EndingJobs {
                    asked_by: vec![(node, ask)],
                }
            }
        }
        for job in self.jobs.led_ids() {
            let reason = "the cluster goes down".to_owned();
            self.coordinate(job, Input::End { code: 143, reason });
        }
        self.on_something_ended();
    }

    /// A job or a part of one is over; maybe it was the last.
    pub(in crate::node) fn on_something_ended(&mut self) {
        if !self.jobs.is_empty() {
            return;
        }
        if let Stage::EndingJobs { asked_by } = &mut self.stage {
            for (node, ask) in std::mem::take(asked_by) {
                self.send(
                    &node,
                    DaemonToDaemon::Answer {
                        ask,
                        answer: Box::new(Answer::Done),
                    },
                );
            }
        }
    }

    pub(in crate::node) fn on_jobs_ended_everywhere(&mut self, from: Requester) {
        let nodes = self.nodes.reachable();
        self.queries.gather(
            from,
            Wanted::Quitting,
            &Question::Quit,
            &nodes,
            QUIT_WITHIN,
            &mut self.out,
        );
    }

    pub(in crate::node) fn on_others_quit(&mut self, from: Requester) {
        self.answer(from, DaemonToControl::Done);
        self.quit();
    }

    pub(in crate::node) fn quit(&mut self) {
        self.stage = Stage::Over;
    }

    /// Without its keeper this node has no ranks any more.
    pub(in crate::node) fn on_keeper_lost(&mut self, reason: &str) {
        tracing::error!(
            reason,
            "the keeper is lost, and with it all ranks of this node: the daemon ends"
        );
        let led = self.jobs.coordinators();
        let led = led.flat_map(|(job, coordinator)| coordinator.active_nodes().map(move |node| (job, node.clone())));
        for (job, node) in led.collect::<Vec<_>>() {
            if node != self.own {
                self.send_job(&node, job, CoordinatorToNode::End { grace_ms: 500 });
            }
        }
        let prefixes = self.jobs.parts().flat_map(|(_, part)| part.segment_prefixes());
        let prefixes = prefixes.collect();
        self.out.push(Effect::Sweep { prefixes });
        self.quit();
    }
}
