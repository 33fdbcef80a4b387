//! How the jobs coordinated here fare over time. Held in memory for as long as an ended job is remembered; a daemon
//! that starts again begins with empty series. Never asks a node.

use crate::moment::Moment;
use pcm_proto::ids::{JobId, ProcessId};
use pcm_proto::job::RankStatus;
use pcm_proto::rank_snapshot::RankLook;
use pcm_proto::series::{Sample, Series, Traffic};
use pcm_proto::time_use::TimeUse;
use std::collections::BTreeMap;

/// Jobs whose series are held, ended ones included; a series takes 20 KiB, or 200 KiB with 200 nodes.
const JOBS_MAX: usize = 64;

/// Messages are counted after so many samples of a layout, and sooner in its first seconds.
const TRAFFIC_EVERY: u64 = 16;

/// Numbers of ranks whose use of time is held of a job.
const SIZES_MAX: usize = 64;

/// The series of jobs.
#[derive(Debug, Default)]
pub struct SeriesBook(BTreeMap<JobId, Book>);

#[derive(Debug, Default)]
struct Book {
    series: Series,
    layout: Layout,
}

/// What the processes of a layout had done at its first sample, and since then.
#[derive(Debug, Default)]
struct Layout {
    before: BTreeMap<ProcessId, (f64, f64)>,
    since: Option<TimeUse>,
    samples: u64,
}

impl Layout {
    /// Milliseconds that each process has spent outside and inside MPI.
    fn totals(ranks: &[RankStatus]) -> BTreeMap<ProcessId, (f64, f64)> {
        let totals = ranks.iter().map(|rank| {
            let iterations = rank.iterations_here as f64;
            (rank.process, (rank.useful_ms * iterations, rank.wait_ms * iterations))
        });
        totals.collect()
    }

    /// Other processes are another layout; the former is given back.
    fn on_sample(&mut self, ranks: &[RankStatus]) -> Option<Self> {
        let totals = Self::totals(ranks);
        if !totals.keys().eq(self.before.keys()) {
            let (before, samples) = (totals, 1);
            let next = Self {
                before,
                since: None,
                samples,
            };
            return Some(std::mem::replace(self, next));
        }
        self.samples += 1;
        let since = totals.values().zip(self.before.values());
        self.since = TimeUse::of(since.map(|(now, then)| (now.0 - then.0, now.1 - then.1)));
        None
    }
}

fn add_use(uses: &mut Vec<TimeUse>, more: &TimeUse) {
    if let Some(known) = uses.iter_mut().find(|known| known.ranks == more.ranks) {
        known.add(more);
    } else if uses.len() < SIZES_MAX {
        uses.push(*more);
    }
}

impl SeriesBook {
    /// Whether the next sample of a job includes its messages.
    pub fn is_traffic_due(&self, job: JobId) -> bool {
        let samples = self.0.get(&job).map_or(0, |book| book.layout.samples);
        samples.is_power_of_two() || samples % TRAFFIC_EVERY == 1
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
        let book = self.0.entry(job).or_default();
        if let Some(former) = book.layout.on_sample(ranks) {
            book.series.traffic.clear();
            if let Some(done) = former.since {
                add_use(&mut book.series.uses, &done);
            }
        }
        book.series.push(Sample {
            time_us: now.0,
            iteration,
            ranks: ranks.len() as u32,
            loads,
        });
    }

    /// Replaces the messages between the ranks of a job that has samples. Ranks of another layout than the sampled one
    /// are left out: the answer of a process may be older than the sample.
    pub fn set_traffic(&mut self, job: JobId, ranks: &[RankLook]) {
        let Some(Book { series, layout }) = self.0.get_mut(&job) else {
            return;
        };
        let size = layout.before.len();
        let present = ranks.iter().filter(|rank| layout.before.contains_key(&rank.process));
        let rows = present.flat_map(|rank| rank.peers.iter().map(|peer| (rank.rank.0, peer)));
        let sent = rows.filter(|(from, peer)| peer.messages_sent > 0 && (*from.max(&peer.peer) as usize) < size);
        let traffic = sent.map(|(from, peer)| Traffic {
            from,
            to: peer.peer,
            messages: peer.messages_sent,
            bytes: peer.bytes_sent,
        });
        series.traffic = traffic.collect();
    }

    /// The series of a job; empty where there is none.
    pub fn of(&self, job: JobId) -> Series {
        let Some(book) = self.0.get(&job) else {
            return Series::default();
        };
        let mut series = book.series.clone();
        if let Some(since) = &book.layout.since {
            add_use(&mut series.uses, since);
        }
        series
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::queries::rank_rows::unseen;
    use pcm_proto::ids::{NodeName, Rank};
    use pcm_proto::rank_snapshot::{PeerLook, Stage};

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

    /// Rank `number` of process `process` after iterations of so many milliseconds outside and inside MPI.
    fn used(number: u32, process: u32, iterations: u64, (useful_ms, wait_ms): (f64, f64)) -> RankStatus {
        RankStatus {
            iterations_here: iterations,
            useful_ms,
            wait_ms,
            ..unseen(Rank(number), ProcessId(process), NodeName::new("n0").unwrap(), 1)
        }
    }

    #[test]
    fn time_is_counted_between_the_samples_of_a_layout_and_summed_by_the_number_of_ranks() {
        let (mut book, job) = (SeriesBook::default(), JobId(3));
        let mut sample = |ranks: &[RankStatus]| {
            book.add_sample(Moment(1), job, ranks, Vec::new());
            book.of(job).uses
        };
        assert_eq!(sample(&[used(0, 0, 10, (1.0, 9.0)), used(1, 1, 10, (1.0, 9.0))]), []);
        // Ten more iterations, of 8 + 2 and of 6 + 4 milliseconds: means over twenty.
        let two = TimeUse {
            ranks: 2,
            useful_ms: 70.0,
            longest_ms: 80.0,
            whole_ms: 100.0,
        };
        let uses = sample(&[used(0, 0, 20, (4.5, 5.5)), used(1, 1, 20, (3.5, 6.5))]);
        assert_eq!(uses, [two]);
        assert_eq!(sample(&[used(0, 0, 30, (3.0, 3.0))]), [two], "another layout begins");
        let alone = sample(&[used(0, 0, 40, (3.0, 3.0))])[1];
        assert_eq!((alone.ranks, alone.useful_ms, alone.whole_ms), (1, 30.0, 60.0));
        // Two ranks again, one of them by another process.
        sample(&[used(0, 0, 50, (3.0, 3.0)), used(1, 7, 0, (0.0, 0.0))]);
        let uses = sample(&[used(0, 0, 60, (3.0, 3.0)), used(1, 7, 10, (5.0, 1.0))]);
        assert_eq!(
            (uses[0].useful_ms, uses[0].longest_ms, uses[0].whole_ms),
            (110.0, 130.0, 160.0)
        );
        assert_eq!(uses[1], alone);
    }

    /// What rank `number` of process `process` sent to the ranks `to`.
    fn sent(number: u32, process: u32, to: &[u32]) -> RankLook {
        let peers = to.iter().map(|peer| PeerLook {
            peer: *peer,
            messages_sent: 5,
            bytes_sent: 40,
            receives_posted: 0,
        });
        RankLook {
            rank: Rank(number),
            process: ProcessId(process),
            node: NodeName::new("n0").unwrap(),
            stage: Stage::Running,
            calls: 9,
            call: None,
            collectives: Vec::new(),
            sends: Vec::new(),
            communicators: Vec::new(),
            from_anybody: 0,
            peers: peers.collect(),
            peers_left_out: 0,
            apart: Vec::new(),
            apart_left_out: 0,
        }
    }

    #[test]
    fn messages_are_those_of_the_present_layout() {
        let (mut book, job) = (SeriesBook::default(), JobId(3));
        let nothing = (0.0, 0.0);
        let three = [0, 1, 2].map(|number| used(number, number, 0, nothing));
        let pairs = |book: &SeriesBook| -> Vec<(u32, u32)> {
            let traffic = book.of(job).traffic;
            traffic.iter().map(|row| (row.from, row.to)).collect()
        };
        for _ in 0..3 {
            book.add_sample(Moment(1), job, &three, Vec::new());
        }
        let looks = [sent(0, 0, &[1, 2]), sent(1, 1, &[0]), sent(2, 2, &[0])];
        book.set_traffic(job, &looks);
        assert_eq!(pairs(&book), [(0, 1), (0, 2), (1, 0), (2, 0)]);
        assert!(!book.is_traffic_due(job));
        book.add_sample(Moment(2), job, &three[..2], Vec::new());
        assert_eq!(pairs(&book), [], "it was sent in another layout");
        assert!(book.is_traffic_due(job), "what is sent now was never looked at");
        book.set_traffic(job, &looks);
        assert_eq!(pairs(&book), [(0, 1), (1, 0)], "rank 2 left");
        // Another process is rank 1 now; the former answers late.
        book.add_sample(
            Moment(3),
            job,
            &[used(0, 0, 0, nothing), used(1, 7, 0, nothing)],
            Vec::new(),
        );
        book.set_traffic(job, &looks);
        assert_eq!(pairs(&book), [(0, 1)]);
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
