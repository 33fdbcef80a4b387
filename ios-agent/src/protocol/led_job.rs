//! One job at the agent beside its coordinator: looks at it, lets the policy propose and the judge decide, asks thieves
//! for places, hands the change over. Pure.
//!
//! | phase | event | becomes |
//! | --- | --- | --- |
//! | watching | a look with a chosen change that needs places | offering, `Offer` to each node |
//! | watching | a look with a chosen change that needs none | changing, `Propose` |
//! | offering | `Accept` of all | changing, `Propose` |
//! | offering | a `Decline`, or the deadline | watching, `Release` to all, `Decided` says why |
//! | changing | done | watching, `Moved` to all; what it brings is measured |
//! | changing | refused, or the deadline | as above, and the direction is blocked for a while |
//! | any | an answer to another offer or proposal | unchanged; an `Accept` nobody waits for is answered with `Release`
//! |

use super::effects::{Effect, Outbox};
use super::known::Known;
use super::picture::Picture;
use crate::decide::judge::Judge;
use crate::decide::proposal::{Change, Direction, Priced};
use crate::decide::tuning::Tuning;
use crate::decide::view::{NodeView, View};
use crate::policy::choice::{POLICIES, policy};
use crate::policy::interface::Policy;
use pcm_core::moment::Moment;
use pcm_proto::agent::{AgentToAgent, JobSample, Need, Neighbour, OfferNumber, PartReport, ProposalOutcome};
use pcm_proto::control::LayoutChange;
use pcm_proto::event::Decision;
use pcm_proto::ids::{Epoch, NodeName, Rank};
use pcm_proto::random::Random;
use std::collections::BTreeSet;
use std::time::Duration;

/// A change has ended within this time, whatever became of it: the daemon's own limit for one.
const CHANGE_WITHIN: Duration = Duration::from_secs(400);

/// The same reason is not told again for so long.
const TOLD_AGAIN: Duration = Duration::from_secs(20);

/// Shares are whole numbers of about this size.
const WEIGHT_SCALE: f64 = 1000.0;

/// Imagined idle nodes that show whether looking for real ones is worth it.
const IMAGINED: usize = 4;

#[derive(Clone, Debug)]
struct Plan {
    change: LayoutChange,
    cause: String,
    direction: Direction,
    priced: Priced,
    size_before: usize,
    epoch: Epoch,
    arrivals: Vec<(NodeName, u32)>,
}

#[derive(Clone, Debug)]
enum Phase {
    Watching,
    Offering {
        offer: OfferNumber,
        plan: Box<Plan>,
        waiting: BTreeSet<NodeName>,
        until: Moment,
    },
    Changing {
        number: u64,
        offer: OfferNumber,
        plan: Box<Plan>,
        until: Moment,
    },
}

/// A job that is led here.
#[derive(Clone, Debug)]
pub struct LedJob {
    job: JobSample,
    picture: Picture,
    judge: Judge,
    phase: Phase,
    /// The layout that the last change from here replaced. Samples may show it for a moment after the change is done.
    replaced: Option<Epoch>,
    next_look: Moment,
    next_seek: Moment,
    seek_pause: Duration,
    sought_ms: f64,
    want: Option<Need>,
    /// The last reason that a change was taken back for, until it may be told again.
    told: Option<(String, Moment)>,
}

/// What a job needs of the agent around it.
pub struct Around<'a> {
    pub now: Moment,
    /// The agent's own node.
    pub own: &'a NodeName,
    /// Thieves that asked.
    pub known: &'a mut Known,
    /// Nodes that may be asked.
    pub near: &'a [Neighbour],
    pub tuning: &'a Tuning,
    pub draw: &'a mut Random,
    /// Counts offers and proposals.
    pub count: &'a mut u64,
    /// What is to be done.
    pub out: &'a mut Outbox,
}

fn seconds(now: Moment) -> f64 {
    now.0 as f64 / 1e6
}

fn policy_of(name: &str) -> &'static dyn Policy {
    // The daemon refuses unknown names; of a daemon that is newer the default is the best there is.
    policy(name).unwrap_or(POLICIES[0])
}

impl LedJob {
    /// A job is led here from now on.
    pub fn new(now: Moment, job: JobSample, tuning: &Tuning, draw: &mut Random) -> Self {
        let policy = policy_of(&job.policy).name();
        let period = Duration::from_millis(tuning.judge.period_ms);
        Self {
            judge: Judge::new(seconds(now), policy, tuning),
            picture: Picture::default(),
            phase: Phase::Watching,
            replaced: None,
            // Leaders that start together should not look together.
            next_look: now.plus(period.mul_f64(draw.unit())),
            next_seek: now,
            seek_pause: Duration::from_secs_f64(tuning.steal.pause_s),
            sought_ms: 0.0,
            want: None,
            told: None,
            job,
        }
    }

    /// How the daemon knows it now.
    pub fn on_sample(&mut self, now: Moment, job: JobSample) {
        let is_own = matches!(self.phase, Phase::Changing { .. }) || self.replaced == Some(self.job.epoch);
        if job.epoch != self.job.epoch && !is_own {
            self.judge.on_changed_by_others(seconds(now));
        }
        self.job = job;
    }

    /// A part of the job reported.
    pub fn on_report(&mut self, now: Moment, report: PartReport) {
        self.picture.on_report(now, report);
    }

    /// Whether it looks for places, and why.
    pub fn want(&self) -> Option<Need> {
        self.want
    }

    /// Whether it is known which offer this is.
    pub fn has_offered(&self, offer: OfferNumber) -> bool {
        match &self.phase {
            Phase::Watching => false,
            Phase::Offering { offer: own, .. } | Phase::Changing { offer: own, .. } => *own == offer,
        }
    }

    /// A thief came: it is worth a look now.
    pub fn on_thief(&mut self, now: Moment) {
        if self.want.is_some() {
            self.next_look = self.next_look.min(now);
        }
    }

    /// What falls due at this time.
    pub fn tick(&mut self, around: &mut Around<'_>) {
        self.check_deadline(around);
        if around.now < self.next_look || !matches!(self.phase, Phase::Watching) {
            return;
        }
        self.next_look = around.now.plus(Duration::from_millis(around.tuning.judge.period_ms));
        self.look(around);
    }

    fn look(&mut self, around: &mut Around<'_>) {
        self.picture.expire(around.now, &self.job);
        let Some(view) = self.picture.view(&self.job, around.known, self.judge.learning()) else {
            return;
        };
        let now_s = seconds(around.now);
        self.judge.observe(now_s, &view, self.picture.iterations());
        let policy = policy_of(&self.job.policy);
        let proposals = policy.propose(&view, around.tuning, around.draw.number());
        let ruling = self.judge.rule(now_s, &view, proposals);
        if let Some(decision) = ruling.decision {
            let decision = Box::new(decision);
            around.out.effects.push(Effect::Decided {
                job: self.job.job,
                decision,
            });
        }
        match ruling.chosen {
            Some(priced) => self.offer(&view, priced, around),
            None => self.seek(&view, policy, around),
        }
    }

    fn plan(&self, view: &View, priced: Priced) -> Plan {
        let name = |node: &usize| view.nodes[*node].name.clone();
        let rank = |rank: &usize| Rank(*rank as u32);
        let by_name = |moves: &[(usize, usize)]| moves.iter().map(|(moved, to)| (rank(moved), name(to))).collect();
        let change = match &priced.proposal.change {
            Change::Migrate(moves) => LayoutChange::Migrate(by_name(moves)),
            Change::Expand(nodes) => LayoutChange::Expand {
                to: (view.ranks.len() + nodes.len()) as u32,
                nodes: nodes.iter().map(name).collect::<BTreeSet<_>>().into_iter().collect(),
            },
            Change::Leave(ranks) => LayoutChange::Leave(ranks.iter().map(rank).collect()),
            Change::Arrange(moves, weights) => LayoutChange::Arrange {
                moves: by_name(moves),
                weights: weights
                    .iter()
                    .map(|weight| ((weight * WEIGHT_SCALE) as u32).max(1))
                    .collect(),
            },
        };
        let arrivals = priced.proposal.change.arrivals();
        Plan {
            cause: format!("policy {}: {}", policy_of(&self.job.policy).name(), priced.proposal.why),
            direction: priced.proposal.direction(view),
            arrivals: arrivals.iter().map(|(node, count)| (name(node), *count)).collect(),
            size_before: view.ranks.len(),
            epoch: self.job.epoch,
            change,
            priced,
        }
    }

    /// Asks for places, or hands the change over where none are needed.
    fn offer(&mut self, view: &View, priced: Priced, around: &mut Around<'_>) {
        *around.count += 1;
        let offer = OfferNumber(*around.count);
        let plan = Box::new(self.plan(view, priced));
        if plan.arrivals.is_empty() {
            return self.hand_over(offer, plan, around);
        }
        let size_permille = self.job.size * 1000 / self.job.started_with.max(1);
        for (node, ranks) in &plan.arrivals {
            let message = AgentToAgent::Offer {
                offer,
                job: self.job.job,
                ranks: *ranks,
                need: plan.priced.proposal.need,
                size_permille,
                gain_s: plan.priced.gain_s,
            };
            around.out.tell(node, message);
        }
        let waiting = plan.arrivals.iter().map(|(node, _)| node.clone()).collect();
        let until = around.now.plus(Duration::from_secs_f64(around.tuning.steal.offer_s));
        self.phase = Phase::Offering {
            offer,
            plan,
            waiting,
            until,
        };
    }

    fn hand_over(&mut self, offer: OfferNumber, plan: Box<Plan>, around: &mut Around<'_>) {
        *around.count += 1;
        let number = *around.count;
        around.out.effects.push(Effect::Propose {
            number,
            job: self.job.job,
            epoch: plan.epoch,
            change: plan.change.clone(),
            cause: plan.cause.clone(),
        });
        let until = around.now.plus(CHANGE_WITHIN);
        self.phase = Phase::Changing {
            number,
            offer,
            plan,
            until,
        };
    }

    /// A thief keeps a place.
    pub fn on_accept(&mut self, from: &NodeName, around: &mut Around<'_>) {
        let phase = std::mem::replace(&mut self.phase, Phase::Watching);
        self.phase = match phase {
            Phase::Offering {
                offer,
                plan,
                mut waiting,
                until,
            } => {
                waiting.remove(from);
                if waiting.is_empty() {
                    return self.hand_over(offer, plan, around);
                }
                Phase::Offering {
                    offer,
                    plan,
                    waiting,
                    until,
                }
            }
            other => other,
        };
    }

    /// A thief has no place.
    pub fn on_decline(&mut self, from: &NodeName, around: &mut Around<'_>) {
        if let Phase::Offering { waiting, .. } = &self.phase
            && waiting.contains(from)
        {
            around.known.forget(around.now, from);
            self.give_up(around, false, &format!("{from} has no room for it any more"));
        }
    }

    /// What became of a proposal; false when it is none of this job's.
    pub fn on_proposed(&mut self, number: u64, outcome: &ProposalOutcome, around: &mut Around<'_>) -> bool {
        let Phase::Changing {
            number: own,
            offer,
            plan,
            ..
        } = &self.phase
        else {
            return false;
        };
        if *own != number {
            return false;
        }
        match outcome {
            ProposalOutcome::Done {
                pause_ms, bytes_moved, ..
            } => {
                self.replaced = Some(plan.epoch);
                let cost = (*pause_ms, bytes_moved.0 as f64);
                self.judge.on_done(
                    seconds(around.now),
                    plan.size_before,
                    plan.direction.clone(),
                    &plan.priced,
                    cost,
                );
                for (node, _) in &plan.arrivals {
                    around.known.use_up(node);
                    around.out.tell(node, AgentToAgent::Moved { offer: *offer });
                }
                self.phase = Phase::Watching;
                self.seek_soon(around.now, around.tuning);
            }
            ProposalOutcome::Refused { message, .. } => self.give_up(around, true, message),
        }
        true
    }

    /// Releases all places and says why; with `is_failed` the direction is left alone for a while.
    fn give_up(&mut self, around: &mut Around<'_>, is_failed: bool, why: &str) {
        let phase = std::mem::replace(&mut self.phase, Phase::Watching);
        let (Phase::Offering { offer, plan, .. } | Phase::Changing { offer, plan, .. }) = phase else {
            return;
        };
        for (node, _) in &plan.arrivals {
            around.out.tell(node, AgentToAgent::Release { offer });
        }
        self.tell_why(&plan, why, around);
        if is_failed {
            self.judge.on_refused(seconds(around.now), plan.direction);
        }
    }

    /// What became of a chosen change. The same again, as while a node has room at every second look only, is told now
    /// and then.
    fn tell_why(&mut self, plan: &Plan, why: &str, around: &mut Around<'_>) {
        let is_known = |(known, until): &(String, Moment)| known == why && around.now < *until;
        if self.told.as_ref().is_some_and(is_known) {
            return;
        }
        self.told = Some((why.to_owned(), around.now.plus(TOLD_AGAIN)));
        let decision = Box::new(Decision {
            policy: policy_of(&self.job.policy).name().to_owned(),
            chosen: None,
            predicted_gain_s: plan.priced.gain_s,
            cost_s: plan.priced.cost_s,
            achieved_gain_s: None,
            considered: Vec::new(),
            reason: format!("the chosen change was taken back: {why}"),
        });
        around.out.effects.push(Effect::Decided {
            job: self.job.job,
            decision,
        });
    }

    fn check_deadline(&mut self, around: &mut Around<'_>) {
        match &self.phase {
            Phase::Offering { waiting, until, .. } if around.now >= *until => {
                let silent: Vec<&str> = waiting.iter().map(NodeName::as_str).collect();
                let why = format!("{} did not answer in time", silent.join(", "));
                for node in waiting.clone() {
                    around.known.forget(around.now, &node);
                }
                self.give_up(around, false, &why);
            }
            Phase::Changing { until, .. } if around.now >= *until => {
                self.give_up(around, true, "the coordinator did not say what became of it");
            }
            _ => {}
        }
    }

    /// The job is not led here any more.
    pub fn end(&mut self, around: &mut Around<'_>) {
        self.give_up(around, false, "the job is not led here any more");
    }

    fn seek_soon(&mut self, now: Moment, tuning: &Tuning) {
        self.seek_pause = Duration::from_secs_f64(tuning.steal.pause_s);
        self.next_seek = now.plus(self.seek_pause);
    }

    /// Looks for places, if nodes that nobody uses would help.
    fn seek(&mut self, view: &View, policy: &dyn Policy, around: &mut Around<'_>) {
        let has_changed = (view.iteration_ms - self.sought_ms).abs() > 0.2 * self.sought_ms.max(1e-9);
        if has_changed {
            self.sought_ms = view.iteration_ms;
            self.seek_pause = Duration::from_secs_f64(around.tuning.steal.pause_s);
            self.next_seek = self.next_seek.min(around.now.plus(self.seek_pause / 4));
        }
        if around.now < self.next_seek {
            return;
        }
        let spread = 0.75 + 0.5 * around.draw.unit();
        self.next_seek = around.now.plus(self.seek_pause.mul_f64(spread));
        self.want = self.wish(view, policy, around);
        let Some(need) = self.want else { return };
        self.seek_pause = (self.seek_pause * 2).min(Duration::from_secs_f64(around.tuning.steal.pause_max_s));
        let is_other = |near: &&Neighbour| self.job.allowed.is_empty() || self.job.allowed.contains(&near.node);
        let all: Vec<&NodeName> = around.near.iter().filter(is_other).map(|near| &near.node).collect();
        for to in around.draw.some(&all, around.tuning.steal.peers as usize) {
            let (leader, hops) = (around.own.clone(), around.tuning.steal.hops);
            around.out.tell(to, AgentToAgent::Seek { leader, need, hops });
        }
    }

    /// Why idle nodes would help, if they would.
    fn wish(&self, view: &View, policy: &dyn Policy, around: &mut Around<'_>) -> Option<Need> {
        let mut imagined = view.clone();
        let site = view.nodes[view.ranks[0].node].site.clone();
        let speed = view.nodes.iter().map(|node| node.speed).fold(0.0, f64::max);
        let real = imagined.nodes.len();
        let name = view.nodes[0].name.clone();
        for number in 0..IMAGINED {
            imagined.nodes.push(NodeView {
                name: name.clone(),
                site: site.clone(),
                // No real host has one of the highest numbers; they only must differ.
                host: u64::MAX - number as u64,
                cpus: vec![0],
                speed,
                demand: 0.0,
                others_since_s: 0.0,
                ranks: 0,
                free_memory: 0.0,
                is_draining: false,
                is_open: true,
            });
        }
        let proposals = policy.propose(&imagined, around.tuning, around.draw.number());
        let found = proposals.into_iter().filter(|proposal| {
            let leads_there = proposal.change.arrivals().iter().any(|(node, _)| *node >= real);
            leads_there && self.judge.would_pay(&imagined, proposal)
        });
        found.map(|proposal| proposal.need).max()
    }
}
