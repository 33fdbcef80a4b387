//! One step of the store: what it reads of other parts of the node, and the words it says. Owns nothing.

use super::effect::StoreEffect;
use super::image_key::ImageKey;
use crate::job::participant::Local;
use crate::node::memory::MemoryFile;
use crate::node::outbox::{Effect, Inward, Outbox};
use crate::node::ranks::effect::RankEffect;
use crate::node::reach::RdmaReach;
use crate::reconfiguration::effects::Input;
use pcm_proto::app::DaemonToApp;
use pcm_proto::checkpoint::{CheckpointMessage, Restores};
use pcm_proto::event::EventKind;
use pcm_proto::ids::{Epoch, JobId, NodeName, ProcessId};
use pcm_proto::image::ImageMessage;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::layout::{Layout, Mode, Plan};
use pcm_proto::parked::{Asked, ParkKey, RestoreAnswer};
use pcm_proto::peer::JobMessage;
use pcm_proto::reconfiguration::{Attempt, ReconfigurationReport, Trouble};
use std::collections::BTreeMap;

/// What the store reads of this node's part of a job.
#[derive(Clone, Copy, Debug)]
pub struct JobFacts<'a> {
    pub coordinator: &'a NodeName,
    pub is_ending: bool,
    /// The reconfiguration that this node takes part in.
    pub engaged: Option<(Attempt, &'a Plan)>,
    pub layout: Option<&'a Layout>,
    pub processes: &'a BTreeMap<ProcessId, Local>,
    /// The checkpoint that the present processes go on from.
    pub restores: Option<&'a Restores>,
}

impl JobFacts<'_> {
    /// Whether a process of the job is alive here.
    pub(super) fn has_process(&self) -> bool {
        self.processes.values().any(Local::is_alive)
    }
}

/// What the store reads of other parts of the node.
pub trait Surroundings {
    /// This node's part of a job, if it has one.
    fn job(&self, job: JobId) -> Option<JobFacts<'_>>;
    fn is_live(&self, node: &NodeName) -> bool;
    fn is_same_host(&self, node: &NodeName) -> bool;
    fn rdma_reach(&self, node: &NodeName) -> RdmaReach;
}

/// One step of the store.
pub(super) struct Step<'a> {
    pub(super) around: &'a dyn Surroundings,
    pub(super) out: &'a mut Outbox,
}

impl<'a> Step<'a> {
    /// The reconfiguration of a job that this node takes part in.
    pub(super) fn engaged(&self, job: JobId) -> Option<(Attempt, &'a Plan)> {
        self.around.job(job)?.engaged
    }

    /// The same, if it is a relaunch.
    pub(super) fn relaunch(&self, job: JobId) -> Option<(Attempt, &'a Plan)> {
        self.engaged(job).filter(|(_, plan)| plan.mode == Mode::Relaunch)
    }

    /// What a process of a job has to do for an attempt failed.
    pub(super) fn report_failed(&mut self, key: ParkKey, trouble: Trouble, reason: String) {
        let ParkKey { job, attempt, process } = key;
        let report = ReconfigurationReport::Failed {
            attempt,
            trouble,
            reason,
        };
        self.reconfigure(job, Input::Report { process, report });
    }

    pub(super) fn push(&mut self, effect: StoreEffect) {
        self.out.push(Effect::Store(effect));
    }

    pub(super) fn release(&mut self, memories: impl IntoIterator<Item = MemoryFile>) {
        let memories: Vec<_> = memories.into_iter().map(|memory| memory.id).collect();
        if !memories.is_empty() {
            self.push(StoreEffect::Release { memories });
        }
    }

    pub(super) fn reconfigure(&mut self, job: JobId, input: Input) {
        let input = Box::new(input);
        self.out.inward(Inward::Reconfigure { job, input });
    }

    pub(super) fn say_of_image(&mut self, node: &NodeName, key: ImageKey, message: ImageMessage) {
        let ImageKey { job, name } = key;
        self.out.send_job(node, job, JobMessage::Image { name, message });
    }

    pub(super) fn say_checkpoint(&mut self, node: &NodeName, job: JobId, message: CheckpointMessage) {
        self.out.send_job(node, job, JobMessage::Checkpoint(Box::new(message)));
    }

    pub(super) fn tell(&mut self, key: ProcessKey, message: DaemonToApp) {
        let message = Box::new(message);
        self.out.rank(RankEffect::Tell {
            key,
            message,
            memory: None,
        });
    }

    /// Gives an image to a rank that asked for it.
    pub(super) fn hand(&mut self, key: ProcessKey, asked: Asked, attempt: Option<Attempt>, memory: MemoryFile) {
        let MemoryFile { id, bytes } = memory;
        let message = Box::new(DaemonToApp::Restore(RestoreAnswer::Image { attempt, asked, bytes }));
        let memory = Some(id);
        self.out.rank(RankEffect::Tell { key, message, memory });
    }

    /// Tells a rank that what it asked for cannot be had.
    pub(super) fn tell_lost(&mut self, key: ProcessKey, asked: Asked, attempt: Option<Attempt>, reason: String) {
        tracing::error!(
            job = %key.job,
            process = %key.process,
            rank = %asked.rank,
            reason,
            "data of another rank cannot be had"
        );
        self.tell(
            key,
            DaemonToApp::Restore(RestoreAnswer::Lost { attempt, asked, reason }),
        );
    }

    pub(super) fn note(&mut self, job: JobId, epoch: Epoch, kind: EventKind) {
        tracing::info!(job = job.0, ?kind, "event");
        self.out.note(Some(job), epoch, kind);
    }
}
