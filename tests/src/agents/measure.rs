//! What is counted in a simulation of agents, and what follows from it.

use super::world::World;

/// Counts of one run.
#[derive(Clone, Debug, Default)]
pub struct Measures {
    /// Messages between nodes.
    pub messages: u64,
    pub decisions: u64,
    /// Changes: when, of which job, why.
    pub changes: Vec<(u64, usize, String)>,
    /// Proposals that were refused.
    pub refused: u64,
    /// Nodes that died.
    pub deaths: u64,
    /// Nodes that a change left with more ranks of several jobs than CPUs.
    pub crowded: Vec<String>,
}

impl World {
    /// Work done per second by all jobs as they are placed now, in CPUs of speed 1.
    pub fn throughput(&self) -> f64 {
        (0..self.jobs.len())
            .map(|job| self.jobs[job].work_ms / self.iteration_ms(job))
            .sum()
    }

    /// Messages per node and second so far.
    pub fn messages_per_node_s(&self) -> f64 {
        self.measures.messages as f64 / self.nodes.len() as f64 / (self.now_us as f64 / 1e6)
    }

    /// The time by which so many of all changes had been made: when a cluster had settled, stragglers left out.
    pub fn settled_s(&self, part: f64) -> f64 {
        let mut times: Vec<u64> = self.measures.changes.iter().map(|(at_us, ..)| *at_us).collect();
        times.sort_unstable();
        let index = ((times.len() as f64 * part).ceil() as usize).saturating_sub(1);
        times.get(index).map_or(0.0, |at_us| *at_us as f64 / 1e6)
    }
}
