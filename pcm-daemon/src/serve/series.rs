//! How the jobs coordinated here fare over time. Kept in memory for as long as an ended job is remembered; a daemon
//! that is started again begins anew. Sampling asks for small answers only, but for a look at the messages now and
//! then.

use super::daemon::Daemon;
use super::gather::Wanted;
use pcm_core::node::requester::Requester;
use pcm_proto::control::DaemonToControl;
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::job::{JobState, RankStatus};
use pcm_proto::look::RankLook;
use pcm_proto::peer::Question;
use pcm_proto::series::{Sample, Traffic};
use std::time::Duration;

/// A node that answers later is not part of the sample.
const SAMPLE_WITHIN: Duration = Duration::from_millis(800);

/// Jobs whose series are kept, ended ones included; a series takes 20 KiB, or 200 KiB with 200 nodes.
const JOBS_MAX: usize = 64;

/// The messages are looked at after so many samples, and sooner in a job's first seconds.
const TRAFFIC_EVERY: u64 = 16;

impl Daemon {
    /// Asks the ranks of every job here how far they are.
    pub(super) fn sample_jobs(&mut self) {
        let running = self.jobs.iter().map(|(job, coordinated)| (*job, coordinated));
        let running = running.filter(|(_, coordinated)| coordinated.state.status().state == JobState::Running);
        let asked: Vec<(JobId, Vec<NodeName>)> = running
            .map(|(job, coordinated)| (job, coordinated.state.active_nodes().cloned().collect()))
            .collect();
        for (job, nodes) in asked {
            let taken = self.series.get(&job).map_or(0, |series| series.taken);
            let from = Requester::Nobody;
            if taken.is_power_of_two() || taken % TRAFFIC_EVERY == 1 {
                let wanted = Wanted::Traffic { job, ranks: Vec::new() };
                self.gather(
                    from.clone(),
                    wanted,
                    &Question::Look { job },
                    nodes.clone(),
                    SAMPLE_WITHIN,
                );
            }
            let wanted = Wanted::Sample { job, ranks: Vec::new() };
            self.gather(from, wanted, &Question::Ranks { job }, nodes, SAMPLE_WITHIN);
        }
    }

    pub(super) fn on_sampled(&mut self, job: JobId, ranks: &[RankStatus]) {
        let Some(iteration) = ranks.iter().map(|rank| rank.iteration.0).min() else {
            return;
        };
        if !self.series.contains_key(&job) && self.series.len() >= JOBS_MAX {
            self.series.pop_first();
        }
        let statuses = self.nodes.statuses();
        let sample = Sample {
            time_us: self.out.now().0,
            iteration,
            ranks: ranks.len() as u32,
            loads: statuses
                .into_iter()
                .map(|node| (node.name, node.load_by_others))
                .collect(),
        };
        self.series.entry(job).or_default().push(sample);
    }

    pub(super) fn on_traffic(&mut self, job: JobId, ranks: &[RankLook]) {
        let rows = ranks
            .iter()
            .flat_map(|rank| rank.peers.iter().map(|peer| (rank.rank.0, peer)));
        let sent = rows.filter(|(_, peer)| peer.messages_sent > 0);
        let traffic: Vec<Traffic> = sent
            .map(|(from, peer)| Traffic {
                from,
                to: peer.peer,
                messages: peer.messages_sent,
                bytes: peer.bytes_sent,
            })
            .collect();
        if let Some(series) = self.series.get_mut(&job) {
            series.traffic = traffic;
        }
    }

    pub(super) fn answer_series(&mut self, from: Requester, job: JobId) {
        let status = self.job_status(job).or_else(|| self.ended.find(job).cloned());
        let Some(status) = status else {
            return self.refuse_unknown_job(from, job);
        };
        let series = self.series.get(&job).cloned().unwrap_or_default();
        let answer = DaemonToControl::Series {
            status,
            series: Box::new(series),
        };
        self.answer(from, answer);
    }
}
