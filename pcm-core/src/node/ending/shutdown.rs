//! How nodes end: all together (`down`), one of an empty node (`remove`), or because the keeper died. Jobs first, then
//! the daemons, the one that was asked last.

use super::state::{Ending, Stage};
use crate::job::coordinator::Input;
use crate::node::context::Context;
use crate::node::jobs::machine::Jobs;
use crate::node::outbox::Effect;
use crate::node::queries::Wanted;
use crate::node::requester::Requester;
use pcm_proto::control::DaemonToControl;
use pcm_proto::peer::{Answer, CoordinatorToNode, DaemonToDaemon, Question};
use pcm_proto::refusal;
use std::time::Duration;

/// Ending all jobs takes at most this long, SIGTERM, SIGKILL and silent nodes included.
const END_JOBS_WITHIN: Duration = Duration::from_secs(15);

/// Time for the other daemons to say that they end.
const QUIT_WITHIN: Duration = Duration::from_secs(3);

impl Ending {
    pub(in crate::node) fn is_going_down(&self) -> bool {
        self.stage != Stage::Serving
    }

    pub(in crate::node) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    pub(in crate::node) fn quit(&mut self) {
        self.stage = Stage::Over;
    }

    /// This node is to leave the cluster, if it is empty.
    pub(in crate::node) fn on_remove(&mut self, from: Requester, jobs: &Jobs, cx: &mut Context<'_>) {
        let (ranks, led) = (jobs.table.ranks_here(), jobs.table.coordinators().count());
        let own = &cx.settings.own;
        if ranks > 0 || led > 0 {
            let message = format!(
                "node {own} runs {ranks} ranks and coordinates {led} jobs: wait for them to end or `pcmctl kill` them"
            );
            return cx.refuse(from, refusal::NODE_BUSY, message);
        }
        if cx.cluster.nodes().reachable().is_empty() {
            let message = format!("node {own} is the last one: `pcmctl down` ends the cluster");
            return cx.refuse(from, refusal::LAST_NODE, message);
        }
        cx.answer(from, DaemonToControl::Done);
        self.take_leave(cx);
    }

    /// All jobs and daemons are to end.
    pub(in crate::node) fn on_down(&mut self, from: Requester, cx: &mut Context<'_>) {
        if self.is_going_down() {
            let message = "the cluster is going down already: wait for it";
            return cx.refuse(from, refusal::GOING_DOWN, message);
        }
        let nodes = cx.cluster.all_nodes();
        cx.gather(from, Wanted::JobsEnded, Question::EndJobs, nodes, END_JOBS_WITHIN);
    }

    /// This node's jobs are to end.
    pub(in crate::node) fn on_end_jobs(&mut self, from: Requester, jobs: &mut Jobs, cx: &mut Context<'_>) {
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
        cx.is_going_down = true;
        for job in jobs.table.led_ids() {
            let reason = "the cluster goes down".to_owned();
            jobs.table.coordinate(job, [Input::End { code: 143, reason }], cx);
        }
        self.on_job_ended(jobs, cx);
    }

    /// A job or a part of one is over; maybe it was the last.
    pub(in crate::node) fn on_job_ended(&mut self, jobs: &Jobs, cx: &mut Context<'_>) {
        if !jobs.table.is_empty() {
            return;
        }
        if let Stage::EndingJobs { asked_by } = &mut self.stage {
            for (node, ask) in std::mem::take(asked_by) {
                let answer = Box::new(Answer::Done);
                cx.out.send(&node, DaemonToDaemon::Answer { ask, answer });
            }
        }
    }

    /// No job is left in the cluster: the other daemons are to end.
    pub(in crate::node) fn on_jobs_ended_everywhere(&self, from: Requester, cx: &mut Context<'_>) {
        let nodes = cx.cluster.nodes().reachable();
        cx.gather(from, Wanted::Quitting, Question::Quit, nodes, QUIT_WITHIN);
    }

    /// Without its keeper this node has no ranks any more.
    pub(in crate::node) fn on_keeper_lost(&mut self, reason: &str, jobs: &Jobs, cx: &mut Context<'_>) {
        tracing::error!(
            reason,
            "the keeper is lost, and with it all ranks of this node: the daemon ends"
        );
        let led = jobs.table.coordinators();
        let led = led.flat_map(|(job, coordinator)| coordinator.active_nodes().map(move |node| (job, node.clone())));
        for (job, node) in led {
            if node != cx.settings.own {
                cx.send_job(&node, job, CoordinatorToNode::End { grace_ms: 500 });
            }
        }
        let prefixes = jobs.table.parts().flat_map(|(_, part)| part.segment_prefixes());
        let prefixes = prefixes.collect();
        cx.out.push(Effect::Sweep { prefixes });
        self.quit();
    }
}
