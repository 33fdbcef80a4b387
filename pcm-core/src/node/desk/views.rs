//! Views of jobs that are made of what their nodes answer: ranks, calls, stacks, traces, and samples over time.

use super::machine::Desk;
use crate::moment::Moment;
use crate::node::context::Context;
use crate::node::jobs::machine::Jobs;
use crate::node::outbox::Outbox;
use crate::node::queries::{Wanted, rank_rows};
use crate::node::requester::Requester;
use pcm_proto::control::DaemonToControl;
use pcm_proto::event::EventKind;
use pcm_proto::ids::{JobId, NodeName, ProcessId, Rank};
use pcm_proto::job::{JobState, JobStatus, RankStatus};
use pcm_proto::peer::Question;
use pcm_proto::rank_snapshot::RankLook;
use pcm_proto::stack::RankStack;
use std::time::Duration;

/// A node that does not answer within this time has rows without a call.
const RANKS_WITHIN: Duration = Duration::from_millis(500);

/// A node that does not answer within this time is left out of the look.
const LOOK_WITHIN: Duration = Duration::from_secs(1);

/// A node ends the reading of its stacks after nine tenths of this.
const STACKS_WITHIN: Duration = Duration::from_secs(1);

/// A node that does not answer within this time is asked again the next time.
const TRACE_WITHIN: Duration = Duration::from_secs(1);

/// Entries of one answer: at 30 bytes each, a good half of the longest message.
const TRACE_ENTRIES_MAX: u32 = 80_000;

/// A node that answers later is not part of the sample.
const SAMPLE_WITHIN: Duration = Duration::from_millis(800);

impl Desk {
    /// Gathers the rows of `ps`.
    pub(super) fn gather_ps(&self, from: Requester, job: JobId, jobs: &Jobs, cx: &mut Context<'_>) {
        let (Some(status), Some(nodes)) = (job_status(jobs, job), active_nodes(jobs, job)) else {
            return jobs.table.past.refuse_unknown(from, job, cx);
        };
        let wanted = Wanted::Ranks {
            status: Box::new(status),
            ranks: Vec::new(),
        };
        cx.gather(from, wanted, Question::Ranks { job }, nodes, RANKS_WITHIN);
    }

    pub(super) fn answer_ps(
        &self,
        from: Requester,
        status: JobStatus,
        seen: Vec<RankStatus>,
        (jobs, cx): (&Jobs, &mut Context<'_>),
    ) {
        let Some(coordinator) = jobs.table.coordinator(status.job) else {
            return jobs.table.past.refuse_unknown(from, status.job, cx);
        };
        let ranks = rank_rows::with_statuses(coordinator.rank_rows(), seen);
        cx.answer(from, DaemonToControl::Ps { status, ranks });
    }

    /// Gathers the calls and messages of a job's ranks.
    pub(super) fn gather_looks(&self, from: Requester, job: JobId, jobs: &Jobs, cx: &mut Context<'_>) {
        let (Some(coordinator), Some(status)) = (jobs.table.coordinator(job), job_status(jobs, job)) else {
            return jobs.table.past.refuse_unknown(from, job, cx);
        };
        let nodes: Vec<NodeName> = coordinator.nodes_with_output().cloned().collect();
        let wanted = Wanted::Look {
            status: Box::new(status),
            ranks: Vec::new(),
        };
        cx.gather(from, wanted, Question::Look { job }, nodes, LOOK_WITHIN);
    }

    pub(super) fn answer_looks(
        &self,
        from: Requester,
        status: JobStatus,
        seen: Vec<RankLook>,
        (jobs, cx): (&Jobs, &mut Context<'_>),
    ) {
        let Some(coordinator) = jobs.table.coordinator(status.job) else {
            return jobs.table.past.refuse_unknown(from, status.job, cx);
        };
        let ranks = rank_rows::with_looks(coordinator.rank_rows(), seen);
        cx.answer(from, DaemonToControl::Look { status, ranks });
    }

    /// Gathers where a job's ranks are in their programs.
    pub(super) fn gather_stacks(
        &self,
        from: Requester,
        (job, rank): (JobId, Option<Rank>),
        jobs: &Jobs,
        cx: &mut Context<'_>,
    ) {
        let (Some(coordinator), Some(status)) = (jobs.table.coordinator(job), job_status(jobs, job)) else {
            return jobs.table.past.refuse_unknown(from, job, cx);
        };
        let mut wanted = coordinator.rank_rows().filter(|row| Some(row.0) == rank);
        let (process, nodes) = match wanted.next() {
            Some((_, process, node, _)) => (Some(process), vec![node]),
            None => (None, coordinator.active_nodes().cloned().collect()),
        };
        let wanted = Wanted::Stacks {
            status: Box::new(status),
            rank,
            stacks: Vec::new(),
        };
        cx.gather(from, wanted, Question::Stacks { job, process }, nodes, STACKS_WITHIN);
    }

    pub(super) fn answer_stacks(
        &self,
        from: Requester,
        (status, rank): (JobStatus, Option<Rank>),
        seen: Vec<RankStack>,
        (jobs, cx): (&Jobs, &mut Context<'_>),
    ) {
        let Some(coordinator) = jobs.table.coordinator(status.job) else {
            return jobs.table.past.refuse_unknown(from, status.job, cx);
        };
        let wanted = coordinator
            .rank_rows()
            .filter(|row| rank.is_none_or(|rank| row.0 == rank));
        let ranks = rank_rows::with_stacks(wanted, seen);
        cx.answer(from, DaemonToControl::Stacks { status, ranks });
    }

    /// Gathers recorded calls of a job's ranks.
    pub(super) fn gather_traces(
        &self,
        from: Requester,
        job: JobId,
        (after, is_last): (Vec<(ProcessId, u64)>, bool),
        (jobs, cx): (&Jobs, &mut Context<'_>),
    ) {
        let Some(nodes) = active_nodes(jobs, job) else {
            return jobs.table.past.refuse_unknown(from, job, cx);
        };
        let question = Question::Trace {
            job,
            after,
            is_last,
            entries_max: TRACE_ENTRIES_MAX / nodes.len().max(1) as u32,
        };
        cx.gather(from, Wanted::Trace(Vec::new()), question, nodes, TRACE_WITHIN);
    }

    /// Asks the ranks of every running job here for their progress.
    pub(in crate::node) fn sample_jobs(&mut self, jobs: &Jobs, out: &mut Outbox) {
        let running = jobs.table.coordinators();
        let running = running.filter(|(_, coordinator)| coordinator.status().state == JobState::Running);
        for (job, coordinator) in running {
            let nodes: Vec<NodeName> = coordinator.active_nodes().cloned().collect();
            let mut gather = |wanted, question| {
                self.queries
                    .gather(Requester::Nobody, wanted, &question, &nodes, SAMPLE_WITHIN, out);
            };
            if self.series.is_traffic_due(job) {
                let wanted = Wanted::Traffic { job, ranks: Vec::new() };
                gather(wanted, Question::Look { job });
            }
            let wanted = Wanted::Sample { job, ranks: Vec::new() };
            gather(wanted, Question::Ranks { job });
        }
    }

    pub(super) fn on_sampled(&mut self, job: JobId, ranks: &[RankStatus], (jobs, cx): (&Jobs, &mut Context<'_>)) {
        self.look_for_hang(job, ranks, (jobs, cx));
        let statuses = cx.cluster.nodes().statuses(cx.now()).into_iter();
        let loads = statuses.map(|node| (node.name, node.load_by_others)).collect();
        self.series.add_sample(cx.now(), job, ranks, loads);
    }

    /// The ranks of a job that may hang are looked at more closely.
    fn look_for_hang(&mut self, job: JobId, ranks: &[RankStatus], (jobs, cx): (&Jobs, &mut Context<'_>)) {
        self.hangs.keep(|job| jobs.table.coordinator(job).is_some());
        let Some(coordinator) = jobs.table.coordinator(job) else {
            return;
        };
        let size = coordinator.rank_rows().count() as u32;
        if !self.hangs.on_sample(cx.now(), job, size, ranks) {
            return;
        }
        let nodes: Vec<NodeName> = coordinator.active_nodes().cloned().collect();
        let (nobody, process) = (Requester::Nobody, None);
        let ranks = Wanted::HangLook { job, ranks: Vec::new() };
        cx.gather(
            nobody.clone(),
            ranks,
            Question::Look { job },
            nodes.clone(),
            LOOK_WITHIN,
        );
        let stacks = Vec::new();
        let wanted = Wanted::HangStacks { job, stacks };
        cx.gather(nobody, wanted, Question::Stacks { job, process }, nodes, STACKS_WITHIN);
    }

    pub(in crate::node) fn on_hang_look(
        &mut self,
        job: JobId,
        seen: Vec<RankLook>,
        jobs: &Jobs,
        now: Moment,
    ) -> Option<EventKind> {
        let coordinator = jobs.table.coordinator(job)?;
        let looks = rank_rows::with_looks(coordinator.rank_rows(), seen);
        self.hangs.on_looks(now, job, looks)
    }

    pub(in crate::node) fn on_hang_stacks(
        &mut self,
        job: JobId,
        seen: Vec<RankStack>,
        jobs: &Jobs,
        now: Moment,
    ) -> Option<EventKind> {
        let coordinator = jobs.table.coordinator(job)?;
        let stacks = rank_rows::with_stacks(coordinator.rank_rows(), seen);
        self.hangs.on_stacks(now, job, stacks)
    }

    pub(super) fn answer_series(&self, from: Requester, job: JobId, jobs: &Jobs, cx: &mut Context<'_>) {
        let status = job_status(jobs, job).or_else(|| jobs.table.past.find(job).cloned());
        let Some(status) = status else {
            return jobs.table.past.refuse_unknown(from, job, cx);
        };
        let series = Box::new(self.series.of(job));
        cx.answer(from, DaemonToControl::Series { status, series });
    }
}

fn active_nodes(jobs: &Jobs, job: JobId) -> Option<Vec<NodeName>> {
    Some(jobs.table.coordinator(job)?.active_nodes().cloned().collect())
}

/// How a job is that is led from here.
fn job_status(jobs: &Jobs, job: JobId) -> Option<JobStatus> {
    let machine = &jobs.table.get(job)?.machine;
    let mut status = jobs.table.status(job)?;
    if status.state == JobState::Running && machine.is_reconfiguring() {
        status.state = JobState::Reconfiguring;
    }
    Some(status)
}
