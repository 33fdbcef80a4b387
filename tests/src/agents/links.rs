//! The links of the simulated cluster: what they cost the jobs, and what its daemons would have measured of them.

use super::world::World;
use pcm_proto::ids::Rank;
use pcm_proto::link::{LINKS_OF_JOB_MAX, LinkMeasured};

/// A message within a site and between sites.
pub(super) const NEAR_US: u64 = 300;
const FAR_US: u64 = 10_000;

impl World {
    /// Time the messages of an iteration take on the longest link.
    pub(super) fn links_ms(&self, job: usize) -> f64 {
        let places = &self.jobs[job].places;
        let next = places.iter().zip(places.iter().cycle().skip(1));
        let us = next.map(|(from, to)| if from == to { 0 } else { self.latency_us(*from, *to) });
        self.scenario.messages * us.max().unwrap_or(0) as f64 / 1e3
    }

    /// Time of a message between two nodes.
    pub(super) fn latency_us(&self, from: usize, to: usize) -> u64 {
        if self.nodes[from].site == self.nodes[to].site {
            NEAR_US
        } else {
            FAR_US
        }
    }

    /// What the daemon of a node measured of the links to nodes of its jobs, and to those its agent asks about.
    pub(super) fn links(&self, node: usize) -> Vec<LinkMeasured> {
        let of_job = |job: usize| {
            let of = &self.jobs[job];
            [of.coordinator]
                .into_iter()
                .chain(of.places.iter().copied().take(LINKS_OF_JOB_MAX))
        };
        let jobs = self.residents[node].iter().map(|(job, _)| *job);
        let asked = self.nodes[node].agent.asks_about();
        let asked = asked.iter().filter_map(|name| self.index(name));
        let mut others: Vec<usize> = jobs
            .flat_map(of_job)
            .chain(asked)
            .filter(|other| *other != node)
            .collect();
        others.sort_unstable();
        others.dedup();
        let link = |other: usize| LinkMeasured {
            node: self.nodes[other].name.clone(),
            latency_us: Some(self.latency_us(node, other) as f64),
            megabytes_per_s: None,
        };
        others.into_iter().map(link).collect()
    }

    /// What a rank sends in an iteration.
    pub(super) fn sends(&self, job: usize, rank: usize) -> Vec<(Rank, f64, f64)> {
        let next = (rank + 1) % self.jobs[job].places.len();
        let messages = self.scenario.messages;
        let is_talking = messages > 0.0 && next != rank;
        is_talking
            .then_some((Rank(next as u32), messages, 0.0))
            .into_iter()
            .collect()
    }
}
