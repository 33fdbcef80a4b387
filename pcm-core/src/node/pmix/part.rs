//! [`PmixPart`]: the helper of one job here from its start to its end, the worlds that it knows, and processes that
//! wait for it. A process starts when the helper knows its world, and the job hears of its end when the helper has:
//! what the process said of itself before comes first.

use super::effect::{HelperId, PmixEffect, PmixNews};
use super::spawns::Spawns;
use super::worlds::{self, ServedWorld, Variables, namespace_of};
use crate::job::local_world::LocalWorld;
use crate::job::participant::{Input, Local, LocalState, Participant};
use crate::node::outbox::{Effect, Outbox};
use crate::node::settings::Settings;
use crate::pmi::world::Stage;
use pcm_proto::ids::{NodeName, ProcessId, WorldId};
use pcm_proto::keeper::ExitStatus;
use pcm_proto::peer::JobMessage;
use pcm_proto::pmix::{Order, PmixMessage, Process, Report, Status};
use pcm_proto::refusal;
use std::collections::{BTreeMap, BTreeSet};

/// The number that PMIX_ERR_JOB_FAILED_TO_LAUNCH has.
const NOT_STARTED: Status = Status(-181);

/// What a process that is to start has to do.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::node) enum Start {
    /// It starts with these variables, those of the user before them.
    Now(Variables),
    /// It comes back as [`Follow::Launch`].
    Later,
    /// It is refused for this reason.
    Never(String),
}

/// What news mean to the job.
#[derive(Debug, PartialEq)]
pub(in crate::node) enum Follow {
    Launch(ProcessId),
    Run(Input),
    /// The job is to hear of the end of a process now.
    Ended(ProcessId, ExitStatus),
    /// The job cannot go on.
    Lost {
        reason: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Idle,
    Serving,
    /// It ended, or was ended.
    Over,
}

/// See the file head.
#[derive(Debug)]
pub(in crate::node) struct PmixPart {
    helper: HelperId,
    own: NodeName,
    stand: Stand,
    worlds: BTreeMap<WorldId, ServedWorld>,
    waiting: BTreeSet<ProcessId>,
    /// Processes that ended, of which the helper has not heard.
    ended: BTreeMap<ProcessId, ExitStatus>,
    spawns: Spawns,
    /// What the helper said of its own end.
    reason: Option<String>,
}

impl PmixPart {
    pub(in crate::node) fn new(helper: HelperId, own: NodeName) -> Self {
        Self {
            helper,
            own,
            stand: Stand::Idle,
            worlds: BTreeMap::new(),
            waiting: BTreeSet::new(),
            ended: BTreeMap::new(),
            spawns: Spawns::default(),
            reason: None,
        }
    }

    fn tell(&self, order: Order, out: &mut Outbox) {
        let (helper, order) = (self.helper, Box::new(order));
        out.push(Effect::Pmix(PmixEffect::Tell { helper, order }));
    }

    fn begin(&mut self, part: &Participant, settings: &Settings, out: &mut Outbox) {
        self.begin_with(false, (part, settings), out);
    }

    fn begin_with(&mut self, is_counted_on: bool, (part, settings): (&Participant, &Settings), out: &mut Outbox) {
        if self.stand == Stand::Idle {
            self.stand = Stand::Serving;
            let helper = self.helper;
            let serve = Box::new(worlds::serve(part, helper, settings));
            out.push(Effect::Pmix(PmixEffect::Start {
                helper,
                serve,
                is_counted_on,
            }));
        }
    }

    /// The daemon started again. The helper is there still, if it was not killed, too: it says again what it knows.
    pub(in crate::node) fn resume(&mut self, part: &Participant, settings: &Settings, out: &mut Outbox) {
        let counts = |local: &Local| !matches!(local.state, LocalState::Starting);
        let is_needed = part.processes().values().any(counts);
        // What other ranks have published is kept at the coordinator's node.
        if !is_needed && part.coordinator() != &self.own {
            return;
        }
        self.begin_with(true, (part, settings), out);
        let worlds: BTreeSet<WorldId> = part.processes().values().map(|local| local.world).collect();
        for id in worlds {
            if let Some(world) = part.world(id) {
                self.register(id, part, (world, settings), out);
            }
        }
    }

    fn register(
        &mut self,
        id: WorldId,
        part: &Participant,
        (world, settings): (&LocalWorld, &Settings),
        out: &mut Outbox,
    ) {
        let (served, namespace) = ServedWorld::new(part, id, world, (self.helper, settings));
        self.worlds.insert(id, served);
        self.tell(Order::Register(namespace), out);
    }

    /// A process of the job is to start.
    pub(in crate::node) fn on_start(
        &mut self,
        process: ProcessId,
        part: &Participant,
        settings: &Settings,
        out: &mut Outbox,
    ) -> Start {
        self.begin(part, settings, out);
        let Some(local) = part.processes().get(&process) else {
            return Start::Never("it was not ordered".to_owned());
        };
        let Some(world) = part.world(local.world) else {
            return Start::Never(format!("its world {} is over", local.world));
        };
        if self.stand == Stand::Over {
            return Start::Never(self.end_of_helper());
        }
        let served = self.worlds.get(&local.world);
        if let Some(variables) = served.and_then(|known| known.variables(local.world_rank, settings, self.helper)) {
            return Start::Now(variables);
        }
        self.waiting.insert(process);
        if served.is_none() {
            self.register(local.world, part, (world, settings), out);
        }
        Start::Later
    }

    /// A process ended: whether the job hears of it later, as [`Follow::Ended`].
    pub(in crate::node) fn holds_end(
        &mut self,
        process: ProcessId,
        status: ExitStatus,
        part: &Participant,
        out: &mut Outbox,
    ) -> bool {
        let Some(named) = self.name_of(process) else {
            return false;
        };
        if self.stand != Stand::Serving {
            return false;
        }
        self.spawns.forget(process);
        // A signal says all: whatever the process had said, its mates may end of the loss before an answer comes.
        let says_all = matches!(status, ExitStatus::Signal(_));
        if says_all || self.ended.insert(process, status).is_none() {
            if is_given_up(process, part) {
                // Its mates are ended as well, and its parent and all others go on.
                let namespace = named.namespace.clone();
                self.tell(Order::Forget { namespace }, out);
            }
            self.tell(Order::Ended { process: named }, out);
        }
        !says_all
    }

    pub(in crate::node) fn on_news(&mut self, news: PmixNews, part: &Participant, out: &mut Outbox) -> Vec<Follow> {
        if self.stand != Stand::Serving {
            return Vec::new();
        }
        match news {
            PmixNews::Said(report) => self.on_report(*report, part, out),
            PmixNews::Ended { reason } => self.on_helper_ended(reason, part),
        }
    }

    fn on_report(&mut self, report: Report, part: &Participant, out: &mut Outbox) -> Vec<Follow> {
        match report {
            Report::Ready { version } => {
                tracing::info!(job = %self.helper.job, version, "PMIx is served");
                Vec::new()
            }
            Report::Registered {
                namespace,
                environments,
            } => {
                let known = self.worlds.values_mut().find(|world| world.namespace == namespace);
                let Some(world) = known else { return Vec::new() };
                let variables = environments.into_iter().map(|one| (one.rank, one.variables));
                world.environments = Some(variables.collect());
                let ready = world.processes.values().filter(|process| self.waiting.remove(process));
                ready.map(|process| Follow::Launch(*process)).collect()
            }
            Report::Refused { order, reason } => self.on_refused(&order, &reason),
            Report::Connected { process } => self.stage(&process, Stage::Initialized),
            Report::Finalized { process } => self.stage(&process, Stage::Finalized),
            Report::Aborted { process, status, .. } => {
                // Of a call of `MPI_Abort` libpcm says so before.
                let gave_up = |process| Follow::Run(Input::GaveUp { process, code: status });
                self.process(&process).map(gave_up).into_iter().collect()
            }
            Report::SpawnAsked {
                number,
                process,
                commands,
            } => {
                let asked = self.process(&process).and_then(|process| {
                    let of_job = &part.spec().env;
                    self.spawns.ask(number, process, &commands, of_job)
                });
                asked.map(Follow::Run).into_iter().collect()
            }
            Report::Over { process } => {
                let process = self.process(&process);
                let ended = process.and_then(|process| Some((process, self.ended.remove(&process)?)));
                ended
                    .map(|(process, status)| Follow::Ended(process, status))
                    .into_iter()
                    .collect()
            }
            Report::ToNode { node, number, message } => {
                let bytes = message;
                self.send(&node, PmixMessage::Letter { number, bytes }, out);
                Vec::new()
            }
            Report::Heard { node, number } => {
                self.send(&node, PmixMessage::Heard { number }, out);
                Vec::new()
            }
            Report::Failed { reason } => {
                self.reason = Some(reason);
                Vec::new()
            }
        }
    }

    /// The job answers a question of a process: with a world, or without. What the job hears next.
    pub(in crate::node) fn on_spawn_answered(
        &mut self,
        (process, number): (ProcessId, u64),
        world: Option<WorldId>,
        settings: &Settings,
        out: &mut Outbox,
    ) -> Option<Input> {
        let next = self.spawns.answer(process, number)?;
        let namespace = world.map(|world| namespace_of(world, self.helper, settings));
        let outcome = namespace.ok_or(NOT_STARTED);
        self.tell(Order::SpawnAnswer { number, outcome }, out);
        next
    }

    fn on_refused(&mut self, order: &str, reason: &str) -> Vec<Follow> {
        tracing::warn!(job = %self.helper.job, order, reason, "an order was not carried out by what serves PMIx");
        let named = |world: &&ServedWorld| order.strip_prefix("register ") == Some(&world.namespace);
        let Some(world) = self.worlds.values().find(named) else {
            return Vec::new();
        };
        let waiting = world.processes.values().filter(|process| self.waiting.remove(process));
        waiting.map(|process| refused(*process, reason.to_owned())).collect()
    }

    fn stage(&self, process: &Process, stage: Stage) -> Vec<Follow> {
        let reached = |process| Follow::Run(Input::Reached { process, stage });
        self.process(process).map(reached).into_iter().collect()
    }

    fn send(&self, node: &NodeName, message: PmixMessage, out: &mut Outbox) {
        let HelperId { job, life } = self.helper;
        out.send_job(node, job, JobMessage::Pmix { life, message });
    }

    /// The daemon of another node says something for the helper here, or of what it has heard.
    pub(in crate::node) fn on_message(
        &mut self,
        node: &NodeName,
        message: PmixMessage,
        (part, settings): (&Participant, &Settings),
        out: &mut Outbox,
    ) {
        if part.is_ending() || self.stand == Stand::Over {
            return;
        }
        let node = node.clone();
        let order = match message {
            PmixMessage::Heard { number } => Order::Heard { node, number },
            PmixMessage::Letter { number, bytes } => Order::FromNode {
                node,
                number,
                message: bytes,
            },
        };
        self.begin(part, settings, out);
        self.tell(order, out);
    }

    /// A node is linked (again): it may have missed something.
    pub(in crate::node) fn on_linked(&self, node: &NodeName, out: &mut Outbox) {
        if self.stand == Stand::Serving {
            let node = node.clone();
            self.tell(Order::Linked { node }, out);
        }
    }

    /// No process is left here.
    pub(in crate::node) fn stop(&mut self, out: &mut Outbox) {
        if std::mem::replace(&mut self.stand, Stand::Over) == Stand::Serving {
            let helper = self.helper;
            out.push(Effect::Pmix(PmixEffect::Stop { helper }));
        }
    }

    fn on_helper_ended(&mut self, reason: String, part: &Participant) -> Vec<Follow> {
        self.stand = Stand::Over;
        self.reason.get_or_insert(reason);
        let reason = self.end_of_helper();
        let waiting = std::mem::take(&mut self.waiting);
        let mut follow: Vec<Follow> = waiting
            .into_iter()
            .map(|process| refused(process, reason.clone()))
            .collect();
        let runs = |local: &Local| matches!(local.state, LocalState::Running { .. });
        if part.processes().values().any(runs) || part.coordinator() == &self.own {
            follow.push(Follow::Lost { reason });
        }
        let ended = std::mem::take(&mut self.ended).into_iter();
        follow.extend(ended.map(|(process, status)| Follow::Ended(process, status)));
        follow
    }

    fn end_of_helper(&self) -> String {
        let why = self.reason.as_deref().unwrap_or("it was stopped");
        format!(
            "the process that serves PMIx to ranks on node {} ended: {why}",
            self.own
        )
    }

    fn process(&self, named: &Process) -> Option<ProcessId> {
        let mut worlds = self.worlds.values();
        let world = worlds.find(|world| world.namespace == named.namespace)?;
        world.processes.get(&named.rank).copied()
    }

    fn name_of(&self, process: ProcessId) -> Option<Process> {
        self.worlds.values().find_map(|world| {
            let (rank, _) = world.processes.iter().find(|(_, known)| **known == process)?;
            Some(Process::new(&world.namespace, *rank))
        })
    }
}

/// Whether a process was ended because not all that a spawn asked for could be started.
fn is_given_up(process: ProcessId, part: &Participant) -> bool {
    let local = part.processes().get(&process).filter(|local| local.is_leaving());
    let world = local.and_then(|local| part.world(local.world));
    world.is_some_and(|world| world.start().spawned)
}

fn refused(process: ProcessId, reason: String) -> Follow {
    let code = refusal::START_FAILED.to_owned();
    Follow::Run(Input::Refused { process, code, reason })
}
