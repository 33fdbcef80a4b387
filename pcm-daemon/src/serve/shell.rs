//! The daemon's loop: take an event, have it handled to its end, carry out what follows, take the next. Nothing in here
//! waits for anything but the next event; what takes time is done by small tasks that come back with an event.

use super::daemon::Daemon;
use super::event::Event;
use super::journal::Journal;
use super::timers::{Clock, Timers};
use pcm_core::node::outbox::Effect;
use pcm_core::node::record::Record;
use std::collections::VecDeque;
use tokio::sync::mpsc;

/// Reports of effects that follow from one event: each rank's ceiling is written and read. More is a loop.
const FACTS_MAX: usize = 100_000;

/// A daemon with its clock, its timers and its memory of the past.
pub(super) struct Shell {
    daemon: Daemon,
    clock: Clock,
    timers: Timers,
    journal: Journal,
}

impl Shell {
    pub(super) fn new(daemon: Daemon, clock: Clock, journal: Journal) -> Self {
        Self {
            daemon,
            clock,
            timers: Timers::default(),
            journal,
        }
    }

    /// Handles events until the daemon has to end.
    pub(super) async fn run(&mut self, events: &mut mpsc::Receiver<Event>) {
        self.carry_out();
        while !self.daemon.is_over() {
            let next = self.timers.next().map(|at| self.clock.instant(at));
            let sleep = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => {
                        self.daemon.handle(self.clock.now(), event);
                        self.carry_out();
                    }
                    None => return,
                },
                event = self.daemon.peers.next_event() => {
                    self.daemon.handle(self.clock.now(), Event::Peer(event));
                    self.carry_out();
                }
                () = sleep => {}
            }
            let now = self.clock.now();
            while let Some(timer) = self.timers.take_due(now) {
                self.daemon.handle_timer(now, timer);
                self.carry_out();
            }
        }
    }

    pub(super) async fn farewell(&mut self, events: mpsc::Receiver<Event>) {
        self.daemon.farewell(events).await;
    }

    /// Carries out what the last event led to. What an effect has to report is handled before the next event.
    fn carry_out(&mut self) {
        let mut facts = VecDeque::new();
        for _ in 0..FACTS_MAX {
            for effect in self.daemon.take_effects() {
                match effect {
                    Effect::Record(record) => {
                        if !self.write(&record) {
                            return;
                        }
                    }
                    Effect::Arm { at, timer } => self.timers.arm(at, timer),
                    effect => facts.extend(self.daemon.carry_out_effect(effect)),
                }
            }
            let Some(fact) = facts.pop_front() else { return };
            self.daemon.handle(self.clock.now(), fact);
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
            self.daemon.quit();
            return false;
        }
        if self.journal.is_grown() {
            let present = self.daemon.present();
            if let Err(error) = self.journal.rewrite(present.into_iter()) {
                tracing::warn!(%error, "the journal was not rewritten and grows on");
            }
        }
        true
    }
}
