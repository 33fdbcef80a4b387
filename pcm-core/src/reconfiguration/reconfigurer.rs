//! One daemon's whole part in the reconfigurations of one job: hands each input to the machine it is for, in one step
//! that ends with the effects, the record first.

use super::coordinator::Coordinator;
use super::effects::{Dropped, Effect, Input, Report, Timer};
use super::lease::{Lease, Outcome};
use super::limits::Limits;
use super::participant::Participant;
use super::record::{Durable, JobRecord};
use super::step::{Absence, Step};
use crate::moment::Moment;
use pcm_proto::ids::{Epoch, NodeName, ProcessId};
use pcm_proto::layout::Layout;
use pcm_proto::reconfiguration::{
    Attempt, Failure, LeaseMessage, Order, Phase, ReconfigurationMessage, Reign, Standing,
};
use std::collections::{BTreeMap, BTreeSet};

/// Messages a daemon sends itself in one step: a few for each participant's part. More is a loop.
const OWN_MESSAGES_MAX: usize = 1000;

/// A job's reconfigurations as one daemon takes part in them.
#[derive(Debug)]
pub struct Reconfigurer {
    me: NodeName,
    limits: Limits,
    record: Durable<JobRecord>,
    absent: BTreeMap<NodeName, Absence>,
    participant: Participant,
    coordinator: Coordinator,
    lease: Lease,
    dropped: Dropped,
}

impl Reconfigurer {
    /// For each host and witness of the layout a job starts with. `holder` is the daemon that accepted the job and must
    /// be one of them.
    pub fn at_start(me: NodeName, holder: NodeName, layout: Layout, limits: Limits) -> (Self, Vec<Effect>) {
        let record = JobRecord::first(&me, holder, layout);
        let mut this = Self::new(me, limits, Durable::new(record, true));
        let effects = this.step(Moment(0), |_, _| ());
        (this, effects)
    }

    /// For a daemon that hears of the job for the first time, from `from`, by a message.
    pub fn at_first_message(me: NodeName, from: NodeName, limits: Limits) -> Self {
        let record = JobRecord::blank(from, Reign::default());
        Self::new(me, limits, Durable::new(record, false))
    }

    /// For a daemon that was started again. The effects must be carried out; then the driver reports the end of every
    /// process of [`Self::processes`] that is not there any more, and every node that is away.
    pub fn at_restart(me: NodeName, record: JobRecord, limits: Limits, now: Moment) -> (Self, Vec<Effect>) {
        let mut this = Self::new(me, limits, Durable::new(record, false));
        let effects = this.step(now, |parts, step| {
            if step.record.is_holder() {
                parts.coordinator.on_restart(step);
            }
            parts.participant.on_restart(step);
            parts.lease.on_restart(step);
        });
        (this, effects)
    }

    /// With the record of a daemon that ended, before [`Self::at_restart`] takes it up.
    pub fn with_record(me: NodeName, record: JobRecord, limits: Limits) -> Self {
        Self::new(me, limits, Durable::new(record, false))
    }

    fn new(me: NodeName, limits: Limits, record: Durable<JobRecord>) -> Self {
        let (participant, coordinator, lease) = (Participant::new(), Coordinator::new(), Lease::default());
        let (absent, dropped) = (BTreeMap::new(), Dropped::default());
        Self {
            me,
            limits,
            record,
            absent,
            participant,
            coordinator,
            lease,
            dropped,
        }
    }

    /// What is remembered.
    pub fn record(&self) -> &JobRecord {
        &self.record
    }

    /// The newest committed layout known here.
    pub fn layout(&self) -> Option<&Layout> {
        self.record.layout.as_ref()
    }

    /// Whether this daemon holds the job's lease, as far as it knows.
    pub fn is_holder(&self) -> bool {
        self.record.is_holder()
    }

    /// The attempt under way and its phase, at its coordinator.
    pub fn under_way(&self) -> Option<(Attempt, Phase)> {
        self.coordinator.under_way()
    }

    /// Every process on this node that a layout or a plan knows and whose end was not reported.
    pub fn processes(&self) -> BTreeSet<ProcessId> {
        self.participant.known_here(&self.record, &self.me)
    }

    /// Whether a process has no place in the layout to come, and its data has arrived there or is parked: it stands for
    /// the case that the change fails, and then its loss is found.
    pub fn is_spent(&self, process: ProcessId) -> bool {
        let engaged = self.record.engaged.as_ref();
        engaged.is_some_and(|engaged| self.participant.is_spent(&engaged.plan, process))
    }

    /// Whether nothing is under way here.
    pub fn is_quiet(&self) -> bool {
        let is_free = self.record.engaged.is_none() && self.record.left_standing.is_none();
        is_free && self.under_way().is_none() && !self.lease.is_leaderless()
    }

    /// Messages that were not acted on.
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    pub fn on_input(&mut self, now: Moment, input: Input) -> Vec<Effect> {
        self.step(now, |parts, step| parts.on_input(step, input))
    }

    fn step(&mut self, now: Moment, act: impl FnOnce(&mut Parts<'_>, &mut Step<'_>)) -> Vec<Effect> {
        let mut out = Vec::new();
        let mut step = Step {
            me: &self.me,
            now,
            limits: &self.limits,
            record: &mut self.record,
            absent: &mut self.absent,
            dropped: &mut self.dropped,
            out: &mut out,
        };
        let mut parts = Parts {
            participant: &mut self.participant,
            coordinator: &mut self.coordinator,
            lease: &mut self.lease,
        };
        let was_holder = step.record.is_holder();
        act(&mut parts, &mut step);
        parts.deliver_own(&mut step);
        if was_holder && !step.record.is_holder() {
            parts.coordinator.resign(&mut step);
        }
        parts.lease.check(&mut step);
        parts.lease.check_offer(&mut step);
        if let Some(record) = self.record.take_changed() {
            out.insert(0, Effect::Persist(Box::new(record.clone())));
        }
        out
    }
}

/// The machines of one daemon, borrowed for a step.
struct Parts<'a> {
    participant: &'a mut Participant,
    coordinator: &'a mut Coordinator,
    lease: &'a mut Lease,
}

impl Parts<'_> {
    /// What this daemon says to itself needs no network, and is part of the same step.
    fn deliver_own(&mut self, step: &mut Step<'_>) {
        for _ in 0..OWN_MESSAGES_MAX {
            let own = |effect: &Effect| matches!(effect, Effect::Send { to, .. } if to == step.me);
            if !step.out.iter().any(own) {
                return;
            }
            let (mine, others): (Vec<Effect>, Vec<Effect>) = step.out.drain(..).partition(own);
            *step.out = others;
            for effect in mine {
                if let Effect::Send { message, .. } = effect {
                    let from = step.me.clone();
                    self.on_message(step, &from, message);
                }
            }
        }
        unreachable!("a daemon keeps answering itself: {:?}", step.out);
    }

    fn on_input(&mut self, step: &mut Step<'_>, input: Input) {
        match input {
            Input::Request {
                request,
                next_process,
                next_world,
                worlds_met,
            } => {
                self.coordinator
                    .on_request(step, &request, (next_process, next_world), worlds_met);
            }
            Input::Cancel => self.coordinator.on_cancel(step),
            Input::Message { from, message } => self.on_message(step, &from, message),
            Input::Report { process, report } => self.participant.on_report(step, process, report),
            Input::CeilingWritten {
                process,
                ceiling,
                started,
                ends,
            } => {
                self.participant
                    .on_ceiling_written(step, process, ceiling, (started, ends));
            }
            Input::Salvaged { process, result } => self.participant.on_salvaged(step, process, result),
            Input::StartFailed { process, reason } => self.participant.on_start_failed(step, process, reason),
            Input::Finalizing { process } => self.participant.on_finalizing(step, process),
            Input::Exited { process, finished } => self.participant.on_exited(step, process, finished),
            Input::NodeGone { node } => self.on_node_gone(step, node),
            Input::NodeBack { node } => self.on_node_back(step, &node),
            Input::NodeReborn { node } => self.on_node_reborn(step, &node),
            Input::Timer(timer) => self.on_timer(step, timer),
        }
    }

    fn on_node_gone(&mut self, step: &mut Step<'_>, node: NodeName) {
        if node == *step.me || step.absent.get(&node) == Some(&Absence::Gone) {
            return;
        }
        // What a node has forgotten does not come back with it.
        step.absent.entry(node.clone()).or_insert(Absence::Gone);
        self.coordinator.on_node_gone(step, &node);
    }

    fn on_node_reborn(&mut self, step: &mut Step<'_>, node: &NodeName) {
        if node != step.me {
            step.absent.insert(node.clone(), Absence::Forgot);
            self.coordinator.on_node_reborn(step, node);
        }
    }

    fn on_node_back(&mut self, step: &mut Step<'_>, node: &NodeName) {
        if step.absent.get(node) == Some(&Absence::Gone) {
            step.absent.remove(node);
        }
        if step.record.is_holder() {
            self.lease.confirm(step, Some(node));
            self.coordinator.bury_there(step, node);
        }
    }

    fn on_timer(&mut self, step: &mut Step<'_>, timer: Timer) {
        match timer {
            Timer::Deadline { attempt, phase } => self.coordinator.on_deadline(step, attempt, phase),
            Timer::Resend { attempt, reign } if same_lease(step, reign) => self.coordinator.on_resend(step, attempt),
            Timer::BuryAgain { reign, times } => self.coordinator.on_bury_timer(step, reign, times),
            Timer::Unresolved { attempt, reign } if same_lease(step, reign) => {
                self.coordinator.on_unresolved(step, attempt);
            }
            Timer::Resend { .. } | Timer::Unresolved { .. } => step.dropped.stale_timer += 1,
            Timer::NodeLost { node, absence } => self.coordinator.on_node_lost(step, node, absence),
            Timer::Patience { attempt, heard } => self.participant.on_patience(step, attempt, heard),
            Timer::Ahead { attempt } => self.participant.on_ahead_timer(step, attempt),
            Timer::AskDecision { attempt, heard, times } => self.participant.on_ask_timer(step, attempt, heard, times),
            Timer::Settle { attempt } => self.participant.on_settle_timer(step, attempt),
            Timer::Leave { attempt } => self.participant.on_leave_timer(step, attempt),
            Timer::Damage => self.participant.report_damage(step),
            Timer::Candidate { reign } => {
                let outcome = self.lease.on_candidate_timer(step, reign);
                self.withdraw_from_lower(step, None);
                self.on_outcome(step, None, outcome);
            }
            Timer::AskLease { reign } => self.lease.on_ask_timer(step, reign),
            Timer::ConfirmLease { reign } => self.lease.on_confirm_timer(step, reign),
            Timer::OfferLease { reign } => self.lease.on_offer_timer(step, reign),
            Timer::Leaderless { since, times } => {
                let outcome = self.lease.on_leaderless_timer(step, since, times);
                self.on_outcome(step, None, outcome);
            }
        }
    }

    fn on_message(&mut self, step: &mut Step<'_>, from: &NodeName, message: ReconfigurationMessage) {
        match message {
            ReconfigurationMessage::Order { reign, attempt, order } => self.on_order(step, from, reign, attempt, order),
            ReconfigurationMessage::Answer { attempt, answer } => {
                self.coordinator.on_answer(step, from, attempt, answer)
            }
            ReconfigurationMessage::Decided {
                attempt,
                decision,
                stand,
            } => {
                if *from == step.record.holder {
                    self.participant.on_sign_of_life();
                }
                self.participant.on_decided(step, attempt, decision, stand);
                self.coordinator.on_fate_known(step);
            }
            ReconfigurationMessage::AskDecision { attempt } => {
                if step.record.fate(attempt).is_some() || !self.answers_with_newer_layout(step, from, attempt.epoch) {
                    self.participant.on_ask_decision(step, from, attempt);
                }
                self.coordinator.bury_there(step, from);
            }
            ReconfigurationMessage::Bury { reign, loss } => {
                if self.is_current_reign(step, from, reign, None) {
                    self.participant.on_bury(step, loss);
                }
            }
            ReconfigurationMessage::Buried => self.coordinator.on_buried(step, from),
            ReconfigurationMessage::Lost { epoch, loss } => {
                self.lease.on_lost(from);
                self.coordinator.on_lost(step, from, epoch, loss);
            }
            ReconfigurationMessage::Lease(message) => self.on_lease_message(step, from, message),
        }
    }

    fn on_order(&mut self, step: &mut Step<'_>, from: &NodeName, reign: Reign, attempt: Attempt, order: Order) {
        if !self.is_current_reign(step, from, reign, Some(attempt)) {
            return;
        }
        if let Some(loss) = step.record.lost.clone() {
            let epoch = step.record.epoch();
            return step.send(from, ReconfigurationMessage::Lost { epoch, loss });
        }
        self.lease.on_leader();
        self.participant.on_order(step, from, attempt, order);
    }

    /// The fence: whether whoever gives an order of this reign is to be obeyed. A higher reign than the one known is
    /// taken up, a lower one is answered with what is known.
    fn is_current_reign(
        &mut self,
        step: &mut Step<'_>,
        from: &NodeName,
        reign: Reign,
        attempt: Option<Attempt>,
    ) -> bool {
        if self.answers_with_newer_layout(step, from, reign.epoch) {
            return false;
        }
        if step.record.promised < reign {
            self.lease.obey(step, reign, from);
            self.withdraw_from_lower(step, attempt);
        }
        if reign < step.record.promised {
            step.dropped.stale_reign += 1;
            self.lease.refuse(step, from);
            return false;
        }
        if step.record.holder != *from {
            step.dropped.impossible += 1;
            return false;
        }
        true
    }

    /// An attempt of a lower reign that this daemon has not agreed to can and must not go on.
    fn withdraw_from_lower(&mut self, step: &mut Step<'_>, except: Option<Attempt>) {
        let promised = step.record.promised;
        let lower = step
            .record
            .engaged
            .as_ref()
            .filter(|e| e.attempt.reign() < promised && Some(e.attempt) != except);
        if lower.is_some_and(|e| e.stage.may_withdraw()) {
            self.participant.withdraw(step, Failure::CoordinatorReplaced);
        }
    }

    /// Whoever speaks of an older layout is told of the newer one instead of being obeyed.
    fn answers_with_newer_layout(&mut self, step: &mut Step<'_>, from: &NodeName, epoch: Epoch) -> bool {
        let record = &step.record;
        let (Some(layout), Some(made_by)) = (&record.layout, record.made_by) else {
            return false;
        };
        if layout.epoch <= epoch {
            return false;
        }
        let (layout, reign, holder) = (Box::new(layout.clone()), record.promised, record.holder.clone());
        step.dropped.stale_reign += 1;
        step.send(
            from,
            ReconfigurationMessage::Lease(LeaseMessage::Newer {
                layout,
                made_by,
                reign,
                holder,
            }),
        );
        true
    }

    fn on_lease_message(&mut self, step: &mut Step<'_>, from: &NodeName, message: LeaseMessage) {
        if step.record.layout.is_none() {
            // A node that forgot must not vote: it may have promised or agreed to something before.
            step.dropped.unexpected += 1;
            if !matches!(message, LeaseMessage::Forgot) {
                step.send(from, ReconfigurationMessage::Lease(LeaseMessage::Forgot));
            }
            return;
        }
        if message == LeaseMessage::Forgot {
            return self.on_node_reborn(step, from);
        }
        let epoch = match &message {
            LeaseMessage::Newer {
                layout,
                made_by,
                reign,
                holder,
            } => {
                self.participant
                    .learn_layout(step, (**layout).clone(), *made_by, holder);
                self.lease.obey(step, *reign, holder);
                return self.coordinator.on_fate_known(step);
            }
            LeaseMessage::Ask { reign }
            | LeaseMessage::Held { reign }
            | LeaseMessage::Offer { reign }
            | LeaseMessage::Promise { reign, .. } => Some(reign.epoch),
            _ => None,
        };
        if epoch.is_some_and(|epoch| self.answers_with_newer_layout(step, from, epoch)) {
            return;
        }
        if let (LeaseMessage::Held { .. }, Some(loss)) = (&message, step.record.lost.clone()) {
            let epoch = step.record.epoch();
            step.send(from, ReconfigurationMessage::Lost { epoch, loss });
        }
        let outcome = self.lease.on_message(step, from, message);
        self.withdraw_from_lower(step, None);
        self.on_outcome(step, Some(from), outcome);
    }

    fn on_outcome(&mut self, step: &mut Step<'_>, from: Option<&NodeName>, outcome: Outcome) {
        match (outcome, from) {
            (Outcome::Won(answers), _) => {
                for standing in answers.values() {
                    self.learn(step, standing);
                }
                // What was learnt may have been a newer layout, whose voters must be asked first.
                if step.record.is_holder() {
                    self.coordinator.take_over(step, &answers);
                }
            }
            (Outcome::Told(standing), Some(from)) => {
                self.learn(step, &standing);
                if step.record.is_holder() {
                    self.coordinator.on_standing(step, from, &standing);
                    self.coordinator.on_fate_known(step);
                }
            }
            (Outcome::Hopeless, _) => self.participant.give_up(step),
            (Outcome::Nothing | Outcome::Told(_), _) => {}
        }
    }

    fn learn(&mut self, step: &mut Step<'_>, standing: &Standing) {
        let engaged = step.record.engaged.as_ref().map(|e| e.attempt);
        if let Some((attempt, decision)) = &standing.decided
            && engaged == Some(*attempt)
        {
            // Whether ranks may go on is for the holder to say, when it has heard of all.
            self.participant.on_decided(step, *attempt, decision.clone(), true);
        }
    }
}

fn same_lease(step: &Step<'_>, reign: Reign) -> bool {
    // A commit carries the lease into the next epoch; the term stays.
    step.record.is_holder() && step.record.promised.term == reign.term
}

/// What watchers are told of by these effects.
pub fn reports(effects: &[Effect]) -> impl Iterator<Item = &Report> {
    effects.iter().filter_map(|effect| match effect {
        Effect::Report(report) => Some(report),
        _ => None,
    })
}
