//! A cluster in a test: one coordinator, a part on each node, a keeper and processes that obey, and a network that
//! loses what the test wants it to lose.

use pcm_core::job::coordinator::{self, Coordinator, SpawnWant};
use pcm_core::job::participant::{self, LocalState, Participant};
use pcm_core::job::placement::{Placed, Share};
use pcm_core::job::recovery::Restarted;
use pcm_core::pmi::wire::Request;
use pcm_proto::checkpoint::{Restores, Stamp};
use pcm_proto::event::EventKind;
use pcm_proto::ids::{CheckpointId, Epoch, Iteration, JobId, NodeName, ProcessId};
use pcm_proto::job::{JobEnd, JobSpec, WorldShape};
use pcm_proto::keeper::ExitStatus;
use pcm_proto::peer::{CoordinatorToNode, JobMessage, NodeToCoordinator};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(crate) const JOB: JobId = JobId(1);

pub(crate) fn node(number: usize) -> NodeName {
    NodeName::new(format!("n{number}")).unwrap()
}

pub(crate) fn spec(size: u32, world: WorldShape) -> JobSpec {
    JobSpec {
        name: "test".into(),
        size,
        min: 1,
        max: size,
        world,
        program: b"a.out".to_vec(),
        cwd: "/".into(),
        restarts_max: 100,
        ..JobSpec::default()
    }
}

struct Envelope {
    from: NodeName,
    to: NodeName,
    message: JobMessage,
}

/// Everything of one test.
pub(crate) struct Cluster {
    pub(crate) now_us: u64,
    pub(crate) coordinator: Coordinator,
    /// The coordinator's inputs, as a journal would have them.
    journal: Vec<(u64, coordinator::Input)>,
    first: Coordinator,
    pub(crate) parts: BTreeMap<NodeName, Participant>,
    part_journals: BTreeMap<NodeName, (Participant, Vec<(u64, participant::Input)>)>,
    closed: BTreeSet<NodeName>,
    early: Vec<Envelope>,
    network: VecDeque<Envelope>,
    /// Answers each process got, without line ends.
    pub(crate) answers: BTreeMap<ProcessId, Vec<String>>,
    /// Processes the keeper runs, by node.
    pub(crate) running: BTreeMap<ProcessId, NodeName>,
    pub(crate) notes: Vec<EventKind>,
    pub(crate) end: Option<JobEnd>,
    /// Processes the keeper refuses to start.
    pub(crate) refuse: BTreeSet<ProcessId>,
    /// Nodes that neither hear nor say anything.
    pub(crate) cut_off: BTreeSet<NodeName>,
    /// Nodes that take ranks of a job that is started again.
    pub(crate) open: BTreeSet<NodeName>,
    /// Processes that were spares and are none any more.
    pub(crate) shown: Vec<ProcessId>,
}

impl Cluster {
    /// Accepts a job with so many ranks on each node; `n0` coordinates.
    pub(crate) fn accept(counts: &[u32], world: WorldShape) -> Self {
        Self::accept_refusing(counts, world, BTreeSet::new())
    }

    /// One that keeps spares.
    pub(crate) fn accept_with_spares(counts: &[u32], spares: u32) -> Self {
        let size = counts.iter().sum();
        let spec = JobSpec {
            spares,
            ..spec(size, WorldShape::Job)
        };
        Self::accept_spec(counts, spec, BTreeSet::new())
    }

    pub(crate) fn accept_refusing(counts: &[u32], world: WorldShape, refuse: BTreeSet<ProcessId>) -> Self {
        let size = counts.iter().sum();
        Self::accept_spec(counts, spec(size, world), refuse)
    }

    fn accept_spec(counts: &[u32], spec: JobSpec, refuse: BTreeSet<ProcessId>) -> Self {
        let share = |(number, count): (usize, &u32)| Share {
            node: node(number),
            host: 1,
            count: *count,
        };
        let some = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let placed = Placed::on(some.map(share).collect());
        let (coordinator, effects) = Coordinator::accept(JOB, node(0), spec, &placed, 0);
        let mut cluster = Self {
            now_us: 0,
            first: coordinator.clone(),
            coordinator,
            journal: Vec::new(),
            parts: BTreeMap::new(),
            part_journals: BTreeMap::new(),
            closed: BTreeSet::new(),
            early: Vec::new(),
            network: VecDeque::new(),
            answers: BTreeMap::new(),
            running: BTreeMap::new(),
            notes: Vec::new(),
            end: None,
            refuse,
            cut_off: BTreeSet::new(),
            open: (0..4).map(node).collect(),
            shown: Vec::new(),
        };
        cluster.carry_out(effects);
        cluster
    }

    fn send(&mut self, from: &NodeName, to: NodeName, message: impl Into<JobMessage>) {
        self.network.push_back(Envelope {
            from: from.clone(),
            to,
            message: message.into(),
        });
    }

    pub(crate) fn coordinate(&mut self, input: coordinator::Input) {
        self.journal.push((self.now_us, input.clone()));
        let effects = self.coordinator.handle(self.now_us, input);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<coordinator::Effect>) {
        for effect in effects {
            match effect {
                coordinator::Effect::Send { node: to, message } => self.send(&node(0), to, message),
                coordinator::Effect::Note(kind) => self.notes.push(kind),
                coordinator::Effect::Place { process, number, wants } => {
                    let share = |want: &SpawnWant| Share {
                        node: node(1),
                        host: 1,
                        count: want.count,
                    };
                    let shares = Ok(wants.iter().map(share).collect());
                    self.coordinate(coordinator::Input::SpawnPlaced {
                        process,
                        number,
                        shares,
                    });
                }
                coordinator::Effect::Restart { count } => {
                    let restarted = self.places_for(count);
                    self.coordinate(coordinator::Input::Restarted(restarted));
                }
                coordinator::Effect::Ended { end, nodes } => {
                    assert!(self.end.is_none(), "a job ends once");
                    self.end = Some(end);
                    for to in nodes {
                        self.send(&node(0), to, CoordinatorToNode::Close);
                    }
                }
            }
        }
    }

    /// One rank on each node that is not cut off, the rest on the last of them.
    fn places_for(&self, count: u32) -> Result<Restarted, String> {
        let is_there = |node: &NodeName| !self.cut_off.contains(node) && self.open.contains(node);
        let nodes: Vec<NodeName> = (0..4).map(node).filter(is_there).take(count as usize).collect();
        let last = nodes.len().checked_sub(1).ok_or("no node is there")? as u32;
        let share = |(place, node)| Share {
            node,
            host: 1,
            count: if place == last { count - last } else { 1 },
        };
        Ok(Restarted {
            placed: Placed::on((0..).zip(nodes).map(share).collect()),
            from: Iteration(100),
            restores: Some(Restores {
                stamp: Stamp {
                    id: CheckpointId(101),
                    epoch: Epoch(0),
                    iteration: Iteration(100),
                    ranks: count,
                },
                sources: vec![vec![node(0)]; count as usize],
            }),
            variables: Vec::new(),
        })
    }

    pub(crate) fn participate(&mut self, at: &NodeName, input: participant::Input) {
        let Some(part) = self.parts.get_mut(at) else { return };
        if let Some((_, journal)) = self.part_journals.get_mut(at) {
            journal.push((self.now_us, input.clone()));
        }
        let effects = part.handle(self.now_us, input);
        self.carry_out_part(at, effects);
    }

    fn answered(&mut self, process: ProcessId, line: String) {
        self.answers.entry(process).or_default().push(line);
    }

    fn carry_out_part(&mut self, at: &NodeName, effects: Vec<participant::Effect>) {
        use participant::{Effect, Input};
        for effect in effects {
            match effect {
                Effect::Send { node: to, message } => self.send(at, to, message),
                Effect::Start { process } if self.refuse.contains(&process) => {
                    let (code, reason) = ("unknown_program".to_owned(), "it is not there".to_owned());
                    self.participate(at, Input::Refused { process, code, reason });
                }
                Effect::Start { process } => {
                    assert!(
                        self.running.insert(process, at.clone()).is_none(),
                        "{process} was started twice"
                    );
                    self.participate(
                        at,
                        Input::Started {
                            process,
                            pid: 100 + process.0,
                        },
                    );
                }
                Effect::Signal { process, signal } => {
                    if matches!(signal, 9 | 15) && self.running.remove(&process).is_some() {
                        self.participate(
                            at,
                            Input::Exited {
                                process,
                                status: ExitStatus::Signal(signal),
                                is_spent: false,
                            },
                        );
                    }
                }
                Effect::EndJob => {
                    let here = self.running.iter().filter(|(_, node)| *node == at);
                    for process in here.map(|(process, _)| *process).collect::<Vec<_>>() {
                        self.running.remove(&process);
                        self.participate(
                            at,
                            Input::Exited {
                                process,
                                status: ExitStatus::Signal(9),
                                is_spent: false,
                            },
                        );
                    }
                    self.participate(at, Input::JobCleared);
                }
                Effect::Answer { process, line } => {
                    self.answered(process, line.trim_end().to_owned());
                    self.participate(at, Input::Answered { process });
                }
                Effect::SpawnAnswered { process, world, .. } => {
                    self.answered(process, format!("spawned {world:?}"));
                }
                Effect::Adopted { process } => self.shown.push(process),
                Effect::Emptied => self.participate(at, Input::OutputTaken),
                Effect::Over(_) => {
                    self.parts.remove(at);
                    self.part_journals.remove(at);
                    self.closed.insert(at.clone());
                    return;
                }
            }
        }
    }

    /// Delivers everything that is on its way and what follows from it.
    pub(crate) fn settle(&mut self) {
        self.settle_losing(|_, _, _| false);
    }

    /// Delivers messages, but loses those the test says.
    pub(crate) fn settle_losing(&mut self, mut lose: impl FnMut(&NodeName, &NodeName, &JobMessage) -> bool) {
        for _ in 0..100_000 {
            let Some(Envelope { from, to, message }) = self.network.pop_front() else {
                return;
            };
            let is_cut = from != to && (self.cut_off.contains(&from) || self.cut_off.contains(&to));
            if !is_cut && !lose(&from, &to, &message) {
                self.deliver(from, &to, message);
            }
        }
        panic!("the cluster does not come to rest");
    }

    fn deliver(&mut self, from: NodeName, to: &NodeName, message: JobMessage) {
        match message {
            JobMessage::ToCoordinator(message) => {
                if self.end.is_none() {
                    self.coordinate(coordinator::Input::Said { node: from, message });
                } else {
                    self.send(to, from, CoordinatorToNode::Close);
                }
            }
            JobMessage::Checkpoint(message) if self.end.is_none() => {
                self.coordinate(coordinator::Input::CheckpointSaid(*message));
            }
            JobMessage::ToNode(CoordinatorToNode::Start(order))
                if self
                    .parts
                    .get(to)
                    .is_some_and(|part| part.restarts() < order.restarts && part.is_emptied()) =>
            {
                self.parts.remove(to);
                self.deliver(from, to, CoordinatorToNode::Start(order).into());
            }
            JobMessage::ToNode(order) if self.parts.contains_key(to) => {
                self.participate(to, participant::Input::Ordered { node: from, order });
            }
            JobMessage::World(message) if self.parts.contains_key(to) => {
                self.participate(to, participant::Input::World { node: from, message });
            }
            JobMessage::ToNode(CoordinatorToNode::Start(order)) if !self.closed.contains(to) => {
                let mut part = Participant::new(JOB, to.clone(), &order, "pcm-test".into());
                let order = CoordinatorToNode::Start(order);
                let effects = part.handle(self.now_us, participant::Input::Ordered { node: from, order });
                self.part_journals.insert(to.clone(), (part.clone(), Vec::new()));
                self.parts.insert(to.clone(), part);
                self.carry_out_part(to, effects);
                let (early, rest) = std::mem::take(&mut self.early)
                    .into_iter()
                    .partition(|e: &Envelope| e.to == *to);
                self.early = rest;
                self.network.extend::<Vec<Envelope>>(early);
            }
            JobMessage::ToNode(CoordinatorToNode::Close) => _ = self.closed.insert(to.clone()),
            JobMessage::ToNode(CoordinatorToNode::End { .. } | CoordinatorToNode::Start(_)) => {
                self.closed.insert(to.clone());
                self.send(to, from, NodeToCoordinator::Cleared);
            }
            message => self.early.push(Envelope {
                from,
                to: to.clone(),
                message,
            }),
        }
    }

    /// Every pair of nodes is linked anew and says what the other may have missed.
    pub(crate) fn relink(&mut self) {
        let nodes: Vec<NodeName> = (0..8).map(node).collect();
        for at in &nodes {
            let effects = self.coordinator.on_linked(at);
            if self.end.is_none() && self.coordinator.has_node(at) {
                self.carry_out(effects);
            }
            for other in &nodes {
                let effects = self.parts.get(at).map(|part| part.on_linked(other)).unwrap_or_default();
                self.carry_out_part(at, effects);
            }
        }
    }

    pub(crate) fn pass(&mut self, microseconds: u64) {
        self.now_us += microseconds;
        if self.end.is_none() {
            self.coordinate(coordinator::Input::Tick);
        }
        for at in self.parts.keys().cloned().collect::<Vec<_>>() {
            self.participate(&at, participant::Input::Tick);
        }
    }

    pub(crate) fn pmi(&mut self, process: ProcessId, request: Request) {
        if let Some(at) = self.running.get(&process).cloned() {
            self.participate(&at, participant::Input::Pmi { process, request });
        }
    }

    pub(crate) fn exit(&mut self, process: ProcessId, status: ExitStatus) {
        if let Some(at) = self.running.remove(&process) {
            self.participate(
                &at,
                participant::Input::Exited {
                    process,
                    status,
                    is_spent: false,
                },
            );
        }
    }

    pub(crate) fn lines(&self, process: ProcessId) -> Vec<&str> {
        self.answers
            .get(&process)
            .map(|lines| lines.iter().map(String::as_str).collect())
            .unwrap_or_default()
    }

    pub(crate) fn assert_the_coordinator_s_journal_leads_to_the_same_state(&self) {
        let mut replayed = self.first.clone();
        for (now_us, input) in &self.journal {
            replayed.handle(*now_us, input.clone());
        }
        assert_eq!(replayed, self.coordinator);
    }

    /// The states that a restart of every daemon would find in the journals.
    pub(crate) fn assert_journals_lead_to_the_same_states(&self) {
        self.assert_the_coordinator_s_journal_leads_to_the_same_state();
        for (at, (first, journal)) in &self.part_journals {
            let mut replayed = first.clone();
            for (now_us, input) in journal {
                replayed.handle(*now_us, input.clone());
            }
            assert_eq!(&replayed, &self.parts[at]);
        }
    }

    pub(crate) fn assert_nothing_is_left(&self) {
        assert!(self.running.is_empty(), "processes are left: {:?}", self.running);
        assert!(self.parts.is_empty(), "parts are left on {:?}", self.parts.keys());
    }

    /// Processes that run on their node by its own account.
    pub(crate) fn running_by_account(&self) -> usize {
        let locals = self.parts.values().flat_map(|part| part.processes().values());
        locals
            .filter(|local| matches!(local.state, LocalState::Running { .. }))
            .count()
    }
}
