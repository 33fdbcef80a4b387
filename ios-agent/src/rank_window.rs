//! From the counters of ranks to what they do in an iteration. Pure.
//!
//! Counters are cut into spans of a few iterations; the median of the last spans is told, so that one that was
//! disturbed (a pause for a change, a burst of somebody else) says nothing, and a lasting change shows after three
//! spans.

use crate::own_node::share_of_slot;
use crate::sampling::RankSample;
use pcm_proto::agent::{JobSample, RankCounters, RankReport};
use pcm_proto::ids::{Bytes, JobId, ProcessId, Rank};
use pcm_proto::keeper::ProcessKey;
use std::collections::{BTreeMap, VecDeque};

/// A span is at least this long: clock ticks and iterations that are cut in two must not show.
const SPAN_NS: u64 = 200_000_000;

/// Iterations a span has, unless they are so long that one is enough.
const SPAN_ITERATIONS: u64 = 4;

/// After this time one iteration is enough.
const SPAN_LONG_NS: u64 = 1_000_000_000;

/// Spans that are looked at: their median ignores two disturbed ones.
const SPANS: usize = 5;

/// Numbers of one span, per iteration.
#[derive(Clone, Debug)]
struct Span {
    useful_ms: f64,
    mpi_ms: f64,
    cpu_share: f64,
    sends: Vec<(Rank, f64, f64)>,
}

#[derive(Clone, Debug)]
struct Window {
    began_ns: u64,
    at_begin: RankCounters,
    cpu_at_begin: RankSample,
    newest: RankCounters,
    spans: VecDeque<Span>,
}

/// All ranks of a node.
#[derive(Clone, Debug, Default)]
pub struct RankWindows {
    windows: BTreeMap<(JobId, ProcessId), Window>,
}

impl RankWindows {
    /// Takes in what the pages show now, and the CPU times that go with them, on CPUs of this pace. Ranks that are not
    /// named are gone.
    pub fn on_samples(&mut self, at_ns: u64, jobs: &[JobSample], cpu: &BTreeMap<ProcessKey, RankSample>, pace: f64) {
        let is_there = |job: JobId, process| {
            let of_job = jobs.iter().filter(|sample| sample.job == job);
            of_job
                .flat_map(|sample| &sample.ranks)
                .any(|rank| rank.process == process)
        };
        self.windows.retain(|(job, process), _| is_there(*job, *process));
        for job in jobs {
            for counters in &job.ranks {
                let key = (job.job, counters.process);
                let process = ProcessKey {
                    job: key.0,
                    process: key.1,
                };
                let cpu = cpu.get(&process).copied().unwrap_or_default();
                match self.windows.get_mut(&key) {
                    Some(window) if counters.iterations >= window.newest.iterations => {
                        window.on_sample(at_ns, counters, cpu, pace)
                    }
                    _ => {
                        self.windows.insert(key, Window::new(at_ns, counters, cpu));
                    }
                }
            }
        }
    }

    /// What the ranks of a job do; ranks of which nothing is known yet are left out.
    pub fn reports(&self, job: &JobSample) -> Vec<RankReport> {
        let ranks = job
            .ranks
            .iter()
            .filter_map(|counters| self.windows.get(&(job.job, counters.process))?.report());
        ranks.collect()
    }
}

impl Window {
    fn new(at_ns: u64, counters: &RankCounters, cpu: RankSample) -> Self {
        Self {
            began_ns: at_ns,
            at_begin: counters.clone(),
            cpu_at_begin: cpu,
            newest: counters.clone(),
            spans: VecDeque::with_capacity(SPANS),
        }
    }

    fn on_sample(&mut self, at_ns: u64, counters: &RankCounters, cpu: RankSample, pace: f64) {
        self.newest = counters.clone();
        let iterations = counters.iterations - self.at_begin.iterations;
        let elapsed_ns = at_ns.saturating_sub(self.began_ns);
        let is_enough =
            (elapsed_ns >= SPAN_NS && iterations >= SPAN_ITERATIONS) || (elapsed_ns >= SPAN_LONG_NS && iterations >= 1);
        if !is_enough {
            return;
        }
        let span = self.span(counters, cpu, iterations as f64, pace);
        if self.spans.len() == SPANS {
            self.spans.pop_front();
        }
        self.spans.push_back(span);
        (self.began_ns, self.at_begin, self.cpu_at_begin) = (at_ns, counters.clone(), cpu);
    }

    fn span(&self, now: &RankCounters, cpu: RankSample, iterations: f64, pace: f64) -> Span {
        let then = &self.at_begin;
        let ms = |now: u64, then: u64| now.saturating_sub(then) as f64 / 1e6 / iterations;
        let run = cpu.run_ns.saturating_sub(self.cpu_at_begin.run_ns) as f64;
        let delay = cpu.delay_ns.saturating_sub(self.cpu_at_begin.delay_ns) as f64;
        let sends = now.sent.iter().map(|(to, messages, bytes)| {
            let (_, messages_then, bytes_then) = then
                .sent
                .iter()
                .find(|(rank, ..)| rank == to)
                .copied()
                .unwrap_or((*to, 0, 0));
            let per_iteration = |now: u64, then: u64| now.saturating_sub(then) as f64 / iterations;
            (
                *to,
                per_iteration(*messages, messages_then),
                per_iteration(*bytes, bytes_then),
            )
        });
        Span {
            useful_ms: ms(now.useful_ns, then.useful_ns),
            mpi_ms: ms(now.mpi_ns, then.mpi_ns),
            cpu_share: if run + delay > 0.0 {
                share_of_slot(run / (run + delay), pace)
            } else {
                1.0
            },
            sends: sends.filter(|(_, messages, _)| *messages > 0.0).collect(),
        }
    }

    fn report(&self) -> Option<RankReport> {
        // Fewer spans cannot tell a disturbance from a change.
        if self.spans.len() < SPANS.div_ceil(2) {
            return None;
        }
        let median = |of: &dyn Fn(&Span) -> f64| {
            let mut values: Vec<f64> = self.spans.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let useful_ms = median(&|span| span.useful_ms);
        Some(RankReport {
            rank: self.newest.rank,
            iterations: self.newest.iterations,
            iterations_declared: self.newest.iterations_declared,
            iteration_ms: median(&|span| span.useful_ms + span.mpi_ms),
            useful_ms,
            cpu_share: median(&|span| span.cpu_share),
            registered: Bytes(self.newest.registered.0),
            sends: self.spans.back().map(|span| span.sends.clone()).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::{Epoch, NodeName};
    use pcm_proto::rank_counts::RankCounts;

    fn job(ranks: Vec<RankCounters>) -> JobSample {
        JobSample {
            job: JobId(1),
            coordinator: NodeName::new("a").unwrap(),
            epoch: Epoch(0),
            size: 1,
            nodes: 1,
            started_with: 1,
            min: 1,
            max: 1,
            counts: RankCounts::default(),
            follows_shares: true,
            shares: Vec::new(),
            allowed: Vec::new(),
            policy: String::new(),
            ranks,
        }
    }

    fn counters(iterations: u64, useful_ms: u64, mpi_ms: u64) -> RankCounters {
        RankCounters {
            process: ProcessId(0),
            rank: Rank(0),
            iterations,
            iterations_declared: 0,
            useful_ns: useful_ms * 1_000_000,
            mpi_ns: mpi_ms * 1_000_000,
            registered: Bytes(8),
            sent: vec![(Rank(1), iterations * 2, iterations * 100)],
        }
    }

    /// Feeds looks 250 ms apart; each brings iterations with so many milliseconds of use.
    fn feed(spans: &[(u64, u64)]) -> Option<RankReport> {
        let mut windows = RankWindows::default();
        let (mut iterations, mut useful) = (0, 0);
        let cpu = BTreeMap::new();
        windows.on_samples(0, &[job(vec![counters(0, 0, 0)])], &cpu, 1.0);
        for (look, (more, useful_ms)) in spans.iter().enumerate() {
            (iterations, useful) = (iterations + more, useful + more * useful_ms);
            let now = counters(iterations, useful, iterations);
            windows.on_samples((look as u64 + 1) * 250_000_000, &[job(vec![now])], &cpu, 1.0);
        }
        windows.reports(&job(vec![counters(0, 0, 0)])).pop()
    }

    #[test]
    fn numbers_are_per_iteration() {
        let report = feed(&[(20, 10); 5]).unwrap();
        assert_eq!(
            (report.useful_ms, report.iteration_ms, report.iterations),
            (10.0, 11.0, 100)
        );
        assert_eq!(report.sends, [(Rank(1), 2.0, 100.0)]);
    }

    #[test]
    fn two_disturbed_spans_do_not_show_and_three_do() {
        assert_eq!(
            feed(&[(20, 10), (20, 10), (20, 10), (5, 40), (5, 40)])
                .unwrap()
                .useful_ms,
            10.0
        );
        assert_eq!(
            feed(&[(20, 10), (20, 10), (5, 40), (5, 40), (5, 40)])
                .unwrap()
                .useful_ms,
            40.0
        );
    }

    #[test]
    fn a_rank_that_has_just_begun_says_nothing_yet() {
        assert_eq!(feed(&[(20, 10), (20, 10)]), None);
        assert_eq!(feed(&[(0, 0); 9]), None);
    }

    #[test]
    fn long_iterations_are_seen_one_by_one() {
        let report = feed(&[
            (0, 0),
            (0, 0),
            (0, 0),
            (1, 900),
            (0, 0),
            (0, 0),
            (0, 0),
            (1, 900),
            (0, 0),
            (0, 0),
            (0, 0),
            (1, 900),
        ]);
        assert_eq!(report.unwrap().useful_ms, 900.0);
    }
}
