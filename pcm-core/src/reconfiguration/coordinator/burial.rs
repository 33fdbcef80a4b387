//! The end of a job that cannot go on: every process of it is ended on every node, so that whoever restarts it from a
//! checkpoint starts on clean ground.

use super::super::effects::{Report, Timer};
use super::super::step::Step;
use super::state::{Coordinator, State};
use crate::moment::micros;
use pcm_proto::ids::{Epoch, NodeName};
use pcm_proto::reconfiguration::{LeaseMessage, Loss, ReconfigurationMessage, Reign};
use std::collections::BTreeSet;

impl Coordinator {
    /// Gives the job up.
    pub(super) fn bury(&mut self, step: &mut Step<'_>, loss: Loss) {
        let mut nodes: BTreeSet<NodeName> = BTreeSet::from([step.me.clone()]);
        let record = &step.record;
        nodes.extend(record.layout.iter().flat_map(|l| l.voters()));
        nodes.extend(record.engaged.iter().flat_map(|e| e.plan.participants()));
        match &self.state {
            State::Running(run) => nodes.extend(run.course.participants.iter().cloned()),
            State::Closing(close) => nodes.extend(close.course.participants.iter().cloned()),
            State::Resolving(resolve) => nodes.extend(resolve.plan.participants()),
            State::Idle | State::Burying { .. } => {}
        }
        step.report(Report::JobLost { loss: loss.clone() });
        self.state = State::Burying { loss, waiting: nodes };
        self.repeat_burial(step, 0);
    }

    fn repeat_burial(&mut self, step: &mut Step<'_>, times: u32) {
        let State::Burying { loss, waiting } = &self.state else {
            return;
        };
        let reign = step.record.promised;
        for node in waiting {
            step.send(
                node,
                ReconfigurationMessage::Bury {
                    reign,
                    loss: loss.clone(),
                },
            );
        }
        let every = step.limits.resend_every;
        step.arm(
            Timer::BuryAgain {
                reign,
                times: times + 1,
            },
            every,
        );
    }

    pub(in super::super) fn on_bury_timer(&mut self, step: &mut Step<'_>, reign: Reign, times: u32) {
        let State::Burying { waiting, .. } = &self.state else {
            step.dropped.stale_timer += 1;
            return;
        };
        if waiting.is_empty() || reign != step.record.promised {
            step.dropped.stale_timer += 1;
            return;
        }
        let passed = micros(step.limits.resend_every).saturating_mul(u64::from(times));
        if passed >= micros(step.limits.close_max) {
            let unreachable = waiting.iter().cloned().collect();
            return step.report(Report::JobBuried { unreachable });
        }
        self.repeat_burial(step, times);
    }

    /// A node has ended its processes of the job.
    pub(in super::super) fn on_buried(&mut self, step: &mut Step<'_>, from: &NodeName) {
        let State::Burying { waiting, .. } = &mut self.state else {
            step.dropped.unexpected += 1;
            return;
        };
        if waiting.remove(from) && waiting.is_empty() {
            step.report(Report::JobBuried {
                unreachable: Vec::new(),
            });
        }
    }

    /// A participant has lost something that cannot be replaced.
    pub(in super::super) fn on_lost(&mut self, step: &mut Step<'_>, from: &NodeName, epoch: Epoch, loss: Loss) {
        if !step.record.is_holder() {
            let (reign, holder) = (step.record.promised, step.record.holder.clone());
            return step.send(
                from,
                ReconfigurationMessage::Lease(LeaseMessage::Stale { reign, holder }),
            );
        }
        if epoch < step.record.epoch() {
            // It speaks of a layout that is no longer the job's; it has not heard.
            step.dropped.stale_attempt += 1;
            if let Some((attempt, decision)) = step.record.decided.clone() {
                step.send_decided(from, attempt, decision, false);
            }
            return;
        }
        if matches!(self.state, State::Burying { .. }) {
            return self.bury_there(step, from);
        }
        self.bury(step, loss);
    }

    /// Tells one node that the job is lost, if it is.
    pub(in super::super) fn bury_there(&mut self, step: &mut Step<'_>, node: &NodeName) {
        if let State::Burying { loss, .. } = &self.state {
            let (reign, loss) = (step.record.promised, loss.clone());
            step.send(node, ReconfigurationMessage::Bury { reign, loss });
        }
    }
}
