//! How the jobs coordinated here fare over time. Held in memory for as long as an ended job is remembered; a daemon
//! that starts again begins with empty series. Never asks a node.

use crate::moment::Moment;
use pcm_proto::ids::JobId;
use pcm_proto::job::RankStatus;
use pcm_proto::rank_snapshot::RankLook;
use pcm_proto::series::{Sample, Series, Traffic};
use std::collections::BTreeMap;

/// Jobs whose series are held, ended ones included; a series takes 20 KiB, or 200 KiB with 200 nodes.
const JOBS_MAX: usize = 64;

/// Messages are counted after so many samples, and sooner in a job's first seconds.
const TRAFFIC_EVERY: u64 = 16;

/// The series of jobs.
#[derive(Debug, Default)]
pub struct SeriesBook(BTreeMap<JobId, Series>);

impl SeriesBook {
    /// Whether the next sample of a job includes its messages.
    pub fn is_traffic_due(&self, job: JobId) -> bool {
        let taken = self.0.get(&job).map_or(0, |series| series.taken);
        taken.is_power_of_two() || taken % TRAFFIC_EVERY == 1
    }

    /// Adds a sample; `loads` are the loads of the nodes by others.
    pub fn add_sample(
        &mut self,
        now: Moment,
        job: JobId,
        ranks: &[RankStatus],
        loads: Vec<(pcm_proto::ids::NodeName, f64)>,
    ) {
        let Some(iteration) = ranks.iter().map(|rank| rank.iteration.0).min() else {
            return;
        };
        if !self.0.contains_key(&job) && self.0.len() >= JOBS_MAX {
            self.0.pop_first();
        }
        self.0.entry(job).or_default().push(Sample {
            time_us: now.0,
            iteration,
            ranks: ranks.len() as u32,
            loads,
        });
    }

    /// Replaces the messages between the ranks of a job that has samples.
    pub fn set_traffic(&mut self, job: JobId, ranks: &[RankLook]) {
        let rows = ranks
            .iter()
            .flat_map(|rank| rank.peers.iter().map(|peer| (rank.rank.0, peer)));
        let sent = rows.filter(|(_, peer)| peer.messages_sent > 0);
        let traffic = sent.map(|(from, peer)| Traffic {
            from,
            to: peer.peer,
            messages: peer.messages_sent,
            bytes: peer.bytes_sent,
        });
        if let Some(series) = self.0.get_mut(&job) {
            series.traffic = traffic.collect();
        }
    }

    /// The series of a job; empty where there is none.
    pub fn of(&self, job: JobId) -> Series {
        self.0.get(&job).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::queries::rank_rows::unseen;
    use pcm_proto::ids::{NodeName, ProcessId, Rank};

    fn row() -> RankStatus {
        unseen(Rank(0), ProcessId(0), NodeName::new("n0").unwrap(), 1)
    }

    #[test]
    fn a_sample_without_ranks_adds_nothing_and_messages_are_counted_often_at_first() {
        let (mut book, job) = (SeriesBook::default(), JobId(3));
        book.add_sample(Moment(1), job, &[], Vec::new());
        assert_eq!(book.of(job), Series::default());
        let mut due = Vec::new();
        for second in 0..20 {
            if book.is_traffic_due(job) {
                due.push(second);
            }
            book.add_sample(Moment(second), job, &[row()], Vec::new());
        }
        assert_eq!(due, [1, 2, 4, 8, 16, 17]);
    }

    #[test]
    fn only_so_many_jobs_have_series_and_the_newest_of_them() {
        let mut book = SeriesBook::default();
        for job in 0..=JOBS_MAX as u64 {
            book.add_sample(Moment(1), JobId(job), &[row()], Vec::new());
        }
        assert_eq!(book.of(JobId(0)), Series::default());
        assert_eq!(book.of(JobId(JOBS_MAX as u64)).taken, 1);
    }
}
