//! Views of a job that are gathered from its nodes: ranks, looks, recorded calls, series. Only the job's coordinator
//! gathers them; the pages are read where the ranks are.

use crate::node::machine::Node;
use crate::node::queries::{Wanted, rank_rows};
use crate::node::requester::Requester;
use pcm_proto::control::DaemonToControl;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::job::{JobState, JobStatus, RankStatus};
use pcm_proto::look::RankLook;
use pcm_proto::peer::Question;
use std::time::Duration;

/// A node that does not answer within this time has rows without a call.
const RANKS_WITHIN: Duration = Duration::from_millis(500);

/// A node that does not answer within this time is left out of the look.
const LOOK_WITHIN: Duration = Duration::from_secs(1);

/// A node that does not answer within this time is asked again the next time.
const TRACE_WITHIN: Duration = Duration::from_secs(1);

/// Entries of one answer: at 30 bytes each, a good half of the longest message.
const TRACE_ENTRIES_MAX: u32 = 80_000;

/// A node that answers later is not part of the sample.
const SAMPLE_WITHIN: Duration = Duration::from_millis(800);

impl Node {
    pub(in crate::node) fn gather_ps(&mut self, from: Requester, job: JobId) {
        let Some((status, nodes)) = self.status_and_nodes(job) else {
            return self.refuse_unknown_job(from, job);
        };
        let wanted = Wanted::Ranks {
            status,
            ranks: Vec::new(),
        };
        let question = Question::Ranks { job };
        self.queries
            .gather(from, wanted, &question, &nodes, RANKS_WITHIN, &mut self.out);
    }

    fn status_and_nodes(&self, job: JobId) -> Option<(Box<JobStatus>, Vec<NodeName>)> {
        let nodes = self.jobs.coordinator(job)?.active_nodes().cloned().collect();
        Some((Box::new(self.job_status(job)?), nodes))
    }

    pub(in crate::node) fn answer_ps(&mut self, from: Requester, status: JobStatus, seen: Vec<RankStatus>) {
        let Some(coordinator) = self.jobs.coordinator(status.job) else {
            return self.refuse_unknown_job(from, status.job);
        };
        let ranks = rank_rows::with_statuses(coordinator.rank_rows(), seen);
        self.out.answer(from, DaemonToControl::Ps { status, ranks });
    }

    pub(in crate::node) fn gather_looks(&mut self, from: Requester, job: JobId) {
        let (Some(coordinator), Some(status)) = (self.jobs.coordinator(job), self.job_status(job)) else {
            return self.refuse_unknown_job(from, job);
        };
        let nodes: Vec<NodeName> = coordinator.nodes_with_output().cloned().collect();
        let wanted = Wanted::Look {
            status: Box::new(status),
            ranks: Vec::new(),
        };
        let question = Question::Look { job };
        self.queries
            .gather(from, wanted, &question, &nodes, LOOK_WITHIN, &mut self.out);
    }

    pub(in crate::node) fn answer_looks(&mut self, from: Requester, status: JobStatus, seen: Vec<RankLook>) {
        let Some(coordinator) = self.jobs.coordinator(status.job) else {
            return self.refuse_unknown_job(from, status.job);
        };
        let ranks = rank_rows::with_looks(coordinator.rank_rows(), seen);
        self.out.answer(from, DaemonToControl::Look { status, ranks });
    }

    pub(in crate::node) fn gather_traces(
        &mut self,
        from: Requester,
        job: JobId,
        after: Vec<(ProcessId, u64)>,
        is_last: bool,
    ) {
        let Some((_, nodes)) = self.status_and_nodes(job) else {
            return self.refuse_unknown_job(from, job);
        };
        let question = Question::Trace {
            job,
            after,
            is_last,
            entries_max: TRACE_ENTRIES_MAX / nodes.len().max(1) as u32,
        };
        let wanted = Wanted::Trace(Vec::new());
        self.queries
            .gather(from, wanted, &question, &nodes, TRACE_WITHIN, &mut self.out);
    }

    /// Asks the ranks of every job here for their progress.
    pub(in crate::node) fn sample_jobs(&mut self) {
        let running = self.jobs.coordinators();
        let running = running.filter(|(_, coordinator)| coordinator.status().state == JobState::Running);
        let asked: Vec<(JobId, Vec<NodeName>)> = running
            .map(|(job, coordinator)| (job, coordinator.active_nodes().cloned().collect()))
            .collect();
        for (job, nodes) in asked {
            let mut gather = |wanted, question| {
                let (within, out) = (SAMPLE_WITHIN, &mut self.out);
                self.queries
                    .gather(Requester::Nobody, wanted, &question, &nodes, within, out);
            };
            if self.series.is_traffic_due(job) {
                let wanted = Wanted::Traffic { job, ranks: Vec::new() };
                gather(wanted, Question::Look { job });
            }
            let wanted = Wanted::Sample { job, ranks: Vec::new() };
            gather(wanted, Question::Ranks { job });
        }
    }

    pub(in crate::node) fn on_sampled(&mut self, job: JobId, ranks: &[RankStatus]) {
        let statuses = self.nodes.statuses().into_iter();
        let loads = statuses.map(|node| (node.name, node.load_by_others)).collect();
        self.series.add_sample(self.out.now(), job, ranks, loads);
    }

    pub(in crate::node) fn answer_series(&mut self, from: Requester, job: JobId) {
        let status = self.job_status(job).or_else(|| self.ended.find(job).cloned());
        let Some(status) = status else {
            return self.refuse_unknown_job(from, job);
        };
        let series = Box::new(self.series.of(job));
        self.answer(from, DaemonToControl::Series { status, series });
    }
}
