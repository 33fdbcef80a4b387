//! Drives this daemon's part in the reconfigurations of each job: what the machine of [`crate::reconfiguration`]
//! decides is carried out here in its order, the record first.

use crate::job::at_node::{self, Step};
use crate::job::coordinator::Coordinator;
use crate::node::machine::Node;
use crate::node::ranks::effect::RankEffect;
use crate::node::record::Record;
use crate::node::requester::Requester;
use crate::node::store::input::StoreInput;
use crate::node::timer::Timer;
use crate::reconfiguration::effects::{Effect, EndCause, Input, Report};
use pcm_proto::app::DaemonToApp;
use pcm_proto::control::{DaemonToControl, Refusal};
use pcm_proto::event::EventKind;
use pcm_proto::ids::{JobId, ProcessId};
use pcm_proto::keeper::ProcessKey;
use pcm_proto::parked::ParkKey;
use pcm_proto::peer::{CoordinatorToNode, JobMessage, NodeToCoordinator};
use pcm_proto::reconfiguration::Attempt;
use pcm_proto::refusal;
use pcm_proto::shortened::Shortened;

impl Node {
    /// Gives an input to a job's reconfigurations and carries out what the job decides.
    pub(in crate::node) fn reform(&mut self, job: JobId, input: Input) {
        tracing::debug!(%job, input = %Shortened(&input));
        self.step(job, at_node::Input::Change(input));
    }

    /// Gives an input to a job and carries out what the job decides.
    pub(in crate::node) fn step(&mut self, job: JobId, input: at_node::Input) {
        let now = self.out.now();
        let Some(known) = self.jobs.get_mut(job) else { return };
        let before = known.machine.coordinator().map(Coordinator::gist);
        let mut step = known.machine.handle(now, input, &self.nodes);
        let is_other = known.machine.coordinator().map(Coordinator::gist) != before;
        self.record_entry(job, &mut step);
        self.finish(job, step);
        if is_other {
            self.leave_will(job);
        }
    }

    /// Writes the entry of a step down, before its first effect.
    pub(in crate::node) fn record_entry(&mut self, job: JobId, step: &mut Step) {
        if let Some(entry) = step.entry.take() {
            self.record(Record::Job {
                job,
                entry: Box::new(entry),
            });
        }
    }

    /// Carries out the effects of a step, and arms the job's timer.
    pub(in crate::node) fn finish(&mut self, job: JobId, step: Step) {
        self.carry_out(job, step.effects);
    }

    pub(in crate::node) fn carry_out(&mut self, job: JobId, effects: Vec<at_node::Effect>) {
        for effect in effects {
            match effect {
                at_node::Effect::Lead(effect) => self.carry_out_lead(job, effect),
                at_node::Effect::Run(effect) => self.carry_out_run(job, effect),
                at_node::Effect::Change(effect) => self.carry_out_change(job, effect),
                at_node::Effect::SendHosts { to, nodes } => {
                    let hosts = nodes.into_iter().map(|node| (node.clone(), self.nodes.host(&node)));
                    let hosts = CoordinatorToNode::Hosts(hosts.collect());
                    self.send_job(&to, job, hosts);
                }
                at_node::Effect::ChangesGivenUp => self.reform_given_up(job),
            }
        }
        self.arm(job);
    }

    fn arm(&mut self, job: JobId) {
        let Some(known) = self.jobs.get_mut(job) else { return };
        let deadline = known.machine.deadline();
        if deadline != known.armed {
            known.armed = deadline;
            if let Some(at) = deadline {
                self.out.arm_at(at, Timer::Job(job));
            }
        }
    }

    pub(in crate::node) fn on_job_timer(&mut self, job: JobId) {
        let now = self.out.now();
        let Some(known) = self.jobs.get_mut(job) else { return };
        known.armed = None;
        let before = known.machine.coordinator().map(Coordinator::gist);
        let mut step = known.machine.tick(now);
        let is_other = known.machine.coordinator().map(Coordinator::gist) != before;
        self.record_entry(job, &mut step);
        self.finish(job, step);
        if is_other {
            self.leave_will(job);
        }
    }

    /// Carries out what a reconfiguration wants.
    fn carry_out_change(&mut self, job: JobId, effect: Effect) {
        tracing::debug!(%job, effect = %Shortened(&effect));
        match effect {
            Effect::Send { to, message } => {
                self.send_job(&to, job, JobMessage::Reconfiguration(Box::new(message)));
            }
            Effect::SetCeiling { process, ceiling } => {
                let key = ProcessKey { job, process };
                self.out.rank(RankEffect::SetCeiling { key, ceiling });
            }
            Effect::LiftCeiling { process } => {
                let key = ProcessKey { job, process };
                self.out.rank(RankEffect::LiftCeiling { key });
            }
            Effect::TellApp { process, order } => {
                self.tell_app(job, process, DaemonToApp::Reconfiguration(order));
            }
            Effect::Salvage { process, attempt } => {
                let key = ParkKey { job, attempt, process };
                self.store_input(StoreInput::Salvage { key });
            }
            Effect::SendAhead { process, attempt } => {
                let key = ParkKey { job, attempt, process };
                self.out.rank(RankEffect::WeighData { key });
            }
            Effect::DropParked { attempt } => self.store_input(StoreInput::DropParked { job, attempt }),
            Effect::EndProcess { process, cause } => self.log_hang(job, process, cause),
            Effect::ArmTimer { timer, after } => self.out.arm(after, Timer::Reform(job, Box::new(timer))),
            Effect::Report(report) => self.on_reform_report(job, report),
            // Settled within the job.
            Effect::Persist(_) | Effect::StartWorld { .. } => {}
        }
    }

    /// A newcomer that is ended may be the one for which a meeting failed.
    fn log_hang(&mut self, job: JobId, process: ProcessId, cause: EndCause) {
        if matches!(cause, EndCause::Aborted | EndCause::LeftLate) {
            let (key, cause) = (ProcessKey { job, process }, format!("{cause:?}"));
            self.out.rank(RankEffect::LogHang { key, cause });
        }
    }

    /// Something about a node concerns every job that has ranks there, or might.
    pub(in crate::node) fn reform_node(&mut self, input: &Input) {
        for job in self.jobs.local_ids() {
            self.reform(job, input.clone());
        }
    }

    fn on_reform_report(&mut self, job: JobId, report: Report) {
        match report {
            // Answered by `ask_reform`.
            Report::Accepted { .. } | Report::Refused(_) => {}
            Report::PhaseBegan { attempt, phase } => {
                tracing::info!(%job, %attempt, phase = phase.as_str(), "reconfiguration");
            }
            Report::Reconfigured { attempt, mut event } => {
                self.on_changed_by_method(job, &mut event);
                let epoch = self.jobs.epoch(job);
                self.note(Some(job), epoch, EventKind::Reconfigured(event.clone()));
                if let Some(from) = self.take_requester(job, attempt) {
                    self.answer(from, DaemonToControl::Reconfigured(event));
                }
            }
            Report::Aborted {
                attempt,
                phase,
                reason,
                followed_by,
            } => {
                tracing::warn!(%job, %attempt, phase = phase.as_str(), ?reason, ?followed_by, "reconfiguration aborted");
                let epoch = self.jobs.epoch(job);
                let given_up = EventKind::GivenUp {
                    phase: phase.as_str().to_owned(),
                    reason: reason.to_string(),
                    again: followed_by.is_some(),
                };
                self.note(Some(job), epoch, given_up);
                let Some(from) = self.take_requester(job, attempt) else {
                    return;
                };
                if let (Some(next), Some(local)) = (followed_by, self.jobs.local_mut(job)) {
                    local.requesters.insert(next, from);
                    return;
                }
                let message = format!(
                    "the reconfiguration was given up while {}: {reason}; job {job} goes on as before",
                    phase.as_str()
                );
                self.answer(from, DaemonToControl::Refused(Refusal::new(refusal::ABORTED, message)));
            }
            // Settled within the job.
            Report::LayoutChanged { .. } => {}
            Report::JobLost { loss } => {
                let Some(part) = self.jobs.part(job) else { return };
                let coordinator = part.coordinator().clone();
                let reason = format!("the job lost what it cannot go on without: {loss}; see `pcmctl events {job}`");
                self.send_job(&coordinator, job, NodeToCoordinator::Lost { reason });
            }
            Report::LeaseTaken { reign } => tracing::info!(%job, ?reign, "holds the job's lease"),
            Report::LeaseLost { reign } => tracing::info!(%job, ?reign, "holds the job's lease no more"),
            Report::EndedHere { loss } => tracing::warn!(%job, ?loss, "the job's processes here are ended"),
            Report::JobBuried { unreachable } => tracing::info!(%job, ?unreachable, "the lost job is buried"),
        }
    }

    /// The job ends under a reconfiguration: whoever asked for it is told.
    pub(in crate::node) fn reform_given_up(&mut self, job: JobId) {
        let asked = self
            .jobs
            .local_mut(job)
            .map(|local| std::mem::take(&mut local.requesters));
        for from in asked.into_iter().flatten().map(|(_, from)| from) {
            let message = format!("job {job} ended before the reconfiguration was done: see `pcmctl events {job}`");
            self.answer(
                from,
                DaemonToControl::Refused(Refusal::new(refusal::JOB_ENDED, message)),
            );
        }
    }

    fn take_requester(&mut self, job: JobId, attempt: Attempt) -> Option<Requester> {
        self.jobs.local_mut(job)?.requesters.remove(&attempt)
    }

    /// A requester wants another layout; this node answers when the layout is there or was given up.
    pub(in crate::node) fn ask_reform(&mut self, from: Requester, job: JobId, input: Input) {
        let now = self.out.now();
        let Some(known) = self.jobs.get_mut(job).filter(|known| known.local.is_some()) else {
            return self.refuse_unknown_job(from, job);
        };
        let mut step = known.machine.handle(now, at_node::Input::Change(input), &self.nodes);
        let verdict = step.effects.iter().find_map(|effect| match effect {
            at_node::Effect::Change(Effect::Report(Report::Accepted { attempt })) => Some(Ok(*attempt)),
            at_node::Effect::Change(Effect::Report(Report::Refused(refused))) => Some(Err(refused.clone())),
            _ => None,
        });
        match verdict {
            Some(Ok(attempt)) => {
                if let Some(local) = &mut known.local {
                    local.requesters.insert(attempt, from);
                }
            }
            Some(Err(refused)) => self.refuse_layout(from, &refused),
            None => {
                let message = format!("job {job} is ending");
                let refusal = Refusal::new(refusal::JOB_ENDED, message);
                self.answer(from, DaemonToControl::Refused(refusal));
            }
        }
        self.record_entry(job, &mut step);
        self.finish(job, step);
    }
}
