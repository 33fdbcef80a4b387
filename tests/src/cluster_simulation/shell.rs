//! What a daemon's shell does: hands events to the node one at a time, writes records before anything that follows is
//! done, carries out effects in order, and handles what they report before the next event. It can die in between.

use super::happening::{Happening, Life};
use super::scenario::Plant;
use super::seen::Seen;
use super::simulation::Simulation;
use super::story::short;
use pcm_core::job::at_node::Entry;
use pcm_core::job::coordinator::Coordinator;
use pcm_core::node::event::{Event, PeerFact, RankNews};
use pcm_core::node::outbox::Effect;
use pcm_core::node::record::Record;
use pcm_core::node::timer::Timer;
use pcm_proto::event::EventKind;
use pcm_proto::frame::{self, HEADER_LENGTH};
use pcm_proto::ids::{Iteration, JobId};
use pcm_proto::job::JobEnd;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::peer::{DaemonToDaemon, JobMessage, SuccessionMessage};
use std::collections::VecDeque;

/// Reports that follow from one event; more is a loop.
const FACTS_MAX: usize = 10_000;

impl Simulation {
    /// Something happens to the daemon of a machine, if there is one.
    pub(super) fn event(&mut self, machine: usize, event: Event) {
        let Some(daemon) = &mut self.machines[machine].daemon else {
            return;
        };
        if daemon.is_ending {
            return;
        }
        if let Some(event) = daemon.wait(event) {
            self.handle(machine, event);
        }
    }

    pub(super) fn event_of(&mut self, of: Life, event: Event) {
        if self.machines[of.machine].life() == Some(of) {
            self.event(of.machine, event);
        }
    }

    pub(super) fn on_daemon_goes_on(&mut self, of: Life) {
        if self.machines[of.machine].life() != Some(of) {
            return;
        }
        let daemon = self.machines[of.machine].daemon.as_mut();
        let waiting = daemon.map(super::daemon::Daemon::go_on).unwrap_or_default();
        self.tell(|| format!("n{} daemon goes on, {} events wait", of.machine, waiting.len()));
        for event in waiting {
            self.event_of(of, event);
        }
    }

    fn see_succession(&mut self, machine: usize, job: JobId, message: &SuccessionMessage) {
        match message {
            SuccessionMessage::Will { bytes, .. } => {
                let (reign, end) = willed(bytes);
                self.ledger.note_will(job, machine, reign);
                self.ledger.see(Seen::Willed {
                    machine,
                    job,
                    reign,
                    end,
                });
            }
            SuccessionMessage::WillVoid => self.ledger.note_void(job, machine),
            SuccessionMessage::WillHeld | SuccessionMessage::Led { .. } => {}
        }
    }

    fn handle(&mut self, machine: usize, event: Event) {
        let now = self.queue.now();
        if !is_chatter(&event) {
            self.tell(|| format!("n{machine} <= {}", short(&event)));
        }
        if let Event::Peer(PeerFact::Said {
            message: DaemonToDaemon::Job { job, message },
            ..
        }) = &event
            && let JobMessage::Succession(message) = &**message
        {
            self.see_succession(machine, *job, message);
        }
        if let Event::Rank(RankNews::Printed { key, bytes, .. }) = &event
            && let Some(rank) = self.ranks.get_mut(key)
        {
            rank.read.clone_from(bytes);
        }
        let Some(daemon) = &mut self.machines[machine].daemon else {
            return;
        };
        let moment = daemon.moment(now);
        let effects = daemon.node.handle(moment, event);
        self.carry_out(machine, effects);
    }

    pub(super) fn carry_out(&mut self, machine: usize, mut effects: Vec<Effect>) {
        let Some(life) = self.machines[machine].life() else {
            return;
        };
        let mut facts = VecDeque::new();
        for _ in 0..FACTS_MAX {
            let dies_at = self.draw_death(effects.len());
            for (place, effect) in effects.into_iter().enumerate() {
                if dies_at == Some(place) {
                    self.tell(|| format!("n{machine} daemon dies before {}", short(&effect)));
                    // What was recorded holds, though the log lacks a line.
                    if matches!(
                        &effect,
                        Effect::Note {
                            kind: EventKind::Inherited { .. },
                            ..
                        }
                    ) {
                        _ = self.carry_out_one(machine, effect);
                    }
                    return self.kill_daemon(machine);
                }
                match effect {
                    Effect::Record(record) => {
                        if !self.write(machine, *record) {
                            self.tell(|| format!("n{machine} has no room for a record: its daemon ends"));
                            return self.kill_daemon(machine);
                        }
                    }
                    Effect::Arm { at, timer } => {
                        if let Some(daemon) = &self.machines[machine].daemon
                            && !self.has_plant(Plant::TimersNeverEnd)
                        {
                            let (at, timer) = (daemon.when(at), Box::new(timer));
                            self.queue.at(at, Happening::Timer { of: life, timer });
                        }
                    }
                    effect => facts.extend(self.carry_out_one(machine, effect)),
                }
                if self.machines[machine].life() != Some(life) {
                    return;
                }
            }
            let Some(fact) = facts.pop_front() else {
                return self.end_if_over(machine);
            };
            let now = self.queue.now();
            let Some(daemon) = &mut self.machines[machine].daemon else {
                return;
            };
            let moment = daemon.moment(now);
            effects = daemon.node.handle(moment, fact);
        }
        let text = format!("n{machine} is kept busy by reports of its own effects");
        self.violate(super::violation::Violation::new("no_endless_step", text));
    }

    /// Whether the record is there.
    fn write(&mut self, machine: usize, record: Record) -> bool {
        let persisted = persisted(&record);
        let printed = match record {
            Record::Printed { job, process, .. } => Some(ProcessKey { job, process }),
            _ => None,
        };
        let is_written = self.machines[machine].disk.write(record);
        if is_written {
            persisted.into_iter().for_each(|seen| self.ledger.see(seen));
            if let Some(rank) = printed.and_then(|key| self.ranks.get_mut(&key)) {
                rank.counted.append(&mut rank.read);
            }
        }
        if is_written && self.machines[machine].disk.is_grown() {
            let Some(daemon) = &mut self.machines[machine].daemon else {
                return false;
            };
            let present = daemon.node.present();
            self.machines[machine].disk.rewrite(present);
        }
        is_written
    }

    fn end_if_over(&mut self, machine: usize) {
        let Some(daemon) = &mut self.machines[machine].daemon else {
            return;
        };
        if daemon.node.is_over() && !daemon.is_ending {
            daemon.is_ending = true;
            let of = daemon.life();
            self.tell(|| format!("n{machine} daemon ends on purpose"));
            self.ledger.see(Seen::MachineLost { machine });
            // Its last words reach their readers.
            self.queue.after(20_000, Happening::Farewell(of));
        }
    }

    pub(super) fn on_farewell(&mut self, of: Life) {
        if self.machines[of.machine].life() == Some(of) {
            self.lose_daemon(of.machine);
            self.end_machine(of.machine, true);
        }
    }
}

/// What a record says of a job's reconfigurations.
fn persisted(record: &Record) -> Option<Seen> {
    let Record::Job { job, entry } = record else {
        return None;
    };
    let record = match &**entry {
        Entry::State { runs, .. } => runs.as_ref().map(|runs| &runs.1),
        Entry::Step { change, .. } => change.as_deref(),
    };
    let record = Box::new(record?.clone());
    Some(Seen::Persisted { job: *job, record })
}

/// Which of a job's coordinators left a will, and the end that it says is decided.
fn willed(bytes: &[u8]) -> (u32, Option<JobEnd>) {
    let bytes = bytes.get(HEADER_LENGTH..).unwrap_or_default();
    let content = frame::decode::<(Coordinator, Vec<(Iteration, Vec<u8>)>)>(bytes);
    content.map_or((0, None), |(state, _)| (state.reign(), state.decided_end()))
}

/// The failure detector's own talk, and what comes every second; no replay shows it.
fn is_chatter(event: &Event) -> bool {
    matches!(
        event,
        Event::Timer(Timer::Membership | Timer::Beat)
            | Event::Peer(PeerFact::Said {
                message: DaemonToDaemon::Membership(_) | DaemonToDaemon::Report(_),
                ..
            })
    )
}
