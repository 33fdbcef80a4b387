//! One node's agent: its thief, the jobs led here, and the walks of requests that pass through. Takes events and the
//! time, gives effects. Pure; knows no socket, clock or process.

use super::draw::Draw;
use super::effects::{Effect, Outbox};
use super::known::Known;
use super::led_job::{Around, LedJob};
use super::reporting::Reporting;
use super::thief::{Room, Terms, Thief};
use crate::decide::tuning::Tuning;
use pcm_core::moment::Moment;
use pcm_proto::agent::{
    AgentToAgent, JobSample, Need, Neighbour, OfferNumber, PartReport, ProposalOutcome, RankReport, Resources,
};
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::link::{LINKS_OF_JOB_MAX, LinkMeasured};
use std::collections::BTreeMap;
use std::time::Duration;

/// Walks passed on in a second; in a cluster that behaves there are a few.
const WALKS_PER_S: f64 = 20.0;

/// Most hops a walk may ask for, whoever sends it.
const HOPS_MAX: u8 = 16;

/// Messages to itself in one go; more would be a loop.
const OWN_MESSAGES_MAX: usize = 1000;

#[derive(Clone, Debug)]
pub struct Agent {
    own: Resources,
    near: Vec<Neighbour>,
    links: Vec<LinkMeasured>,
    own_jobs: BTreeMap<JobId, u32>,
    leaders: BTreeMap<JobId, NodeName>,
    led: BTreeMap<JobId, LedJob>,
    known: Known,
    thief: Thief,
    reporting: Reporting,
    tuning: Tuning,
    draw: Draw,
    count: u64,
    walks: (Moment, f64),
}

impl Agent {
    /// The agent of a node that has just come up. `seed` must differ between nodes and lives: offers are numbered from
    /// it.
    pub fn new(now: Moment, own: Resources, tuning: Tuning, seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        Self {
            thief: Thief::new(now, &tuning.steal),
            // A number of an earlier life of this agent must not be taken for one of this.
            count: draw.number() >> 16,
            own,
            near: Vec::new(),
            links: Vec::new(),
            own_jobs: BTreeMap::new(),
            leaders: BTreeMap::new(),
            led: BTreeMap::new(),
            known: Known::default(),
            reporting: Reporting::default(),
            tuning,
            draw,
            walks: (now, WALKS_PER_S),
        }
    }

    /// The node's name.
    pub fn node(&self) -> &NodeName {
        &self.own.node
    }

    /// Other nodes to talk to.
    pub fn on_neighbours(&mut self, near: Vec<Neighbour>) {
        self.near = near.into_iter().filter(|near| near.node != self.own.node).collect();
    }

    /// What was measured of the links from this node.
    pub fn on_links(&mut self, links: Vec<LinkMeasured>) {
        self.links = links;
    }

    /// Nodes whose links this one would know: those that its jobs could go to.
    pub fn asks_about(&self) -> Vec<NodeName> {
        let thieves = self.known.thieves().filter(|_| !self.led.is_empty());
        thieves.map(|thief| thief.node.clone()).collect()
    }

    /// The links that the leader of a job is told of: all if it is here, else that to it and as many more as matter.
    fn links_for(&self, leader: &NodeName) -> Vec<LinkMeasured> {
        if *leader == self.own.node {
            return self.links.clone();
        }
        let mut links = self.links.clone();
        links.sort_by_key(|link| link.node != *leader);
        links.truncate(LINKS_OF_JOB_MAX);
        links
    }

    /// How the node and its parts of jobs are now. Jobs that are not named have left.
    pub fn on_look(&mut self, now: Moment, own: Resources, jobs: Vec<(JobSample, Vec<RankReport>)>) -> Vec<Effect> {
        let mut out = Outbox::default();
        self.own = own;
        self.own_jobs = jobs
            .iter()
            .filter(|(_, ranks)| !ranks.is_empty())
            .map(|(job, ranks)| (job.job, ranks.len() as u32))
            .collect();
        self.leaders = jobs.iter().map(|(job, _)| (job.job, job.coordinator.clone())).collect();
        let all: Vec<JobId> = jobs.iter().map(|(job, _)| job.job).collect();
        self.reporting.keep(&all);
        self.end_jobs(now, &jobs, &mut out);
        let node = self.present();
        for (job, ranks) in jobs {
            let leader = job.coordinator.clone();
            let is_here = leader == self.own.node;
            if is_here {
                let (tuning, draw) = (&self.tuning, &mut self.draw);
                let led = self
                    .led
                    .entry(job.job)
                    .or_insert_with(|| LedJob::new(now, job.clone(), tuning, draw));
                led.on_sample(now, job.clone());
            }
            let report = PartReport {
                job: job.job,
                epoch: job.epoch,
                node: node.clone(),
                ranks,
                links: self.links_for(&leader),
            };
            if is_here {
                if let Some(led) = self.led.get_mut(&job.job) {
                    led.on_report(now, report);
                }
            } else if !report.ranks.is_empty() && self.reporting.is_due(now, &report, job.nodes) {
                out.tell(&leader, AgentToAgent::Report(Box::new(report)));
            }
        }
        self.settle(now, out)
    }

    fn end_jobs(&mut self, now: Moment, jobs: &[(JobSample, Vec<RankReport>)], out: &mut Outbox) {
        let is_led = |job: &JobId| {
            jobs.iter()
                .any(|(sample, _)| sample.job == *job && sample.coordinator == self.own.node)
        };
        let over: Vec<JobId> = self.led.keys().copied().filter(|job| !is_led(job)).collect();
        for job in over {
            self.with_led(now, job, out, |led, around| led.end(around));
            self.led.remove(&job);
        }
    }

    /// Runs something on a job that is led here, with all it needs around it.
    fn with_led(&mut self, now: Moment, job: JobId, out: &mut Outbox, act: impl FnOnce(&mut LedJob, &mut Around<'_>)) {
        let Some(led) = self.led.get_mut(&job) else { return };
        let mut around = Around {
            now,
            own: &self.own.node,
            known: &mut self.known,
            near: &self.near,
            tuning: &self.tuning,
            draw: &mut self.draw,
            count: &mut self.count,
            out,
        };
        act(led, &mut around);
    }

    /// What this node has to give, places it keeps taken off.
    fn present(&self) -> Resources {
        Resources {
            ranks: self.own.ranks + self.thief.promised(),
            ..self.own.clone()
        }
    }

    /// The time has come to look after everything that waits for it; a few times a second.
    pub fn tick(&mut self, now: Moment) -> Vec<Effect> {
        let mut out = Outbox::default();
        self.known
            .expire(now, Duration::from_secs_f64(self.tuning.steal.remember_s));
        let own = self.present();
        self.thief
            .choose(now, &own, &self.own_jobs, &self.tuning.steal, &mut out);
        let own = self.present();
        self.thief
            .ask(now, &own, &self.near, &self.tuning.steal, &mut self.draw, &mut out);
        let led: Vec<JobId> = self.led.keys().copied().collect();
        for job in led {
            self.with_led(now, job, &mut out, |led, around| led.tick(around));
        }
        self.settle(now, out)
    }

    /// Something from the agent of another node, or of this one.
    pub fn on_heard(&mut self, now: Moment, from: &NodeName, message: AgentToAgent) -> Vec<Effect> {
        let mut out = Outbox::default();
        self.hear(now, from, message, &mut out);
        self.settle(now, out)
    }

    /// What became of a proposal.
    pub fn on_proposed(&mut self, now: Moment, number: u64, outcome: &ProposalOutcome) -> Vec<Effect> {
        let mut out = Outbox::default();
        let led: Vec<JobId> = self.led.keys().copied().collect();
        for job in led {
            let mut is_its = false;
            self.with_led(now, job, &mut out, |led, around| {
                is_its = led.on_proposed(number, outcome, around)
            });
            if is_its {
                break;
            }
        }
        self.settle(now, out)
    }

    /// Takes messages to the own node round, so that every effect leaves the node.
    fn settle(&mut self, now: Moment, mut out: Outbox) -> Vec<Effect> {
        let mut effects = Vec::new();
        for _ in 0..OWN_MESSAGES_MAX {
            effects.append(&mut out.effects);
            if out.messages.is_empty() {
                break;
            }
            let mut next = Outbox::default();
            for (to, message) in out.messages {
                if to == self.own.node {
                    self.hear(now, &to, message, &mut next);
                } else {
                    effects.push(Effect::Tell { to, message });
                }
            }
            out = next;
        }
        effects
    }

    fn hear(&mut self, now: Moment, from: &NodeName, message: AgentToAgent, out: &mut Outbox) {
        match message {
            AgentToAgent::Report(report) => {
                if let Some(led) = self.led.get_mut(&report.job) {
                    led.on_report(now, *report);
                }
            }
            AgentToAgent::Steal { thief, hops } => self.on_steal(now, from, thief, hops, out),
            AgentToAgent::Seek { leader, need, hops } => self.on_seek(now, from, leader, need, hops, out),
            AgentToAgent::Offer {
                offer,
                job,
                ranks,
                need,
                size_permille,
                gain_s,
            } => {
                let own = self.present();
                let room = Room {
                    own: &own,
                    own_jobs: &self.own_jobs,
                    job,
                    tuning: &self.tuning.steal,
                };
                let terms = Terms {
                    job,
                    ranks: ranks.max(1),
                    need,
                    size_permille,
                    gain_s,
                };
                self.thief.on_offer(now, from, offer, terms, room, out);
            }
            AgentToAgent::Accept { offer } => match self.job_of(offer) {
                Some(job) => self.with_led(now, job, out, |led, around| led.on_accept(from, around)),
                None => out.tell(from, AgentToAgent::Release { offer }),
            },
            AgentToAgent::Decline { offer } => {
                if let Some(job) = self.job_of(offer) {
                    self.with_led(now, job, out, |led, around| led.on_decline(from, around));
                }
            }
            AgentToAgent::Release { offer } => self.thief.on_release(from, offer),
            AgentToAgent::Moved { offer } => self.thief.on_moved(now, from, offer, &self.tuning.steal),
        }
    }

    fn job_of(&self, offer: OfferNumber) -> Option<JobId> {
        self.led
            .iter()
            .find(|(_, led)| led.has_offered(offer))
            .map(|(job, _)| *job)
    }

    /// Somebody has room. Jobs led here may use it; unless one was waiting for that, others may hear of it too.
    fn on_steal(&mut self, now: Moment, from: &NodeName, thief: Box<Resources>, hops: u8, out: &mut Outbox) {
        if thief.node == self.own.node {
            return;
        }
        let is_wanted = self.led.values().any(|led| led.want().is_some());
        if !self.led.is_empty() {
            self.known.remember(now, (*thief).clone());
            self.led.values_mut().for_each(|led| led.on_thief(now));
        }
        if is_wanted {
            return;
        }
        let not_there = [from.clone(), thief.node.clone()];
        // Who runs ranks knows who decides about them: the best place to pass a request on to.
        let leaders: Vec<&NodeName> = self
            .leaders
            .values()
            .filter(|leader| **leader != self.own.node)
            .collect();
        if let Some(next) = self.next_of_walk(now, hops, &leaders.into_iter().cloned().collect::<Vec<_>>(), &not_there)
        {
            let hops = hops.min(HOPS_MAX) - 1;
            out.tell(&next, AgentToAgent::Steal { thief, hops });
        }
    }

    /// Somebody looks for room.
    fn on_seek(&mut self, now: Moment, from: &NodeName, leader: NodeName, need: Need, hops: u8, out: &mut Outbox) {
        let own = self.present();
        if leader != self.own.node && Thief::is_hungry(&own, &self.tuning.steal) {
            let thief = Box::new(own);
            return out.tell(&leader, AgentToAgent::Steal { thief, hops: 0 });
        }
        let not_there = [from.clone(), leader.clone()];
        if let Some(next) = self.next_of_walk(now, hops, &[], &not_there) {
            let hops = hops.min(HOPS_MAX) - 1;
            out.tell(&next, AgentToAgent::Seek { leader, need, hops });
        }
    }

    /// Where a walk goes on, if it does.
    fn next_of_walk(&mut self, now: Moment, hops: u8, first: &[NodeName], not_there: &[NodeName]) -> Option<NodeName> {
        if hops == 0 || !self.may_pass(now) {
            return None;
        }
        let is_new = |node: &&NodeName| !not_there.contains(node);
        let preferred: Vec<&NodeName> = first.iter().filter(is_new).collect();
        // Half of the walks go on at random, or they would never leave a busy neighbourhood.
        let candidates: Vec<&NodeName> = if preferred.is_empty() || self.draw.unit() < 0.5 {
            self.near.iter().map(|near| &near.node).filter(is_new).collect()
        } else {
            preferred
        };
        let index = self.draw.below(candidates.len());
        candidates.get(index).map(|node| (*node).clone())
    }

    /// A bucket of walks that fills by itself.
    fn may_pass(&mut self, now: Moment) -> bool {
        let (at, left) = self.walks;
        let filled = (left + now.since(at).as_secs_f64() * WALKS_PER_S).min(WALKS_PER_S);
        self.walks = (now, if filled >= 1.0 { filled - 1.0 } else { filled });
        filled >= 1.0
    }

    /// How much the agent keeps: thieves known, offers open, jobs led. For those who check that it stays bounded.
    pub fn kept(&self) -> [usize; 3] {
        [self.known.len(), self.thief.open_offers(), self.led.len()]
    }
}
