//! Empties this node: it takes no new ranks, and each job moves its ranks elsewhere, one job after the other. With a
//! deadline each job makes a checkpoint first, and one that has not left in time is started again elsewhere from that.
//! For one that cannot leave, for want of time or of a place, the checkpoint is written into files, too.

use super::state::{Draining, Ending};
use crate::job::coordinator::Input;
use crate::node::context::Context;
use crate::node::jobs::machine::Jobs;
use crate::node::queries::{Asker, DrainStep};
use crate::node::requester::Requester;
use crate::node::timer::Timer;
use pcm_proto::boot::NodeSpec;
use pcm_proto::checkpoint::IntoFiles;
use pcm_proto::control::{ControlToDaemon, DRAIN_WITHIN, DaemonToControl, LayoutChange, NodeState, Refusal};
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::layout::ModeWanted;
use pcm_proto::peer::{NodeToCoordinator, Question};
use pcm_proto::refusal;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Pause before a job that is being reconfigured is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(300);

/// The job begins, ends, starts again or changes its layout just now: what runs here is another matter in a moment.
const LOOK_AGAIN: [&str; 5] = [
    refusal::JOB_STARTING,
    refusal::RECONFIGURING,
    refusal::JOB_ENDED,
    refusal::JOB_RESTARTED,
    refusal::UNKNOWN_JOB,
];

/// Of the time left, what a job has to leave; the rest is for files.
const LEAVES_WITHIN: f64 = 0.6;

/// Nodes of one allocation end at once, as well as their clocks agree.
const END_TOGETHER: Duration = Duration::from_secs(3);

/// Ranks that were left when the deadline came are ended, and their job is told, within this time.
const FORCED_WITHIN: Duration = Duration::from_secs(15);

impl Ending {
    pub(in crate::node) fn on_drain(
        &mut self,
        from: Requester,
        deadline_ms: Option<u64>,
        jobs: &mut Jobs,
        cx: &mut Context<'_>,
    ) {
        if self.drain.is_some() {
            let message = format!("node {} is being emptied already", cx.settings.own);
            return cx.answer(
                from,
                DaemonToControl::Refused(Refusal::new(refusal::NODE_BUSY, message)),
            );
        }
        cx.set_draining(true);
        let cause = format!("drain of {}", cx.settings.own);
        self.empty(from, (deadline_ms, true), cause, jobs, cx);
    }

    /// Begins to empty a node that takes no new ranks.
    pub(in crate::node) fn empty(
        &mut self,
        from: Requester,
        (deadline_ms, has_refuge): (Option<u64>, bool),
        cause: String,
        jobs: &mut Jobs,
        cx: &mut Context<'_>,
    ) {
        let within = deadline_ms.map_or(DRAIN_WITHIN, Duration::from_millis);
        self.drain = Some(Draining {
            from,
            cause,
            until: cx.now().plus(within),
            has_deadline: deadline_ms.is_some(),
            has_refuge,
            answer_by: cx.now(),
            asked: BTreeSet::new(),
            safe: BTreeSet::new(),
            stuck: BTreeMap::new(),
            is_forced: false,
        });
        self.drain_next(jobs, cx);
    }

    /// Asks the next job to leave; without one the node is empty.
    pub(in crate::node) fn drain_next(&mut self, jobs: &mut Jobs, cx: &mut Context<'_>) {
        if self.drain.is_some() {
            jobs.end_spares(cx);
        }
        let Some(Draining {
            until,
            has_deadline,
            asked,
            answer_by,
            is_forced,
            cause,
            has_refuge,
            ..
        }) = &mut self.drain
        else {
            return;
        };
        let (is_forced, has_deadline, has_refuge, cause) = (*is_forced, *has_deadline, *has_refuge, cause.clone());
        let left = until.since(cx.now());
        let busy = jobs.table.parts().find(|(_, part)| part.alive().next().is_some());
        let Some((job, coordinator)) = busy.map(|(job, part)| (job, part.coordinator().clone())) else {
            return self.end_drain(DaemonToControl::Done, jobs, cx);
        };
        if left.is_zero() {
            return self.drain_failed(job, "there was no time left for it", refusal::DEADLINE, jobs, cx);
        }
        if is_forced {
            return cx.arm(ASK_AGAIN, Timer::Drain);
        }
        if !has_refuge {
            return self.save(job, &coordinator, jobs, cx);
        }
        if has_deadline && asked.insert(job) {
            let question = Question::Control(Box::new(ControlToDaemon::Checkpoint { job, into: None }));
            let step = DrainStep::Checkpoint;
            *answer_by = cx.now().plus(left / 2);
            return cx.ask(&coordinator, question, Asker::Drain { job, step }, left / 2);
        }
        let request = ControlToDaemon::Reconfigure {
            job,
            change: LayoutChange::Evacuate { node: cx.own() },
            mode: ModeWanted::Auto,
            cause,
            method: None,
        };
        let within = if has_deadline {
            left.mul_f64(LEAVES_WITHIN)
        } else {
            left
        };
        *answer_by = cx.now().plus(within);
        let (question, step) = (Question::Control(Box::new(request)), DrainStep::Leave);
        cx.ask(&coordinator, question, Asker::Drain { job, step }, within);
    }

    /// All nodes end: a job is written into files at once, and that once. Where the node of its coordinator ends with
    /// this one that does it.
    fn save(&mut self, job: JobId, coordinator: &NodeName, jobs: &mut Jobs, cx: &mut Context<'_>) {
        let left_of = |node: &NodeName| cx.cluster.nodes().end_of(cx.now(), node).map(|end| end.left());
        let (own, others) = (left_of(&cx.settings.own).unwrap_or_default(), left_of(coordinator));
        let ends_with_this = others.is_some_and(|left| left <= own + END_TOGETHER);
        let is_asked = self
            .drain
            .as_ref()
            .is_some_and(|draining| draining.stuck.contains_key(&job));
        if is_asked || (*coordinator != cx.settings.own && ends_with_this) {
            return cx.arm(ASK_AGAIN, Timer::Drain);
        }
        let why = "all nodes end soon";
        self.drain_failed(job, why, refusal::NO_NODES, jobs, cx);
    }

    /// A question about a job has no answer; whether it is asked again in a moment.
    fn asks_again(&mut self, job: JobId, cx: &mut Context<'_>) -> bool {
        let draining = self.drain.as_mut();
        let asks_again = draining.is_some_and(|draining| draining.asks_again(job, cx.now()));
        if asks_again {
            cx.arm(ASK_AGAIN, Timer::Drain);
        }
        asks_again
    }

    /// A job made a checkpoint before it leaves, or cannot.
    pub(in crate::node) fn on_drain_checkpoint(
        &mut self,
        job: JobId,
        answer: Option<DaemonToControl>,
        jobs: &mut Jobs,
        cx: &mut Context<'_>,
    ) {
        if answer.is_none() && self.asks_again(job, cx) {
            return;
        }
        if let (Some(draining), Some(DaemonToControl::Checkpointed { .. })) = (&mut self.drain, answer) {
            draining.safe.insert(job);
        }
        self.drain_next(jobs, cx);
    }

    /// Jobs that have a checkpoint go on elsewhere from there; whether there are any.
    fn force_out(&mut self, jobs: &mut Jobs, cx: &mut Context<'_>) -> bool {
        let Some(draining) = &mut self.drain else { return false };
        if draining.is_forced || draining.safe.is_empty() {
            return false;
        }
        draining.is_forced = true;
        draining.until = cx.now().plus(FORCED_WITHIN);
        for job in draining.safe.clone() {
            let coordinator = jobs.table.part(job).map(|part| part.coordinator().clone());
            if let Some(coordinator) = coordinator {
                let reason = format!(
                    "node {} is taken away, and its ranks did not move in time",
                    cx.settings.own
                );
                cx.send_job(&coordinator, job, NodeToCoordinator::Lost { reason });
            }
        }
        cx.arm(ASK_AGAIN, Timer::Drain);
        true
    }

    /// A job left the node, or says why not.
    pub(in crate::node) fn on_drain_answer(
        &mut self,
        job: JobId,
        answer: Option<DaemonToControl>,
        jobs: &mut Jobs,
        cx: &mut Context<'_>,
    ) {
        if answer.is_none() && self.asks_again(job, cx) {
            return;
        }
        match answer {
            Some(DaemonToControl::Reconfigured(_)) => self.drain_next(jobs, cx),
            Some(DaemonToControl::Refused(Refusal { code, .. })) if LOOK_AGAIN.contains(&code.as_str()) => {
                cx.arm(ASK_AGAIN, Timer::Drain);
            }
            Some(DaemonToControl::Refused(Refusal { message, .. })) => {
                self.drain_failed(job, &message, refusal::NODE_BUSY, jobs, cx);
            }
            _ => self.drain_failed(
                job,
                "its coordinator did not answer in time",
                refusal::DEADLINE,
                jobs,
                cx,
            ),
        }
    }

    /// A job cannot leave in time, or has no place to go.
    fn drain_failed(&mut self, job: JobId, why: &str, code: &'static str, jobs: &mut Jobs, cx: &mut Context<'_>) {
        if let Some(draining) = self.drain.as_mut().filter(|draining| draining.has_deadline) {
            let left = draining.until.since(cx.now());
            let is_new = !draining.is_forced && !draining.stuck.contains_key(&job);
            let coordinator = jobs.table.part(job).map(|part| part.coordinator().clone());
            if let Some(coordinator) = coordinator.filter(|_| is_new && !left.is_zero()) {
                draining.stuck.insert(job, (why.to_owned(), code));
                draining.answer_by = draining.until;
                let into = Some(IntoFiles::Usual);
                let question = Question::Control(Box::new(ControlToDaemon::Checkpoint { job, into }));
                let step = DrainStep::Files;
                return cx.ask(&coordinator, question, Asker::Drain { job, step }, left);
            }
        }
        self.give_up_draining(job, why, code, jobs, cx);
    }

    /// A job that cannot leave is in files, or cannot be.
    pub(in crate::node) fn on_drain_files(
        &mut self,
        job: JobId,
        answer: Option<DaemonToControl>,
        jobs: &mut Jobs,
        cx: &mut Context<'_>,
    ) {
        if answer.is_none() && self.asks_again(job, cx) {
            return;
        }
        let Some(draining) = &mut self.drain else { return };
        if !draining.has_refuge && jobs.table.coordinator(job).is_some() {
            return Self::on_saved(job, answer, jobs, cx);
        }
        match answer {
            Some(DaemonToControl::Checkpointed { .. }) => _ = draining.safe.insert(job),
            Some(DaemonToControl::Refused(Refusal { message, .. })) => {
                tracing::warn!(%job, message, "no files of a job that cannot leave");
            }
            _ => tracing::warn!(%job, "no files of a job that cannot leave: there was no time for them"),
        }
        let (why, code) = draining.stuck.get(&job).cloned().unwrap_or_default();
        self.give_up_draining(job, &why, code, jobs, cx);
    }

    /// A job that is led here and cannot go on anywhere ends when it is in files. Without files it has all the time
    /// that is left.
    fn on_saved(job: JobId, answer: Option<DaemonToControl>, jobs: &mut Jobs, cx: &mut Context<'_>) {
        match answer {
            Some(DaemonToControl::Checkpointed {
                directory: Some(directory),
                ..
            }) => {
                let directory = String::from_utf8_lossy(&directory);
                let reason = format!("all nodes end soon; 'pcmctl restart {directory}' continues it elsewhere");
                jobs.table.coordinate(job, [Input::End { code: 143, reason }], cx);
            }
            Some(DaemonToControl::Refused(Refusal { message, .. })) => {
                tracing::warn!(%job, message, "no files of a job whose nodes end");
            }
            _ => tracing::warn!(%job, "no files of a job whose nodes end: there was no time for them"),
        }
        cx.arm(ASK_AGAIN, Timer::Drain);
    }

    fn give_up_draining(&mut self, job: JobId, why: &str, code: &str, jobs: &mut Jobs, cx: &mut Context<'_>) {
        let is_taken_away = self.drain.as_ref().is_some_and(|draining| draining.has_deadline);
        if (code == refusal::DEADLINE || is_taken_away) && self.force_out(jobs, cx) {
            return;
        }
        if self.preemption.is_some() {
            tracing::warn!(%job, why, "ranks are left on a node that is taken away");
            return self.end_drain(DaemonToControl::Done, jobs, cx);
        }
        let ranks = jobs.table.ranks_here();
        cx.set_draining(false);
        let message = format!(
            "node {} runs {ranks} ranks; job {job} does not leave it: {why}",
            cx.settings.own
        );
        self.end_drain(DaemonToControl::Refused(Refusal::new(code, message)), jobs, cx);
    }

    /// The node was emptied, or is being emptied, and is wanted again. What has left stays where it is.
    pub(in crate::node) fn on_undrain(&mut self, from: Requester, spec: &NodeSpec, cx: &mut Context<'_>) {
        let own = &cx.settings.own;
        if self.is_taken_away() || self.is_going_down() || cx.cluster.is_leaving() {
            let message = format!("node {own} is taken away: it takes no ranks any more");
            return cx.refuse(from, refusal::NODE_BUSY, message);
        }
        let statuses = cx.cluster.statuses(cx.now());
        let Some(mut status) = statuses.into_iter().find(|status| status.name == *own) else {
            return cx.refuse(from, refusal::UNKNOWN_NODE, format!("node {own} does not know itself"));
        };
        if !spec.cpus.is_empty() && spec.cpus != status.cpus {
            let message = format!("node {own} is drained, and has other CPUs: `pcmctl remove {own}` first");
            return cx.refuse(from, refusal::NODE_EXISTS, message);
        }
        status.state = NodeState::Up;
        cx.set_draining(false);
        self.drain_cancelled("takes ranks again: its drain was undone", cx);
        cx.answer(from, DaemonToControl::Joined(status));
    }

    /// The node is needed for something else now.
    pub(in crate::node) fn drain_cancelled(&mut self, why: &str, cx: &mut Context<'_>) {
        if let Some(Draining { from, .. }) = self.drain.take() {
            let message = format!("node {} {why}", cx.settings.own);
            cx.answer(
                from,
                DaemonToControl::Refused(Refusal::new(refusal::NODE_BUSY, message)),
            );
        }
    }

    fn end_drain(&mut self, answer: DaemonToControl, jobs: &mut Jobs, cx: &mut Context<'_>) {
        if let Some(Draining { from, .. }) = self.drain.take() {
            cx.answer(from, answer);
        }
        if self.preemption.is_some() {
            self.hand_over(jobs, cx);
        }
    }
}
