//! Conversations between agents, with messages lost, late, doubled, and peers that die.

#![allow(clippy::unwrap_used, reason = "tests")]

use ios_agent::decide::tuning::Tuning;
use ios_agent::protocol::agent::Agent;
use ios_agent::protocol::effects::Effect;
use pcm_core::moment::Moment;
use pcm_proto::agent::{AgentToAgent, JobSample, Need, Neighbour, OfferNumber, ProposalOutcome, RankReport, Resources};
use pcm_proto::control::LayoutChange;
use pcm_proto::ids::{Bytes, Epoch, JobId, NodeName, Rank};
use pcm_proto::link::{LINKS_OF_JOB_MAX, LinkMeasured};
use pcm_proto::rank_counts::RankCounts;
use std::collections::BTreeMap;

const MS: u64 = 1000;

fn name(of: &str) -> NodeName {
    NodeName::new(of).unwrap()
}

fn resources(of: &str, ranks: u32, demand: f64) -> Resources {
    Resources {
        node: name(of),
        site: String::new(),
        host: u64::from(of.as_bytes()[0]),
        cpus: vec![0],
        speed: 1.0,
        demand_by_others: demand,
        others_since_s: 0.0,
        ranks,
        free_memory: Bytes(1 << 30),
        is_draining: false,
        ends_soon: false,
    }
}

/// A job of one rank on a node that is led there.
fn job(number: u64, leader: &str, epoch: Epoch) -> JobSample {
    JobSample {
        job: JobId(number),
        coordinator: name(leader),
        epoch,
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
    }
}

fn rank(iterations: u64, cpu_share: f64) -> RankReport {
    RankReport {
        rank: Rank(0),
        iterations,
        iterations_declared: 1_000_000,
        iteration_ms: 11.0 / cpu_share - 1.0,
        useful_ms: 10.0 / cpu_share,
        cpu_share,
        registered: Bytes(8),
        sends: Vec::new(),
    }
}

/// Some agents, a clock, and messages that arrive after a millisecond unless the test keeps them back.
struct Stage {
    agents: BTreeMap<NodeName, Agent>,
    now_us: u64,
    wire: Vec<(NodeName, NodeName, AgentToAgent)>,
    proposed: Vec<(NodeName, u64, LayoutChange)>,
    offers: usize,
    /// Why chosen changes were taken back.
    taken_back: Vec<String>,
    /// What others want of the thief's CPU.
    demand_at_thief: fn(u64) -> f64,
    lost: fn(&AgentToAgent) -> bool,
    epoch: Epoch,
    cpu_share: f64,
}

impl Stage {
    /// Leaders with one rank each on a loaded node, and a thief that has nothing.
    fn new(leaders: &[&str]) -> Self {
        let all: Vec<&str> = leaders.iter().copied().chain(["thief"]).collect();
        let mut agents = BTreeMap::new();
        for (seed, of) in all.iter().enumerate() {
            let is_thief = *of == "thief";
            let own = resources(of, u32::from(!is_thief), if is_thief { 0.0 } else { 1.0 });
            let mut agent = Agent::new(Moment(0), own, Tuning::default(), seed as u64);
            let near = all.iter().filter(|other| *other != of).map(|other| Neighbour {
                node: name(other),
                site: String::new(),
                host: 0,
            });
            agent.on_neighbours(near.collect());
            agents.insert(name(of), agent);
        }
        Self {
            agents,
            now_us: 0,
            wire: Vec::new(),
            proposed: Vec::new(),
            offers: 0,
            taken_back: Vec::new(),
            demand_at_thief: |_| 0.0,
            lost: |_| false,
            epoch: Epoch(0),
            cpu_share: 0.5,
        }
    }

    fn carry_out(&mut self, node: &NodeName, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Tell { to, message } => {
                    assert_ne!(to, *node, "a message to itself leaves the node");
                    self.offers += usize::from(matches!(message, AgentToAgent::Offer { .. }));
                    if !(self.lost)(&message) {
                        self.wire.push((node.clone(), to, message));
                    }
                }
                Effect::Propose { number, change, .. } => self.proposed.push((node.clone(), number, change)),
                Effect::Decided { decision, .. } => {
                    let why = decision.reason.split_once("was taken back: ");
                    self.taken_back.extend(why.map(|(_, why)| why.to_owned()));
                }
            }
        }
    }

    fn tell(&mut self, from: &str, to: &str, message: AgentToAgent) {
        let (to, now) = (name(to), Moment(self.now_us));
        if let Some(agent) = self.agents.get_mut(&to) {
            let effects = agent.on_heard(now, &name(from), message);
            self.carry_out(&to, effects);
        }
    }

    /// Lets time pass in steps of 50 ms: looks, ticks, messages.
    fn run(&mut self, ms: u64) {
        for _ in 0..ms / 50 {
            self.now_us += 50 * MS;
            let nodes: Vec<NodeName> = self.agents.keys().cloned().collect();
            for node in nodes {
                let now = Moment(self.now_us);
                let is_thief = node.as_str() == "thief";
                let agent = self.agents.get_mut(&node).unwrap();
                let demand = if is_thief {
                    (self.demand_at_thief)(self.now_us)
                } else {
                    1.0
                };
                let own = resources(node.as_str(), u32::from(!is_thief), demand);
                let number = u64::from(node.as_str().as_bytes()[0]);
                let jobs = if is_thief {
                    Vec::new()
                } else {
                    let job = job(number, node.as_str(), self.epoch);
                    vec![(job, vec![rank(self.now_us / 21_000, self.cpu_share)])]
                };
                let mut effects = agent.on_look(now, own, jobs);
                effects.extend(agent.tick(now));
                self.carry_out(&node, effects);
            }
            self.deliver();
        }
    }

    fn deliver(&mut self) {
        for _ in 0..100 {
            let wire = std::mem::take(&mut self.wire);
            for (from, to, message) in wire {
                self.tell(from.as_str(), to.as_str(), message);
            }
        }
        assert!(self.wire.is_empty(), "the agents never stop talking: {:?}", self.wire);
    }

    fn outcome(&mut self, index: usize, outcome: &ProposalOutcome) {
        let (node, number, _) = self.proposed[index].clone();
        let now = Moment(self.now_us);
        let effects = self.agents.get_mut(&node).unwrap().on_proposed(now, number, outcome);
        self.carry_out(&node, effects);
        self.deliver();
    }

    fn kept_by_thief(&self) -> usize {
        self.agents[&name("thief")].kept()[1]
    }
}

fn refused() -> ProposalOutcome {
    ProposalOutcome::Refused {
        code: "reconfiguring".into(),
        message: "busy".into(),
    }
}

fn done() -> ProposalOutcome {
    ProposalOutcome::Done {
        pause_ms: 30.0,
        bytes_moved: Bytes(8),
        total_ms: 300.0,
    }
}

#[test]
fn an_idle_node_takes_the_rank_of_a_loaded_one() {
    let mut stage = Stage::new(&["a"]);
    stage.run(4000);
    let to_thief = LayoutChange::Migrate(vec![(Rank(0), name("thief"))]);
    assert_eq!(stage.proposed.len(), 1);
    assert_eq!(stage.proposed[0].2, to_thief);
    assert_eq!(stage.kept_by_thief(), 1);
    stage.outcome(0, &done());
    assert_eq!(stage.kept_by_thief(), 0, "the place was used");
}

#[test]
fn a_change_of_its_own_that_shows_late_is_nobody_elses() {
    let mut stage = Stage::new(&["a"]);
    stage.run(4000);
    stage.outcome(0, &done());
    stage.run(100);
    (stage.epoch, stage.cpu_share) = (Epoch(1), 1.0);
    stage.run(9000);
    assert_eq!(stage.proposed.len(), 1, "nothing is better than what there is");
    stage.cpu_share = 0.5;
    stage.run(3000);
    assert_eq!(stage.proposed.len(), 2, "the next load is answered like the first");
}

#[test]
fn what_somebody_else_changed_is_left_alone() {
    let mut stage = Stage::new(&["a"]);
    stage.cpu_share = 1.0;
    stage.run(4000);
    (stage.epoch, stage.cpu_share) = (Epoch(1), 0.5);
    stage.run(9000);
    assert_eq!(stage.proposed.len(), 0);
}

#[test]
fn every_offer_ends_in_a_change_or_in_a_reason() {
    type Case = (fn(&AgentToAgent) -> bool, fn(u64) -> f64, Option<&'static str>);
    let offer: fn(&AgentToAgent) -> bool = |message| matches!(message, AgentToAgent::Offer { .. });
    let cases: [Case; 4] = [
        (|_| false, |_| 0.0, None),
        (offer, |_| 0.0, Some("thief did not answer in time")),
        // It has room when it asks, and none when it is offered something.
        (
            |_| false,
            |us| if us % 2_000_000 < 200_000 { 0.0 } else { 0.9 },
            Some("thief has no room"),
        ),
        // A person looks at the cluster again and again.
        (|_| false, |us| if us % 400_000 < 200_000 { 0.2 } else { 0.45 }, None),
    ];
    for (number, (lost, demand, reason)) in cases.into_iter().enumerate() {
        let mut stage = Stage::new(&["a"]);
        (stage.lost, stage.demand_at_thief) = (lost, demand);
        stage.run(30_000);
        assert!(stage.offers > 0, "case {number}");
        assert_eq!(
            stage.proposed.is_empty(),
            reason.is_some(),
            "case {number}: {:?}",
            stage.taken_back
        );
        let is_told = |reason: &str| stage.taken_back.iter().all(|told| told.starts_with(reason));
        assert!(reason.is_none_or(is_told), "case {number}: {:?}", stage.taken_back);
        assert_eq!(
            stage.taken_back.is_empty(),
            reason.is_none(),
            "case {number}: {:?}",
            stage.taken_back
        );
        assert!(stage.taken_back.len() <= 3, "case {number}: {:?}", stage.taken_back);
    }
}

#[test]
fn a_refusal_of_the_coordinator_is_told() {
    let mut stage = Stage::new(&["a"]);
    stage.run(4000);
    stage.outcome(0, &refused());
    assert_eq!(stage.taken_back, ["busy"]);
    assert_eq!(stage.kept_by_thief(), 0);
}

#[test]
fn of_two_leaders_one_gets_the_only_place() {
    let mut stage = Stage::new(&["a", "b"]);
    stage.run(8000);
    assert_eq!(stage.proposed.len(), 1, "{:?}", stage.proposed);
    assert_eq!(stage.kept_by_thief(), 1);
}

#[test]
fn the_job_that_has_grown_least_goes_first_and_a_refuge_before_all() {
    let offer = |job: u64, need, size_permille, gain_s| AgentToAgent::Offer {
        offer: OfferNumber(job),
        job: JobId(job),
        ranks: 1,
        need,
        size_permille,
        gain_s,
    };
    for (offers, winner) in [
        (
            [offer(1, Need::Relief, 1000, 1.0), offer(2, Need::Relief, 2000, 9.0)],
            1,
        ),
        (
            [offer(1, Need::Growth, 1000, 9.0), offer(2, Need::Relief, 3000, 1.0)],
            2,
        ),
        (
            [offer(1, Need::Relief, 1000, 9.0), offer(2, Need::Refuge, 3000, 1.0)],
            2,
        ),
        (
            [offer(1, Need::Relief, 1000, 1.0), offer(2, Need::Relief, 1000, 2.0)],
            2,
        ),
    ] {
        let mut stage = Stage::new(&[]);
        stage.run(50);
        for (from, offer) in ["x", "y"].iter().zip(offers) {
            stage.tell(from, "thief", offer);
        }
        let now = Moment(stage.now_us + 200 * MS);
        let effects = stage.agents.get_mut(&name("thief")).unwrap().tick(now);
        let accepted: Vec<OfferNumber> = effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Tell {
                    message: AgentToAgent::Accept { offer },
                    ..
                } => Some(*offer),
                _ => None,
            })
            .collect();
        assert_eq!(accepted, [OfferNumber(winner)]);
    }
}

#[test]
fn when_the_answer_is_lost_the_leader_gives_up_and_the_place_is_free_again() {
    let mut stage = Stage::new(&["a"]);
    stage.lost = |message| matches!(message, AgentToAgent::Accept { .. });
    stage.run(2500);
    assert_eq!(stage.proposed.len(), 0);
    stage.lost = |_| false;
    stage.run(20_000);
    assert_eq!(stage.proposed.len(), 1, "it was tried again");
    assert_eq!(stage.kept_by_thief(), 1, "and no old place is left");
}

#[test]
fn a_place_whose_leader_has_died_is_free_after_a_minute() {
    let mut stage = Stage::new(&["a"]);
    stage.run(4000);
    assert_eq!(stage.kept_by_thief(), 1);
    stage.agents.remove(&name("a"));
    stage.run(61_000);
    assert_eq!(stage.kept_by_thief(), 0);
}

#[test]
fn a_refused_proposal_releases_the_place_and_is_not_repeated_at_once() {
    let mut stage = Stage::new(&["a"]);
    stage.run(4000);
    stage.outcome(0, &refused());
    assert_eq!(stage.kept_by_thief(), 0);
    stage.run(1000);
    assert_eq!(stage.proposed.len(), 1);
    stage.run(60_000);
    assert!(stage.proposed.len() > 1, "but later it is");
}

#[test]
fn an_accept_that_nobody_waits_for_is_answered_with_release() {
    let mut stage = Stage::new(&["a"]);
    stage.run(50);
    stage.lost = |_| false;
    let now = Moment(stage.now_us);
    let agent = stage.agents.get_mut(&name("a")).unwrap();
    let offer = OfferNumber(99);
    let effects = agent.on_heard(now, &name("thief"), AgentToAgent::Accept { offer });
    assert_eq!(
        effects,
        [Effect::Tell {
            to: name("thief"),
            message: AgentToAgent::Release { offer }
        }]
    );
    assert_eq!(agent.on_heard(now, &name("thief"), AgentToAgent::Decline { offer }), []);
    assert_eq!(agent.on_proposed(now, 12345, &done()), []);
}

#[test]
fn an_offer_that_comes_twice_takes_one_place() {
    let mut stage = Stage::new(&[]);
    stage.run(50);
    let offer = AgentToAgent::Offer {
        offer: OfferNumber(1),
        job: JobId(1),
        ranks: 1,
        need: Need::Relief,
        size_permille: 1000,
        gain_s: 1.0,
    };
    stage.tell("x", "thief", offer.clone());
    stage.run(200);
    stage.tell("x", "thief", offer);
    let accepts = stage
        .wire
        .iter()
        .filter(|(_, _, message)| matches!(message, AgentToAgent::Accept { .. }));
    assert_eq!(accepts.count(), 1, "the second one is answered again");
    assert_eq!(stage.kept_by_thief(), 1);
}

#[test]
fn a_walk_ends_when_its_hops_run_out() {
    let mut stage = Stage::new(&["a", "b", "c"]);
    stage.run(50);
    stage.wire.clear();
    let leader = name("elsewhere");
    let mut hops_seen = Vec::new();
    stage.tell(
        "elsewhere",
        "a",
        AgentToAgent::Seek {
            leader: leader.clone(),
            need: Need::Relief,
            hops: 200,
        },
    );
    while let Some((from, to, message)) = stage.wire.pop() {
        match &message {
            AgentToAgent::Seek { hops, .. } => hops_seen.push(*hops),
            // The idle one answers the one who asked.
            AgentToAgent::Steal { .. } => assert_eq!(to, leader),
            other => panic!("{other:?}"),
        }
        stage.tell(from.as_str(), to.as_str(), message);
    }
    assert!(hops_seen.len() <= 16, "{hops_seen:?}");
}

#[test]
fn a_report_says_how_far_its_node_is_from_the_leader_before_all_others() {
    let own = resources("b", 1, 0.0);
    let mut agent = Agent::new(Moment(0), own.clone(), Tuning::default(), 1);
    let link = |node: NodeName| LinkMeasured {
        node,
        latency_us: Some(100.0),
        megabytes_per_s: None,
    };
    let others = (0..20).map(|number| name(&format!("n{number}")));
    agent.on_links(others.chain([name("leader")]).map(link).collect());
    let effects = agent.on_look(Moment(MS), own, vec![(job(1, "leader", Epoch(0)), vec![rank(7, 0.5)])]);
    let reports = effects.iter().filter_map(|effect| match effect {
        Effect::Tell {
            to,
            message: AgentToAgent::Report(report),
        } if *to == name("leader") => Some(report),
        _ => None,
    });
    let links: Vec<&LinkMeasured> = reports.flat_map(|report| &report.links).collect();
    assert_eq!((links.len(), &links[0].node), (LINKS_OF_JOB_MAX, &name("leader")));
}

#[test]
fn who_leads_a_job_asks_how_far_the_thieves_are_and_nobody_else_does() {
    let mut stage = Stage::new(&["a"]);
    stage.run(500);
    assert_eq!(stage.agents[&name("a")].asks_about(), [name("thief")]);
    assert_eq!(stage.agents[&name("thief")].asks_about(), []);
}
