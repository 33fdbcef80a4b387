//! Drives this daemon's part in the reconfigurations of each job: what the machine of [`crate::reconfiguration`]
//! decides is carried out here in its order, the record first.

use crate::job::at_node;
use crate::node::context::Context;
use crate::node::jobs::machine::Jobs;
use crate::node::ranks::effect::RankEffect;
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
use pcm_proto::peer::{JobMessage, NodeToCoordinator};
use pcm_proto::reconfiguration::Attempt;
use pcm_proto::refusal;
use pcm_proto::shortened::Shortened;

impl Jobs {
    /// Carries out what a reconfiguration wants.
    pub(super) fn carry_out_change(&mut self, job: JobId, effect: Effect, cx: &mut Context<'_>) {
        tracing::debug!(%job, effect = %Shortened(&effect));
        match effect {
            Effect::Send { to, message } => {
                cx.send_job(&to, job, JobMessage::Reconfiguration(Box::new(message)));
            }
            Effect::SetCeiling { process, ceiling } => {
                let key = ProcessKey { job, process };
                cx.out.rank(RankEffect::SetCeiling { key, ceiling });
            }
            Effect::LiftCeiling { process } => {
                let key = ProcessKey { job, process };
                cx.out.rank(RankEffect::LiftCeiling { key });
            }
            Effect::TellApp { process, order } => {
                self.tell_app(job, process, DaemonToApp::Reconfiguration(order), cx);
            }
            Effect::Salvage { process, attempt } => {
                let key = ParkKey { job, attempt, process };
                cx.store(StoreInput::Salvage { key });
            }
            Effect::SendAhead { process, attempt } => {
                let key = ParkKey { job, attempt, process };
                cx.out.rank(RankEffect::WeighData { key });
            }
            Effect::DropParked { attempt } => cx.store(StoreInput::DropParked { job, attempt }),
            Effect::EndProcess { process, cause } => self.log_hang(job, process, cause, cx),
            Effect::ArmTimer { timer, after } => cx.out.arm(after, Timer::Reform(job, Box::new(timer))),
            Effect::Report(report) => self.on_reform_report(job, report, cx),
            // Settled within the job.
            Effect::Persist(_) | Effect::StartWorld { .. } => {}
        }
    }

    /// A newcomer that is ended may be the one for which a meeting failed.
    fn log_hang(&mut self, job: JobId, process: ProcessId, cause: EndCause, cx: &mut Context<'_>) {
        if matches!(cause, EndCause::Aborted | EndCause::LeftLate) {
            let (key, cause) = (ProcessKey { job, process }, format!("{cause:?}"));
            cx.out.rank(RankEffect::LogHang { key, cause });
        }
    }

    fn on_reform_report(&mut self, job: JobId, report: Report, cx: &mut Context<'_>) {
        match report {
            // Answered by `ask_reform`.
            Report::Accepted { .. } | Report::Refused(_) => {}
            Report::PhaseBegan { attempt, phase } => {
                tracing::info!(%job, %attempt, phase = phase.as_str(), "reconfiguration");
            }
            Report::Reconfigured { attempt, mut event } => {
                self.on_changed_by_method(job, &mut event, cx);
                let epoch = self.table.epoch(job);
                cx.note(Some(job), epoch, EventKind::Reconfigured(event.clone()));
                if let Some(from) = self.take_requester(job, attempt) {
                    cx.answer(from, DaemonToControl::Reconfigured(event));
                }
            }
            Report::Aborted {
                attempt,
                phase,
                reason,
                followed_by,
            } => {
                tracing::warn!(%job, %attempt, phase = phase.as_str(), ?reason, ?followed_by, "reconfiguration aborted");
                let epoch = self.table.epoch(job);
                let given_up = EventKind::GivenUp {
                    phase: phase.as_str().to_owned(),
                    reason: reason.to_string(),
                    again: followed_by.is_some(),
                };
                cx.note(Some(job), epoch, given_up);
                let Some(from) = self.take_requester(job, attempt) else {
                    return;
                };
                if let (Some(next), Some(local)) = (followed_by, self.table.local_mut(job)) {
                    local.requesters.insert(next, from);
                    return;
                }
                let message = format!(
                    "the reconfiguration was given up while {}: {reason}; job {job} goes on as before",
                    phase.as_str()
                );
                cx.answer(from, DaemonToControl::Refused(Refusal::new(refusal::ABORTED, message)));
            }
            // Settled within the job.
            Report::LayoutChanged { .. } => {}
            Report::JobLost { loss } => {
                let Some(part) = self.table.part(job) else { return };
                let coordinator = part.coordinator().clone();
                let reason = format!("the job lost what it cannot go on without: {loss}; see `pcmctl events {job}`");
                cx.send_job(&coordinator, job, NodeToCoordinator::Lost { reason });
            }
            Report::LeaseTaken { reign } => tracing::info!(%job, ?reign, "holds the job's lease"),
            Report::LeaseLost { reign } => tracing::info!(%job, ?reign, "holds the job's lease no more"),
            Report::EndedHere { loss } => tracing::warn!(%job, ?loss, "the job's processes here are ended"),
            Report::JobBuried { unreachable } => tracing::info!(%job, ?unreachable, "the lost job is buried"),
        }
    }

    /// The job ends under a reconfiguration: whoever asked for it is told.
    pub(super) fn reform_given_up(&mut self, job: JobId, cx: &mut Context<'_>) {
        let asked = self
            .table
            .local_mut(job)
            .map(|local| std::mem::take(&mut local.requesters));
        for from in asked.into_iter().flatten().map(|(_, from)| from) {
            let message = format!("job {job} ended before the reconfiguration was done: see `pcmctl events {job}`");
            cx.answer(
                from,
                DaemonToControl::Refused(Refusal::new(refusal::JOB_ENDED, message)),
            );
        }
    }

    fn take_requester(&mut self, job: JobId, attempt: Attempt) -> Option<Requester> {
        self.table.local_mut(job)?.requesters.remove(&attempt)
    }

    /// A requester wants another layout; this node answers when the layout is there or was given up.
    pub(in crate::node) fn ask_reform(&mut self, from: Requester, job: JobId, input: Input, cx: &mut Context<'_>) {
        let now = cx.now();
        let Some(known) = self.table.get_mut(job).filter(|known| known.local.is_some()) else {
            return self.refuse_unknown(from, job, cx);
        };
        let step = known
            .machine
            .handle(now, at_node::Input::Change(input), cx.cluster.nodes());
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
            Some(Err(refused)) => self.refuse_layout(from, &refused, cx),
            None => {
                let message = format!("job {job} is ending");
                let refusal = Refusal::new(refusal::JOB_ENDED, message);
                cx.answer(from, DaemonToControl::Refused(refusal));
            }
        }
        self.finish(job, step, cx);
    }
}
