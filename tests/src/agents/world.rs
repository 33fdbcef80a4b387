//! The simulated cluster: nodes, jobs, messages on their way, and the real agents that react to them.

use super::measure::Measures;
use super::queue::{Happening, Queue};
use super::scenario::{Scenario, Speeds};
use ios_agent::decide::tuning::Tuning;
use ios_agent::protocol::agent::Agent;
use ios_agent::protocol::effects::Effect;
use pcm_core::moment::Moment;
use pcm_proto::agent::{JobSample, NEIGHBOURS_MAX, Neighbour, RankReport, Resources};
use pcm_proto::ids::{Bytes, Epoch, JobId, NodeName, Rank};
use pcm_proto::random::Random;
use pcm_proto::rank_counts::RankCounts;

/// Shares of a job's data are given in so many parts.
const SHARE_SCALE: f64 = 1e6;

/// Neighbours are drawn anew so often.
const NEIGHBOURS_US: u64 = 30_000_000;

/// A simulated node.
pub struct Node {
    pub name: NodeName,
    pub speed: f64,
    pub site: usize,
    /// CPUs that others want there.
    pub demand: f64,
    /// Whether it is being emptied.
    pub is_draining: bool,
    pub(super) life: u32,
    pub(super) agent: Agent,
    pub(super) busy_since_us: Option<u64>,
    pub(super) neighbours_us: u64,
}

/// A simulated job.
pub struct Job {
    /// Node of each rank.
    pub places: Vec<usize>,
    /// Share of the work of each rank; together 1.
    pub shares: Vec<f64>,
    /// Work of an iteration on one CPU of speed 1.
    pub work_ms: f64,
    /// Communication of an iteration.
    pub mpi_ms: f64,
    pub iterations: f64,
    /// Counts its layouts.
    pub epoch: u64,
    /// Fewest and most ranks.
    pub bounds: (usize, usize),
    pub(super) coordinator: usize,
    pub(super) started_with: usize,
    pub(super) held_until_us: u64,
    pub(super) is_changing: bool,
    pub(super) at_us: u64,
}

/// A simulated cluster.
pub struct World {
    pub nodes: Vec<Node>,
    pub jobs: Vec<Job>,
    /// What was counted.
    pub measures: Measures,
    /// The time in microseconds.
    pub now_us: u64,
    pub(super) scenario: Scenario,
    pub(super) tuning: Tuning,
    pub(super) queue: Queue,
    pub(super) draw: Random,
    pub(super) residents: Vec<Vec<(usize, usize)>>,
    pub(super) coordinated: Vec<Vec<usize>>,
}

impl World {
    /// The cluster of a scenario and a seed.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        Self::tuned(scenario, seed, Tuning::default())
    }

    /// The same, with other numbers for the agents.
    pub fn tuned(scenario: &Scenario, seed: u64, tuning: Tuning) -> Self {
        let mut draw = Random::new(seed ^ 0x5eed);
        let nodes = (0..scenario.nodes).map(|index| new_node(index, scenario, &tuning, &mut draw));
        let mut world = Self {
            nodes: nodes.collect(),
            jobs: Vec::new(),
            measures: Measures::default(),
            now_us: 0,
            tuning: tuning.clone(),
            queue: Queue::default(),
            residents: vec![Vec::new(); scenario.nodes],
            coordinated: vec![Vec::new(); scenario.nodes],
            draw,
            scenario: scenario.clone(),
        };
        world.place_jobs();
        for node in 0..scenario.nodes {
            world.begin_life(node);
        }
        if scenario.churn_per_minute > 0.0 {
            let next = world.next_churn_us();
            world.queue.push(next, Happening::Churn);
        }
        world
    }

    fn place_jobs(&mut self) {
        let mut free: Vec<usize> = (0..self.nodes.len()).collect();
        for job in 0..self.scenario.jobs {
            let places: Vec<usize> = (0..self.scenario.ranks)
                .map(|_| match (free.is_empty(), self.scenario.is_scattered) {
                    (true, _) => self.draw.index(self.nodes.len()),
                    (false, true) => free.swap_remove(self.draw.index(free.len())),
                    (false, false) => free.remove(0),
                })
                .collect();
            let coordinator = places[0];
            self.jobs.push(Job {
                shares: vec![1.0 / places.len() as f64; places.len()],
                started_with: places.len(),
                places,
                work_ms: self.scenario.work_ms,
                mpi_ms: self.scenario.mpi_ms,
                iterations: 0.0,
                epoch: 0,
                bounds: (self.scenario.min, self.scenario.max),
                coordinator,
                held_until_us: 0,
                is_changing: false,
                at_us: 0,
            });
            self.coordinated[coordinator].push(job);
        }
        self.settle_residents();
    }

    fn settle_residents(&mut self) {
        self.residents.iter_mut().for_each(Vec::clear);
        for (index, job) in self.jobs.iter().enumerate() {
            for (rank, node) in job.places.iter().enumerate() {
                self.residents[*node].push((index, rank));
            }
        }
    }

    pub(super) fn begin_life(&mut self, node: usize) {
        let life = self.nodes[node].life;
        let period = self.scenario.look_ms * 1000;
        let offset = self.draw.number() % period;
        self.queue.push(self.now_us + offset, Happening::Look { node, life });
    }

    /// Others want so many CPUs of a node from a time on.
    pub fn load(&mut self, at_us: u64, node: usize, demand: f64) {
        self.queue.push(at_us, Happening::Load { node, demand });
    }

    /// Runs until a time.
    pub fn run(&mut self, until_us: u64) {
        while let Some((at_us, happening)) = self.queue.pop(until_us) {
            self.now_us = at_us;
            self.happen(happening);
        }
        self.now_us = until_us;
        for job in 0..self.jobs.len() {
            self.advance(job);
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Look { node, life } => self.look(node, life),
            Happening::Deliver {
                from,
                to,
                life,
                message,
            } => {
                if self.nodes[to].life == life {
                    let (now, from) = (Moment(self.now_us), self.nodes[from].name.clone());
                    let effects = self.nodes[to].agent.on_heard(now, &from, *message);
                    self.carry_out(to, effects);
                }
            }
            Happening::Changed {
                node,
                life,
                number,
                job,
                outcome,
                pause_us,
            } => {
                self.jobs[job].is_changing = false;
                self.advance(job);
                self.jobs[job].held_until_us = self.now_us + pause_us;
                if self.nodes[node].life == life {
                    let effects = self.nodes[node]
                        .agent
                        .on_proposed(Moment(self.now_us), number, &outcome);
                    self.carry_out(node, effects);
                }
            }
            Happening::Load { node, demand } => {
                self.advance_all_on(node);
                self.nodes[node].demand = demand;
                let is_busy = demand > 0.5 * f64::from(self.scenario.cpus);
                let since = &mut self.nodes[node].busy_since_us;
                *since = is_busy.then(|| since.unwrap_or(self.now_us));
            }
            Happening::Churn => self.churn(),
        }
    }

    /// The share of a CPU each rank on a node gets.
    pub fn share(&self, node: usize) -> f64 {
        let wanted = self.residents[node].len().max(1) as f64 + self.nodes[node].demand;
        (f64::from(self.scenario.cpus) / wanted).min(1.0)
    }

    fn useful_ms(&self, job: usize, rank: usize) -> f64 {
        let of = &self.jobs[job];
        let node = of.places[rank];
        of.work_ms * of.shares[rank] / (self.nodes[node].speed * self.share(node))
    }

    /// Time of an iteration of a job as it is placed.
    pub fn iteration_ms(&self, job: usize) -> f64 {
        let ranks = 0..self.jobs[job].places.len();
        ranks.map(|rank| self.useful_ms(job, rank)).fold(0.0, f64::max) + self.jobs[job].mpi_ms + self.links_ms(job)
    }

    pub(super) fn advance(&mut self, job: usize) {
        let iteration_ms = self.iteration_ms(job);
        let of = &mut self.jobs[job];
        let from = of.at_us.max(of.held_until_us.min(self.now_us));
        of.iterations += self.now_us.saturating_sub(from) as f64 / 1e3 / iteration_ms;
        of.at_us = self.now_us;
    }

    pub(super) fn advance_all_on(&mut self, node: usize) {
        let mut jobs: Vec<usize> = self.residents[node].iter().map(|(job, _)| *job).collect();
        jobs.dedup();
        jobs.into_iter().for_each(|job| self.advance(job));
    }

    fn look(&mut self, node: usize, life: u32) {
        if self.nodes[node].life != life {
            return;
        }
        self.queue.push(
            self.now_us + self.scenario.look_ms * 1000,
            Happening::Look { node, life },
        );
        let now = Moment(self.now_us);
        if self.now_us >= self.nodes[node].neighbours_us {
            let near = self.neighbours(node);
            self.nodes[node].neighbours_us = self.now_us + NEIGHBOURS_US;
            self.nodes[node].agent.on_neighbours(near);
        }
        let (own, jobs, links) = (self.resources(node), self.parts(node), self.links(node));
        self.nodes[node].agent.on_links(links);
        let mut effects = self.nodes[node].agent.on_look(now, own, jobs);
        effects.extend(self.nodes[node].agent.tick(now));
        self.carry_out(node, effects);
    }

    fn neighbours(&mut self, node: usize) -> Vec<Neighbour> {
        let count = self.nodes.len();
        let wanted = NEIGHBOURS_MAX.min(count - 1);
        let mut drawn: Vec<usize> = (0..wanted * 2)
            .map(|_| self.draw.index(count))
            .filter(|other| *other != node)
            .collect();
        if count <= NEIGHBOURS_MAX {
            drawn = (0..count).filter(|other| *other != node).collect();
        }
        drawn.sort_unstable();
        drawn.dedup();
        drawn.truncate(wanted);
        drawn.into_iter().map(|other| self.neighbour(other)).collect()
    }

    fn neighbour(&self, node: usize) -> Neighbour {
        let of = &self.nodes[node];
        Neighbour {
            node: of.name.clone(),
            site: self.scenario.site_name(of.site),
            host: node as u64,
        }
    }

    fn noisy(&mut self, value: f64) -> f64 {
        value * (1.0 + self.scenario.noise * (2.0 * self.draw.unit() - 1.0))
    }

    pub(super) fn resources(&mut self, node: usize) -> Resources {
        let demand = self.nodes[node].demand;
        let (demand, speed) = (self.noisy(demand), self.nodes[node].speed);
        let of = &self.nodes[node];
        Resources {
            node: of.name.clone(),
            site: self.scenario.site_name(of.site),
            host: node as u64,
            cpus: (0..self.scenario.cpus).collect(),
            speed,
            demand_by_others: demand,
            others_since_s: of.busy_since_us.map_or(0.0, |since| (self.now_us - since) as f64 / 1e6),
            ranks: self.residents[node].len() as u32,
            free_memory: Bytes(1 << 33),
            is_draining: of.is_draining,
            ends_soon: false,
        }
    }

    fn parts(&mut self, node: usize) -> Vec<(JobSample, Vec<RankReport>)> {
        let mut jobs: Vec<usize> = self.residents[node]
            .iter()
            .map(|(job, _)| *job)
            .chain(self.coordinated[node].iter().copied())
            .collect();
        jobs.sort_unstable();
        jobs.dedup();
        jobs.into_iter()
            .map(|job| (self.sample(job), self.rank_reports(job, node)))
            .collect()
    }

    fn sample(&self, job: usize) -> JobSample {
        let of = &self.jobs[job];
        let mut nodes = of.places.clone();
        nodes.sort_unstable();
        nodes.dedup();
        JobSample {
            job: JobId(job as u64),
            coordinator: self.nodes[of.coordinator].name.clone(),
            epoch: Epoch(of.epoch),
            size: of.places.len() as u32,
            nodes: nodes.len() as u32,
            started_with: of.started_with as u32,
            min: of.bounds.0 as u32,
            max: of.bounds.1 as u32,
            counts: RankCounts::default(),
            follows_shares: true,
            shares: of.shares.iter().map(|share| (share * SHARE_SCALE) as u32).collect(),
            allowed: Vec::new(),
            policy: self.scenario.policy.clone(),
            ranks: Vec::new(),
        }
    }

    fn rank_reports(&mut self, job: usize, node: usize) -> Vec<RankReport> {
        self.advance(job);
        let iteration_ms = self.iteration_ms(job);
        let ranks: Vec<usize> = self.residents[node]
            .iter()
            .filter(|(of, _)| *of == job)
            .map(|(_, rank)| *rank)
            .collect();
        let cpu_share = self.share(node);
        let report = |rank: usize, world: &mut Self| RankReport {
            rank: Rank(rank as u32),
            iterations: world.jobs[job].iterations as u64,
            iterations_declared: 0,
            iteration_ms: world.noisy(iteration_ms),
            useful_ms: {
                let useful = world.useful_ms(job, rank);
                world.noisy(useful)
            },
            cpu_share: world.noisy(cpu_share).min(1.0),
            registered: Bytes(world.scenario.bytes_per_rank),
            sends: world.sends(job, rank),
        };
        ranks.into_iter().map(|rank| report(rank, self)).collect()
    }

    pub(super) fn index(&self, name: &NodeName) -> Option<usize> {
        let index: usize = name.as_str().strip_prefix('n')?.split('-').next()?.parse().ok()?;
        self.nodes.get(index).filter(|node| node.name == *name).map(|_| index)
    }

    fn carry_out(&mut self, node: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Tell { to, message } => {
                    self.measures.messages += 1;
                    let Some(to) = self.index(&to) else { continue };
                    if self.draw.unit() < self.scenario.loss {
                        continue;
                    }
                    let delay = self.latency_us(node, to);
                    let life = self.nodes[to].life;
                    let message = Box::new(message);
                    self.queue.push(
                        self.now_us + delay,
                        Happening::Deliver {
                            from: node,
                            to,
                            life,
                            message,
                        },
                    );
                }
                Effect::Propose {
                    number,
                    job,
                    epoch,
                    change,
                    cause,
                } => {
                    self.change(node, number, job.0 as usize, epoch, &change, cause);
                }
                Effect::Decided { .. } => self.measures.decisions += 1,
            }
        }
    }

    /// The most that any agent keeps: thieves known, offers open, jobs led.
    pub fn kept_max(&self) -> [usize; 3] {
        let kept = self.nodes.iter().map(|node| node.agent.kept());
        kept.fold([0; 3], |most, kept| {
            std::array::from_fn(|index| most[index].max(kept[index]))
        })
    }
}

pub(super) fn new_node(index: usize, scenario: &Scenario, tuning: &Tuning, draw: &mut Random) -> Node {
    let name = NodeName::new(format!("n{index}")).expect("a short name of letters and digits");
    let speed = match scenario.speeds {
        Speeds::Same => 1.0,
        Speeds::Mixed => [0.5, 1.0, 1.5, 2.0][draw.index(4)],
    };
    let site = index * scenario.sites / scenario.nodes;
    let own = Resources {
        node: name.clone(),
        site: scenario.site_name(site),
        host: index as u64,
        cpus: (0..scenario.cpus).collect(),
        speed,
        demand_by_others: 0.0,
        others_since_s: 0.0,
        ranks: 0,
        free_memory: Bytes(1 << 33),
        is_draining: false,
        ends_soon: false,
    };
    Node {
        agent: Agent::new(Moment(0), own, tuning.clone(), draw.number()),
        name,
        speed,
        site,
        demand: 0.0,
        is_draining: false,
        life: 0,
        busy_since_us: None,
        neighbours_us: 0,
    }
}
