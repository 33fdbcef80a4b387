//! What the ranks of a job record of their calls while a `pcmctl` traces the job, gathered from all of its nodes. Keeps
//! nothing: the reader says where to go on.

use super::daemon::Daemon;
use super::gather::Wanted;
use pcm_core::node::requester::Requester;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::peer::Question;
use std::time::Duration;

/// A node that does not answer within this time is asked again the next time.
const TRACE_WITHIN: Duration = Duration::from_secs(1);

/// Entries of one answer: at 30 bytes each, a good half of the longest message.
const ENTRIES_MAX: u32 = 80_000;

impl Daemon {
    pub(super) fn gather_traces(&mut self, from: Requester, job: JobId, after: Vec<(ProcessId, u64)>, is_last: bool) {
        let Some(coordinated) = self.jobs.get(&job) else {
            return self.refuse_unknown_job(from, job);
        };
        let nodes: Vec<NodeName> = coordinated.state.active_nodes().cloned().collect();
        let question = Question::Trace {
            job,
            after,
            is_last,
            entries_max: ENTRIES_MAX / nodes.len().max(1) as u32,
        };
        self.gather(from, Wanted::Trace(Vec::new()), &question, nodes, TRACE_WITHIN);
    }
}
