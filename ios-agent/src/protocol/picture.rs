//! What a leader knows of its job: the newest report of each of its nodes. Becomes a view once all ranks are in it.
//! Pure.

use super::known::Known;
use super::reporting;
use crate::decide::learning::Learning;
use crate::decide::links::Links;
use crate::decide::view::{NodeView, RankView, View};
use pcm_core::moment::Moment;
use pcm_proto::agent::{JobSample, PartReport, RankReport, Resources};
use pcm_proto::ids::NodeName;
use std::collections::BTreeMap;

/// A report is believed until so many others should have come.
const BELIEVED_PERIODS: u32 = 3;

/// The part by which two calibrations of like CPUs may differ, on machines that are not idle.
const CALIBRATION_ERROR: f64 = 0.15;

/// The reports of one job.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    parts: BTreeMap<NodeName, (Moment, PartReport)>,
}

impl Picture {
    /// Takes in a report. One of an older layout than another from the same node is late.
    pub fn on_report(&mut self, now: Moment, report: PartReport) {
        let is_late = self
            .parts
            .get(&report.node.node)
            .is_some_and(|(_, known)| known.epoch > report.epoch);
        if !is_late {
            self.parts.insert(report.node.node.clone(), (now, report));
        }
    }

    /// Forgets what is too old, or of another layout.
    pub fn expire(&mut self, now: Moment, job: &JobSample) {
        let age_max = reporting::period(job.nodes) * BELIEVED_PERIODS;
        self.parts
            .retain(|_, (at, part)| now.since(*at) < age_max && part.epoch >= job.epoch);
    }

    /// Iterations the job has begun: the least advanced rank counts.
    pub fn iterations(&self) -> u64 {
        self.ranks().map(|(_, rank)| rank.iterations).min().unwrap_or(0)
    }

    fn ranks(&self) -> impl Iterator<Item = (&NodeName, &RankReport)> {
        let parts = self.parts.values();
        parts.flat_map(|(_, part)| part.ranks.iter().map(move |rank| (&part.node.node, rank)))
    }

    /// The view, if every rank of the present layout has reported.
    pub fn view(&self, job: &JobSample, known: &Known, learning: &Learning) -> Option<View> {
        let size = job.size as usize;
        let parts: Vec<&PartReport> = self
            .parts
            .values()
            .map(|(_, part)| part)
            .filter(|part| part.epoch == job.epoch)
            .collect();
        let used = parts.iter().filter(|part| !part.ranks.is_empty());
        let mut nodes: Vec<NodeView> = used.clone().map(|part| node_view(&part.node, job, known)).collect();
        let mut ranks: Vec<Option<(RankView, &RankReport)>> = vec![None; size];
        for (index, part) in used.enumerate() {
            for rank in &part.ranks {
                let data = job.shares.get(rank.rank.0 as usize).copied().map_or(1.0, f64::from);
                *ranks.get_mut(rank.rank.0 as usize)? = Some((rank_view(rank, index, data), rank));
            }
        }
        let ranks: Option<Vec<(RankView, &RankReport)>> = ranks.into_iter().collect();
        let (ranks, reports): (Vec<RankView>, Vec<&RankReport>) = ranks?.into_iter().unzip();
        if ranks.is_empty() {
            return None;
        }
        // The leader's own node asks nobody for work of jobs it leads: it is known without that.
        let without = parts.iter().filter(|part| part.ranks.is_empty()).map(|part| &part.node);
        for candidate in without.chain(known.thieves()) {
            if nodes.iter().all(|node| node.name != candidate.node) {
                nodes.push(node_view(candidate, job, known));
            }
        }
        tell_siblings_from_owners(&mut nodes);
        level_speeds(&mut nodes);
        let names: Vec<&NodeName> = nodes.iter().map(|node| &node.name).collect();
        let told = parts.iter().map(|part| (&part.node.node, part.links.as_slice()));
        let links = Links::of(&names, &job.coordinator, told);
        let mut times: Vec<f64> = reports
            .iter()
            .map(|rank| rank.iteration_ms)
            .filter(|time| *time > 0.0)
            .collect();
        times.sort_by(f64::total_cmp);
        let iteration_ms = *times.get(times.len() / 2)?;
        Some(View {
            ranks,
            nodes,
            links,
            iteration_ms,
            remaining: remaining(&reports),
            min: job.min as usize,
            max: job.max as usize,
            counts: job.counts.clone(),
            follows_shares: job.follows_shares,
            started_with: job.started_with as usize,
            fixed_cost_ms: learning.fixed_cost_ms(),
            megabytes_per_s: learning.megabytes_per_s(),
            measured_sizes: learning.sizes().clone(),
        })
    }
}

/// Nodes whose speeds differ by less than the error of a calibration count as equally fast, or ranks would follow the
/// error.
fn level_speeds(nodes: &mut [NodeView]) {
    let mut by_speed: Vec<usize> = (0..nodes.len()).collect();
    by_speed.sort_by(|a, b| nodes[*b].speed.total_cmp(&nodes[*a].speed));
    let mut level = f64::INFINITY;
    for index in by_speed {
        let speed = &mut nodes[index].speed;
        if *speed < level * (1.0 - CALIBRATION_ERROR) {
            level = *speed;
        }
        *speed = level;
    }
}

/// On nodes that are the same CPUs each takes the ranks of the other for somebody else.
fn tell_siblings_from_owners(nodes: &mut [NodeView]) {
    for index in 0..nodes.len() {
        let of = &nodes[index];
        let siblings = nodes.iter().enumerate().filter(|(other, node)| {
            *other != index && node.host == of.host && node.cpus.iter().any(|cpu| of.cpus.contains(cpu))
        });
        let ranks: u32 = siblings.map(|(_, node)| node.ranks).sum();
        if ranks > 0 {
            let node = &mut nodes[index];
            node.demand = (node.demand - f64::from(ranks)).max(0.0);
            node.others_since_s = 0.0;
        }
    }
}

/// Iterations to come: as declared, else as many as there have been.
fn remaining(ranks: &[&RankReport]) -> f64 {
    let begun = ranks.iter().map(|rank| rank.iterations).min().unwrap_or(0);
    let declared = ranks.iter().map(|rank| rank.iterations_declared).max().unwrap_or(0);
    let left = if declared > 0 {
        declared.saturating_sub(begun)
    } else {
        begun
    };
    left as f64
}

fn rank_view(rank: &RankReport, node: usize, data: f64) -> RankView {
    RankView {
        node,
        useful_ms: rank.useful_ms,
        cpu_share: rank.cpu_share,
        registered: rank.registered.0 as f64,
        data,
        sends: rank
            .sends
            .iter()
            .map(|(to, messages, bytes)| (to.0 as usize, *messages, *bytes))
            .collect(),
    }
}

fn node_view(of: &Resources, job: &JobSample, known: &Known) -> NodeView {
    let is_allowed = job.allowed.is_empty() || job.allowed.contains(&of.node);
    NodeView {
        name: of.node.clone(),
        site: of.site.clone(),
        host: of.host,
        cpus: of.cpus.clone(),
        speed: if of.speed > 0.0 { of.speed } else { 1.0 },
        demand: of.demand_by_others,
        others_since_s: of.others_since_s,
        ranks: of.ranks,
        free_memory: of.free_memory.0 as f64,
        is_draining: of.is_draining,
        is_open: is_allowed && !of.is_draining && !of.ends_soon && !known.has_refused(&of.node),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::tuning::CostTuning;
    use pcm_proto::ids::{Bytes, Epoch, JobId, Rank};
    use pcm_proto::rank_counts::RankCounts;

    fn node(name: &str, speed: f64) -> Resources {
        Resources {
            node: NodeName::new(name).unwrap(),
            site: String::new(),
            host: u64::from(name.as_bytes()[0]),
            cpus: vec![0],
            speed,
            demand_by_others: 0.0,
            others_since_s: 0.0,
            ranks: 0,
            free_memory: Bytes(0),
            is_draining: false,
            ends_soon: false,
        }
    }

    fn part(of: Resources, ranks: Vec<RankReport>) -> PartReport {
        PartReport {
            job: JobId(1),
            epoch: Epoch(0),
            node: of,
            ranks,
            links: Vec::new(),
        }
    }

    fn view(own: Resources, thieves: &[Resources]) -> View {
        let job = JobSample {
            job: JobId(1),
            coordinator: NodeName::new("leader").unwrap(),
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
            policy: "cost".into(),
            ranks: Vec::new(),
        };
        let rank = RankReport {
            rank: Rank(0),
            iterations: 10,
            iterations_declared: 0,
            iteration_ms: 20.0,
            useful_ms: 20.0,
            cpu_share: 1.0,
            registered: Bytes(8),
            sends: Vec::new(),
        };
        let (mut picture, mut known) = (Picture::default(), Known::default());
        picture.on_report(Moment(0), part(node("used", 1.0), vec![rank]));
        picture.on_report(Moment(0), part(own, Vec::new()));
        thieves
            .iter()
            .for_each(|thief| known.remember(Moment(0), thief.clone()));
        let learning = Learning::new(&CostTuning::default());
        picture.view(&job, &known, &learning).unwrap()
    }

    #[test]
    fn the_leaders_own_node_is_a_place_without_having_asked() {
        let view = view(node("leader", 1.0), &[]);
        let names: Vec<&str> = view.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["used", "leader"]);
        assert!(view.nodes[1].is_open);
    }

    #[test]
    fn a_node_that_ends_soon_is_no_place_and_nothing_to_flee_from() {
        let ends = Resources {
            ends_soon: true,
            ..node("leader", 1.0)
        };
        let view = view(ends, &[]);
        assert!(!view.nodes[1].is_open && !view.nodes[1].is_draining);
    }

    #[test]
    fn speeds_within_the_error_of_a_calibration_are_equal_and_others_are_not() {
        let view = view(node("leader", 1.1), &[node("fast", 1.3), node("slow", 0.5)]);
        let speed = |name: &str| {
            let named = view.nodes.iter().find(|node| node.name.as_str() == name);
            named.unwrap().speed
        };
        assert_eq!(speed("used"), speed("leader"));
        assert_eq!((speed("fast"), speed("slow")), (1.3, 0.5));
    }
}
