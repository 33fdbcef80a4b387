//! What a node wants done, in order. A driver carries the effects out one after another; when a record cannot be
//! written, it drops what follows: no record, no word.

use super::agent::{AgentEffect, AgentFact};
use super::cluster::fact::ClusterFact;
use super::cost_file::MethodsEffect;
use super::links::CopyGoes;
use super::pmix::effect::PmixEffect;
use super::queries::{Asker, Outcome, Wanted};
use super::ranks::effect::RankEffect;
use super::ranks::pages::{PageQuestion, Reader};
use super::record::Record;
use super::requester::{LinkId, Requester};
use super::store::effect::StoreEffect;
use super::store::input::StoreInput;
use super::streams::effect::FileEffect;
use super::timer::Timer;
use crate::moment::Moment;
use crate::reconfiguration;
use pcm_proto::agent::DaemonToAgent;
use pcm_proto::boot::{BootReport, BootSpec, NodeSpec};
use pcm_proto::control::{DaemonToControl, LogOf};
use pcm_proto::event::EventKind;
use pcm_proto::fabric::UdAddress;
use pcm_proto::ids::{Epoch, JobId, NodeName, ProcessId};
use pcm_proto::keeper::DaemonToKeeper;
use pcm_proto::peer::{DaemonToDaemon, JobMessage, Question};
use std::collections::VecDeque;
use std::time::Duration;

/// An instruction to the driver.
#[derive(Debug)]
pub enum Effect {
    /// Write a record to the journal before anything that follows is done.
    Record(Box<Record>),
    /// Send a message to another node.
    Send {
        /// The receiver, never the own node.
        node: NodeName,
        message: DaemonToDaemon,
    },
    /// Drop the links to a node that is gone, with what waits for them.
    ForgetLinks { node: NodeName },
    /// Give an order to the keeper.
    Keeper(DaemonToKeeper),
    /// Give back a timer at this moment.
    Arm {
        /// When it is due.
        at: Moment,
        timer: Timer,
    },
    /// Add an event to the node's log.
    Note {
        /// The job it is about.
        job: Option<JobId>,
        /// The job's epoch.
        epoch: Epoch,
        kind: EventKind,
    },
    /// Answer a `pcmctl`; one that does not take its answers loses its link.
    Control {
        link: LinkId,
        message: Box<DaemonToControl>,
    },
    /// Do something with the processes of ranks.
    Rank(RankEffect),
    /// Do something with the process that serves PMIx to the ranks of a job.
    Pmix(PmixEffect),
    /// Do something with the files of a detached job.
    Files(FileEffect),
    /// Do something with memory files.
    Store(StoreEffect),
    /// Do something for the agent.
    Agent(AgentEffect),
    /// Do something with the file of the costs of methods.
    Methods(MethodsEffect),
    /// Do something with the node's logs.
    Logs(LogsEffect),
    /// Read the node's events after this time, of one job or of all, for a question of a node.
    ReadEvents {
        node: NodeName,
        ask: u64,
        job: Option<JobId>,
        since_us: u64,
    },
    /// Read where the processes of a job here are in their programs, for a question of a node.
    ReadStacks(StacksWanted),
    /// Do something with the transport to other nodes.
    Peers(PeersEffect),
    /// Do something for the boot tree.
    Boot(BootEffect),
    /// The keeper is dead: end what ranks of this node are left, and remove shared memory with these prefixes.
    Sweep { prefixes: Vec<String> },
}

/// The processes whose stacks a node asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StacksWanted {
    pub node: NodeName,
    pub ask: u64,
    pub job: JobId,
    /// Only this one.
    pub process: Option<ProcessId>,
}

/// What the driver does with the transport to other nodes.
#[derive(Debug)]
pub enum PeersEffect {
    /// A node's daemon listens at this address.
    SetAddress { node: NodeName, address: String },
    /// The same of its InfiniBand or RoCE device, if it has one.
    SetRdmaAddress { node: NodeName, address: Option<UdAddress> },
    /// Connect to a node.
    Dial { node: NodeName },
    /// Send a message to a daemon of which only the address is known.
    SendToAddress { address: String, message: DaemonToDaemon },
    /// Look for messages that waited in vain; report what became of them, and the transports.
    Tick,
    /// Add an event to the node's log that tells how a message goes to these nodes.
    NoteRoute {
        job: JobId,
        epoch: Epoch,
        nodes: Vec<NodeName>,
        message: DaemonToDaemon,
    },
}

/// What the driver does for the boot tree.
#[derive(Debug)]
pub enum BootEffect {
    /// Tell the process that booted this daemon that the node is up; [`super::event::BootFact::Unheard`] if it is gone.
    Ready,
    /// Tell it what became of another node.
    Report(BootReport),
    /// Close the reports.
    EndReports,
    /// Boot these nodes: the first with the others as its subtree. Each gets this specification with its own node.
    Boot {
        template: Box<BootSpec>,
        nodes: Vec<NodeSpec>,
        /// Whether [`super::event::BootFact::PartDone`] is to follow.
        is_part: bool,
    },
}

/// What the driver does with the node's logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogsEffect {
    /// Read the last lines of a log for a requester.
    Tail { from: Requester, of: LogOf, lines: u32 },
    /// Write a log with other levels, and tell a requester all of them.
    Levels { from: Requester, of: LogOf, levels: String },
}

/// A fact for another part of the node, handled in the same step, after the present handler.
#[derive(Debug)]
pub enum Inward {
    /// An input to the reconfigurations of a job.
    Reconfigure {
        job: JobId,
        input: Box<reconfiguration::effects::Input>,
    },
    /// A copy went over the link to a node.
    CopyMeasured {
        node: NodeName,
        goes: CopyGoes,
        /// When it began; it ended in this step.
        since: Moment,
        bytes: u64,
    },
    /// The answer to a request that another node passed on.
    Answered {
        node: NodeName,
        ask: u64,
        answer: Box<DaemonToControl>,
    },
    /// What came of a question.
    Queries(Outcome),
    /// What the agent said.
    Agent(AgentFact),
    /// The cluster has changed.
    Cluster(ClusterFact),
    /// An input to the store.
    Store(Box<StoreInput>),
    /// Another daemon leads a job; the store has said what is here of it.
    Led { job: JobId, by: NodeName, reign: u32 },
    /// A question to a node.
    Ask {
        node: NodeName,
        question: Box<Question>,
        asker: Box<Asker>,
        within: Duration,
    },
    /// A question to several nodes, whose answers are gathered.
    Gather {
        from: Requester,
        wanted: Box<Wanted>,
        question: Box<Question>,
        nodes: Vec<NodeName>,
        within: Duration,
    },
    /// A question about the pages of ranks.
    ReadPages { reader: Reader, question: PageQuestion },
    /// A process came, went, or has initialised MPI.
    RanksChanged,
    /// A node that places ranks hears how many are here now.
    SayReport { node: NodeName },
    /// A job, or this node's part of one, is over.
    JobEnded,
}

/// The effects of one step, and the messages of the node to itself.
#[derive(Debug)]
pub struct Outbox {
    own: NodeName,
    now: Moment,
    effects: Vec<Effect>,
    to_own: VecDeque<DaemonToDaemon>,
    inward: VecDeque<Inward>,
}

impl Outbox {
    /// An empty one of this node.
    pub fn new(own: NodeName, now: Moment) -> Self {
        Self {
            own,
            now,
            effects: Vec::new(),
            to_own: VecDeque::new(),
            inward: VecDeque::new(),
        }
    }

    /// A step begins at this moment.
    pub fn begin(&mut self, now: Moment) {
        self.now = self.now.max(now);
    }

    /// The moment of this step.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// The node's name.
    pub fn own(&self) -> &NodeName {
        &self.own
    }

    /// Adds an effect.
    pub fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Writes a record down before anything that follows is done.
    pub fn record(&mut self, record: Record) {
        self.push(Effect::Record(Box::new(record)));
    }

    /// Sends a message to a node; one to the own node goes round in the same step.
    pub fn send(&mut self, node: &NodeName, message: DaemonToDaemon) {
        if *node == self.own {
            self.to_own.push_back(message);
        } else {
            let node = node.clone();
            self.push(Effect::Send { node, message });
        }
    }

    /// Sends a message about a job to a node.
    pub fn send_job(&mut self, node: &NodeName, job: JobId, message: impl Into<JobMessage>) {
        let message = Box::new(message.into());
        self.send(node, DaemonToDaemon::Job { job, message });
    }

    /// Does something with the processes of ranks.
    pub fn rank(&mut self, effect: RankEffect) {
        self.push(Effect::Rank(effect));
    }

    /// Does something with the files of a detached job.
    pub fn files(&mut self, effect: FileEffect) {
        self.push(Effect::Files(effect));
    }

    /// Hands a fact to another part of the node.
    pub fn inward(&mut self, fact: Inward) {
        self.inward.push_back(fact);
    }

    /// The next fact for a part of the node.
    pub fn take_inward(&mut self) -> Option<Inward> {
        self.inward.pop_front()
    }

    /// The next message of the node to itself.
    pub fn take_own(&mut self) -> Option<DaemonToDaemon> {
        self.to_own.pop_front()
    }

    /// Drops all messages of the node to itself; their number.
    pub fn drop_own(&mut self) -> usize {
        std::mem::take(&mut self.to_own).len()
    }

    /// Gives an order to the keeper.
    pub fn keeper(&mut self, order: DaemonToKeeper) {
        self.push(Effect::Keeper(order));
    }

    /// Wants a timer back after this time.
    pub fn arm(&mut self, after: Duration, timer: Timer) {
        self.arm_at(self.now.plus(after), timer);
    }

    /// Wants a timer back at this moment.
    pub fn arm_at(&mut self, at: Moment, timer: Timer) {
        self.push(Effect::Arm { at, timer });
    }

    /// Adds an event to the node's log.
    pub fn note(&mut self, job: Option<JobId>, epoch: Epoch, kind: EventKind) {
        self.push(Effect::Note { job, epoch, kind });
    }

    /// Answers a `pcmctl`.
    pub fn control(&mut self, link: LinkId, message: DaemonToControl) {
        let message = Box::new(message);
        self.push(Effect::Control { link, message });
    }

    /// Answers a request, wherever it came from.
    pub fn answer(&mut self, to: Requester, answer: DaemonToControl) {
        match to {
            Requester::Control(link) => self.control(link, answer),
            Requester::Agent { number } => {
                let outcome = super::agent::words::outcome(answer);
                let message = Box::new(DaemonToAgent::Proposed { number, outcome });
                self.push(Effect::Agent(AgentEffect::Send(message)));
            }
            Requester::Nobody => {}
            Requester::Peer { node, ask } => {
                let answer = Box::new(answer);
                self.inward(Inward::Answered { node, ask, answer });
            }
        }
    }

    /// All effects so far, in order.
    pub fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }
}
