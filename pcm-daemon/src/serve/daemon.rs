//! The daemon's state and its one loop: take an event, handle it to its end, take the next. Nothing in here waits for
//! anything but the next event; what takes time is done by small tasks that come back with an event.

use super::agent_process::AgentProcess;
use super::boot::Boot;
use super::control_senders::ControlSenders;
use super::coordinating::Coordinated;
use super::drain::Draining;
use super::event::Event;
use super::event_log::EventLog;
use super::keeper_orders::KeeperOrders;
use super::logs::{NodeLogs, node_dir};
use super::memory::MemoryCarrier;
use super::method_file::MethodFile;
use super::notice::Notice;
use super::parts::Part;
use super::quorum::DoubtTold;
use super::shutdown::Stage;
use super::wills::Wills;
use crate::output_files::{OutputFiles, Written};
use crate::ranks::{Outcome, RankTable, library_in_front};
use pcm_core::job::ended::Ended;
use pcm_core::moment::Moment;
use pcm_core::node::agent::AgentLink;
use pcm_core::node::cluster::nodes::Nodes;
use pcm_core::node::cluster::quorum::Quorum;
use pcm_core::node::links::Links;
use pcm_core::node::methods::{MethodBook, MethodsEffect};
use pcm_core::node::outbox::{Effect, Outbox};
use pcm_core::node::queries::Queries;
use pcm_core::node::queries::control_links::ControlLinks;
use pcm_core::node::queries::early_messages::EarlyMessages;
use pcm_core::node::queries::series::SeriesBook;
use pcm_core::node::ranks::effect::{RankEffect, RankFact};
use pcm_core::node::ranks::launch::Launcher;
use pcm_core::node::ranks::pages::PageQuestions;
use pcm_core::node::record::Record;
use pcm_core::node::requester::LinkId;
use pcm_core::node::store::Store;
use pcm_core::node::store::input::StoreInput;
use pcm_core::node::timer::Timer;
use pcm_core::reconfiguration::limits::Limits;
use pcm_fabric::peers::Peers;
use pcm_proto::boot::BootSpec;
use pcm_proto::event::EventKind;
use pcm_proto::ids::{Epoch, JobId, NodeName};
use pcm_proto::method::COSTS_FILE;
use pcm_proto::peer::DaemonToDaemon;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;
use tokio::sync::mpsc;

/// Events that wait to be handled; tasks that bring more wait, and so their peers.
pub(super) const EVENTS_MAX: usize = 1024;

/// Job numbers remembered as over, so that a late order does not start them again.
const CLOSED_MAX: usize = 4096;

/// Messages to itself in one go; a loop among the daemon's own parts would be a bug, and is cut off here.
const OWN_MESSAGES_MAX: usize = 100_000;

/// One node's daemon.
pub(super) struct Daemon {
    pub(super) own: NodeName,
    pub(super) spec: BootSpec,
    pub(super) address: String,
    pub(super) cpus: Vec<u32>,
    pub(super) out: Outbox,
    pub(super) limits: Limits,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) log: EventLog,
    pub(super) keeper: KeeperOrders,
    pub(super) peers: Peers,
    pub(super) nodes: Nodes,
    pub(super) controls: ControlLinks,
    pub(super) control_senders: ControlSenders,
    pub(super) queries: Queries,
    pub(super) early: EarlyMessages,
    pub(super) boot: Boot,
    pub(super) agent: AgentLink,
    pub(super) agent_process: AgentProcess,
    pub(super) logs: NodeLogs,
    pub(super) drain: Option<Draining>,
    pub(super) notice: Option<Notice>,
    pub(super) jobs: BTreeMap<JobId, Coordinated>,
    pub(super) parts: BTreeMap<JobId, Part>,
    pub(super) store: Store,
    pub(super) memory: MemoryCarrier,
    pub(super) wills: Wills,
    pub(super) quorum: Quorum,
    pub(super) doubt: DoubtTold,
    pub(super) links: Links,
    pub(super) ended: Ended,
    pub(super) output_files: OutputFiles<Event>,
    pub(super) rank_table: RankTable<Event>,
    pub(super) page_questions: PageQuestions,
    pub(super) launcher: Launcher,
    pub(super) series: SeriesBook,
    pub(super) closed: VecDeque<JobId>,
    pub(super) highest_job: JobId,
    pub(super) methods: MethodBook,
    method_file: MethodFile,
    pub(super) stage: Stage,
}

/// What a daemon is made of at its start; the rest is empty.
pub(super) struct Beginnings {
    pub(super) spec: BootSpec,
    pub(super) address: String,
    pub(super) cpus: Vec<u32>,
    pub(super) now: Moment,
    pub(super) limits: Limits,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) log: EventLog,
    pub(super) keeper: KeeperOrders,
    pub(super) peers: Peers,
    pub(super) nodes: Nodes,
    pub(super) highest_job: JobId,
}

impl Daemon {
    pub(super) fn new(beginnings: Beginnings) -> Self {
        let Beginnings {
            spec,
            address,
            cpus,
            now,
            limits,
            events,
            log,
            keeper,
            peers,
            nodes,
            highest_job,
        } = beginnings;
        let method_file = MethodFile::at(
            spec.cluster_dir.join(COSTS_FILE),
            node_dir(&spec.cluster_dir, &spec.node.name),
        );
        let quorum = Quorum::new(spec.node.name.clone(), spec.patience());
        let output_files = OutputFiles::new(spec.cluster_dir.clone(), events.clone());
        let rank_table = RankTable::new(spec.node.name.clone(), events.clone());
        let launcher = Launcher::new(
            (spec.cluster_id.clone(), spec.cluster_dir.clone()),
            spec.node.name.clone(),
            cpus.clone(),
            library_in_front(),
        );
        let memory = MemoryCarrier::new(spec.cluster_id.clone(), events.clone());
        Self {
            own: spec.node.name.clone(),
            agent: AgentLink::new(cpus.clone()),
            logs: NodeLogs::new(spec.cluster_dir.clone(), spec.node.name.clone()),
            out: Outbox::new(spec.node.name.clone(), now),
            spec,
            address,
            cpus,
            limits,
            events,
            log,
            keeper,
            peers,
            nodes,
            controls: ControlLinks::default(),
            control_senders: ControlSenders::default(),
            queries: Queries::default(),
            early: EarlyMessages::default(),
            boot: Boot::default(),
            agent_process: AgentProcess::default(),
            drain: None,
            notice: None,
            jobs: BTreeMap::new(),
            parts: BTreeMap::new(),
            store: Store::default(),
            memory,
            wills: Wills::default(),
            quorum,
            doubt: DoubtTold::default(),
            links: Links::default(),
            ended: Ended::default(),
            output_files,
            rank_table,
            page_questions: PageQuestions::default(),
            launcher,
            series: SeriesBook::default(),
            closed: VecDeque::new(),
            highest_job,
            methods: MethodBook::default(),
            method_file,
            stage: Stage::Serving,
        }
    }

    /// Handles an event to its end.
    pub(super) fn handle(&mut self, now: Moment, event: Event) {
        self.out.begin(now);
        self.on_event(event);
        self.handle_own();
    }

    /// A timer is due.
    pub(super) fn handle_timer(&mut self, now: Moment, timer: Timer) {
        self.out.begin(now);
        self.on_timer(timer);
        self.handle_own();
    }

    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        self.out.take()
    }

    pub(super) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Keeper(fact) => self.on_keeper(fact),
            Event::KeeperLost { reason } => self.on_keeper_lost(&reason),
            Event::Peer(event) => self.on_peer_event(event),
            Event::ControlLinked { link, sender } => self.on_control_linked(link, sender),
            Event::ControlSaid { link, message } => self.on_control_said(link, *message),
            Event::ControlLost { link, in_order } => self.on_control_lost(link, in_order),
            Event::AgentLinked { link, sender } => {
                self.agent_process.on_linked(link, sender);
                self.on_agent_linked(link);
            }
            Event::AgentSaid { link, message } => self.on_agent_said(link, message),
            Event::Rank(news) => self.on_rank_news(news),
            Event::RankFact(fact) => self.on_rank_fact(fact),
            Event::Memory(event) => {
                let input = self.memory.on_event(event);
                self.store_input(input);
            }
            Event::StoreFact(input) => self.store_input(input),
            Event::AgentLost { link, nonsense } => {
                self.agent_process.on_lost(link);
                self.agent.on_lost(link, nonsense, &mut self.out);
            }
            Event::AgentEnded { life, reason } => self.agent.on_ended(life, reason, &mut self.out),
            Event::CostsRead(found) => self.on_costs_read(found),
            Event::Logs(done) => self.on_logs_answer(*done),
            Event::Notice => self.on_notice(),
            Event::Boot(fact) => self.on_boot(fact),
            Event::Written(Written { job, pieces }) => self.on_filed(job, &pieces),
        }
    }

    fn on_timer(&mut self, timer: Timer) {
        match timer {
            Timer::Coordinator(job) => self.on_coordinator_timer(job),
            Timer::Part(job) => self.on_part_timer(job),
            Timer::CoordinatorLost(job) => self.on_coordinator_lost_timer(job),
            Timer::Abandoned(job) => self.on_abandoned_timer(job),
            Timer::Unattended(job) => self.on_unattended_timer(job),
            Timer::Reform(job, timer) => self.reform(job, pcm_core::reconfiguration::effects::Input::Timer(*timer)),
            Timer::Ask(ask) => self.queries.on_ask_timer(ask, &mut self.out),
            Timer::Gather(number) => self.queries.on_gather_timer(number, &mut self.out),
            Timer::Follow(link) => self.on_follow_timer(LinkId(link)),
            Timer::Beat => self.on_beat(),
            Timer::Membership => self.on_membership_timer(),
            Timer::Images => self.store_input(StoreInput::ImagesTimer),
            Timer::Ahead(key) => self.store_input(StoreInput::AheadTimer(key)),
            Timer::Unneeded(key) => self.store_input(StoreInput::UnneededTimer(key)),
            Timer::Orphans(node) => self.store_input(StoreInput::OrphansTimer(node)),
            Timer::Settled => self.on_settled(),
            Timer::Redial(node) => self.on_redial(&node),
            Timer::Drain => self.drain_next(),
            Timer::Leave => self.leave_when_safe(),
            Timer::LastWords(key) => self.on_last_words(key),
            Timer::Checkpoint(job) => self.on_checkpoint_timer(job),
            Timer::CheckpointAsked(job, number) => self.on_checkpoint_asked_timer(job, number),
            Timer::Agent => self.agent.start(&mut self.out),
            Timer::AgentSilent => self.agent.on_silence_timer(&mut self.out),
            Timer::Wills => self.open_wills(),
            Timer::Quorum => self.on_quorum_timer(),
            Timer::OutputEnd(job) => self.on_output_end_timer(job),
        }
    }

    /// Handles what the daemon's parts said to each other, also what they say in turn.
    fn handle_own(&mut self) {
        let own = self.own.clone();
        for _ in 0..OWN_MESSAGES_MAX {
            if let Some(fact) = self.out.take_inward() {
                self.on_inward(fact);
                continue;
            }
            let Some(message) = self.out.take_own() else {
                return;
            };
            self.on_peer_said(&own, message);
        }
        let left = self.out.drop_own();
        tracing::error!(left, "the daemon keeps talking to itself; the rest is dropped");
    }

    /// Sends a message to a node; to the own one it goes round the loop like any other.
    pub(super) fn send(&mut self, node: &NodeName, message: DaemonToDaemon) {
        self.out.send(node, message);
    }

    pub(super) fn record(&mut self, record: Record) {
        self.out.record(record);
    }

    /// Carries out an effect; what there is to report of it.
    pub(super) fn carry_out_effect(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Send { node, message } => self.peers.send(&node, message, Instant::now()),
            Effect::ForgetLinks { node } => self.peers.forget(&node),
            Effect::Keeper(order) => self.keeper.order(order),
            Effect::Note { job, epoch, kind } => {
                let now_us = self.out.now().0;
                self.log.note(now_us, job, epoch, kind);
            }
            Effect::Files(effect) => self.output_files.carry_out(effect),
            Effect::Control { link, message } => self.control_senders.send(link, &message),
            Effect::Rank(effect) => return self.carry_out_rank(effect).map(Event::RankFact),
            Effect::Store(effect) => {
                self.carry_out_store(effect);
                return self.memory.take_report().map(Event::StoreFact);
            }
            Effect::Agent(effect) => return self.agent_process.carry_out(effect, &self.spec, &self.events),
            Effect::Methods(MethodsEffect::Read) => return Some(Event::CostsRead(self.method_file.read_changed())),
            Effect::Methods(MethodsEffect::Learn(cost)) => self.method_file.learn(&cost),
            Effect::Logs(effect) => {
                let done = self.logs.carry_out(effect);
                return done.map(|done| Event::Logs(Box::new(done)));
            }
            Effect::Record(_) | Effect::Arm { .. } => tracing::error!(?effect, "an effect is not for here"),
        }
        None
    }

    /// Carries out an effect on ranks; what there is to report of it.
    fn carry_out_rank(&mut self, mut effect: RankEffect) -> Option<RankFact> {
        let file = self.file_for_rank(&mut effect);
        match self.rank_table.carry_out(effect, file) {
            Outcome::Done => None,
            Outcome::Fact(fact) => Some(fact),
            Outcome::Start(spec, page) => {
                self.keeper.start_process(*spec, page);
                None
            }
        }
    }

    /// Everything a successor would have to know.
    pub(super) fn present(&mut self) -> Vec<Record> {
        let mut records = vec![
            Record::Listens {
                address: self.address.clone(),
            },
            Record::Draining {
                is_draining: self.nodes.is_draining(),
            },
            Record::HighestJob(self.highest_job),
            Record::KeeperSince(self.nodes.own().keeper_since_us),
        ];
        records.extend(self.nodes.others().map(|report| Record::Node(Box::new(report))));
        let now_us = self.out.now().0;
        let ended = self.ended.list(now_us);
        records.extend(ended.map(|status| Record::Ended {
            now_us,
            status: Box::new(status.clone()),
        }));
        for (job, coordinated) in &self.jobs {
            records.push(Record::Coordinator {
                job: *job,
                state: Box::new(coordinated.state.clone()),
            });
            records.extend(coordinated.output.written_records());
        }
        for (job, part) in &self.parts {
            records.push(Record::Part {
                job: *job,
                state: Box::new(part.state.clone()),
            });
            let record = Box::new(part.reforming.record().clone());
            records.push(Record::Reform { job: *job, record });
            records.extend(part.output.printed_records());
        }
        records.extend(self.store.records());
        records
    }

    /// Notes an event of a job, or of the node.
    pub(super) fn note(&mut self, job: Option<JobId>, epoch: Epoch, kind: EventKind) {
        tracing::info!(job = job.map(|job| job.0), ?kind, "event");
        self.out.note(job, epoch, kind);
    }

    /// Remembers that a job is over here.
    pub(super) fn close(&mut self, job: JobId) {
        if !self.closed.contains(&job) {
            self.closed.push_back(job);
        }
        if self.closed.len() > CLOSED_MAX {
            self.closed.pop_front();
        }
    }

    /// Takes note of a job number, so that none is given twice.
    pub(super) fn heard_of(&mut self, job: JobId) {
        if job > self.highest_job {
            self.highest_job = job;
            self.record(Record::HighestJob(job));
        }
    }
}
