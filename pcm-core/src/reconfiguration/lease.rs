//! Who coordinates a job when its coordinator is gone.
//!
//! The voters of a layout are its hosts and witnesses. When the holder of the lease is away, the first voter tries for
//! it after a while, the second a little later, and so on: it raises the term, and every voter that promises obeys
//! nobody of a lower reign from then on. A majority makes a holder; of an even number, half is enough if it has the
//! first voter, so that two halves never both succeed. Nothing here decides about an attempt; a new holder first finds
//! out what its predecessor may have decided ([`super::coordinator`]).

use super::effects::Timer;
use super::step::Step;
use crate::moment::micros;
use pcm_proto::ids::{NodeName, Term};
use pcm_proto::reconfiguration::{LeaseMessage, ReconfigurationMessage, Reign, Standing};
use std::collections::{BTreeMap, BTreeSet};

/// What a step of the lease asks of the rest of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Nothing,
    /// The lease was won with these answers.
    Won(BTreeMap<NodeName, Standing>),
    /// A voter told the holder how it stands.
    Told(Box<Standing>),
    /// No coordinator was found for too long.
    Hopeless,
}

/// One daemon's part in the lease of one job.
#[derive(Debug, Default)]
pub(super) struct Lease {
    asking: Option<Asking>,
    /// Counts the times without a coordinator; `Some` while there is none.
    leaderless: Option<u32>,
    times_leaderless: u32,
    /// The promise for which a try is already planned.
    planned_for: Option<Reign>,
    /// The reign whose lease is being offered to a voter.
    offered: Option<Reign>,
    /// Holder: voters that have not said that they go by it, since it won, was started again or saw them come back.
    unconfirmed: BTreeSet<NodeName>,
}

#[derive(Debug)]
struct Asking {
    reign: Reign,
    answers: BTreeMap<NodeName, Standing>,
}

/// Whether these voters are enough.
pub(super) fn is_quorum(voters: &[NodeName], has: impl Fn(&NodeName) -> bool) -> bool {
    let count = voters.iter().filter(|v| has(v)).count();
    2 * count > voters.len() || (count > 0 && 2 * count == voters.len() && has(&voters[0]))
}

impl Lease {
    pub(super) fn is_leaderless(&self) -> bool {
        self.leaderless.is_some()
    }

    /// To be called after every step: notices that there is no coordinator, and plans what to do about it.
    pub(super) fn check(&mut self, step: &mut Step<'_>) {
        if step.record.layout.is_none() || step.record.lost.is_some() {
            return;
        }
        let is_mine = step.record.holder == *step.me;
        let is_away = step.absent.contains_key(&step.record.holder);
        let is_missing = if is_mine { !step.record.is_holder() } else { is_away };
        if is_missing {
            self.become_leaderless(step);
        }
        let reign = step.record.promised;
        if self.leaderless.is_some() && is_missing && self.asking.is_none() && self.planned_for != Some(reign) {
            self.planned_for = Some(reign);
            let voters = step.record.layout.as_ref().map(|l| l.voters()).unwrap_or_default();
            if let Some(position) = voters.iter().position(|v| v == step.me) {
                let wait = step.limits.candidate_step * (position as u32 + 1);
                step.arm(Timer::Candidate { reign }, wait);
            }
        }
    }

    /// A node that the job has left hands the lease to one that it has not. To be called after every step.
    pub(super) fn check_offer(&mut self, step: &mut Step<'_>) {
        let reign = step.record.promised;
        let is_idle = step.record.coordinator.as_ref().is_some_and(|own| own.open.is_none());
        let is_voter = step.record.layout.as_ref().is_none_or(|l| l.voters().contains(step.me));
        if is_voter || !is_idle || !step.record.is_holder() || self.offered == Some(reign) || step.record.lost.is_some()
        {
            return;
        }
        self.offered = Some(reign);
        self.on_offer_timer(step, reign);
    }

    pub(super) fn on_offer_timer(&mut self, step: &mut Step<'_>, reign: Reign) {
        if self.offered != Some(reign) || step.record.promised != reign || !step.record.is_holder() {
            step.dropped.stale_timer += 1;
            return;
        }
        let voters = step.record.layout.as_ref().map(|l| l.voters()).unwrap_or_default();
        if let Some(voter) = voters.iter().find(|voter| !step.absent.contains_key(*voter)) {
            step.send(voter, ReconfigurationMessage::Lease(LeaseMessage::Offer { reign }));
        }
        let every = step.limits.resend_every;
        step.arm(Timer::OfferLease { reign }, every);
    }

    fn on_offer(&mut self, step: &mut Step<'_>, from: &NodeName, reign: Reign) -> Outcome {
        let is_current = step.record.promised == reign && step.record.holder == *from;
        if !is_current || step.record.engaged.is_some() {
            if reign < step.record.promised {
                self.refuse(step, from);
            }
            step.dropped.stale_reign += 1;
            return Outcome::Nothing;
        }
        self.try_for_lease(step)
    }

    /// The holder gave a sign of life.
    pub(super) fn on_leader(&mut self) {
        self.leaderless = None;
        self.planned_for = None;
    }

    /// Time to try for the lease.
    pub(super) fn on_candidate_timer(&mut self, step: &mut Step<'_>, reign: Reign) -> Outcome {
        self.planned_for = None;
        let is_mine = step.record.holder == *step.me;
        let is_away = step.absent.contains_key(&step.record.holder);
        let is_current = reign == step.record.promised && !step.record.is_holder() && self.asking.is_none();
        if self.leaderless.is_none() || !is_current || !(is_mine || is_away) || step.record.lost.is_some() {
            step.dropped.stale_timer += 1;
            return Outcome::Nothing;
        }
        self.try_for_lease(step)
    }

    fn try_for_lease(&mut self, step: &mut Step<'_>) -> Outcome {
        let Some(term) = step.record.promised.term.0.checked_add(1) else {
            return Outcome::Nothing;
        };
        let reign = Reign {
            epoch: step.record.epoch(),
            term: Term(term),
        };
        let me = step.me.clone();
        let record = step.record.change();
        record.promised = reign;
        record.holder = me;
        self.asking = Some(Asking {
            reign,
            answers: BTreeMap::new(),
        });
        self.ask(step);
        self.check_won(step)
    }

    fn ask(&mut self, step: &mut Step<'_>) {
        let Some(asking) = &self.asking else { return };
        let reign = asking.reign;
        let voters = step.record.layout.iter().flat_map(|l| l.voters());
        let engaged = step.record.engaged.iter().flat_map(|e| e.plan.participants());
        let nodes: BTreeSet<NodeName> = voters.chain(engaged).collect();
        for node in nodes {
            if node != *step.me && !asking.answers.contains_key(&node) {
                step.send(&node, ReconfigurationMessage::Lease(LeaseMessage::Ask { reign }));
            }
        }
        let every = step.limits.resend_every;
        step.arm(Timer::AskLease { reign }, every);
    }

    pub(super) fn on_ask_timer(&mut self, step: &mut Step<'_>, reign: Reign) {
        match &self.asking {
            Some(asking) if asking.reign == reign && step.record.promised == reign => self.ask(step),
            _ => step.dropped.stale_timer += 1,
        }
    }

    fn check_won(&mut self, step: &mut Step<'_>) -> Outcome {
        let (Some(asking), Some(layout)) = (&self.asking, &step.record.layout) else {
            return Outcome::Nothing;
        };
        let me = step.me;
        if !is_quorum(&layout.voters(), |voter| {
            voter == me || asking.answers.contains_key(voter)
        }) {
            return Outcome::Nothing;
        }
        let mut answers = self.asking.take().map(|a| a.answers).unwrap_or_default();
        answers.insert(step.me.clone(), step.record.standing());
        step.record.change().take_lease();
        self.on_leader();
        self.confirm(step, None);
        Outcome::Won(answers)
    }

    /// Holder: a voter answers that the job is lost.
    pub(super) fn on_lost(&mut self, voter: &NodeName) {
        self.unconfirmed.remove(voter);
    }

    /// Holder: makes sure that the voters, or this one, know it, and that it still finds them as it left them.
    pub(super) fn confirm(&mut self, step: &mut Step<'_>, only: Option<&NodeName>) {
        let voters = step.record.layout.as_ref().map(|l| l.voters()).unwrap_or_default();
        let asked = voters
            .into_iter()
            .filter(|v| v != step.me && only.is_none_or(|only| v == only));
        let was_empty = self.unconfirmed.is_empty();
        self.unconfirmed.extend(asked);
        if was_empty {
            let reign = step.record.promised;
            self.on_confirm_timer(step, reign);
        }
    }

    pub(super) fn on_confirm_timer(&mut self, step: &mut Step<'_>, reign: Reign) {
        let is_mine = step.record.is_holder() && step.record.promised.term == reign.term;
        // Whoever is away is asked when it is back.
        self.unconfirmed
            .retain(|voter| is_mine && !step.absent.contains_key(voter));
        if self.unconfirmed.is_empty() {
            return;
        }
        let reign = step.record.promised;
        for voter in &self.unconfirmed {
            step.send(voter, ReconfigurationMessage::Lease(LeaseMessage::Held { reign }));
        }
        let every = step.limits.ask_every;
        step.arm(Timer::ConfirmLease { reign }, every);
    }

    /// The daemon was started again: whoever it goes by must show that it still holds the lease.
    pub(super) fn on_restart(&mut self, step: &mut Step<'_>) {
        if step.record.is_holder() {
            self.confirm(step, None);
        } else {
            self.become_leaderless(step);
        }
    }

    fn become_leaderless(&mut self, step: &mut Step<'_>) {
        if self.leaderless.is_none() && step.record.layout.is_some() && step.record.lost.is_none() {
            self.times_leaderless += 1;
            self.leaderless = Some(self.times_leaderless);
            let since = self.times_leaderless;
            step.arm(Timer::Leaderless { since, times: 0 }, std::time::Duration::ZERO);
        }
    }

    /// Takes up a higher reign. Whoever asked for it obeys nobody lower from now on.
    pub(super) fn obey(&mut self, step: &mut Step<'_>, reign: Reign, holder: &NodeName) {
        if step.record.promised < reign {
            let record = step.record.change();
            record.promised = reign;
            record.holder = holder.clone();
        }
        if self.asking.as_ref().is_some_and(|a| a.reign < reign) {
            self.asking = None;
        }
    }

    /// A message about the lease; those that speak of an older layout were answered before.
    pub(super) fn on_message(&mut self, step: &mut Step<'_>, from: &NodeName, message: LeaseMessage) -> Outcome {
        match message {
            LeaseMessage::Ask { reign } => self.on_ask(step, from, reign),
            LeaseMessage::Promise { reign, standing } => return self.on_promise(step, from, reign, standing),
            LeaseMessage::Stale { reign, holder } => self.on_stale(step, reign, &holder),
            LeaseMessage::Held { reign } => {
                self.obey(step, reign, from);
                if step.record.promised == reign && step.record.holder == *from {
                    self.on_leader();
                    // From one that has given the job up the loss is the answer: it is said until it was heard.
                    if step.record.lost.is_none() {
                        step.send(from, ReconfigurationMessage::Lease(LeaseMessage::Obeyed { reign }));
                    }
                } else {
                    step.dropped.stale_reign += 1;
                    self.refuse(step, from);
                }
            }
            LeaseMessage::Offer { reign } => return self.on_offer(step, from, reign),
            LeaseMessage::Obeyed { reign } if reign == step.record.promised => {
                self.unconfirmed.remove(from);
            }
            LeaseMessage::Obeyed { .. } => step.dropped.stale_reign += 1,
            LeaseMessage::Newer { .. } | LeaseMessage::Forgot => step.dropped.impossible += 1,
        }
        Outcome::Nothing
    }

    fn on_ask(&mut self, step: &mut Step<'_>, from: &NodeName, reign: Reign) {
        self.obey(step, reign, from);
        if step.record.promised == reign && step.record.holder == *from {
            let standing = Box::new(step.record.standing());
            step.send(
                from,
                ReconfigurationMessage::Lease(LeaseMessage::Promise { reign, standing }),
            );
        } else {
            self.refuse(step, from);
        }
    }

    /// Tells somebody that a higher reign is known.
    pub(super) fn refuse(&self, step: &mut Step<'_>, to: &NodeName) {
        let (reign, holder) = (step.record.promised, step.record.holder.clone());
        step.send(to, ReconfigurationMessage::Lease(LeaseMessage::Stale { reign, holder }));
    }

    fn on_promise(&mut self, step: &mut Step<'_>, from: &NodeName, reign: Reign, standing: Box<Standing>) -> Outcome {
        if let Some(asking) = &mut self.asking
            && asking.reign == reign
        {
            asking.answers.insert(from.clone(), *standing);
            return self.check_won(step);
        }
        if step.record.is_holder() && step.record.promised == reign {
            step.send(from, ReconfigurationMessage::Lease(LeaseMessage::Held { reign }));
            return Outcome::Told(standing);
        }
        step.dropped.unexpected += 1;
        Outcome::Nothing
    }

    fn on_stale(&mut self, step: &mut Step<'_>, reign: Reign, holder: &NodeName) {
        self.obey(step, reign, holder);
        // Two candidates of the same term: both may be without a majority, so try again with the next, later.
        if self.asking.as_ref().is_some_and(|a| a.reign == reign) && holder != step.me {
            self.asking = None;
        }
    }

    /// Still no coordinator?
    pub(super) fn on_leaderless_timer(&mut self, step: &mut Step<'_>, since: u32, times: u32) -> Outcome {
        if self.leaderless != Some(since) {
            step.dropped.stale_timer += 1;
            return Outcome::Nothing;
        }
        let passed = micros(step.limits.ask_every).saturating_mul(u64::from(times));
        if passed >= micros(step.limits.orphan_max) {
            return Outcome::Hopeless;
        }
        let holder = step.record.holder.clone();
        if holder != *step.me && !step.absent.contains_key(&holder) {
            // It has this daemon's promise; whether it won is what is to be found out.
            let (reign, standing) = (step.record.promised, Box::new(step.record.standing()));
            step.send(
                &holder,
                ReconfigurationMessage::Lease(LeaseMessage::Promise { reign, standing }),
            );
        }
        let every = step.limits.ask_every;
        step.arm(
            Timer::Leaderless {
                since,
                times: times + 1,
            },
            every,
        );
        Outcome::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<NodeName> {
        text.chars().map(|c| NodeName::new(c.to_string()).unwrap()).collect()
    }

    #[test]
    fn two_disjoint_sets_of_voters_are_never_both_enough() {
        for count in 1..=6_usize {
            let voters = names(&"abcdef"[..count]);
            for set in 0_u32..1 << count {
                let has = |bits: u32| {
                    is_quorum(&voters, |v| {
                        voters.iter().position(|x| x == v).is_some_and(|i| bits >> i & 1 == 1)
                    })
                };
                let rest = !set & ((1 << count) - 1);
                assert!(!(has(set) && has(rest)), "{count} voters, {set:b}");
            }
        }
    }

    #[test]
    fn a_single_voter_is_enough_for_itself() {
        let voters = names("a");
        assert!(is_quorum(&voters, |_| true));
        assert!(!is_quorum(&voters, |_| false));
        assert!(!is_quorum(&[], |_| true));
    }
}
