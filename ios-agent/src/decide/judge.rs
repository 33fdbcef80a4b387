//! Judges the proposals for one job: a change must hold over several looks, pay for its cost, keep its distance to the
//! one before and not repeat what failed. Says why, also when nothing changes. Pure; time is an argument.

use super::budget::Budget;
use super::learning::{Learning, Shown};
use super::predict::moving_s;
use super::proposal::{Direction, Kind, Priced, Proposal};
use super::tuning::{JudgeTuning, LinkTuning, Tuning};
use super::view::View;
use pcm_proto::event::Decision;
use std::collections::BTreeMap;

/// Alternatives a decision names.
const CONSIDERED_MAX: usize = 8;

/// A rebalance must hold this many times longer: shares that follow a passing load are wrong as soon as it has passed.
const WEIGHTS_HOLD: u32 = 4;

/// A change should last this many times as long as was waited before it.
const LASTING: f64 = 10.0;

/// An iteration that takes this much longer than right after a change: what the change answered has passed. Less is
/// what iterations differ by on a machine that is not idle.
const PASSED: f64 = 1.3;

/// Greatest factor by which unsteady loads make the judge wait longer.
const PATIENCE_MAX: f64 = 64.0;

/// A steady time of this length halves the factor.
const STEADY_S: f64 = 300.0;

/// A change that gains little holds this many times longer at most.
const UNSURE_MAX: f64 = 6.0;

/// A decision that says nothing new is repeated at most so often.
const REPEAT_S: f64 = 60.0;

/// What was decided at one look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ruling {
    /// The change to be made.
    pub chosen: Option<Priced>,
    /// What is to be told, if it is news.
    pub decision: Option<Decision>,
}

/// Why a proposal does not pass now. The order is that of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum No {
    TooLittle,
    TooDear,
    Failed,
    CoolDown,
    Budget,
    Holding,
}

/// The judge of one job.
#[derive(Clone, Debug)]
pub struct Judge {
    policy: String,
    tuning: JudgeTuning,
    links: LinkTuning,
    learning: Learning,
    budget: Budget,
    held: BTreeMap<(Kind, bool, usize), u32>,
    patience: f64,
    patient_since_s: f64,
    last: Option<(f64, f64)>,
    born_s: f64,
    quiet_until_s: f64,
    cool_down_s: f64,
    shown: Option<Shown>,
    gained_s: f64,
    iterations: Option<u64>,
    told: Option<(f64, Option<No>)>,
}

impl Judge {
    /// The judge of a job that is seen from now on.
    pub fn new(now_s: f64, policy: &str, tuning: &Tuning) -> Self {
        let (judge, links) = (tuning.judge, tuning.links);
        Self {
            policy: policy.to_owned(),
            tuning: judge,
            links,
            learning: Learning::new(&tuning.cost),
            budget: Budget::default(),
            held: BTreeMap::new(),
            patience: 1.0,
            patient_since_s: now_s,
            last: None,
            born_s: now_s,
            quiet_until_s: now_s + judge.settle_s,
            cool_down_s: judge.cool_down_s,
            shown: None,
            gained_s: 0.0,
            iterations: None,
            told: None,
        }
    }

    /// What was learned about the job.
    pub fn learning(&self) -> &Learning {
        &self.learning
    }

    /// Takes in how the job does. Before every [`Judge::rule`].
    pub fn observe(&mut self, now_s: f64, view: &View, iterations: u64) {
        let new = iterations.saturating_sub(self.iterations.unwrap_or(iterations));
        self.iterations = Some(iterations);
        if let Some(Shown { saved_ms, .. }) = self.shown {
            let gained_s = saved_ms * new as f64 / 1e3;
            self.gained_s += gained_s;
            self.budget.gain(gained_s);
        }
        let shown = self
            .learning
            .observe(now_s, &self.tuning, view.iteration_ms, view.ranks.len());
        if let Some(shown) = shown {
            self.shown = Some(shown);
            // What came of a prediction is news by itself.
            self.told = None;
            if let Some((_, expected_ms)) = &mut self.last {
                *expected_ms = view.iteration_ms;
            }
            if shown.has_failed {
                self.cool_down_s = (self.cool_down_s * 2.0).min(self.tuning.cool_down_max_s);
                self.quiet_until_s = self.quiet_until_s.max(now_s + self.cool_down_s);
                self.be_patient(now_s);
            } else {
                self.cool_down_s = (self.cool_down_s / 2.0).max(self.tuning.cool_down_s);
            }
        }
        if now_s - self.patient_since_s > STEADY_S {
            self.patience = (self.patience / 2.0).max(1.0);
            self.patient_since_s = now_s;
        }
    }

    fn be_patient(&mut self, now_s: f64) {
        self.patience = (self.patience * 2.0).min(PATIENCE_MAX);
        self.patient_since_s = now_s;
        self.last = None;
    }

    /// Looks in a row that a change must be good for. A small gain may be noise, and little is lost while it is waited
    /// for.
    fn holds(&self, view: &View, priced: &Priced) -> u32 {
        let is_sharing = priced.proposal.change.is_sharing();
        let factor = f64::from(if is_sharing { WEIGHTS_HOLD } else { 1 });
        let unsure = match priced.proposal.is_forced || priced.proposal.change.kind() == Kind::Leave {
            true => 1.0,
            false => (self.tuning.gain_sure / priced.saved_part(view).max(1e-9)).clamp(1.0, UNSURE_MAX),
        };
        (f64::from(self.tuning.holds) * factor.max(unsure) * self.patience).ceil() as u32
    }

    /// The last change was made for something that has passed already: wait longer before the next.
    fn look_back(&mut self, now_s: f64, view: &View) {
        let Some((at_s, expected_ms)) = self.last else { return };
        if now_s < at_s + self.tuning.settle_s || view.iteration_ms <= expected_ms * PASSED {
            return;
        }
        let waited_s = f64::from(self.tuning.holds) * self.patience * self.tuning.period_ms as f64 / 1e3;
        if now_s - at_s < LASTING * waited_s {
            self.be_patient(now_s);
        }
        self.last = None;
    }

    /// Decides among the proposals of one look.
    pub fn rule(&mut self, now_s: f64, view: &View, proposals: Vec<Proposal>) -> Ruling {
        let priced = proposals.into_iter().map(|proposal| self.price(view, proposal));
        let mut priced: Vec<Priced> = priced.collect();
        priced.sort_by(|a, b| {
            let key = |priced: &Priced| (priced.proposal.is_forced, priced.net_s());
            let ((a_forced, a_net), (b_forced, b_net)) = (key(a), key(b));
            b_forced.cmp(&a_forced).then(b_net.total_cmp(&a_net))
        });
        self.look_back(now_s, view);
        self.hold(view, &priced);
        let ruled: Vec<Option<No>> = priced
            .iter()
            .map(|priced| self.objection(now_s, view, priced))
            .collect();
        let chosen = priced
            .iter()
            .zip(&ruled)
            .find(|(_, no)| no.is_none())
            .map(|(priced, _)| priced.clone());
        let best = priced.first().cloned();
        let no = ruled.first().copied().flatten();
        let decision = self.decision(
            now_s,
            view,
            chosen.as_ref(),
            best.as_ref().map(|best| (best, no)),
            &priced,
        );
        Ruling { chosen, decision }
    }

    /// Counts the looks at which each kind of change was worth it.
    fn hold(&mut self, view: &View, priced: &[Priced]) {
        let good = |priced: &&Priced| self.is_worth_it(view, priced).is_none();
        let mut held = BTreeMap::new();
        for key in priced
            .iter()
            .filter(good)
            .map(|priced| priced.proposal.change.subject())
        {
            held.insert(key, self.held.get(&key).copied().unwrap_or(0).saturating_add(1));
        }
        self.held = held;
    }

    /// Whether a change would be good enough if it held.
    pub fn would_pay(&self, view: &View, proposal: &Proposal) -> bool {
        let priced = self.price(view, proposal.clone());
        self.is_worth_it(view, &priced).is_none()
    }

    fn price(&self, view: &View, proposal: Proposal) -> Priced {
        let trust = self.learning.trust(proposal.change.kind());
        let links_s = moving_s(view, &self.links, &proposal.change);
        proposal.price(view, trust, links_s)
    }

    fn is_worth_it(&self, view: &View, priced: &Priced) -> Option<No> {
        if priced.proposal.is_forced {
            return None;
        }
        // Fewer ranks that are no slower are a gain for the others, so they need none of their own.
        let is_giving = priced.proposal.change.kind() == Kind::Leave;
        if !is_giving && priced.saved_part(view) < self.tuning.gain_min {
            return Some(No::TooLittle);
        }
        let cost_s = if is_giving { 0.0 } else { priced.cost_s };
        (priced.gain_s < cost_s * self.tuning.gain_per_cost_min && !is_giving).then_some(No::TooDear)
    }

    fn objection(&self, now_s: f64, view: &View, priced: &Priced) -> Option<No> {
        let tuning = &self.tuning;
        if let Some(no) = self.is_worth_it(view, priced) {
            return Some(no);
        }
        let is_forced = priced.proposal.is_forced;
        if self.learning.is_blocked(now_s, &priced.proposal.direction(view)) {
            return Some(No::Failed);
        }
        if !is_forced && (now_s < self.quiet_until_s || self.learning.is_measuring()) {
            return Some(No::CoolDown);
        }
        if !is_forced && !self.budget.allows(tuning, now_s - self.born_s, priced.cost_s) {
            return Some(No::Budget);
        }
        let held = self.held.get(&priced.proposal.change.subject()).copied().unwrap_or(0);
        (held < self.holds(view, priced)).then_some(No::Holding)
    }

    /// The chosen change was carried out.
    pub fn on_done(&mut self, now_s: f64, size_before: usize, direction: Direction, priced: &Priced, cost: (f64, f64)) {
        let (pause_ms, bytes) = cost;
        self.learning.on_cost(pause_ms, bytes);
        self.budget.spend(pause_ms / 1e3);
        self.learning.begin(now_s, direction, priced, size_before);
        self.shown = None;
        self.held.clear();
        self.last = (!priced.proposal.is_forced).then_some((now_s, priced.proposal.then_ms));
        self.quiet_until_s = now_s + self.cool_down_s;
    }

    /// The chosen change was not carried out; nothing changed.
    pub fn on_refused(&mut self, now_s: f64, direction: Direction) {
        self.learning.block(now_s + self.cool_down_s, direction);
        self.held.clear();
        self.quiet_until_s = self.quiet_until_s.max(now_s + self.tuning.settle_s);
    }

    /// Somebody else changed the job, who shall not be contradicted at once; what was measured before does not count.
    pub fn on_changed_by_others(&mut self, now_s: f64) {
        self.shown = None;
        self.last = None;
        self.held.clear();
        self.quiet_until_s = self.quiet_until_s.max(now_s + self.tuning.hands_off_s);
    }

    fn decision(
        &mut self,
        now_s: f64,
        view: &View,
        chosen: Option<&Priced>,
        best: Option<(&Priced, Option<No>)>,
        priced: &[Priced],
    ) -> Option<Decision> {
        let shown = chosen.or(best.map(|(best, _)| best));
        let no = best.and_then(|(_, no)| no);
        let is_news = match &self.told {
            _ if chosen.is_some() => true,
            // A proposal that is on its way to being chosen is told when it is.
            _ if no == Some(No::Holding) => false,
            None => true,
            Some((at_s, old)) => *old != no || now_s - at_s >= REPEAT_S,
        };
        if !is_news {
            return None;
        }
        self.told = Some((now_s, no));
        let considered = priced.iter().take(CONSIDERED_MAX);
        Some(Decision {
            policy: self.policy.clone(),
            chosen: chosen.map(|priced| priced.proposal.change.words(view)),
            predicted_gain_s: shown.map_or(0.0, |priced| priced.gain_s),
            cost_s: shown.map_or(0.0, |priced| priced.cost_s),
            achieved_gain_s: self.shown.map(|_| self.gained_s),
            considered: considered
                .map(|priced| (priced.proposal.change.words(view), priced.net_s()))
                .collect(),
            reason: self.reason(view, shown, if chosen.is_some() { None } else { no }) + &self.outcome(),
        })
    }

    /// What became of the change before.
    fn outcome(&self) -> String {
        self.shown.map_or_else(String::new, |shown| {
            format!(
                "; the change before saves {:.2} ms per iteration, {:.0} % of its prediction",
                shown.saved_ms,
                shown.achieved * 100.0
            )
        })
    }

    fn reason(&self, view: &View, shown: Option<&Priced>, no: Option<No>) -> String {
        let Some(priced) = shown else {
            return format!(
                "nothing better is in reach: an iteration takes {:.2} ms, {:.0} % of it useful",
                view.iteration_ms,
                view.useful_part() * 100.0
            );
        };
        let numbers = format!(
            "{}; {:.2} ms per iteration now, {:.2} ms then, {:.0} iterations to come: gain {:.1} s, cost {:.2} s",
            priced.proposal.why, priced.now_ms, priced.proposal.then_ms, view.remaining, priced.gain_s, priced.cost_s
        );
        let tuning = &self.tuning;
        match no {
            None => numbers,
            Some(No::TooLittle) => format!(
                "not done, it saves less than {:.0} %: {numbers}",
                tuning.gain_min * 100.0
            ),
            Some(No::TooDear) => {
                format!(
                    "not done, it gains less than {} times its cost: {numbers}",
                    tuning.gain_per_cost_min
                )
            }
            Some(No::Failed) => format!("not done, it did not deliver a short time ago: {numbers}"),
            Some(No::CoolDown) => {
                format!(
                    "not done yet, the last change was less than {:.0} s ago: {numbers}",
                    self.cool_down_s
                )
            }
            Some(No::Budget) => format!(
                "not done, changes may take {:.1} % of the run time and have taken it: {numbers}",
                tuning.spend * 100.0
            ),
            Some(No::Holding) => {
                let looks = self.holds(view, priced);
                format!("not done yet, it must hold for {looks} looks: {numbers}")
            }
        }
    }
}
