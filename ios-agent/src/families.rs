//! Ranks and the processes that they start, such as the tools that they run: what those use is the rank's.

use crate::sampling::{RankSample, TICKS_PER_S};
use pcm_proto::keeper::ProcessKey;
use proc_files::ProcessStat;
use std::collections::BTreeMap;

/// More descendants of one rank are not looked at.
const DESCENDANTS_MAX: usize = 32;

/// Nanoseconds that a thread ran, and that it was ready but had no CPU.
type Turns = (u64, u64);

/// The ranks of a node with their descendants.
#[derive(Debug, Default)]
pub struct Families(BTreeMap<ProcessKey, Family>);

/// A rank with its descendants.
#[derive(Debug, Default)]
struct Family {
    /// What was seen last of each thread.
    seen: BTreeMap<u32, Turns>,
    /// Of all threads that there were.
    total: Turns,
}

impl Families {
    /// Looks at these ranks; others are gone.
    pub fn look(&mut self, ranks: &[(ProcessKey, u32)]) -> BTreeMap<ProcessKey, RankSample> {
        self.0.retain(|known, _| ranks.iter().any(|(key, _)| key == known));
        let samples = ranks.iter().filter_map(|(key, pid)| {
            let sample = self.0.entry(*key).or_default().look(*pid)?;
            Some((*key, sample))
        });
        samples.collect()
    }
}

impl Family {
    fn look(&mut self, rank: u32) -> Option<RankSample> {
        let own = ProcessStat::of(rank)?;
        let mut ticks = own.cpu_ticks() + own.children_ticks;
        // Only the main thread of a rank computes; a tool may compute with any.
        let mut threads = vec![(rank, rank)];
        for pid in proc_files::descendants(rank, DESCENDANTS_MAX) {
            let stat = ProcessStat::of(pid);
            ticks += stat.map_or(0, |stat| stat.cpu_ticks() + stat.children_ticks);
            threads.extend(proc_files::threads(pid).map(|thread| (pid, thread)));
        }
        let turns = threads.into_iter().filter_map(|(pid, thread)| {
            let turns = proc_files::run_and_delay_ns(pid, thread)?;
            Some((thread, turns))
        });
        self.add(turns.collect());
        Some(RankSample {
            used_s: ticks as f64 / TICKS_PER_S,
            run_ns: self.total.0,
            delay_ns: self.total.1,
            is_niced: own.niceness > 0,
        })
    }

    /// Adds what threads did since they were seen last: what is counted never gets less when one ends.
    fn add(&mut self, now: BTreeMap<u32, Turns>) {
        for (thread, (run, delay)) in &now {
            let (run_then, delay_then) = self.seen.get(thread).copied().unwrap_or_default();
            self.total.0 += run.saturating_sub(run_then);
            self.total.1 += delay.saturating_sub(delay_then);
        }
        self.seen = now;
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a tool is run and waited for"
)]
mod tests {
    use super::*;
    use pcm_proto::ids::{JobId, ProcessId};
    use std::{
        process::{Command, id},
        thread,
        time::Duration,
    };

    #[test]
    fn what_a_thread_did_counts_also_when_it_has_ended() {
        let mut family = Family::default();
        family.add([(1, (10, 1)), (2, (5, 0))].into());
        family.add([(1, (12, 4))].into());
        family.add([(1, (13, 4)), (3, (7, 7))].into());
        assert_eq!(family.total, (25, 11));
        // A thread with the number of an earlier one may have done less.
        family.add([(1, (2, 5))].into());
        assert_eq!(family.total, (25, 12));
    }

    #[test]
    fn a_tool_that_a_rank_runs_is_the_ranks() {
        let key = ProcessKey {
            job: JobId(1),
            process: ProcessId(0),
        };
        let mut families = Families::default();
        let mut look = || families.look(&[(key, id())])[&key];
        let before = look();
        let mut tool = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let used = |now: RankSample| now.used_s - before.used_s;
        let mut now = before;
        let is_seen = |now: RankSample| used(now) >= 0.1 && now.run_ns - before.run_ns >= 100_000_000;
        for _ in 0..1000 {
            now = look();
            if is_seen(now) {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        assert!(is_seen(now), "{now:?}, {before:?}");
        tool.kill().unwrap();
        tool.wait().unwrap();
        let after = look();
        assert!(
            after.used_s >= now.used_s && after.run_ns >= now.run_ns,
            "{after:?}, {now:?}"
        );
    }
}
