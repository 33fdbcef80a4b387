//! Drives this daemon's part in the reconfigurations of each job: what the machine of [`crate::reconfiguration`]
//! decides is carried out here in its order, the record first.

use super::standbys;
use super::table::Job;
use crate::job::at_node::{self, Step};
use crate::job::coordinator::Coordinator;
use crate::node::context::Context;
use crate::node::methods::MethodBook;
use crate::node::ranks::effect::RankEffect;
use crate::node::requester::Requester;
use crate::node::store::input::StoreInput;
use crate::node::timer::{JobTimer, Timer};
use crate::reconfiguration::effects::{Effect, EndCause, Input, Report};
use pcm_proto::app::DaemonToApp;
use pcm_proto::control::{DaemonToControl, Refusal};
use pcm_proto::event::EventKind;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::outcome::Loss;
use pcm_proto::parked::ParkKey;
use pcm_proto::peer::{JobMessage, NodeToCoordinator};
use pcm_proto::reconfiguration::Attempt;
use pcm_proto::refusal;
use pcm_proto::shortened::Shortened;

impl Job {
    /// Another layout is wanted; its requester is answered when it is there or was given up, or now.
    pub(super) fn ask_change(&mut self, from: Requester, input: Input, cx: &mut Context<'_>) -> Step {
        let step = self
            .machine
            .handle(cx.now(), at_node::Input::Change(input), cx.cluster.nodes());
        let verdict = step.effects.iter().find_map(|effect| match effect {
            at_node::Effect::Change(Effect::Report(Report::Accepted { attempt })) => Some(Ok(*attempt)),
            at_node::Effect::Change(Effect::Report(Report::Refused(refused))) => {
                Some(Err(Refusal::new(refused.code(), refused.to_string())))
            }
            _ => None,
        });
        let refusal = match verdict {
            Some(Ok(attempt)) => {
                if let Some(local) = &mut self.local {
                    local.requesters.insert(attempt, from);
                }
                return step;
            }
            Some(Err(refusal)) => refusal,
            None => self.refusal_while_ranks_end(),
        };
        cx.answer(from, DaemonToControl::Refused(refusal));
        step
    }

    /// Carries out what a reconfiguration wants.
    pub(super) fn carry_out_change(&mut self, effect: Effect, cx: &mut Context<'_>) {
        let job = self.id;
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
                cx.out.rank(RankEffect::Tell {
                    key: ProcessKey { job, process },
                    message: Box::new(DaemonToApp::Reconfiguration(order)),
                    memory: None,
                });
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
            Effect::EndProcess { process, cause } => log_hang(ProcessKey { job, process }, cause, cx),
            Effect::ArmTimer { timer, after } => cx.out.arm(after, Timer::Job(job, JobTimer::Reform(Box::new(timer)))),
            Effect::Report(report) => self.on_report(report, cx),
            // Settled within the job.
            Effect::Persist(_) | Effect::StartWorld { .. } => {}
        }
    }

    fn say_lost(&self, loss: &Loss, cx: &mut Context<'_>) {
        let (job, Some(part)) = (self.id, self.machine.part()) else {
            return;
        };
        let reason = format!("the job lost what it cannot go on without: {loss}; see `pcmctl events {job}`");
        let lost = match *loss {
            Loss::ProcessDied { process } => NodeToCoordinator::LostWith { process, reason },
            _ => NodeToCoordinator::Lost { reason },
        };
        let coordinator = part.coordinator().clone();
        cx.send_job(&coordinator, job, lost);
    }

    fn on_report(&mut self, report: Report, cx: &mut Context<'_>) {
        let (job, epoch) = (
            self.id,
            self.machine.coordinator().map(Coordinator::epoch).unwrap_or_default(),
        );
        match report {
            // Answered by `ask_change`.
            Report::Accepted { .. } | Report::Refused(_) => {}
            Report::PhaseBegan { attempt, phase } => {
                tracing::info!(%job, %attempt, phase = phase.as_str(), "reconfiguration");
            }
            Report::Reconfigured { attempt, mut event } => {
                let chosen = self.led.as_mut().and_then(|led| led.chosen.take());
                MethodBook::on_changed(chosen, &mut event, cx.out);
                if let (Some(coordinator), Some(led)) = (self.machine.coordinator(), &mut self.led) {
                    standbys::on_changed(led, job, coordinator.spec(), cx);
                }
                cx.note(Some(job), epoch, EventKind::Reconfigured(event.clone()));
                if let Some(from) = self.take_requester(attempt) {
                    cx.answer(from, DaemonToControl::Reconfigured(event));
                }
            }
            Report::Aborted {
                attempt,
                phase,
                reason,
                followed_by,
            } => {
                let phase_name = phase.as_str();
                tracing::warn!(%job, %attempt, phase_name, ?reason, ?followed_by, "reconfiguration aborted");
                let job_ends = reason.is_end_of_job();
                let given_up = EventKind::GivenUp {
                    phase: phase.as_str().to_owned(),
                    reason: reason.to_string(),
                    again: followed_by.is_some(),
                    job_ends,
                };
                cx.note(Some(job), epoch, given_up);
                let Some(from) = self.take_requester(attempt) else {
                    return;
                };
                if let (Some(next), Some(local)) = (followed_by, &mut self.local) {
                    local.requesters.insert(next, from);
                    return;
                }
                let then = match job_ends {
                    true => format!("job {job} ends with the ranks it has"),
                    false => format!("job {job} goes on as before"),
                };
                let message = format!(
                    "the reconfiguration was given up while {}: {reason}; {then}",
                    phase.as_str()
                );
                cx.answer(from, DaemonToControl::Refused(Refusal::new(refusal::ABORTED, message)));
            }
            // Settled within the job.
            Report::LayoutChanged { .. } => {}
            Report::JobLost { loss } => self.say_lost(&loss, cx),
            Report::LeaseTaken { reign } => tracing::info!(%job, ?reign, "holds the job's lease"),
            Report::LeaseLost { reign } => tracing::info!(%job, ?reign, "holds the job's lease no more"),
            Report::EndedHere { loss } => tracing::warn!(%job, ?loss, "the job's processes here are ended"),
            Report::JobBuried { unreachable } => tracing::info!(%job, ?unreachable, "the lost job is buried"),
        }
    }

    /// The job's ranks are ended under a reconfiguration: answers those who asked for it.
    pub(super) fn give_up_changes(&mut self, cx: &mut Context<'_>) {
        let refused = self.refusal_while_ranks_end();
        let asked = self.local.as_mut().map(|local| std::mem::take(&mut local.requesters));
        for (_, from) in asked.into_iter().flatten() {
            cx.answer(from, DaemonToControl::Refused(refused.clone()));
        }
    }

    /// Why nothing comes of a reconfiguration of a job whose ranks are being ended: the job ends, or starts again.
    pub(super) fn refusal_while_ranks_end(&self) -> Refusal {
        let job = self.id;
        let (code, message) = match self.machine.coordinator().map(Coordinator::decided_end) {
            Some(None) => (
                refusal::JOB_RESTARTED,
                format!(
                    "job {job} starts again from its newest checkpoint: see `pcmctl events {job}`, and ask again when \
                     its ranks iterate"
                ),
            ),
            _ => (
                refusal::JOB_ENDED,
                format!("job {job} ended before the reconfiguration was done: see `pcmctl events {job}`"),
            ),
        };
        Refusal::new(code, message)
    }

    fn take_requester(&mut self, attempt: Attempt) -> Option<Requester> {
        self.local.as_mut()?.requesters.remove(&attempt)
    }
}

/// A newcomer that is ended may be the one for which a meeting failed.
fn log_hang(key: ProcessKey, cause: EndCause, cx: &mut Context<'_>) {
    if matches!(cause, EndCause::Aborted | EndCause::LeftLate) {
        let cause = format!("{cause:?}");
        cx.out.rank(RankEffect::LogHang { key, cause });
    }
}
