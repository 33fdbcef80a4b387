//! What an agent reads of the jobs of its node and of the nodes around it. Pure functions, no state.

use crate::moment::Moment;
use crate::node::jobs::table::Table;
use pcm_proto::agent::{JobSample, NEIGHBOURS_MAX, Neighbour, RankCounters};
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::job::{JobSpec, RANKS_MAX};
use pcm_proto::layout::Layout;
use pcm_proto::peer::NodeReport;

/// The policy of a job that names none. Only programs that were made malleable are changed.
const POLICY_DEFAULT: &str = "cost";

/// The sample of a job, with the counters of its ranks here.
fn job_sample(
    job: JobId,
    coordinator: &NodeName,
    (spec, layout): (&JobSpec, &Layout),
    counters: Vec<RankCounters>,
) -> JobSample {
    let (min, max) = sizes(spec, layout.size() as u32);
    JobSample {
        job,
        coordinator: coordinator.clone(),
        epoch: layout.epoch,
        size: layout.size() as u32,
        nodes: layout.nodes().len() as u32,
        started_with: spec.size,
        min,
        max,
        counts: spec.registered.counts.clone(),
        follows_shares: spec.registered.follows_shares(),
        shares: layout.weights.clone(),
        allowed: spec.nodes.clone(),
        policy: spec.policy.clone().unwrap_or_else(|| POLICY_DEFAULT.to_owned()),
        // A rank that counts no iterations cannot be moved, and of its use nothing is known.
        ranks: counters.into_iter().filter(|rank| rank.iterations > 0).collect(),
    }
}

/// The samples of the jobs that have ranks here and are not ending.
pub(in crate::node) fn job_samples(table: &Table, counters: Vec<(JobId, Vec<RankCounters>)>) -> Vec<JobSample> {
    let samples = counters.into_iter().filter_map(|(job, counters)| {
        let machine = &table.get(job)?.machine;
        let part = machine.part().filter(|part| !part.is_ending())?;
        let of_job = (part.spec(), machine.layout()?);
        Some(job_sample(job, part.coordinator(), of_job, counters))
    });
    samples.collect()
}

/// The numbers of ranks between which decisions may choose. A job that was started without `--min` and `--max` keeps
/// the size it has, for nothing says that another size would do.
fn sizes(spec: &JobSpec, size: u32) -> (u32, u32) {
    match (spec.min > 1, spec.max < RANKS_MAX) {
        (false, false) => (size, size),
        (_, true) => (spec.min.max(1), spec.max),
        (true, false) => (spec.min, size.max(spec.size)),
    }
}

/// Some of the other nodes, others at another time.
pub(super) fn draw_neighbours(now: Moment, others: impl Iterator<Item = NodeReport>) -> Vec<Neighbour> {
    let mut others: Vec<Neighbour> = others.map(|report| neighbour(&report)).collect();
    let mut chance = now.0;
    let mut drawn = Vec::with_capacity(NEIGHBOURS_MAX.min(others.len()));
    while drawn.len() < NEIGHBOURS_MAX && !others.is_empty() {
        // Any numbers do that differ between nodes and times.
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        drawn.push(others.swap_remove((chance >> 33) as usize % others.len()));
    }
    drawn
}

pub(super) fn neighbour(report: &NodeReport) -> Neighbour {
    Neighbour {
        node: report.node.clone(),
        site: report.site.clone(),
        host: report.host,
    }
}

/// Whether there is a policy of this name.
pub fn is_known_policy(name: &str) -> bool {
    pcm_proto::agent::POLICY_NAMES.contains(&name)
}
