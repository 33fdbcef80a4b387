//! Ranks of Open MPI in a job's part here: they start when PMIx is served to them, and end when that has heard of it.

use super::machine::Jobs;
use super::table::{Job, Table};
use crate::job::participant::{self, LocalState, Participant};
use crate::mpi_settings::is_of_open_mpi;
use crate::node::context::Context;
use crate::node::pmix::effect::{HelperId, PmixNews};
use crate::node::pmix::part::{Follow, PmixPart, Start};
use pcm_proto::ids::{Epoch, JobId, NodeName, ProcessId, WorldId};
use pcm_proto::keeper::{ExitStatus, ProcessKey};
use pcm_proto::peer::{JobMessage, NodeToCoordinator};
use pcm_proto::pmix::PmixMessage;
use std::collections::BTreeMap;

/// Processes of a job that the keeper holds, with how they ended.
type Held = BTreeMap<ProcessId, (u32, Option<ExitStatus>)>;

impl Job {
    /// The part of the job here and what serves PMIx to it, if its ranks call Open MPI.
    fn pmix(&mut self, cx: &Context<'_>) -> Option<(&Participant, &mut PmixPart)> {
        let part = self.machine.part().filter(|part| is_of_open_mpi(part.spec()))?;
        let helper = HelperId {
            job: self.id,
            life: part.life(),
        };
        let new = || PmixPart::new(helper, cx.own());
        Some((part, self.local.as_mut()?.pmix.get_or_insert_with(new)))
    }

    /// What a process of Open MPI waits for, or gets; nothing for one of another MPI.
    pub(super) fn start_with_pmix(&mut self, process: ProcessId, cx: &mut Context<'_>) -> Option<Start> {
        let (part, pmix) = self.pmix(cx)?;
        Some(pmix.on_start(process, part, cx.settings, cx.out))
    }

    /// Says again to a node what it may have missed.
    pub(super) fn say_pmix_again(&mut self, node: &NodeName, cx: &mut Context<'_>) {
        if let Some((_, pmix)) = self.pmix(cx) {
            pmix.on_linked(node, cx.out);
        }
    }

    /// A process of Open MPI hears what became of its spawn; what the job hears next.
    pub(super) fn say_spawned(
        &mut self,
        asked: (ProcessId, u64),
        world: Option<WorldId>,
        cx: &mut Context<'_>,
    ) -> Option<participant::Input> {
        let (_, pmix) = self.pmix(cx)?;
        pmix.on_spawn_answered(asked, world, cx.settings, cx.out)
    }

    /// The daemon started again, and may find what serves PMIx.
    pub(super) fn resume_pmix(&mut self, cx: &mut Context<'_>) {
        if let Some((part, pmix)) = self.pmix(cx) {
            pmix.resume(part, cx.settings, cx.out);
        }
    }

    /// Takes out the ends that the job hears of when what serves PMIx has said what the processes said before.
    pub(super) fn take_ends(&self, held: &mut Held) -> Vec<(ProcessId, ExitStatus)> {
        let part = self.machine.part().filter(|part| is_of_open_mpi(part.spec()));
        let Some(part) = part else { return Vec::new() };
        let is_known = |process: &ProcessId| {
            let local = part.processes().get(process);
            local.is_some_and(|local| matches!(local.state, LocalState::Running { .. } | LocalState::Starting))
        };
        let ended = held.iter_mut().filter(|(process, _)| is_known(process));
        ended
            .filter_map(|(process, (_, ended))| Some((*process, ended.take()?)))
            .collect()
    }
}

impl Table {
    /// Whether the job hears of the end of a process later.
    pub(super) fn holds_end(&mut self, key: ProcessKey, status: ExitStatus, cx: &mut Context<'_>) -> bool {
        let known = self.get_mut(key.job);
        let pmix = known.and_then(|known| known.pmix(cx));
        pmix.is_some_and(|(part, pmix)| pmix.holds_end(key.process, status, part, cx.out))
    }

    fn lose_job(&self, job: JobId, reason: String, cx: &mut Context<'_>) {
        if let Some(part) = self.part(job) {
            let coordinator = part.coordinator().clone();
            cx.send_job(&coordinator, job, NodeToCoordinator::Lost { reason });
        }
    }
}

impl Jobs {
    /// What serves PMIx says something, or ended.
    pub(super) fn on_pmix_news(&mut self, helper: HelperId, news: PmixNews, cx: &mut Context<'_>) {
        let job = helper.job;
        let known = self.table.get_mut(job).and_then(|known| known.pmix(cx));
        let Some((part, pmix)) = known.filter(|(part, _)| part.life() == helper.life) else {
            return;
        };
        for follow in pmix.on_news(news, part, cx.out) {
            self.follow_pmix(job, follow, cx);
        }
    }

    fn follow_pmix(&mut self, job: JobId, follow: Follow, cx: &mut Context<'_>) {
        match follow {
            Follow::Launch(process) => {
                let part = self.table.part(job).filter(|part| !part.is_ending());
                let local = part.and_then(|part| part.processes().get(&process));
                match local.filter(|local| local.state == LocalState::Starting) {
                    Some(local) if local.is_leaving() => {
                        // The order to end it came while it waited.
                        let reason = "it was not wanted any more".to_owned();
                        self.table.refuse_start(job, process, reason, cx);
                    }
                    Some(_) => self.table.launch(job, process, cx),
                    None => {}
                }
            }
            Follow::Run(input) => self.table.participate(job, input, cx),
            Follow::Ended(process, status) => self.end_heard(ProcessKey { job, process }, status, cx),
            Follow::Lost { reason } => self.table.lose_job(job, reason, cx),
        }
    }

    /// Another node says something for what serves PMIx here.
    pub(super) fn on_pmix_message(
        &mut self,
        job: JobId,
        (node, life): (&NodeName, Epoch),
        message: PmixMessage,
        cx: &mut Context<'_>,
    ) {
        let known = self.table.part(job).map(Participant::life);
        if known.is_none_or(|known| known < life) {
            return self.keep_early(job, node, JobMessage::Pmix { life, message });
        }
        let known = self.table.get_mut(job).and_then(|known| known.pmix(cx));
        let Some((part, pmix)) = known.filter(|(part, _)| part.life() == life) else {
            return;
        };
        pmix.on_message(node, message, (part, cx.settings), cx.out);
    }
}
