//! What a daemon does around the state machines: carries out effects in order, owns the timers and the sockets, dies in
//! the middle of it and starts again from what it had written.

use super::cluster::{Happening, Simulation};
use super::invariants::Seen;
use super::process::Process;
use super::scenario::Plant;
use pcm_core::moment::micros;
use pcm_core::reconfiguration::effects::{Effect, EndCause, Input, Timer};
use pcm_core::reconfiguration::reconfigurer::Reconfigurer;
use pcm_core::reconfiguration::record::JobRecord;
use pcm_proto::ids::{Iteration, NodeName, ProcessId, Rank};
use pcm_proto::layout::{Member, Mode};
use pcm_proto::reconfiguration::{
    Answer, Attempt, Decision, Order, ReconfigurationMessage, ReconfigurationOrder, ReconfigurationReport,
};

/// Whether somebody is called to a meeting by it.
fn is_call(effect: &Effect) -> bool {
    let is_meet = |message: &ReconfigurationMessage| {
        matches!(
            message,
            ReconfigurationMessage::Order {
                order: Order::Meet { .. },
                ..
            }
        )
    };
    match effect {
        Effect::Send { message, .. } => is_meet(message),
        Effect::TellApp { order, .. } => matches!(order, ReconfigurationOrder::Meet { .. }),
        _ => false,
    }
}

fn forget_where_ranks_stand(record: &mut JobRecord) {
    record.left_standing = None;
    if let Some(engaged) = &mut record.engaged {
        engaged.ceiling = None;
    }
    if let Some(open) = record.coordinator.as_mut().and_then(|own| own.open.as_mut()) {
        (open.ceiling, open.called) = (None, None);
    }
}

impl Simulation {
    pub(super) fn input(&mut self, node: usize, input: Input) {
        if !self.nodes[node].is_daemon_up {
            return;
        }
        let now = self.moment();
        if let Some(daemon) = &mut self.nodes[node].daemon {
            let effects = daemon.on_input(now, input);
            self.carry_out(node, effects);
        }
    }

    pub(super) fn carry_out(&mut self, node: usize, effects: Vec<Effect>) {
        let share = match effects.iter().any(is_call) {
            true => self.scenario.crash_in_call.max(self.scenario.crash_in_step),
            false => self.scenario.crash_in_step,
        };
        let dies = self.now > 0 && !self.is_healed && !effects.is_empty() && self.random.chance(share);
        let survives = if dies {
            self.random.index(effects.len() + 1)
        } else {
            effects.len()
        };
        let mut answers = Vec::new();
        for effect in effects.into_iter().take(survives) {
            answers.extend(self.carry_out_one(node, effect));
        }
        if dies {
            self.tell(|| format!("n{node} daemon dies in a step"));
            return self.kill_daemon(node);
        }
        for input in answers {
            self.input(node, input);
        }
    }

    fn carry_out_one(&mut self, node: usize, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Persist(record) => {
                self.seen.push(Seen::Persisted(record.clone()));
                self.nodes[node].store = Some(*record);
            }
            Effect::Send { to, message } => {
                let to = self.node_of(&to);
                self.send(node, to, message);
            }
            Effect::StartWorld {
                attempt,
                members,
                restored,
                ..
            } => {
                return self.start_world(node, attempt, &members, restored);
            }
            Effect::SetCeiling { process, ceiling } => {
                let started = Iteration(self.set_ceiling(process, ceiling.0)?);
                return Some(Input::CeilingWritten {
                    process,
                    ceiling,
                    started,
                    ends: Some(Iteration(self.scenario.iterations)),
                });
            }
            Effect::LiftCeiling { process } => {
                self.set_ceiling(process, u64::MAX);
            }
            Effect::TellApp { process, order } => {
                let order = self.plant_in_order(order);
                self.tell_process(process, order);
            }
            Effect::Salvage { process, attempt } => {
                let (delay, life) = (self.random.between(500, 5_000), self.nodes[node].life);
                self.after(
                    delay,
                    Happening::Salvaged {
                        node,
                        life,
                        process,
                        attempt,
                    },
                );
            }
            Effect::SendAhead { process, attempt } => {
                // One that is not told, or computes for long, does not answer in time.
                let is_late = !self.is_healed && self.random.chance(self.scenario.ahead_fails);
                if !is_late {
                    let delay = self.random.between(100, 30_000);
                    let report = ReconfigurationReport::Ahead { attempt };
                    self.after(delay, Happening::Report { process, report });
                }
            }
            Effect::DropParked { attempt } => {
                self.nodes[node].parked.remove(&attempt);
            }
            Effect::EndProcess { process, cause } => self.end_process(node, process, cause),
            Effect::ArmTimer { timer, after } => {
                if self.scenario.plant != Some(Plant::TimersNeverEnd) {
                    let life = self.nodes[node].life;
                    self.after(micros(after), Happening::Timer { node, life, timer });
                }
            }
            Effect::Report(report) => self.on_watched(node, &report),
        }
        None
    }

    pub(super) fn end_process(&mut self, node: usize, process: ProcessId, cause: EndCause) {
        let is_planted = self.scenario.plant == Some(Plant::NewcomersStay) && cause == EndCause::Aborted;
        if is_planted {
            if let Some(process) = self.processes.get_mut(&process) {
                process.is_stuck = true;
            }
            // The daemon is made to believe that it ended.
            return self.after(500, Happening::EndKnown { node, process });
        }
        self.tell(|| format!("n{node} ends process {process} ({cause:?})"));
        match self.processes.get(&process).is_some_and(|p| p.is_alive) {
            true => self.after(
                500,
                Happening::Ends {
                    process,
                    finished: false,
                },
            ),
            false => self.after(500, Happening::EndKnown { node, process }),
        }
    }

    fn start_world(
        &mut self,
        node: usize,
        attempt: Attempt,
        members: &[(Rank, Member)],
        restored: bool,
    ) -> Option<Input> {
        let mut failed = None;
        for (rank, member) in members {
            let process = member.process;
            if self.node_of(&member.node) != node || self.processes.contains_key(&process) {
                continue;
            }
            if !self.is_healed && self.random.chance(self.scenario.start_fails) {
                failed = Some(Input::StartFailed {
                    process,
                    reason: "no such program".into(),
                });
                continue;
            }
            let new = Process::new(process, node, attempt.epoch.0 + 1, *rank);
            self.processes.insert(process, new);
            let delay = self.random.between(20_000, 120_000);
            let restored = restored.then_some(attempt);
            self.after(delay, Happening::Initialised { process, restored });
        }
        failed
    }

    pub(super) fn send(&mut self, from: usize, to: usize, message: ReconfigurationMessage) {
        self.plant_in_message(from, &message);
        let copies = 1 + usize::from(self.random.chance(self.scenario.duplicate));
        for _ in 0..copies {
            let is_lost = !self.is_healed && self.random.chance(self.scenario.loss);
            if is_lost || self.sides[from] != self.sides[to] || !self.nodes[to].is_daemon_up {
                continue;
            }
            let slow = !self.is_healed && self.random.chance(self.scenario.slow);
            let delay = if slow {
                self.random.between(5_000, 800_000)
            } else {
                self.random.between(100, 3_000)
            };
            let machine = self.nodes[to].machine;
            self.after(
                delay,
                Happening::Message {
                    to,
                    machine,
                    from,
                    message: Box::new(message.clone()),
                },
            );
        }
    }

    pub(super) fn on_message(&mut self, to: usize, machine: u32, from: usize, message: ReconfigurationMessage) {
        // Links are made anew with each machine, so nothing from before reaches the next one.
        if !self.nodes[to].is_daemon_up || self.nodes[to].machine != machine {
            return;
        }
        self.tell(|| format!("n{from} -> n{to} {message:?}"));
        let from = self.nodes[from].name.clone();
        if self.nodes[to].daemon.is_none() {
            let (name, limits) = (self.nodes[to].name.clone(), self.limits.clone());
            self.nodes[to].daemon = Some(Reconfigurer::at_first_message(name, from.clone(), limits));
            self.tell_absences(to);
        }
        self.input(to, Input::Message { from, message });
    }

    pub(super) fn on_timer(&mut self, node: usize, life: u32, timer: Timer) {
        if self.nodes[node].life == life && self.nodes[node].is_daemon_up {
            self.input(node, Input::Timer(timer));
        }
    }

    pub(super) fn on_report(&mut self, process: ProcessId, report: ReconfigurationReport) {
        let Some(node) = self.processes.get(&process).map(|p| p.node) else {
            return;
        };
        if !self.nodes[node].is_up {
            return;
        }
        self.tell(|| format!("n{node} <- process {process} {report:?}"));
        match self.nodes[node].is_daemon_up {
            true => self.input(node, Input::Report { process, report }),
            false => self.nodes[node].socket.push((process, report)),
        }
    }

    pub(super) fn on_end_known(&mut self, node: usize, process: ProcessId) {
        let finished = self
            .processes
            .get(&process)
            .is_some_and(|p| p.activity == super::process::Activity::Finished);
        self.input(node, Input::Exited { process, finished });
    }

    pub(super) fn kill_daemon(&mut self, node: usize) {
        self.nodes[node].is_daemon_up = false;
        self.nodes[node].daemon = None;
        self.nodes[node].life += 1;
        let delay = self.random.between(5_000, 600_000);
        self.after(delay, Happening::DaemonStarts { node });
    }

    pub(super) fn on_daemon_starts(&mut self, node: usize) {
        if !self.nodes[node].is_up || self.nodes[node].is_daemon_up {
            return;
        }
        self.tally.restarts += 1;
        self.tell(|| format!("n{node} daemon starts again"));
        self.nodes[node].is_daemon_up = true;
        let mut store = self.nodes[node].store.clone();
        if self.scenario.plant == Some(Plant::DaemonForgetsItsRecord)
            && let Some(record) = &mut store
        {
            record.engaged = None;
            record.decided = None;
            if let Some(own) = &mut record.coordinator {
                own.open = None;
            }
        }
        if self.scenario.plant == Some(Plant::DaemonForgetsWhereRanksStand)
            && let Some(record) = &mut store
        {
            forget_where_ranks_stand(record);
        }
        let Some(record) = store else { return };
        let (name, limits, now) = (self.nodes[node].name.clone(), self.limits.clone(), self.moment());
        let (daemon, effects) = Reconfigurer::at_restart(name, record, limits, now);
        self.nodes[node].daemon = Some(daemon);
        self.carry_out(node, effects);
        let known: Vec<ProcessId> = self.nodes[node].daemon.iter().flat_map(|d| d.processes()).collect();
        for process in known {
            if !self.processes.get(&process).is_some_and(|p| p.is_alive) {
                self.on_end_known(node, process);
            }
        }
        self.tell_absences(node);
        for (process, report) in std::mem::take(&mut self.nodes[node].socket) {
            self.input(node, Input::Report { process, report });
        }
    }

    fn tell_absences(&mut self, node: usize) {
        for other in 0..self.nodes.len() {
            if self.nodes[node].sights[other].is_gone {
                let name = self.nodes[other].name.clone();
                self.input(node, Input::NodeGone { node: name });
            }
        }
    }

    pub(super) fn name(&self, node: usize) -> NodeName {
        self.nodes[node].name.clone()
    }

    fn plant_in_order(&self, order: ReconfigurationOrder) -> ReconfigurationOrder {
        match order {
            ReconfigurationOrder::Decided {
                attempt,
                committed: false,
                mode: Mode::Live,
            } if self.scenario.plant == Some(Plant::DaemonIgnoresAbort) => ReconfigurationOrder::Decided {
                attempt,
                committed: true,
                mode: Mode::Live,
            },
            order => order,
        }
    }

    /// Faults of a coordinator and of a participant that show in what they send.
    fn plant_in_message(&mut self, from: usize, message: &ReconfigurationMessage) {
        let ReconfigurationMessage::Answer { attempt, answer } = message else {
            return self.plant_second_meeting(from, message);
        };
        if self.scenario.plant == Some(Plant::CoordinatorCommitsEarly) && matches!(answer, Answer::Moved { .. }) {
            let (machine, message) = (
                self.nodes[from].machine,
                ReconfigurationMessage::Decided {
                    attempt: *attempt,
                    decision: Decision::Committed,
                    stand: false,
                },
            );
            self.after(
                50,
                Happening::Message {
                    to: from,
                    machine,
                    from,
                    message: Box::new(message),
                },
            );
        }
    }

    fn plant_second_meeting(&mut self, from: usize, message: &ReconfigurationMessage) {
        if self.scenario.plant != Some(Plant::DaemonCallsTwoMeetings) || self.now < self.plant_at {
            return;
        }
        let ReconfigurationMessage::Order {
            attempt,
            order: Order::Meet {
                ceiling, patience_us, ..
            },
            ..
        } = message
        else {
            return;
        };
        let standing = self
            .processes
            .values()
            .find(|p| p.is_member && p.is_alive && p.iteration == ceiling.0);
        if let Some(process) = standing.map(|p| p.id) {
            self.plant_at = u64::MAX;
            let attempt = Attempt {
                number: attempt.number + 1,
                ..*attempt
            };
            let order = ReconfigurationOrder::Park {
                attempt,
                ceiling: *ceiling,
                size_after: 1,
                patience_us: *patience_us,
            };
            self.tell(|| format!("n{from} calls process {process} to a meeting of its own"));
            self.after(1, Happening::Order { process, order });
        }
    }
}
