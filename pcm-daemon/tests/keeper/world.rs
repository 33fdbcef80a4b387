//! A world of MPI processes on one node, served by the test: what a daemon does, without its network.

use crate::node::{Node, PATIENCE};
use crate::program::ranks;
use pcm_core::mpi_settings::{Circumstances, settings};
use pcm_core::node::ranks::environment::{Belonging, environment};
use pcm_core::pmi::gather::{Gather, GatherEffect, Puts};
use pcm_core::pmi::segment::segment_prefix;
use pcm_core::pmi::spawn::SpawnCommand;
use pcm_core::pmi::world::{Effect, World, WorldSpec};
use pcm_daemon::keeper_link::{FromKeeper, Handed};
use pcm_daemon::rank::{Output, RankEvent, RankHandle};
use pcm_proto::ids::{JobId, ProcessId, WorldId};
use pcm_proto::keeper::{DaemonToKeeper, ExitStatus, ProcessKey, ProcessSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// How a run ended.
#[derive(Debug, Default)]
pub struct Outcome {
    pub codes: BTreeMap<ProcessId, ExitStatus>,
    pub lines: Vec<String>,
    pub aborted: Option<i32>,
    pub finalized: BTreeSet<ProcessId>,
}

/// One node's part of a world.
pub struct Part {
    pub kvsname: String,
    pub size: u32,
    pub ranks: Range<u32>,
    pub mapping: String,
}

/// A job on one node.
pub struct Job {
    pub job: JobId,
    pub worlds: Vec<World>,
    /// The world and process that spawned the world of this number.
    parents: BTreeMap<usize, (ProcessId, usize)>,
    pub ranks: BTreeMap<ProcessId, RankHandle>,
    pub outcome: Outcome,
    open_outputs: usize,
    next_process: u32,
    pub extra: Vec<(String, String)>,
    /// Barriers go to the other nodes of the world, and their releases come from there.
    pub tree: Option<Tree>,
    events: (Sender<RankEvent>, Receiver<RankEvent>),
    output: (Sender<Output>, Receiver<Output>),
}

impl Job {
    pub fn new(job: u64) -> Self {
        Self {
            job: JobId(job),
            worlds: vec![],
            parents: BTreeMap::new(),
            ranks: BTreeMap::new(),
            outcome: Outcome::default(),
            open_outputs: 0,
            next_process: 0,
            extra: vec![],
            tree: None,
            events: channel(64),
            output: channel(64),
        }
    }

    /// Starts a world of which all processes are here; the commands' processes have consecutive ranks.
    pub async fn world_start(&mut self, node: &Node, commands: &[SpawnCommand], is_spawned: bool) {
        let size = commands.iter().map(|command| command.processes).sum::<u32>();
        let part = Part {
            kvsname: format!("kvs_{}_{}_{}", node.cluster_id, self.job, self.worlds.len()),
            size,
            ranks: 0..size,
            mapping: format!("(vector,(0,1,{size}))"),
        };
        self.part_start(node, commands, &part, is_spawned).await;
    }

    /// Starts this node's part of a world.
    pub async fn part_start(&mut self, node: &Node, commands: &[SpawnCommand], part: &Part, is_spawned: bool) {
        let number = self.worlds.len();
        let mut values = vec![("PMI_process_mapping".to_owned(), part.mapping.clone())];
        values.extend(commands.iter().flat_map(|command| command.preputs.clone()));
        let app_numbers = (0..)
            .zip(commands)
            .flat_map(|(app, command)| vec![app; command.processes as usize]);
        let first = self.next_process;
        self.next_process += part.size;
        let spec = WorldSpec {
            kvsname: part.kvsname.clone(),
            size: part.size,
            local: part.ranks.clone().map(|rank| (ProcessId(first + rank), rank)).collect(),
            values,
            universe: None,
            app_numbers: app_numbers.collect(),
            is_spare: false,
        };
        self.worlds.push(World::new(spec));
        let each = commands
            .iter()
            .flat_map(|command| (0..command.processes).map(move |_| command));
        for (rank, command) in (0..).zip(each).filter(|(rank, _)| part.ranks.contains(rank)) {
            let place = (number, rank, part.size);
            let spec = self.process_spec(node, place, ProcessId(first + rank), command, is_spawned, &part.kvsname);
            let handed = self.start(node, spec).await;
            self.attach(handed);
        }
    }

    async fn start(&mut self, node: &Node, spec: ProcessSpec) -> Handed {
        node.order_start(spec).await;
        loop {
            match node.hear().await {
                FromKeeper::Started(handed) => return handed,
                other => self.on_keeper(node, other).await,
            }
        }
    }

    fn process_spec(
        &self,
        node: &Node,
        (world, rank, size): (usize, u32, u32),
        process: ProcessId,
        command: &SpawnCommand,
        is_spawned: bool,
        kvsname: &str,
    ) -> ProcessSpec {
        let key = ProcessKey { job: self.job, process };
        let user: Vec<_> = std::env::vars()
            .filter(|(name, _)| !name.starts_with("MPIR_") && !name.starts_with("FI_"))
            .map(|(name, value)| (name.into_bytes(), value.into_bytes()))
            .collect();
        let circumstances = Circumstances {
            is_oversubscribed: true,
            ..Circumstances::default()
        };
        let belonging = Belonging {
            worlds: 1,
            cluster_id: &node.cluster_id,
            host: 1,
            cluster_dir: node.directory.path(),
            node: &node.name,
            site: "here",
            key,
            world: WorldId(u32::try_from(world).unwrap()),
            world_rank: rank,
            world_size: size,
            is_spawned,
        };
        let args: Vec<&str> = command.args.iter().map(String::as_str).collect();
        ProcessSpec {
            env: environment(&user, &settings(circumstances, &[], &self.extra), &belonging, &[]),
            stdin: rank == 0 && !is_spawned,
            segments: vec![segment_prefix(kvsname)],
            ..node.spec(key, &command.program, &args)
        }
    }

    pub fn attach(&mut self, handed: Handed) {
        let (process, ended) = (handed.key.process, handed.ended);
        let mut rank = RankHandle::attach(handed, self.events.0.clone()).unwrap();
        rank.read_output(&self.output.0);
        self.ranks.insert(process, rank);
        self.open_outputs += 2;
        if let Some(status) = ended {
            self.outcome.codes.insert(process, status);
        }
    }

    /// Forgets the descriptors, as a daemon does that is killed.
    pub fn lose_descriptors(&mut self) {
        self.ranks.clear();
        self.open_outputs = 0;
        (self.events, self.output) = (channel(64), channel(64));
    }

    /// Takes over from the journal and from what the keeper held.
    pub async fn restore(&mut self, node: &Node, held: Vec<Handed>) {
        for handed in held {
            self.attach(handed);
        }
        let unanswered = self
            .ranks
            .iter()
            .filter(|(_, rank)| rank.is_asking())
            .map(|(process, _)| *process)
            .collect();
        for number in 0..self.worlds.len() {
            let effects = self.worlds[number].on_restored(&unanswered);
            self.carry_out(node, number, effects).await;
        }
    }

    /// Serves until every process has ended and all output is read, or `stop` says so.
    pub async fn serve(&mut self, node: &Node, mut stop: impl FnMut(&Self) -> bool) {
        while !stop(self) && (self.outcome.codes.len() < self.ranks.len() || self.open_outputs > 0) {
            let step = tokio::time::timeout(PATIENCE, async {
                tokio::select! {
                    event = self.events.1.recv() => self.on_event(node, event.unwrap()).await,
                    output = self.output.1.recv() => self.on_output(output.unwrap()),
                    message = tree_next(&mut self.tree) => {
                        let effect = self.tree.as_mut().unwrap().hear(message);
                        self.on_gathered(node, effect).await;
                    }
                    heard = node.link.receive() => self.on_keeper(node, heard.unwrap().expect("a keeper")).await,
                }
            });
            assert!(step.await.is_ok(), "nothing happens any more: {:?}", self.outcome);
        }
    }

    fn on_output(&mut self, output: Output) {
        match output {
            Output::Lines { bytes, .. } => {
                self.outcome
                    .lines
                    .extend(String::from_utf8(bytes).unwrap().lines().map(str::to_owned));
            }
            Output::End { .. } => self.open_outputs -= 1,
        }
    }

    async fn on_keeper(&mut self, node: &Node, heard: FromKeeper) {
        match heard {
            FromKeeper::Exited { key, status } => {
                self.outcome.codes.insert(key.process, status);
                node.link.send(&DaemonToKeeper::Forget { key }).await.unwrap();
            }
            // The answer to an abort's end of the job; the last end of a rank may be heard after it.
            FromKeeper::JobCleared { .. } if self.outcome.aborted.is_some() => {}
            other => panic!("unexpected {other:?}"),
        }
    }

    async fn on_event(&mut self, node: &Node, event: RankEvent) {
        match event {
            RankEvent::Pmi { key, request } => {
                let number = self.world_of(key.process);
                let effects = self.worlds[number].on_request(key.process, request);
                self.carry_out(node, number, effects).await;
            }
            RankEvent::PmiBroken { reason, .. } => panic!("{reason}"),
            RankEvent::PmiClosed { .. } | RankEvent::AppClosed { .. } => {}
            other => panic!("unexpected {other:?}"),
        }
    }

    async fn on_gathered(&mut self, node: &Node, effect: Option<GatherEffect>) {
        let released = self.tree.as_mut().unwrap().pass_on(effect);
        if let Some((generation, puts)) = released {
            let effects = self.worlds[0].on_release(generation, puts);
            self.carry_out(node, 0, effects).await;
        }
    }

    fn world_of(&self, process: ProcessId) -> usize {
        self.worlds
            .iter()
            .position(|world| world.stage(process).is_some())
            .unwrap()
    }

    async fn carry_out(&mut self, node: &Node, number: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Answer { process, line } => {
                    let answered = self.ranks[&process].pmi_answer(&line);
                    let is_being_ended = self.outcome.aborted.is_some();
                    assert!(answered.is_ok() || is_being_ended, "{process}: {answered:?}");
                    self.worlds[number].on_answered(process);
                }
                Effect::Finalized { process } => {
                    self.outcome.finalized.insert(process);
                }
                Effect::Aborted { code, .. } => {
                    self.outcome.aborted = Some(code);
                    node.link.send(&DaemonToKeeper::EndJob { job: self.job }).await.unwrap();
                }
                Effect::SpawnRequested { process, commands } => {
                    self.parents.insert(self.worlds.len(), (process, number));
                    Box::pin(self.world_start(node, &commands.unwrap(), true)).await;
                }
                Effect::ParentAsked => {
                    let (parent, parent_world) = self.parents[&number];
                    let codes = vec![0; self.worlds[number].processes().count()];
                    let effects = self.worlds[parent_world].on_spawned(parent, &codes);
                    Box::pin(self.carry_out(node, parent_world, effects)).await;
                }
                Effect::BarrierUp { generation, puts } => {
                    let effect = self.tree.as_mut().unwrap().gather.on_own(generation, puts);
                    Box::pin(self.on_gathered(node, effect)).await;
                }
                Effect::AllFinalized => {}
                other => panic!("unexpected {other:?}"),
            }
        }
    }
}

async fn tree_next(tree: &mut Option<Tree>) -> GatherEffect {
    match tree {
        Some(tree) => tree.inbox.recv().await.expect("the other node"),
        None => std::future::pending().await,
    }
}

/// A node's place among two: the root, or its only child.
pub struct Tree {
    is_root: bool,
    gather: Gather<u8>,
    other: Sender<GatherEffect>,
    inbox: Receiver<GatherEffect>,
}

impl Tree {
    pub fn pair() -> (Self, Self) {
        let (root, child) = (channel(16), channel(16));
        let tree = |is_root, other, inbox| Self {
            is_root,
            gather: Gather::new(is_root, is_root.then_some(1)),
            other,
            inbox,
        };
        (tree(true, child.0, root.1), tree(false, root.0, child.1))
    }

    fn hear(&mut self, message: GatherEffect) -> Option<GatherEffect> {
        match message {
            GatherEffect::TellParent { generation, puts } => self.gather.on_child(&1, generation, puts),
            other => Some(other),
        }
    }

    fn pass_on(&mut self, effect: Option<GatherEffect>) -> Option<(u64, Puts)> {
        let effect = effect?;
        if self.is_root || matches!(effect, GatherEffect::TellParent { .. }) {
            self.other.try_send(effect.clone()).unwrap();
        }
        match effect {
            GatherEffect::Release { generation, puts } if self.gather.on_release(generation) => {
                Some((generation, puts))
            }
            _ => None,
        }
    }
}

/// One command of the test program.
pub fn command(processes: u32, args: &[&str]) -> SpawnCommand {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    SpawnCommand {
        processes,
        program: ranks().to_owned(),
        args,
        ..SpawnCommand::default()
    }
}

/// Runs the test program as one world to its end.
pub async fn run(node: &Node, job: u64, processes: u32, args: &[&str]) -> Outcome {
    let mut run = Job::new(job);
    run.world_start(node, &[command(processes, args)], false).await;
    run.serve(node, |_| false).await;
    run.outcome
}
