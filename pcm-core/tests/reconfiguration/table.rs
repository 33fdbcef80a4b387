//! A few daemons at one table: messages arrive at once and in order, processes do at once what they are told, and time
//! stands still unless a test moves it. For scenarios that a person can follow; chance belongs to the simulation.

use pcm_core::moment::Moment;
use pcm_core::reconfiguration::effects::{Effect, Input, Report, Timer};
use pcm_core::reconfiguration::limits::Limits;
use pcm_core::reconfiguration::reconfigurer::Reconfigurer;
use pcm_core::reconfiguration::record::JobRecord;
use pcm_proto::ids::{Bytes, Epoch, Iteration, NodeName, ProcessId, Rank, WorldId};
use pcm_proto::layout::{Layout, Member, ModeWanted, PlanKind, PlanRequest, Seat};
use pcm_proto::method::Method;
use pcm_proto::reconfiguration::{Attempt, ReconfigurationMessage, ReconfigurationOrder, ReconfigurationReport, Tally};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Where the ranks are when nobody stops them.
pub(crate) const STARTED: Iteration = Iteration(5);

pub(crate) fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

/// A migration of one rank.
pub(crate) fn migrate(size: u32, rank: u32, to: &str) -> PlanRequest {
    let seat = |r| match r == rank {
        true => Seat::Move {
            rank: Rank(r),
            to: node(to),
        },
        false => Seat::Stay { rank: Rank(r) },
    };
    PlanRequest {
        kind: PlanKind::Migrate,
        cause: "test".into(),
        mode: ModeWanted::Auto,
        seats: (0..size).map(seat).collect(),
        weights: Vec::new(),
        witnesses: Vec::new(),
        method: Method::default(),
    }
}

pub(crate) struct Table {
    pub(crate) limits: Limits,
    pub(crate) now: Moment,
    pub(crate) daemons: BTreeMap<NodeName, Reconfigurer>,
    pub(crate) records: BTreeMap<NodeName, JobRecord>,
    pub(crate) timers: Vec<(NodeName, Timer, Moment)>,
    pub(crate) reports: Vec<Report>,
    pub(crate) alive: BTreeMap<ProcessId, NodeName>,
    pub(crate) ceilings: BTreeMap<ProcessId, Iteration>,
    pub(crate) ended_by_force: Vec<ProcessId>,
    /// Processes that do not answer a call any more.
    pub(crate) silent: BTreeSet<ProcessId>,
    /// The end of the ranks' loops, if they declare one.
    pub(crate) ends: Option<Iteration>,
    /// Processes that do not come to take what travels ahead of a meeting.
    pub(crate) late: BTreeSet<ProcessId>,
    /// Processes that report more than they received.
    pub(crate) liars: BTreeSet<ProcessId>,
    /// Processes that cannot be started.
    pub(crate) unstartable: BTreeSet<ProcessId>,
    /// Processes that start and are not ready before the test says so.
    pub(crate) slow: BTreeSet<ProcessId>,
    /// What is not delivered: sender, receiver, message.
    pub(crate) lost: fn(&NodeName, &NodeName, &ReconfigurationMessage) -> bool,
    pub(crate) messages: Vec<(NodeName, NodeName, ReconfigurationMessage)>,
    queue: VecDeque<(NodeName, Input)>,
}

impl Table {
    /// Ranks on these nodes, in order; the first one's daemon holds the lease.
    pub(crate) fn new(nodes: &[&str], witnesses: &[&str]) -> Self {
        Self::with_limits(nodes, witnesses, Limits::default())
    }

    pub(crate) fn with_limits(nodes: &[&str], witnesses: &[&str], limits: Limits) -> Self {
        let members: Vec<Member> = (0..)
            .zip(nodes)
            .map(|(i, name)| Member {
                process: ProcessId(i),
                node: node(name),
                world: WorldId(0),
            })
            .collect();
        let layout = Layout {
            epoch: Epoch(0),
            weights: Vec::new(),
            witnesses: witnesses.iter().map(|name| node(name)).collect(),
            members,
        };
        let mut this = Self {
            limits,
            now: Moment(0),
            daemons: BTreeMap::new(),
            records: BTreeMap::new(),
            timers: Vec::new(),
            reports: Vec::new(),
            alive: layout.members.iter().map(|m| (m.process, m.node.clone())).collect(),
            ceilings: BTreeMap::new(),
            ended_by_force: Vec::new(),
            silent: BTreeSet::new(),
            ends: None,
            late: BTreeSet::new(),
            liars: BTreeSet::new(),
            unstartable: BTreeSet::new(),
            slow: BTreeSet::new(),
            lost: |_, _, _| false,
            messages: Vec::new(),
            queue: VecDeque::new(),
        };
        for voter in layout.voters() {
            let holder = node(nodes[0]);
            let (daemon, effects) = Reconfigurer::at_start(voter.clone(), holder, layout.clone(), this.limits.clone());
            this.daemons.insert(voter.clone(), daemon);
            this.carry_out(&voter, effects);
        }
        this
    }

    pub(crate) fn record(&self, name: &str) -> &JobRecord {
        &self.records[&node(name)]
    }

    pub(crate) fn epoch(&self, name: &str) -> u64 {
        self.record(name).epoch().0
    }

    pub(crate) fn request(&mut self, at: &str, request: PlanRequest) {
        let (next_process, next_world) = (ProcessId(0), WorldId(0));
        self.input(
            at,
            Input::Request {
                request,
                next_process,
                next_world,
                worlds_met: 1,
            },
        );
    }

    /// One input and everything that follows from it at once.
    pub(crate) fn input(&mut self, at: &str, input: Input) {
        self.queue.push_back((node(at), input));
        self.settle();
    }

    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            let alive = &self.alive;
            self.ceilings.retain(|process, _| alive.contains_key(process));
            let Some((at, input)) = self.queue.pop_front() else {
                return;
            };
            let limits = self.limits.clone();
            let daemon = match (self.daemons.get_mut(&at), &input) {
                (Some(daemon), _) => daemon,
                (None, Input::Message { from, .. }) if !self.records.contains_key(&at) => {
                    let daemon = Reconfigurer::at_first_message(at.clone(), from.clone(), limits);
                    self.daemons.entry(at.clone()).or_insert(daemon)
                }
                (None, _) => continue,
            };
            let effects = daemon.on_input(self.now, input);
            self.carry_out(&at, effects);
        }
        panic!("the table does not come to rest");
    }

    /// Kills a daemon; its record and its processes stay.
    pub(crate) fn kill_daemon(&mut self, name: &str) {
        self.daemons.remove(&node(name));
        self.timers.retain(|(at, ..)| *at != node(name));
        self.queue.retain(|(at, _)| *at != node(name));
    }

    pub(crate) fn restart_daemon(&mut self, name: &str) {
        let (at, record) = (node(name), self.record(name).clone());
        let (daemon, effects) = Reconfigurer::at_restart(at.clone(), record, self.limits.clone(), self.now);
        let known = daemon.processes();
        self.daemons.insert(at.clone(), daemon);
        self.carry_out(&at, effects);
        for process in known
            .into_iter()
            .filter(|p| !self.alive.contains_key(p))
            .collect::<Vec<_>>()
        {
            self.queue.push_back((
                at.clone(),
                Input::Exited {
                    process,
                    finished: false,
                },
            ));
        }
        self.settle();
    }

    pub(crate) fn kill_process(&mut self, process: u32) {
        let process = ProcessId(process);
        if let Some(at) = self.alive.remove(&process) {
            self.queue.push_back((
                at,
                Input::Exited {
                    process,
                    finished: false,
                },
            ));
            self.settle();
        }
    }

    /// Lets this time pass; every timer that ends in it is handed back in order.
    pub(crate) fn pass(&mut self, span: std::time::Duration) {
        let until = self.now.plus(span);
        for _ in 0..100_000 {
            let next = self
                .timers
                .iter()
                .enumerate()
                .filter(|(_, (.., at))| *at <= until)
                .min_by_key(|(i, (.., at))| (*at, *i));
            let Some(index) = next.map(|(index, _)| index) else {
                self.now = until;
                return;
            };
            let (at, timer, ends) = self.timers.remove(index);
            self.now = self.now.max(ends);
            self.queue.push_back((at, Input::Timer(timer)));
            self.settle();
        }
        panic!("timers never cease");
    }

    fn carry_out(&mut self, at: &NodeName, effects: Vec<Effect>) {
        for (place, effect) in effects.into_iter().enumerate() {
            match effect {
                Effect::Persist(record) => {
                    assert_eq!(place, 0, "the record comes first");
                    self.records.insert(at.clone(), *record);
                }
                Effect::Send { to, message } => {
                    assert_ne!(to, *at, "what a daemon tells itself is part of its step");
                    if !(self.lost)(at, &to, &message) {
                        let input = Input::Message {
                            from: at.clone(),
                            message: message.clone(),
                        };
                        self.queue.push_back((to.clone(), input));
                    }
                    self.messages.push((at.clone(), to, message));
                }
                Effect::StartWorld { members, restored, .. } => self.start(at, members, restored),
                Effect::SetCeiling { process, ceiling } => self.set_ceiling(at, process, ceiling),
                Effect::LiftCeiling { process } => {
                    self.ceilings.remove(&process);
                }
                Effect::TellApp { process, order } => self.obey(at, process, order),
                Effect::Salvage { process, .. } => {
                    let result = Ok(Tally {
                        bytes: Bytes(8),
                        checksum: 1,
                        ahead: Bytes(0),
                    });
                    self.queue.push_back((at.clone(), Input::Salvaged { process, result }));
                }
                Effect::EndProcess { process, .. } => {
                    self.ended_by_force.push(process);
                    self.alive.remove(&process);
                    self.queue.push_back((
                        at.clone(),
                        Input::Exited {
                            process,
                            finished: false,
                        },
                    ));
                }
                Effect::ArmTimer { timer, after } => self.timers.push((at.clone(), timer, self.now.plus(after))),
                Effect::Report(report) => self.reports.push(report),
                Effect::SendAhead { process, attempt } => self.send_ahead(at, process, attempt),
                Effect::DropParked { .. } => {}
            }
        }
    }

    fn start(&mut self, at: &NodeName, members: Vec<(Rank, Member)>, _restored: bool) {
        for (_, member) in members {
            let process = member.process;
            if member.node != *at || self.alive.contains_key(&process) {
                continue;
            }
            if self.unstartable.contains(&process) {
                let reason = "not executable".to_owned();
                self.queue
                    .push_back((at.clone(), Input::StartFailed { process, reason }));
                continue;
            }
            self.alive.insert(process, at.clone());
            if !self.slow.contains(&process) {
                self.say_ready(at, process);
            }
        }
    }

    fn say_ready(&mut self, at: &NodeName, process: ProcessId) {
        let port = format!("port {process}");
        self.say(at, process, ReconfigurationReport::Ready { port });
    }

    /// A slow process is initialised after all.
    pub(crate) fn ready(&mut self, process: u32) {
        let process = ProcessId(process);
        let at = self.alive[&process].clone();
        self.say_ready(&at, process);
        self.settle();
    }

    fn set_ceiling(&mut self, at: &NodeName, process: ProcessId, ceiling: Iteration) {
        self.ceilings.insert(process, ceiling);
        let started = STARTED;
        self.queue.push_back((
            at.clone(),
            Input::CeilingWritten {
                process,
                ceiling,
                started,
                ends: self.ends,
            },
        ));
        if ceiling.0 < u64::MAX {
            self.say(
                at,
                process,
                ReconfigurationReport::AtCeiling {
                    iteration: ceiling,
                    port: String::new(),
                },
            );
        }
    }

    fn say(&mut self, at: &NodeName, process: ProcessId, report: ReconfigurationReport) {
        self.queue.push_back((at.clone(), Input::Report { process, report }));
    }

    fn send_ahead(&mut self, at: &NodeName, process: ProcessId, attempt: Attempt) {
        if self.alive.contains_key(&process) && !self.late.contains(&process) {
            self.say(at, process, ReconfigurationReport::Ahead { attempt });
        }
    }

    fn obey(&mut self, at: &NodeName, process: ProcessId, order: ReconfigurationOrder) {
        if !self.alive.contains_key(&process) || self.silent.contains(&process) {
            return;
        }
        match order {
            ReconfigurationOrder::Meet { attempt, .. } => {
                self.say(at, process, ReconfigurationReport::Met { attempt });
                let lies = u64::from(self.liars.contains(&process));
                let (sent, received) = (tally(7), tally(7 + lies));
                let report = ReconfigurationReport::Moved {
                    attempt,
                    sent,
                    received,
                };
                self.say(at, process, report);
            }
            ReconfigurationOrder::Park { attempt, .. } => {
                let report = ReconfigurationReport::Moved {
                    attempt,
                    sent: tally(7),
                    received: Tally::default(),
                };
                self.say(at, process, report);
            }
            ReconfigurationOrder::Decided { attempt, committed, .. } => {
                self.obey_decision(at, process, attempt, committed)
            }
            ReconfigurationOrder::Repeat => {
                if let Some(iteration) = self.ceilings.get(&process).copied().filter(|at| at.0 < u64::MAX) {
                    let port = String::new();
                    self.say(at, process, ReconfigurationReport::AtCeiling { iteration, port });
                }
            }
            ReconfigurationOrder::Ahead { .. } => {}
        }
    }

    /// Who is in the layout that counts goes on; all others end.
    fn obey_decision(&mut self, at: &NodeName, process: ProcessId, attempt: Attempt, finished: bool) {
        let record = self.daemons.get(at).map(|d| d.record().clone());
        let stays = record
            .and_then(|r| r.layout)
            .is_some_and(|l| l.member(process).is_some());
        if stays {
            let held_us = 4_000;
            self.say(at, process, ReconfigurationReport::Settled { attempt, held_us });
        } else {
            self.alive.remove(&process);
            self.queue.push_back((at.clone(), Input::Exited { process, finished }));
        }
    }
}

fn tally(checksum: u64) -> Tally {
    Tally {
        bytes: Bytes(8),
        checksum,
        ahead: Bytes(0),
    }
}
