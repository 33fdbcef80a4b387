//! What daemons write on the pages of their ranks and read there.

use super::happening::{Happening, RankHappening};
use super::rank::{Activity, Rank};
use super::scenario::Plant;
use super::simulation::Simulation;
use pcm_core::node::ranks::effect::RankFact;
use pcm_core::node::ranks::pages::{PageQuestion, Pages};
use pcm_proto::agent::RankCounters;
use pcm_proto::app::AppToDaemon;
use pcm_proto::ids::{Bytes, Iteration, JobId};
use pcm_proto::job::RankStatus;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::parked::ParkKey;
use pcm_proto::peer::RanksBegun;
use pcm_proto::reconfiguration::ReconfigurationReport;

/// So much data has a rank for each of its elements, as it says.
const ELEMENT_BYTES: u64 = 512 << 10;

impl Simulation {
    /// The ceiling is written; what the page announces then.
    pub(super) fn set_ceiling(&mut self, key: ProcessKey, ceiling: Iteration) -> Option<RankFact> {
        let is_planted = self.has_plant(Plant::RankEntersAnywhere);
        let rank = self.ranks.get_mut(&key)?;
        rank.page.ceiling = ceiling.0;
        let (turn, started, ends) = (rank.turn(), rank.page.started, rank.program.iterations);
        if rank.is_alive && rank.activity == Activity::Waiting {
            self.queue.after(5, Happening::Rank(RankHappening::LooksUp(turn)));
        } else if is_planted && rank.is_member && ceiling.0 != u64::MAX {
            let report = ReconfigurationReport::AtCeiling {
                iteration: ceiling,
                port: String::new(),
            };
            self.say(key, AppToDaemon::Reconfiguration(report), None);
        }
        Some(RankFact::CeilingWritten {
            key,
            ceiling,
            started: Iteration(started),
            ends: Some(Iteration(ends)),
        })
    }

    pub(super) fn weigh_data(&self, key: ParkKey) -> RankFact {
        let process = ProcessKey {
            job: key.job,
            process: key.process,
        };
        let data = self.ranks.get(&process).map_or(0, |rank| rank.data.len() as u64);
        RankFact::DataWeighed {
            key,
            constant: Bytes(0),
            registered: Bytes(data * ELEMENT_BYTES),
        }
    }

    pub(super) fn find_data(&self, key: ParkKey) -> RankFact {
        let process = ProcessKey {
            job: key.job,
            process: key.process,
        };
        let is_there = self.ranks.get(&process).is_some_and(|rank| rank.page.is_published);
        RankFact::DataFound {
            key,
            table: u64::from(is_there),
            stretches: u32::from(is_there),
        }
    }

    fn attached(&self, machine: usize, job: JobId) -> impl Iterator<Item = &Rank> {
        let daemon = self.machines[machine].daemon.as_ref();
        let keys = daemon.into_iter().flat_map(|daemon| daemon.attached.keys());
        let of_job = keys.filter(move |key| key.job == job);
        of_job.filter_map(|key| self.ranks.get(key))
    }

    pub(super) fn read_pages(&self, machine: usize, question: &PageQuestion) -> Pages {
        match question {
            PageQuestion::Ranks { job } => {
                let rows = self.attached(machine, *job).map(|rank| self.row(machine, rank));
                Pages::Ranks(rows.collect())
            }
            PageQuestion::Begun { job } => {
                let mut begun = RanksBegun::default();
                for rank in self.attached(machine, *job).filter(|rank| rank.page.started > 0) {
                    begun.processes.push(rank.key.process);
                    begun.registered.0 += rank.data.len() as u64 * ELEMENT_BYTES;
                }
                Pages::Begun(begun)
            }
            PageQuestion::Looks { .. } => Pages::Looks(Vec::new()),
            PageQuestion::Traces { .. } => Pages::Traces(Vec::new()),
            PageQuestion::Counters { jobs } => {
                let jobs = jobs.iter().map(|(job, ranks)| {
                    let of_job = self.attached(machine, *job).filter_map(|rank| {
                        let number = ranks.get(&rank.key.process)?;
                        Some(counters(rank, *number))
                    });
                    (*job, of_job.collect())
                });
                Pages::Counters {
                    at_ns: self.queue.now() * 1000,
                    jobs: jobs.collect(),
                }
            }
            PageQuestion::Reached { job } => {
                let begun = self.attached(machine, *job).map(|rank| rank.page.started);
                let begun = begun.filter(|begun| *begun != u64::MAX && *begun > 0).max();
                Pages::Reached {
                    iteration: begun.map(|begun| Iteration(begun - 1)),
                }
            }
        }
    }

    fn row(&self, machine: usize, rank: &Rank) -> RankStatus {
        RankStatus {
            rank: rank.rank,
            process: rank.key.process,
            node: self.machines[machine].name.clone(),
            pid: rank.pid,
            iteration: Iteration(rank.iteration),
            iterations_here: 10,
            useful_ms: 0.0,
            wait_ms: 0.0,
            memory: Bytes(0),
            iterations_declared: Some(Iteration(rank.program.iterations)),
            restored: Bytes(0),
            call: String::new(),
            call_since_ms: 0.0,
            peer: None,
            tag: None,
            bytes: None,
            sent: Bytes(0),
            received: Bytes(0),
            registered: Bytes(rank.data.len() as u64 * ELEMENT_BYTES),
            constant: Bytes(0),
        }
    }
}

fn counters(rank: &Rank, number: pcm_proto::ids::Rank) -> RankCounters {
    RankCounters {
        process: rank.key.process,
        rank: number,
        iterations: rank.iteration,
        iterations_declared: rank.program.iterations,
        useful_ns: rank.iteration * rank.program.iteration_us * 1000,
        mpi_ns: 0,
        registered: Bytes(rank.data.len() as u64 * ELEMENT_BYTES),
        sent: Vec::new(),
    }
}
