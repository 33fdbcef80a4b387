//! What a job's ranks do with each other, gathered from all of its nodes.

use super::daemon::Daemon;
use super::gather::Wanted;
use pcm_core::node::requester::Requester;
use pcm_proto::control::DaemonToControl;
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::job::JobStatus;
use pcm_proto::look::RankLook;
use pcm_proto::peer::Question;
use std::time::Duration;

/// A node that does not answer within this time is left out of the look.
const LOOK_WITHIN: Duration = Duration::from_secs(1);

impl Daemon {
    pub(super) fn gather_looks(&mut self, from: Requester, job: JobId) {
        let (Some(coordinated), Some(status)) = (self.jobs.get(&job), self.job_status(job)) else {
            return self.refuse_unknown_job(from, job);
        };
        let nodes: Vec<NodeName> = coordinated.state.nodes_with_output().cloned().collect();
        let wanted = Wanted::Look {
            status: Box::new(status),
            ranks: Vec::new(),
        };
        self.gather(from, wanted, &Question::Look { job }, nodes, LOOK_WITHIN);
    }

    /// The coordinator knows which process is which rank.
    pub(super) fn answer_looks(&mut self, from: Requester, status: JobStatus, mut seen: Vec<RankLook>) {
        let Some(coordinated) = self.jobs.get(&status.job) else {
            return self.refuse_unknown_job(from, status.job);
        };
        let ranks = coordinated.state.rank_rows().filter_map(|(rank, process, ..)| {
            let position = seen.iter().position(|look| look.process == process)?;
            Some(RankLook {
                rank,
                ..seen.swap_remove(position)
            })
        });
        let ranks = ranks.collect();
        self.answer(from, DaemonToControl::Look { status, ranks });
    }
}
