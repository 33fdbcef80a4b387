//! The daemon's loop: take an event, have the node handle it to its end, carry out what follows, take the next. Nothing
//! in here waits for anything but the next event; what takes time is done by small tasks that come back with an event.

use super::event::Event;
use super::hands::Hands;
use super::journal::{Journal, JournalError};
use super::timers::{Clock, Timers};
use pcm_core::moment::Moment;
use pcm_core::node::event;
use pcm_core::node::outbox::Effect;
use pcm_core::node::record::Record;
use pcm_core::node::{Heritage, Node};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use tokio::sync::mpsc;

/// Reports of effects that follow from one event: each rank's ceiling is written and read. More is a loop.
const FACTS_MAX: usize = 100_000;

/// A node with its clock, its timers, its memory of the past, and hands.
pub(super) struct Shell {
    node: Node,
    hands: Hands,
    clock: Clock,
    timers: Timers,
    journal: Journal,
    /// Why the journal takes no more records.
    broken: Option<JournalError>,
}

impl Shell {
    pub(super) fn new(node: Node, hands: Hands, clock: Clock, journal: Journal) -> Self {
        Self {
            node,
            hands,
            clock,
            timers: Timers::default(),
            journal,
            broken: None,
        }
    }

    /// Goes on from what was inherited, and handles events until the node is over. Fails when the journal does: the
    /// keeper then starts another daemon, which goes on from what is written.
    pub(super) async fn run(
        &mut self,
        heritage: Heritage,
        events: &mut mpsc::Receiver<Event>,
    ) -> Result<(), JournalError> {
        let effects = self.step(|node, _| node.begin(heritage));
        self.carry_out(effects);
        while self.broken.is_none() && !self.node.is_over() {
            let next = self.timers.next().map(|at| self.clock.instant(at));
            let sleep = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                event = events.recv() => match event {
                    Some(event) => Some(event),
                    None => return Ok(()),
                },
                event = self.hands.next_peer_event() => Some(Event::Peer(event)),
                () = sleep => None,
            };
            let facts = event.map(|event| self.hands.take_in(event));
            self.handle(facts.into_iter().flatten());
            let now = self.clock.now();
            while let Some(timer) = self.timers.take_due(now) {
                self.handle([event::Event::Timer(timer)]);
            }
        }
        self.broken.take().map_or(Ok(()), Err)
    }

    pub(super) async fn farewell(&mut self, events: mpsc::Receiver<Event>) {
        self.hands.farewell(events, self.node.is_taken_away()).await;
    }

    fn handle(&mut self, events: impl IntoIterator<Item = event::Event>) {
        for event in events {
            let effects = self.step(|node, now| node.handle(now, event));
            self.carry_out(effects);
        }
    }

    /// The node does one thing. When it panics at a job the next daemon knows at which.
    fn step(&mut self, step: impl FnOnce(&mut Node, Moment) -> Vec<Effect>) -> Vec<Effect> {
        let now = self.clock.now();
        let effects = catch_unwind(AssertUnwindSafe(|| step(&mut self.node, now)));
        effects.unwrap_or_else(|panic| {
            // Nothing of the step counts: this node is not asked for anything any more.
            if let Some(record) = self.node.after_panic(now) {
                self.write(&record);
            }
            resume_unwind(panic)
        })
    }

    /// Carries out what an event led to. What an effect has to report is handled before the next event.
    fn carry_out(&mut self, mut effects: Vec<Effect>) {
        let mut facts = VecDeque::new();
        for _ in 0..FACTS_MAX {
            for effect in effects {
                match effect {
                    Effect::Record(record) => {
                        if !self.write(&record) {
                            return;
                        }
                    }
                    Effect::Arm { at, timer } => self.timers.arm(at, timer),
                    effect => facts.extend(self.hands.carry_out(effect, self.clock.now())),
                }
            }
            self.rewrite_grown();
            let Some(fact) = facts.pop_front() else { return };
            effects = self.step(|node, now| node.handle(now, fact));
        }
        tracing::error!(
            left = facts.len(),
            "reports of effects keep this daemon busy; the rest is dropped"
        );
    }

    /// Writes a fact down. A daemon that cannot do that must not go on as if it had: it ends, and its successor finds
    /// what was written.
    fn write(&mut self, record: &Record) -> bool {
        if let Err(error) = self.journal.write(record) {
            tracing::error!(%error, "the daemon cannot remember what it does and ends");
            self.broken = Some(error);
            return false;
        }
        true
    }

    /// Writes the journal again where that pays. Only when all records of a step are written: the node is past the
    /// step, and a successor would take in twice what comes after the present state.
    fn rewrite_grown(&mut self) {
        if self.journal.is_grown() {
            let present = self.node.present();
            if let Err(error) = self.journal.rewrite(present.into_iter()) {
                tracing::warn!(%error, "the journal was not rewritten and grows on");
            }
        }
    }
}
