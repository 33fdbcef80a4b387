//! When a part of a job is reported to its leader: at once when it says something new, else rarely, and the more rarely
//! the more nodes report, so that no leader drowns. Pure.

use pcm_core::moment::Moment;
use pcm_proto::agent::PartReport;
use pcm_proto::ids::JobId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Shortest time between two reports.
const PERIOD_MIN: Duration = Duration::from_millis(250);

/// Time between two reports that say the same.
const PERIOD: Duration = Duration::from_secs(2);

/// Reports a leader takes in a second, in the long run.
const REPORTS_PER_S: f64 = 200.0;

/// A change of time per iteration by this part is news.
const NEWS: f64 = 0.15;

/// Time between two reports that say the same, in a job of so many nodes.
pub fn period(nodes: u32) -> Duration {
    PERIOD.max(crowd(nodes))
}

fn crowd(nodes: u32) -> Duration {
    Duration::from_secs_f64(f64::from(nodes) / REPORTS_PER_S)
}

/// Reports this node has sent.
#[derive(Clone, Debug, Default)]
pub struct Reporting {
    sent: BTreeMap<JobId, (Moment, PartReport)>,
}

impl Reporting {
    /// Whether a report should be sent now; takes note of it if so.
    pub fn is_due(&mut self, now: Moment, report: &PartReport, nodes: u32) -> bool {
        let is_due = match self.sent.get(&report.job) {
            None => true,
            Some((at, last)) => {
                let age = now.since(*at);
                age >= period(nodes) || (age >= PERIOD_MIN.max(crowd(nodes)) && is_news(last, report))
            }
        };
        if is_due {
            self.sent.insert(report.job, (now, report.clone()));
        }
        is_due
    }

    /// Forgets all other jobs.
    pub fn keep(&mut self, jobs: &[JobId]) {
        self.sent.retain(|job, _| jobs.contains(job));
    }
}

fn is_news(before: &PartReport, after: &PartReport) -> bool {
    let (old, new) = (&before.node, &after.node);
    if before.epoch != after.epoch
        || before.ranks.len() != after.ranks.len()
        || old.is_draining != new.is_draining
        || old.ends_soon != new.ends_soon
        || old.ranks != new.ranks
        || (old.demand_by_others - new.demand_by_others).abs() > 0.3
    {
        return true;
    }
    let ranks = before.ranks.iter().zip(&after.ranks);
    ranks.into_iter().any(|(old, new)| {
        let differs = |a: f64, b: f64| (a - b).abs() > NEWS * a.max(b);
        old.rank != new.rank || differs(old.useful_ms, new.useful_ms) || differs(old.iteration_ms, new.iteration_ms)
    })
}
