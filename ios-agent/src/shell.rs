//! The agent in its process: looks at the node, asks the daemon what the ranks' pages show, drives the pure agent with
//! that and carries out its effects. The only part that knows the clock and the link.

use crate::calibration::NodeSpeed;
use crate::cpu_limit::CpuLimit;
use crate::decide::tuning::Tuning;
use crate::families::Families;
use crate::own_node::OwnNode;
use crate::protocol::agent::Agent;
use crate::protocol::effects::Effect;
use crate::rank_window::RankWindows;
use crate::sampling::{self, RankSample, Sample};
use crate::window;
use pcm_core::moment::Moment;
use pcm_fabric::Link;
use pcm_proto::agent::{AgentToDaemon, DaemonToAgent, JobSample, NodeProfile};
use pcm_proto::ids::NodeName;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::link::LinkMeasured;
use pcm_proto::shortened::Shortened;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};

/// Time between two looks at the node: ten small files cost about 0.1 ms, which is a thousandth of a core.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A profile covers this many looks: ticks of 10 ms make shorter times too coarse.
const LOOKS_PER_PROFILE: usize = 5;

/// A group's limit may be changed at any time, but seldom is.
const LIMIT_EVERY: Duration = Duration::from_secs(1);

/// The daemon hears at least so often, whatever happens.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// The daemon is asked about its jobs so often; and so often when there was none.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);
const SAMPLE_IDLE_EVERY: Duration = Duration::from_secs(1);

/// An answer that is not there by then does not come.
const SAMPLE_WITHIN: Duration = Duration::from_secs(3);

/// One life of an agent.
pub(crate) struct Shell {
    link: Link,
    began: Instant,
    tuning: Tuning,
    node: OwnNode,
    agent: Option<Agent>,
    ranks: Vec<(ProcessKey, u32)>,
    windows: RankWindows,
    families: Families,
    cpu: BTreeMap<ProcessKey, RankSample>,
    speed: NodeSpeed,
    limit: Option<CpuLimit>,
    limit_seen: Option<Instant>,
    samples: Vec<Sample>,
    told: Option<(Instant, NodeProfile)>,
    asked: Option<Instant>,
    is_answered: bool,
    has_jobs: bool,
}

impl Shell {
    pub(crate) fn new(link: Link, node: NodeName, tuning: Tuning) -> Self {
        Self {
            link,
            began: Instant::now(),
            tuning,
            node: OwnNode::new(node, Vec::new()),
            agent: None,
            ranks: Vec::new(),
            windows: RankWindows::default(),
            families: Families::default(),
            cpu: BTreeMap::new(),
            speed: NodeSpeed::known(0.0),
            limit: None,
            limit_seen: None,
            samples: Vec::with_capacity(LOOKS_PER_PROFILE + 1),
            told: None,
            asked: None,
            is_answered: true,
            has_jobs: false,
        }
    }

    /// Works until the daemon is gone.
    pub(crate) async fn run(&mut self) {
        // Not niced: on a loaded node, where it is needed most, it would come too late. It takes less than 0.5 % of a
        // core.
        let pid = std::process::id();
        if self.link.send(&AgentToDaemon::Ready { pid }).await.is_err() {
            return;
        }
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_alive = tokio::select! {
                message = self.link.recv::<DaemonToAgent>() => match message {
                    Ok(message) => self.on_message(message).await,
                    Err(error) if error.is_end() => false,
                    Err(error) => {
                        tracing::warn!(%error, "the daemon is not understood");
                        true
                    }
                },
                _ = ticks.tick(), if !self.node.cpus.is_empty() => self.look().await,
            };
            if !is_alive {
                return;
            }
        }
    }

    fn now(&self) -> Moment {
        Moment(pcm_core::moment::micros(self.began.elapsed()))
    }

    fn now_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Handles a message; false when the daemon is gone.
    async fn on_message(&mut self, message: DaemonToAgent) -> bool {
        let now = self.now();
        tracing::debug!(message = %Shortened(&message));
        let effects = match message {
            DaemonToAgent::Welcome { node, cpus, speed } => {
                self.on_welcome(node, cpus, speed);
                Vec::new()
            }
            DaemonToAgent::Levels(text) => {
                if let Err(error) = node_log::write_as_told(&text) {
                    tracing::warn!(%error, "the levels stay as they are");
                }
                Vec::new()
            }
            DaemonToAgent::Ranks(ranks) => {
                self.ranks = ranks;
                Vec::new()
            }
            DaemonToAgent::Samples { at_ns, jobs, links } => self.on_samples(at_ns, jobs, links),
            DaemonToAgent::Neighbours {
                nodes,
                own,
                is_draining,
                ends_soon,
            } => {
                (self.node.site, self.node.host) = (own.site, own.host);
                (self.node.is_draining, self.node.ends_soon) = (is_draining, ends_soon);
                if let Some(agent) = &mut self.agent {
                    agent.on_neighbours(nodes);
                }
                Vec::new()
            }
            DaemonToAgent::Heard { from, message } => match &mut self.agent {
                Some(agent) => agent.on_heard(now, &from, *message),
                None => Vec::new(),
            },
            DaemonToAgent::Proposed { number, outcome } => {
                tracing::info!(number, ?outcome, "a proposal was answered");
                match &mut self.agent {
                    Some(agent) => agent.on_proposed(now, number, &outcome),
                    None => Vec::new(),
                }
            }
        };
        self.carry_out(effects).await
    }

    fn on_welcome(&mut self, node: NodeName, cpus: Vec<u32>, speed: f64) {
        bind(&cpus);
        self.speed = match speed > 0.0 {
            true => NodeSpeed::known(speed),
            false => NodeSpeed::measured(),
        };
        self.node = OwnNode::new(node, cpus);
        // Two lives of one agent must not number their offers alike; the clock is enough of a difference.
        let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let names = self
            .node
            .node
            .as_str()
            .bytes()
            .fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
        let seed = names ^ (since_boot.tv_nsec as u64) << 20 ^ since_boot.tv_sec as u64;
        let own = self.node.resources(self.now_s(), 0);
        self.agent = Some(Agent::new(self.now(), own, self.tuning.clone(), seed));
        let (node, cpus) = (&self.node.node, &self.node.cpus);
        tracing::info!(%node, ?cpus, speed = self.speed.value(), "the agent looks after its node");
    }

    /// Looks at the node; false when the daemon is gone.
    async fn look(&mut self) -> bool {
        if self.limit_seen.is_none_or(|seen| seen.elapsed() >= LIMIT_EVERY) {
            self.limit_seen = Some(Instant::now());
            self.look_for_limit();
        }
        let sample = sampling::take(&self.node.cpus, self.limit.as_ref(), &self.ranks, &mut self.families);
        self.cpu.clone_from(&sample.ranks);
        self.samples.push(sample);
        if self.samples.len() > LOOKS_PER_PROFILE {
            let oldest = self.samples.remove(0);
            let newest = &self.samples[self.samples.len() - 1];
            self.speed.look(self.began.elapsed());
            let profile = window::profile(&oldest, newest, self.speed.value());
            self.node
                .on_profile(self.began.elapsed().as_secs_f64(), profile, self.tuning.size.owner_load);
            if !self.tell(profile).await {
                return false;
            }
        }
        let now = self.now();
        let effects = self.agent.as_mut().map(|agent| agent.tick(now)).unwrap_or_default();
        self.carry_out(effects).await && self.ask_for_samples().await
    }

    fn look_for_limit(&mut self) {
        let limit = CpuLimit::find().filter(|limit| limit.cpus < self.node.cpus.len() as f64);
        if limit != self.limit {
            tracing::info!(cpus = ?limit.as_ref().map(|limit| limit.cpus), "the CPU time of this node is limited");
            self.node.set_limit(limit.as_ref().map(|limit| limit.cpus));
            // Counters of before were of something else.
            self.samples.clear();
            self.windows = RankWindows::default();
            self.limit = limit;
        }
    }

    /// Asks the daemon about its jobs when it is time to; false when the daemon is gone.
    async fn ask_for_samples(&mut self) -> bool {
        let has_work = self.has_jobs || !self.ranks.is_empty();
        let every = if has_work { SAMPLE_EVERY } else { SAMPLE_IDLE_EVERY };
        let after = if self.is_answered { every } else { SAMPLE_WITHIN };
        if self.asked.is_some_and(|asked| asked.elapsed() < after) {
            return true;
        }
        (self.asked, self.is_answered) = (Some(Instant::now()), false);
        let about = self.agent.as_ref().map(Agent::asks_about).unwrap_or_default();
        self.link.send(&AgentToDaemon::Sample { about }).await.is_ok()
    }

    fn on_samples(&mut self, at_ns: u64, jobs: Vec<JobSample>, links: Vec<LinkMeasured>) -> Vec<Effect> {
        (self.has_jobs, self.is_answered) = (!jobs.is_empty(), true);
        self.windows.on_samples(at_ns, &jobs, &self.cpu, self.node.pace());
        let own = self.node.resources(self.now_s(), self.ranks.len() as u32);
        let reported = jobs.into_iter().map(|job| {
            let reports = self.windows.reports(&job);
            (
                JobSample {
                    ranks: Vec::new(),
                    ..job
                },
                reports,
            )
        });
        let (reported, now): (Vec<_>, _) = (reported.collect(), self.now());
        let Some(agent) = &mut self.agent else {
            return Vec::new();
        };
        // The daemon of a node with limited CPU time has to wait for its turns: it measures those.
        agent.on_links(if self.limit.is_none() { links } else { Vec::new() });
        agent.on_look(now, own, reported)
    }

    async fn carry_out(&mut self, effects: Vec<Effect>) -> bool {
        for effect in effects {
            let message = match effect {
                Effect::Tell { to, message } => AgentToDaemon::Tell {
                    to,
                    message: Box::new(message),
                },
                Effect::Propose {
                    number,
                    job,
                    epoch,
                    change,
                    cause,
                } => {
                    tracing::info!(number, %job, ?change, cause, "a change is proposed");
                    AgentToDaemon::Propose {
                        number,
                        job,
                        epoch,
                        change,
                        cause,
                    }
                }
                Effect::Decided { job, decision } => AgentToDaemon::Decided { job, decision },
            };
            if self.link.send(&message).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Tells the daemon what is due or notable; false when it is gone.
    async fn tell(&mut self, profile: NodeProfile) -> bool {
        if let Some((at, last)) = &self.told
            && at.elapsed() < TELL_EVERY
            && !window::is_notable(last, &profile)
        {
            return true;
        }
        self.told = Some((Instant::now(), profile));
        self.link.send(&AgentToDaemon::Profile(profile)).await.is_ok()
    }
}

/// The agent measures the node's own CPUs, so it runs there.
fn bind(cpus: &[u32]) {
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus
        .iter()
        .filter(|cpu| (**cpu as usize) < rustix::thread::CpuSet::MAX_CPU)
    {
        set.set(*cpu as usize);
    }
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        tracing::warn!(%error, "the agent is not bound to its node's CPUs");
    }
}
