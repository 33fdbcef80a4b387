//! Nodes that die and are replaced, and ranks that run on elsewhere.

use super::queue::Happening;
use super::world::{World, new_node};
use ios_agent::protocol::agent::Agent;
use pcm_core::moment::Moment;
use pcm_proto::agent::Resources;
use pcm_proto::ids::NodeName;

/// Ranks of a node that died run elsewhere after this time.
const RECOVERY_US: u64 = 2_000_000;

impl World {
    pub(super) fn next_churn_us(&mut self) -> u64 {
        let per_s = self.scenario.churn_per_minute * self.nodes.len() as f64 / 60.0;
        self.now_us + (-self.draw.unit().max(1e-9).ln() / per_s * 1e6) as u64
    }

    /// A node dies and another one joins in its place; its ranks run on elsewhere after a while.
    pub(super) fn churn(&mut self) {
        let next = self.next_churn_us();
        self.queue.push(next, Happening::Churn);
        let node = self.draw.index(self.nodes.len());
        self.measures.deaths += 1;
        self.advance_all_on(node);
        let life = self.nodes[node].life + 1;
        let mut fresh = new_node(node, &self.scenario, &self.tuning, &mut self.draw);
        fresh.name = NodeName::new(format!("n{node}-{life}")).expect("a short name of letters and digits");
        fresh.agent = Agent::new(
            Moment(self.now_us),
            Resources {
                node: fresh.name.clone(),
                ..self.resources(node)
            },
            self.tuning.clone(),
            self.draw.number(),
        );
        fresh.life = life;
        self.nodes[node] = fresh;
        self.begin_life(node);
        self.recover(node);
    }

    fn recover(&mut self, dead: usize) {
        let mut jobs: Vec<usize> = self.residents[dead]
            .iter()
            .map(|(job, _)| *job)
            .chain(self.coordinated[dead].iter().copied())
            .collect();
        jobs.sort_unstable();
        jobs.dedup();
        for job in jobs {
            self.advance(job);
            for rank in 0..self.jobs[job].places.len() {
                if self.jobs[job].places[rank] == dead {
                    // A restart takes any node that is free, the first of a few that are looked at.
                    let tries: Vec<usize> = (0..20)
                        .map(|_| self.draw.index(self.nodes.len()))
                        .filter(|node| *node != dead)
                        .collect();
                    let free = tries.iter().copied().find(|node| self.residents[*node].is_empty());
                    let to = free.or(tries.first().copied()).unwrap_or(dead);
                    self.advance_all_on(to);
                    self.jobs[job].places[rank] = to;
                    self.settle_residents_of(job, &[dead, to]);
                }
            }
            let of = &mut self.jobs[job];
            of.epoch += 1;
            of.held_until_us = self.now_us + RECOVERY_US;
            let coordinator = of.places[0];
            let before = std::mem::replace(&mut of.coordinator, coordinator);
            self.coordinated[before].retain(|other| *other != job);
            self.coordinated[coordinator].push(job);
        }
    }
}
