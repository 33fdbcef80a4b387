//! One job at one node, whole: what this node decides as the job's coordinator, what runs of the job here, and its part
//! in the job's reconfigurations. The three parts tell each other within one step, and the step has one journal entry,
//! which comes before its effects: after a restart they cannot disagree. Never sends, waits or reads a clock.

use super::coordinator::{self, Coordinator};
use super::participant::{self, Local, LocalState, Participant};
use super::worlds;
use crate::moment::Moment;
use crate::reconfiguration::effects as change;
use crate::reconfiguration::limits::Limits;
use crate::reconfiguration::reconfigurer::Reconfigurer;
use crate::reconfiguration::record::JobRecord;
use pcm_proto::ids::{JobId, NodeName, ProcessId, Rank, WorldId};
use pcm_proto::keeper::ExitStatus;
use pcm_proto::layout::{Layout, Member, Plan};
use pcm_proto::peer::{CoordinatorToNode, StartOrder};
use pcm_proto::reconfiguration::{Attempt, Order, ReconfigurationMessage};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What happens to a job at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// For the job's coordinator.
    Lead(coordinator::Input),
    /// For the job's processes here.
    Run(participant::Input),
    /// A process here ended; the text is the end of its output.
    Exited(ProcessId, ExitStatus, String),
    /// For the job's reconfiguration.
    Change(change::Input),
}

impl From<participant::Input> for Input {
    fn from(input: participant::Input) -> Self {
        Self::Run(input)
    }
}

/// What the driver has to do, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// As the job's coordinator.
    Lead(coordinator::Effect),
    /// With the job's processes here.
    Run(participant::Effect),
    /// For a reconfiguration: all but what the machines of the job settle among themselves.
    Change(change::Effect),
    /// Tell a node which hosts the nodes of a new layout are on.
    SendHosts { to: NodeName, nodes: Vec<NodeName> },
    /// The job is being ended: requests for another layout cannot be carried out any more.
    ChangesGivenUp,
}

/// An input that decides something, for the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Decided {
    /// By the coordinator.
    Lead(coordinator::Input),
    /// By the part of the job here.
    Run(participant::Input),
}

/// What the journal says about a job, one entry a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Entry {
    /// All of it.
    State {
        /// The coordinator, if this node leads the job.
        leads: Option<Box<Coordinator>>,
        /// The part of the job here, and the record of its reconfigurations.
        runs: Option<Box<(Participant, JobRecord)>>,
    },
    Step {
        /// When, in microseconds since 1970.
        now_us: u64,
        /// The inputs in their order.
        inputs: Vec<Decided>,
        /// The record of reconfigurations, where it changed.
        change: Option<Box<JobRecord>>,
    },
}

/// What a step leads to: the entry is written before the first effect is carried out.
#[derive(Debug, Default)]
pub struct Step {
    /// For the journal; none when nothing was decided.
    pub entry: Option<Entry>,
    pub effects: Vec<Effect>,
    /// Whether an heir of the coordinator would do something else from now on.
    pub renews_will: bool,
}

/// What a node knows of a job before its part there begins.
#[derive(Clone, Debug, Default)]
pub struct Beginning {
    /// Makes the names of the job's worlds unique for all time.
    pub kvs_prefix: String,
    /// The highest reign of a coordinator that the node has heard of.
    pub reign: u32,
}

/// The processes of a job here.
#[derive(Debug)]
struct Runs {
    part: Participant,
    reconfigurer: Reconfigurer,
    /// Processes of the last layout known.
    members: BTreeSet<ProcessId>,
}

impl Runs {
    fn new(part: Participant, reconfigurer: Reconfigurer) -> Self {
        let members = reconfigurer.layout().map(members_of).unwrap_or_default();
        Self {
            part,
            reconfigurer,
            members,
        }
    }
}

/// What a step has come to so far.
#[derive(Default)]
struct Draft {
    inputs: Vec<Decided>,
    change: Option<Box<JobRecord>>,
    effects: Vec<Effect>,
    renews_will: bool,
}

/// What a job has to know about the cluster.
pub trait Hosts {
    /// The host a node is on.
    fn host(&self, node: &NodeName) -> u64;
}

/// One job at one node.
#[derive(Debug)]
pub struct JobAtNode {
    job: JobId,
    own: NodeName,
    limits: Limits,
    leads: Option<Coordinator>,
    runs: Option<Runs>,
}

impl JobAtNode {
    /// A job that this node does not know yet.
    pub fn new(job: JobId, own: NodeName, limits: Limits) -> Self {
        Self {
            job,
            own,
            limits,
            leads: None,
            runs: None,
        }
    }

    /// This node leads the job from now on; `effects` are what its coordinator wants first.
    pub fn lead(&mut self, coordinator: Coordinator, effects: Vec<coordinator::Effect>) -> Step {
        self.leads = Some(coordinator);
        Step {
            entry: Some(self.state()),
            effects: effects.into_iter().map(Effect::Lead).collect(),
            renews_will: true,
        }
    }

    /// The first order of the job comes here.
    pub fn begin(&mut self, now: Moment, from: &NodeName, order: Box<StartOrder>, beginning: Beginning) -> Step {
        let (own, holder) = (self.own.clone(), order.coordinator.clone());
        let mut part = Participant::new(self.job, own.clone(), &order, beginning.kvs_prefix);
        part.know_reign(beginning.reign);
        let (reconfigurer, first) = if order.layout.is_empty() {
            let machine = Reconfigurer::at_first_message(own, holder, self.limits.clone());
            (machine, Vec::new())
        } else {
            Reconfigurer::at_start(own, holder, worlds::first_layout(&order), self.limits.clone())
        };
        let ordered = participant::Input::Ordered {
            node: from.clone(),
            order: CoordinatorToNode::Start(order),
        };
        let run = part.handle(now.0, ordered);
        self.runs = Some(Runs::new(part, reconfigurer));
        let first = first
            .into_iter()
            .filter(|effect| !matches!(effect, change::Effect::Persist(_)));
        let effects = first.map(Effect::Change).chain(run.into_iter().map(Effect::Run));
        Step {
            entry: Some(self.state()),
            effects: effects.collect(),
            renews_will: false,
        }
    }

    /// Takes one input; on return the state is changed.
    pub fn handle(&mut self, now: Moment, input: Input, hosts: &impl Hosts) -> Step {
        let mut draft = Draft::default();
        match input {
            Input::Lead(input) => self.on_lead(now, input, &mut draft),
            Input::Exited(process, status, said) => self.on_exited(now, (process, status, &said), hosts, &mut draft),
            Input::Run(participant::Input::Refused { process, code, reason }) => {
                self.on_refused(now, process, (code, reason), hosts, &mut draft);
            }
            // Its data is where it has to be: it may well lose others that leave, too.
            Input::Run(participant::Input::GaveUp { process, .. }) if self.is_spent(process) => {}
            Input::Run(input) => self.on_run(now, input, &mut draft),
            Input::Change(input) => self.on_change(now, input, hosts, &mut draft),
        }
        draft.finish(now)
    }

    /// A process here has the answer to its PMI request; `is_recorded` says whether the request is in the journal.
    pub fn on_answered(&mut self, now: Moment, process: ProcessId, is_recorded: bool) -> Step {
        let mut draft = Draft::default();
        self.on_run(now, participant::Input::Answered { process }, &mut draft);
        if !is_recorded {
            draft.inputs.clear();
        }
        draft.finish(now)
    }

    fn on_lead(&mut self, now: Moment, input: coordinator::Input, draft: &mut Draft) {
        let Some(coordinator) = &mut self.leads else { return };
        draft.inputs.push(Decided::Lead(input.clone()));
        let before = coordinator.gist();
        let effects = coordinator.handle(now.0, input);
        draft.renews_will |= coordinator.gist() != before;
        draft.effects.extend(effects.into_iter().map(Effect::Lead));
    }

    fn on_run(&mut self, now: Moment, input: participant::Input, draft: &mut Draft) {
        let Some(runs) = &mut self.runs else { return };
        if input.decides() {
            draft.inputs.push(Decided::Run(input.clone()));
        }
        let effects = runs.part.handle(now.0, input);
        draft.effects.extend(effects.into_iter().map(Effect::Run));
    }

    /// A process here ended. The reconfiguration hears of it once the part has judged how.
    fn on_exited(&mut self, now: Moment, ended: (ProcessId, ExitStatus, &str), hosts: &impl Hosts, draft: &mut Draft) {
        let (process, status, said) = ended;
        let is_spent = self.is_spent(process);
        self.on_run(now, participant::Input::exited(process, status, is_spent), draft);
        let Some(runs) = &self.runs else { return };
        if runs.reconfigurer.processes().contains(&process) {
            let finished = runs.part.has_finished(process, status);
            let input = match !finished && self.is_joining(process) {
                true => change::Input::ended_early(process, status, said),
                false => change::Input::Exited { process, finished },
            };
            self.on_change(now, input, hosts, draft);
        }
    }

    /// A process could not be started; when a reconfiguration wanted it, that hears why.
    fn on_refused(
        &mut self,
        now: Moment,
        process: ProcessId,
        (code, reason): (String, String),
        hosts: &impl Hosts,
        draft: &mut Draft,
    ) {
        let refused = participant::Input::Refused {
            process,
            code,
            reason: reason.clone(),
        };
        self.on_run(now, refused, draft);
        if self.is_newcomer(process) {
            self.on_change(now, change::Input::StartFailed { process, reason }, hosts, draft);
        }
    }

    /// Whether a process was started for a layout that is not in force yet, and not told to leave.
    pub fn is_joining(&self, process: ProcessId) -> bool {
        let runs = self.runs.as_ref().filter(|runs| !runs.members.contains(&process));
        runs.is_some_and(|runs| runs.part.processes().get(&process).is_some_and(Local::is_joining))
    }

    fn is_spent(&self, process: ProcessId) -> bool {
        let runs = self.runs.as_ref();
        runs.is_some_and(|runs| runs.reconfigurer.is_spent(process))
    }

    fn is_newcomer(&self, process: ProcessId) -> bool {
        let local = self.runs.as_ref().and_then(|runs| runs.part.processes().get(&process));
        local.is_some_and(|local| local.newcomer.is_some())
    }

    fn on_change(&mut self, now: Moment, input: change::Input, hosts: &impl Hosts, draft: &mut Draft) {
        let Some(runs) = &mut self.runs else { return };
        // A job that is being ended is not reconfigured any more; the machine's own timers lead here, too.
        if runs.part.is_ending() {
            return draft.effects.push(Effect::ChangesGivenUp);
        }
        let effects = runs.reconfigurer.on_input(now, input);
        self.settle(now, effects, hosts, draft);
    }

    /// What a reconfiguration wants of the other parts of the job is done at once, the rest is for the driver.
    fn settle(&mut self, now: Moment, effects: Vec<change::Effect>, hosts: &impl Hosts, draft: &mut Draft) {
        for effect in effects {
            match effect {
                change::Effect::Persist(record) => self.on_persist(now, record, draft),
                change::Effect::Send { to, message } => self.on_send(now, to, message, draft),
                change::Effect::StartWorld {
                    world,
                    members,
                    layout,
                    restored,
                    ..
                } => {
                    let input = start_world(world, &members, &layout, restored, hosts);
                    self.on_run(now, input, draft);
                }
                change::Effect::EndProcess { process, cause } => {
                    draft.effects.push(Effect::Change(effect));
                    let input = match cause {
                        change::EndCause::Lost => participant::Input::RankLost { process },
                        _ => participant::Input::Ordered {
                            node: self.own.clone(),
                            order: CoordinatorToNode::EndProcesses {
                                processes: vec![process],
                                grace_ms: 0,
                            },
                        },
                    };
                    self.on_run(now, input, draft);
                }
                change::Effect::Report(change::Report::LayoutChanged { .. }) => self.on_layout_changed(now, draft),
                effect => draft.effects.push(Effect::Change(effect)),
            }
        }
    }

    fn on_persist(&mut self, now: Moment, record: Box<JobRecord>, draft: &mut Draft) {
        let used = record
            .coordinator
            .as_ref()
            .map(|own| (own.next_process, own.next_world));
        draft.change = Some(record);
        let Some(coordinator) = &self.leads else { return };
        if let Some((process_next, world_next)) = used
            && (process_next > coordinator.process_next() || world_next > coordinator.world_next())
        {
            let input = coordinator::Input::NumbersUsed {
                process_next: process_next.0,
                world_next: world_next.0,
            };
            self.on_lead(now, input, draft);
        }
    }

    /// A node hears of the job, and of the hosts of both layouts, before it is asked to prepare: data comes from both.
    fn on_send(&mut self, now: Moment, to: NodeName, message: ReconfigurationMessage, draft: &mut Draft) {
        if let ReconfigurationMessage::Order {
            order: Order::Prepare { plan, .. },
            ..
        } = &message
        {
            let nodes = plan.participants();
            if self
                .leads
                .as_ref()
                .is_some_and(|coordinator| !coordinator.is_enlisted(&to))
            {
                self.on_lead(now, coordinator::Input::Enlist { node: to.clone() }, draft);
            }
            draft.effects.push(Effect::SendHosts { to: to.clone(), nodes });
        }
        draft.effects.push(Effect::Change(change::Effect::Send { to, message }));
    }

    /// Another layout counts: processes outside of it were told to leave.
    fn on_layout_changed(&mut self, now: Moment, draft: &mut Draft) {
        let Some(runs) = &mut self.runs else { return };
        let Some(layout) = runs.reconfigurer.layout().cloned() else {
            return;
        };
        let members = members_of(&layout);
        let processes = runs.members.difference(&members).copied().collect();
        runs.members = members;
        self.on_run(now, participant::Input::Leaving { processes }, draft);
        self.on_lead(now, coordinator::Input::LayoutCommitted { layout }, draft);
    }

    /// A node is linked (again): what it may have missed. Changes nothing.
    pub fn on_linked(&self, node: &NodeName) -> Vec<Effect> {
        let leads = self.leads.iter().filter(|coordinator| coordinator.has_node(node));
        let leads = leads
            .flat_map(|coordinator| coordinator.on_linked(node))
            .map(Effect::Lead);
        let runs = self
            .runs
            .iter()
            .flat_map(|runs| runs.part.on_linked(node))
            .map(Effect::Run);
        leads.chain(runs).collect()
    }

    /// The daemon was started again: `asking` are processes whose PMI request still waits, `held` those the keeper has,
    /// with how they ended.
    pub fn on_restarted(
        &mut self,
        now: Moment,
        asking: &BTreeSet<ProcessId>,
        held: &BTreeMap<ProcessId, (u32, Option<ExitStatus>)>,
        hosts: &impl Hosts,
    ) -> Step {
        let mut draft = Draft::default();
        let missed = |lead: &Coordinator| lead.say_ended().into_iter().chain(lead.own_order());
        draft
            .effects
            .extend(self.leads.iter().flat_map(missed).map(Effect::Lead));
        let Some(runs) = &mut self.runs else {
            return draft.finish(now);
        };
        let effects = runs.part.on_restored(now.0, asking, held);
        draft.effects.extend(effects.into_iter().map(Effect::Run));
        let record = runs.reconfigurer.record().clone();
        let (machine, effects) = Reconfigurer::at_restart(self.own.clone(), record, self.limits.clone(), now);
        let known = machine.processes();
        runs.reconfigurer = machine;
        self.settle(now, effects, hosts, &mut draft);
        for process in known {
            self.tell_end(now, process, hosts, &mut draft);
        }
        Step {
            entry: Some(self.state()),
            effects: draft.effects,
            renews_will: draft.renews_will,
        }
    }

    /// A process that the reconfiguration knows may have ended while no daemon was there.
    fn tell_end(&mut self, now: Moment, process: ProcessId, hosts: &impl Hosts, draft: &mut Draft) {
        let Some(runs) = &self.runs else { return };
        let input = match runs.part.processes().get(&process).map(|local| &local.state) {
            Some(LocalState::Ended(end)) => change::Input::Exited {
                process,
                finished: runs.part.has_finished(process, end.status),
            },
            Some(LocalState::Refused { reason, .. }) if self.is_newcomer(process) => change::Input::StartFailed {
                process,
                reason: reason.clone(),
            },
            Some(_) => return,
            None => change::Input::Exited {
                process,
                finished: false,
            },
        };
        self.on_change(now, input, hosts, draft);
    }

    /// Takes in what the journal says.
    pub fn take(&mut self, entry: Entry) {
        match entry {
            Entry::State { leads, runs } => {
                self.leads = leads.map(|state| *state);
                self.runs = runs.map(|state| {
                    let (part, record) = *state;
                    Runs::new(part, self.blank(record))
                });
            }
            Entry::Step { now_us, inputs, change } => {
                for input in inputs {
                    match input {
                        Decided::Lead(input) => _ = self.leads.as_mut().map(|leads| leads.handle(now_us, input)),
                        Decided::Run(input) => _ = self.runs.as_mut().map(|runs| runs.part.handle(now_us, input)),
                    }
                }
                if let Some(record) = change
                    && let Some(runs) = self.runs.take()
                {
                    self.runs = Some(Runs::new(runs.part, self.blank(*record)));
                }
            }
        }
    }

    /// A machine with this record that has done nothing yet.
    fn blank(&self, record: JobRecord) -> Reconfigurer {
        Reconfigurer::with_record(self.own.clone(), record, self.limits.clone())
    }

    /// All of it, for the journal.
    pub fn state(&self) -> Entry {
        let runs = self.runs.as_ref();
        Entry::State {
            leads: self.leads.clone().map(Box::new),
            runs: runs.map(|runs| Box::new((runs.part.clone(), runs.reconfigurer.record().clone()))),
        }
    }

    /// Another node leads the job, or it is over.
    pub fn stop_leading(&mut self) -> Option<Coordinator> {
        self.leads.take()
    }

    /// Nothing of the job is left here.
    pub fn stop_running(&mut self) {
        self.runs = None;
    }

    /// The coordinator, where this node leads the job.
    pub fn coordinator(&self) -> Option<&Coordinator> {
        self.leads.as_ref()
    }

    /// The part of the job here.
    pub fn part(&self) -> Option<&Participant> {
        self.runs.as_ref().map(|runs| &runs.part)
    }

    /// The layout that counts, as far as it is known here.
    pub fn layout(&self) -> Option<&Layout> {
        self.runs.as_ref()?.reconfigurer.layout()
    }

    /// The reconfiguration that this node takes part in.
    pub fn engaged(&self) -> Option<(Attempt, &Plan)> {
        let engaged = self.runs.as_ref()?.reconfigurer.record().engaged.as_ref()?;
        Some((engaged.attempt, &engaged.plan))
    }

    /// Whether a reconfiguration is under way, as its coordinator knows.
    pub fn is_reconfiguring(&self) -> bool {
        self.runs
            .as_ref()
            .is_some_and(|runs| runs.reconfigurer.under_way().is_some())
    }

    /// The next moment at which [`JobAtNode::tick`] has something to do.
    pub fn deadline(&self) -> Option<Moment> {
        let leads = self.leads.as_ref().and_then(Coordinator::deadline);
        let runs = self.runs.as_ref().and_then(|runs| runs.part.deadline());
        leads.into_iter().chain(runs).min().map(Moment)
    }

    /// A deadline may have passed.
    pub fn tick(&mut self, now: Moment) -> Step {
        let is_due = |deadline: Option<u64>| deadline.is_some_and(|at| at <= now.0);
        let mut draft = Draft::default();
        if is_due(self.leads.as_ref().and_then(Coordinator::deadline)) {
            self.on_lead(now, coordinator::Input::Tick, &mut draft);
        }
        if is_due(self.runs.as_ref().and_then(|runs| runs.part.deadline())) {
            self.on_run(now, participant::Input::Tick, &mut draft);
        }
        draft.finish(now)
    }
}

impl Draft {
    fn finish(self, now: Moment) -> Step {
        let is_empty = self.inputs.is_empty() && self.change.is_none();
        let entry = (!is_empty).then_some(Entry::Step {
            now_us: now.0,
            inputs: self.inputs,
            change: self.change,
        });
        Step {
            entry,
            effects: self.effects,
            renews_will: self.renews_will,
        }
    }
}

fn members_of(layout: &Layout) -> BTreeSet<ProcessId> {
    layout.members.iter().map(|member| member.process).collect()
}

fn start_world(
    world: WorldId,
    members: &[(Rank, Member)],
    layout: &Layout,
    is_restored: bool,
    hosts: &impl Hosts,
) -> participant::Input {
    let processes = members.iter().map(|(_, member)| member);
    participant::Input::StartWorld {
        start: worlds::world_placed(world, processes, |node| hosts.host(node)),
        places: members.iter().map(|(rank, member)| (member.process, *rank)).collect(),
        epoch: layout.epoch,
        size: layout.size() as u32,
        is_restored,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::placement::{Placed, Share};
    use pcm_proto::ids::Iteration;
    use pcm_proto::job::JobSpec;
    use pcm_proto::layout::{ModeWanted, PlanKind, PlanRequest, Seat};
    use pcm_proto::peer::NodeToCoordinator;

    struct OneHost;

    impl Hosts for OneHost {
        fn host(&self, _: &NodeName) -> u64 {
            7
        }
    }

    fn node() -> NodeName {
        NodeName::new("n0").unwrap()
    }

    /// A job of one rank, led and run by one node, with its journal.
    struct Alone {
        job: JobAtNode,
        journal: Vec<Entry>,
        now: Moment,
    }

    impl Alone {
        fn accepted() -> (Coordinator, Vec<coordinator::Effect>) {
            let share = Share {
                node: node(),
                count: 1,
                host: 7,
            };
            let spec = JobSpec {
                name: "test".to_owned(),
                size: 1,
                min: 1,
                max: 8,
                program: b"a.out".to_vec(),
                cwd: "/".into(),
                restarts_max: 100,
                ..JobSpec::default()
            };
            Coordinator::accept(JobId(1), node(), spec, &Placed::on(vec![share]), 0)
        }

        fn started() -> Self {
            let (state, effects) = Self::accepted();
            let mut alone = Self {
                job: JobAtNode::new(JobId(1), node(), Limits::default()),
                journal: Vec::new(),
                now: Moment(1),
            };
            let step = alone.job.lead(state, effects);
            alone.carry_out(step);
            alone
        }

        fn give(&mut self, input: Input) {
            let step = self.job.handle(self.now, input, &OneHost);
            self.carry_out(step);
        }

        /// Messages of the node to itself and processes that start.
        fn carry_out(&mut self, step: Step) {
            self.now = Moment(self.now.0 + 1);
            self.journal.extend(step.entry);
            for effect in step.effects {
                match effect {
                    Effect::Lead(coordinator::Effect::Send { message, .. }) => self.order(message),
                    Effect::Run(participant::Effect::Send { message, .. }) => self.report(message),
                    Effect::Run(participant::Effect::Start { process }) => {
                        let pid = 100 + process.0;
                        self.give(Input::Run(participant::Input::Started { process, pid }));
                    }
                    Effect::Change(change::Effect::Send { message, .. }) => {
                        let from = node();
                        self.give(Input::Change(change::Input::Message { from, message }));
                    }
                    _ => {}
                }
            }
        }

        fn order(&mut self, order: CoordinatorToNode) {
            match order {
                CoordinatorToNode::Start(order) if self.job.part().is_none() => {
                    let step = self.job.begin(self.now, &node(), order, Beginning::default());
                    self.carry_out(step);
                }
                order => self.give(Input::Run(participant::Input::Ordered { node: node(), order })),
            }
        }

        fn report(&mut self, message: pcm_proto::peer::JobMessage) {
            if let pcm_proto::peer::JobMessage::ToCoordinator(message) = message {
                self.give(Input::Lead(coordinator::Input::Said { node: node(), message }));
            }
        }

        fn replayed(&self) -> Entry {
            let mut job = JobAtNode::new(JobId(1), node(), Limits::default());
            self.journal.iter().cloned().for_each(|entry| job.take(entry));
            job.state()
        }

        fn expand(&mut self) {
            let request = PlanRequest {
                kind: PlanKind::Expand,
                cause: "test".to_owned(),
                mode: ModeWanted::Live,
                seats: vec![Seat::Stay { rank: Rank(0) }, Seat::Join { node: node() }],
                weights: Vec::new(),
                witnesses: Vec::new(),
                method: Default::default(),
            };
            let coordinator = self.job.coordinator().unwrap();
            let input = change::Input::Request {
                request,
                next_process: coordinator.process_next(),
                next_world: coordinator.world_next(),
                worlds_met: coordinator.worlds_met(),
            };
            self.give(Input::Change(input));
        }
    }

    #[test]
    fn a_job_that_runs_is_the_same_after_its_journal_was_read() {
        let mut alone = Alone::started();
        assert!(alone.job.coordinator().unwrap().is_running());
        assert_eq!(alone.replayed(), alone.job.state());
        alone.expand();
        assert!(alone.job.is_reconfiguring(), "the newcomer is awaited");
        assert_eq!(alone.replayed(), alone.job.state());
    }

    #[test]
    fn what_a_reconfiguration_uses_its_coordinator_knows_in_the_same_step() {
        let mut alone = Alone::started();
        let before = alone.journal.len();
        alone.expand();
        let numbers = |input: &Decided| matches!(input, Decided::Lead(coordinator::Input::NumbersUsed { .. }));
        let together = alone.journal[before..].iter().filter(|entry| match entry {
            Entry::Step { inputs, change, .. } => change.is_some() && inputs.iter().any(numbers),
            Entry::State { .. } => false,
        });
        assert_eq!(together.count(), 1);
        assert_eq!(alone.job.coordinator().unwrap().process_next(), ProcessId(2));
        assert_eq!(alone.job.part().unwrap().processes().len(), 2);
    }

    #[test]
    fn a_newcomer_that_cannot_start_ends_the_change_and_not_the_job() {
        let mut alone = Alone::started();
        alone.expand();
        let status = ExitStatus::Code(3);
        assert!(alone.job.is_joining(ProcessId(1)) && !alone.job.is_joining(ProcessId(0)));
        alone.give(Input::Exited(ProcessId(1), status, "\"no licence\"".to_owned()));
        let told = format!("{:?}", alone.job.state());
        assert!(
            told.contains("code 3 before it joined") && told.contains("no licence"),
            "{told}"
        );
        assert!(!alone.job.is_reconfiguring());
        assert!(alone.job.coordinator().unwrap().is_running());
        assert_eq!(alone.job.layout().map(Layout::size), Some(1));
        assert_eq!(alone.replayed(), alone.job.state());
    }

    #[test]
    fn a_job_that_is_being_ended_is_not_reconfigured() {
        let mut alone = Alone::started();
        let reason = "test".to_owned();
        alone.give(Input::Lead(coordinator::Input::End { code: 1, reason }));
        let report = change::Input::CeilingWritten {
            process: ProcessId(0),
            ceiling: Iteration(1),
            started: Iteration(1),
            ends: None,
        };
        let step = alone.job.handle(alone.now, Input::Change(report), &OneHost);
        assert_eq!(step.effects, [Effect::ChangesGivenUp]);
        assert!(step.entry.is_none());
    }

    #[test]
    fn a_coordinator_whose_daemon_died_after_the_job_was_accepted_tells_its_own_node_of_it() {
        let (state, effects) = Alone::accepted();
        let mut job = JobAtNode::new(JobId(1), node(), Limits::default());
        // Carried out by nobody.
        job.lead(state, effects);
        let step = job.on_restarted(Moment(2), &BTreeSet::new(), &BTreeMap::new(), &OneHost);
        let tells = |effect: &Effect| match effect {
            Effect::Lead(coordinator::Effect::Send { node: to, message }) => {
                *to == node() && matches!(message, CoordinatorToNode::Start(_))
            }
            _ => false,
        };
        assert_eq!(step.effects.iter().filter(|effect| tells(effect)).count(), 1);
        let started = Alone::started();
        let mut job = started.job;
        let step = job.on_restarted(Moment(9), &BTreeSet::new(), &BTreeMap::new(), &OneHost);
        assert!(!step.effects.iter().any(tells), "all of it was started");
    }

    #[test]
    fn a_node_that_leads_no_job_and_runs_none_decides_nothing() {
        let mut job = JobAtNode::new(JobId(1), node(), Limits::default());
        let message = NodeToCoordinator::Emptied;
        let step = job.handle(
            Moment(1),
            Input::Lead(coordinator::Input::Said { node: node(), message }),
            &OneHost,
        );
        assert!(step.entry.is_none() && step.effects.is_empty());
        assert_eq!(job.deadline(), None);
    }
}
