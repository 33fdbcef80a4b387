//! Changes of simulated jobs: what a coordinator would carry out or refuse, and what it costs.

use super::links::NEAR_US;
use super::queue::Happening;
use super::world::World;
use pcm_proto::agent::ProposalOutcome;
use pcm_proto::control::LayoutChange;
use pcm_proto::ids::{Bytes, Epoch, NodeName, Rank};

/// Newcomers start and initialise in the background for so long.
const PREPARE_US: u64 = 300_000;

/// A change that moves nothing holds the ranks for so long; data moves at this many bytes a microsecond.
const PAUSE_US: u64 = 40_000;
const BYTES_PER_US: u64 = 500;

impl World {
    pub(super) fn change(
        &mut self,
        node: usize,
        number: u64,
        job: usize,
        epoch: Epoch,
        change: &LayoutChange,
        cause: String,
    ) {
        let life = self.nodes[node].life;
        let refuse = |message: &str| ProposalOutcome::Refused {
            code: "bad_layout".into(),
            message: message.into(),
        };
        let is_stale = self.jobs[job].epoch != epoch.0 || self.jobs[job].is_changing;
        let next = if is_stale { None } else { self.next_layout(job, change) };
        let Some((places, shares)) = next else {
            self.measures.refused += 1;
            let outcome = refuse("it is not possible any more");
            return self.queue.push(
                self.now_us + NEAR_US,
                Happening::Changed {
                    node,
                    life,
                    number,
                    job,
                    outcome,
                    pause_us: 0,
                },
            );
        };
        self.advance(job);
        let pairs = places.iter().zip(&self.jobs[job].places);
        let bytes = self.scenario.bytes_per_rank * pairs.filter(|(new, old)| new != old).count() as u64;
        let pause_us = PAUSE_US + bytes / BYTES_PER_US;
        let arrivals: Vec<usize> = places
            .iter()
            .copied()
            .filter(|node| !self.jobs[job].places.contains(node))
            .collect();
        // All on these nodes run differently from now on.
        let mut touched: Vec<usize> = places.iter().chain(&self.jobs[job].places).copied().collect();
        touched.sort_unstable();
        touched.dedup();
        touched.iter().for_each(|node| self.advance_all_on(*node));
        let of = &mut self.jobs[job];
        (of.places, of.shares) = (places, shares);
        of.epoch += 1;
        of.is_changing = true;
        self.settle_residents_of(job, &touched);
        self.note_crowded(job, &arrivals);
        self.measures.changes.push((self.now_us, job, cause));
        let outcome = ProposalOutcome::Done {
            pause_ms: pause_us as f64 / 1e3,
            bytes_moved: Bytes(bytes),
            total_ms: (PREPARE_US + pause_us) as f64 / 1e3,
        };
        self.queue.push(
            self.now_us + PREPARE_US,
            Happening::Changed {
                node,
                life,
                number,
                job,
                outcome,
                pause_us,
            },
        );
    }

    /// Nodes that a change gave more ranks than CPUs, next to ranks of other jobs.
    fn note_crowded(&mut self, job: usize, arrivals: &[usize]) {
        for arrival in arrivals {
            let (ranks, cpus) = (self.residents[*arrival].len(), self.scenario.cpus as usize);
            let has_mates = self.residents[*arrival].iter().any(|(other, _)| *other != job);
            if ranks > cpus && has_mates {
                self.measures.crowded.push(format!(
                    "{} has {ranks} ranks after a change of job {job} at {} s",
                    self.nodes[*arrival].name,
                    self.now_us / 1_000_000
                ));
            }
        }
    }

    pub(super) fn settle_residents_of(&mut self, job: usize, touched: &[usize]) {
        for node in touched {
            self.residents[*node].retain(|(other, _)| *other != job);
            let places = self.jobs[job].places.iter().enumerate();
            let here = places.filter(|(_, place)| *place == node).map(|(rank, _)| (job, rank));
            self.residents[*node].extend(here);
        }
    }

    fn next_layout(&self, job: usize, change: &LayoutChange) -> Option<(Vec<usize>, Vec<f64>)> {
        let of = &self.jobs[job];
        let equal = |places: Vec<usize>| {
            let share = 1.0 / places.len() as f64;
            (vec![share; places.len()], places)
        };
        let (shares, places) = match change {
            LayoutChange::Migrate(moves) => (of.shares.clone(), self.moved(job, moves)?),
            LayoutChange::Expand { to, nodes } => {
                let mut places = of.places.clone();
                let nodes: Option<Vec<usize>> = nodes.iter().map(|node| self.index(node)).collect();
                let nodes = nodes?;
                let count = (*to as usize).checked_sub(places.len())?;
                places.extend(nodes.iter().copied().cycle().take(count));
                equal(places)
            }
            LayoutChange::Leave(ranks) => {
                let staying = of
                    .places
                    .iter()
                    .enumerate()
                    .filter(|(rank, _)| !ranks.contains(&Rank(*rank as u32)));
                equal(staying.map(|(_, node)| *node).collect())
            }
            LayoutChange::Arrange { moves, weights } => {
                let sum: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
                let shares = weights.iter().map(|weight| f64::from(*weight) / sum);
                (shares.collect(), self.moved(job, moves)?)
            }
            _ => return None,
        };
        let is_sound = !places.is_empty()
            && places.len() >= of.bounds.0
            && places.len() <= of.bounds.1
            && shares.len() == places.len();
        is_sound.then_some((places, shares))
    }

    fn moved(&self, job: usize, moves: &[(Rank, NodeName)]) -> Option<Vec<usize>> {
        let mut places = self.jobs[job].places.clone();
        for (rank, to) in moves {
            let to = self.index(to)?;
            if self.nodes[to].is_draining {
                return None;
            }
            *places.get_mut(rank.0 as usize)? = to;
        }
        Some(places)
    }
}
