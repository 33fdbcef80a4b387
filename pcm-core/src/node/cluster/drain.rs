//! Empties this node: it takes no new ranks, and each job moves its ranks elsewhere, one job after the other. With a
//! deadline each job makes a checkpoint first, and one that has not left in time is started again elsewhere from that.
//! For one that cannot leave, for want of time or of a place, the checkpoint is written into files, too.

use crate::moment::Moment;
use crate::node::machine::Node;
use crate::node::queries::{Asker, DrainStep};
use crate::node::requester::Requester;
use crate::node::timer::Timer;
use pcm_proto::checkpoint::IntoFiles;
use pcm_proto::control::{ControlToDaemon, DaemonToControl, LayoutChange, Refusal};
use pcm_proto::ids::JobId;
use pcm_proto::layout::ModeWanted;
use pcm_proto::peer::{NodeToCoordinator, Question};
use pcm_proto::refusal;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A node is empty within this time unless somebody says otherwise; each job needs a second or two.
const DRAIN_WITHIN: Duration = Duration::from_secs(300);

/// Pause before a job that is being reconfigured is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(300);

/// Of the time left, what a job has to leave; the rest is for files.
const LEAVES_WITHIN: f64 = 0.6;

/// Ranks that were left when the deadline came are ended, and their job is told, within this time.
const FORCED_WITHIN: Duration = Duration::from_secs(15);

/// Somebody waits for the node to be empty.
#[derive(Debug)]
pub(in crate::node) struct Draining {
    from: Requester,
    until: Moment,
    /// Whether the node is going to be taken away then.
    has_deadline: bool,
    /// Jobs that were asked for a checkpoint, and those that made one.
    asked: BTreeSet<JobId>,
    safe: BTreeSet<JobId>,
    /// Jobs that cannot leave and were asked for files, and why they cannot.
    stuck: BTreeMap<JobId, (String, &'static str)>,
    /// Whether the deadline came, and the jobs that were left were told so.
    is_forced: bool,
}

impl Node {
    pub(in crate::node) fn on_drain(&mut self, from: Requester, deadline_ms: Option<u64>) {
        if self.drain.is_some() {
            let message = format!("node {} is being emptied already", self.own);
            return self.answer(
                from,
                DaemonToControl::Refused(Refusal::new(refusal::NODE_BUSY, message)),
            );
        }
        self.set_draining(true);
        self.empty(from, deadline_ms);
    }

    /// Begins to empty a node that takes no new ranks.
    pub(in crate::node) fn empty(&mut self, from: Requester, deadline_ms: Option<u64>) {
        let within = deadline_ms.map_or(DRAIN_WITHIN, Duration::from_millis);
        self.drain = Some(Draining {
            from,
            until: self.out.now().plus(within),
            has_deadline: deadline_ms.is_some(),
            asked: BTreeSet::new(),
            safe: BTreeSet::new(),
            stuck: BTreeMap::new(),
            is_forced: false,
        });
        self.drain_next();
    }

    /// Asks the next job to leave; without one the node is empty.
    pub(in crate::node) fn drain_next(&mut self) {
        if self.drain.is_some() {
            self.end_spares();
        }
        let Some(Draining {
            until,
            has_deadline,
            asked,
            is_forced,
            ..
        }) = &mut self.drain
        else {
            return;
        };
        let (is_forced, has_deadline) = (*is_forced, *has_deadline);
        let left = until.since(self.out.now());
        let busy = self.jobs.parts().find(|(_, part)| part.alive().next().is_some());
        let Some((job, coordinator)) = busy.map(|(job, part)| (job, part.coordinator().clone())) else {
            return self.end_drain(DaemonToControl::Done);
        };
        if left.is_zero() {
            return self.drain_failed(job, "there was no time left for it", refusal::DEADLINE);
        }
        if is_forced {
            return self.out.arm(ASK_AGAIN, Timer::Drain);
        }
        if has_deadline && asked.insert(job) {
            let question = Question::Control(Box::new(ControlToDaemon::Checkpoint { job, into: None }));
            let step = DrainStep::Checkpoint;
            return self.ask(&coordinator, question, Asker::Drain { job, step }, left / 2);
        }
        let request = ControlToDaemon::Reconfigure {
            job,
            change: LayoutChange::Evacuate { node: self.own.clone() },
            mode: ModeWanted::Auto,
            cause: format!("drain of {}", self.own),
            method: None,
        };
        self.ask(
            &coordinator,
            Question::Control(Box::new(request)),
            Asker::Drain {
                job,
                step: DrainStep::Leave,
            },
            if has_deadline {
                left.mul_f64(LEAVES_WITHIN)
            } else {
                left
            },
        );
    }

    /// A job made a checkpoint before it leaves, or cannot.
    pub(in crate::node) fn on_drain_checkpoint(&mut self, job: JobId, answer: Option<DaemonToControl>) {
        if let (Some(draining), Some(DaemonToControl::Checkpointed { .. })) = (&mut self.drain, answer) {
            draining.safe.insert(job);
        }
        self.drain_next();
    }

    /// Jobs that have a checkpoint go on elsewhere from there; whether there are any.
    fn force_out(&mut self) -> bool {
        let Some(draining) = &mut self.drain else { return false };
        if draining.is_forced || draining.safe.is_empty() {
            return false;
        }
        draining.is_forced = true;
        draining.until = self.out.now().plus(FORCED_WITHIN);
        for job in draining.safe.clone() {
            let coordinator = self.jobs.part(job).map(|part| part.coordinator().clone());
            if let Some(coordinator) = coordinator {
                let reason = format!("node {} is taken away, and its ranks did not move in time", self.own);
                self.send_job(&coordinator, job, NodeToCoordinator::Lost { reason });
            }
        }
        self.out.arm(ASK_AGAIN, Timer::Drain);
        true
    }

    /// A job left the node, or says why not.
    pub(in crate::node) fn on_drain_answer(&mut self, job: JobId, answer: Option<DaemonToControl>) {
        match answer {
            Some(DaemonToControl::Reconfigured(_)) => self.drain_next(),
            // It ends, or changes its layout just now: look again.
            Some(DaemonToControl::Refused(Refusal { code, .. }))
                if [refusal::RECONFIGURING, refusal::JOB_ENDED, refusal::UNKNOWN_JOB].contains(&code.as_str()) =>
            {
                self.out.arm(ASK_AGAIN, Timer::Drain);
            }
            Some(DaemonToControl::Refused(Refusal { message, .. })) => {
                self.drain_failed(job, &message, refusal::NODE_BUSY);
            }
            _ => self.drain_failed(job, "its coordinator did not answer in time", refusal::DEADLINE),
        }
    }

    /// A job cannot leave in time, or has no place to go.
    fn drain_failed(&mut self, job: JobId, why: &str, code: &'static str) {
        if let Some(draining) = self.drain.as_mut().filter(|draining| draining.has_deadline) {
            let left = draining.until.since(self.out.now());
            let is_new = !draining.is_forced && !draining.stuck.contains_key(&job);
            let coordinator = self.jobs.part(job).map(|part| part.coordinator().clone());
            if let Some(coordinator) = coordinator.filter(|_| is_new && !left.is_zero()) {
                draining.stuck.insert(job, (why.to_owned(), code));
                let into = Some(IntoFiles::Usual);
                let question = Question::Control(Box::new(ControlToDaemon::Checkpoint { job, into }));
                let step = DrainStep::Files;
                return self.ask(&coordinator, question, Asker::Drain { job, step }, left);
            }
        }
        self.give_up_draining(job, why, code);
    }

    /// A job that cannot leave is in files, or cannot be.
    pub(in crate::node) fn on_drain_files(&mut self, job: JobId, answer: Option<DaemonToControl>) {
        let Some(draining) = &mut self.drain else { return };
        match answer {
            Some(DaemonToControl::Checkpointed { .. }) => _ = draining.safe.insert(job),
            Some(DaemonToControl::Refused(Refusal { message, .. })) => {
                tracing::warn!(%job, message, "no files of a job that cannot leave");
            }
            _ => tracing::warn!(%job, "no files of a job that cannot leave: there was no time for them"),
        }
        let (why, code) = draining.stuck.get(&job).cloned().unwrap_or_default();
        self.give_up_draining(job, &why, code);
    }

    fn give_up_draining(&mut self, job: JobId, why: &str, code: &str) {
        let is_taken_away = self.drain.as_ref().is_some_and(|draining| draining.has_deadline);
        if (code == refusal::DEADLINE || is_taken_away) && self.force_out() {
            return;
        }
        if self.preemption.is_some() {
            tracing::warn!(%job, why, "ranks are left on a node that is taken away");
            return self.end_drain(DaemonToControl::Done);
        }
        let ranks = self.report().ranks;
        self.set_draining(false);
        let message = format!(
            "node {} runs {ranks} ranks; job {job} does not leave it: {why}",
            self.own
        );
        self.end_drain(DaemonToControl::Refused(Refusal::new(code, message)));
    }

    /// Somebody else needs the node empty now.
    pub(in crate::node) fn drain_cancelled(&mut self) {
        if let Some(Draining { from, .. }) = self.drain.take() {
            let message = format!("node {} is taken away: it ends as soon as it is empty", self.own);
            self.answer(
                from,
                DaemonToControl::Refused(Refusal::new(refusal::NODE_BUSY, message)),
            );
        }
    }

    fn end_drain(&mut self, answer: DaemonToControl) {
        if let Some(Draining { from, .. }) = self.drain.take() {
            self.answer(from, answer);
        }
        if self.preemption.is_some() {
            self.hand_over();
        }
    }
}
