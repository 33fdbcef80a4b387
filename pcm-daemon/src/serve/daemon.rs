//! The daemon's state and its one loop: take an event, handle it to its end, take the next. Nothing in here waits for
//! anything but the next event; what takes time is done by small tasks that come back with an event.

use super::agent_process::AgentProcess;
use super::boot::Boot;
use super::control_senders::ControlSenders;
use super::coordinating::Coordinated;
use super::drain::Draining;
use super::event::Event;
use super::event_log::EventLog;
use super::images::Images;
use super::keeper_orders::KeeperOrders;
use super::kept::KeptParts;
use super::logs::{NodeLogs, node_dir};
use super::method_file::MethodFile;
use super::nodes::Nodes;
use super::notice::Notice;
use super::parked::Parked;
use super::parts::Part;
use super::shutdown::Stage;
use super::sight::Sight;
use super::wills::Wills;
use pcm_core::job::ended::Ended;
use pcm_core::moment::Moment;
use pcm_core::node::agent::AgentLink;
use pcm_core::node::links::Links;
use pcm_core::node::methods::{MethodBook, MethodsEffect};
use pcm_core::node::outbox::{Effect, Inward, Outbox};
use pcm_core::node::queries::Queries;
use pcm_core::node::queries::control_links::ControlLinks;
use pcm_core::node::queries::early_messages::EarlyMessages;
use pcm_core::node::queries::series::SeriesBook;
use pcm_core::node::record::Record;
use pcm_core::node::requester::LinkId;
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
    pub(super) parked: Parked,
    pub(super) images: Images,
    pub(super) kept: KeptParts,
    pub(super) wills: Wills,
    pub(super) sight: Sight,
    pub(super) links: Links,
    pub(super) ended: Ended,
    pub(super) series: SeriesBook,
    pub(super) closed: VecDeque<JobId>,
    pub(super) highest_job: JobId,
    pub(super) methods: MethodBook,
    method_file: MethodFile,
    /// What came of effects, to be handled as events after all of them.
    replies: VecDeque<Event>,
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
            parked: Parked::default(),
            images: Images::default(),
            kept: KeptParts::default(),
            wills: Wills::default(),
            sight: Sight::default(),
            links: Links::default(),
            ended: Ended::default(),
            series: SeriesBook::default(),
            closed: VecDeque::new(),
            highest_job,
            methods: MethodBook::default(),
            method_file,
            replies: VecDeque::new(),
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

    /// The next event that came of an effect.
    pub(super) fn take_reply(&mut self) -> Option<Event> {
        self.replies.pop_front()
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
            Event::AgentLost { link, nonsense } => {
                self.agent_process.on_lost(link);
                self.agent.on_lost(link, nonsense, &mut self.out);
            }
            Event::AgentEnded { life, reason } => self.agent.on_ended(life, reason, &mut self.out),
            Event::CostsRead(found) => self.on_costs_read(found),
            Event::Logs(done) => self.on_logs_answer(*done),
            Event::Rank(event) => self.on_rank(event),
            Event::Printed { job, output } => self.on_printed(job, output),
            Event::StdinTaken { job, bytes } => self.on_stdin_taken(job, bytes),
            Event::Summed { key, id, tally } => self.on_summed(key, id, tally),
            Event::ImageWanted { key, lend } => self.on_image_wanted(key, lend),
            Event::ImageLent { key, attempt, lent } => self.on_image_lent(key, attempt, lent),
            Event::ImageOffered { key, attempt, region } => self.on_image_offered(key, attempt, region),
            Event::ImageCame { key, attempt, came } => self.on_image_came(key, attempt, came),
            Event::ImagePut { number, outcome } => self.on_image_put(number, outcome),
            Event::Notice => self.on_notice(),
            Event::Boot(fact) => self.on_boot(fact),
            Event::Filed { job, pieces } => self.on_filed(job, pieces),
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
            Timer::Settled => self.on_settled(),
            Timer::Redial(node) => self.on_redial(&node),
            Timer::Drain => self.drain_next(),
            Timer::Leave => self.leave_when_safe(),
            Timer::LastWords(key) => self.on_last_words(key),
            Timer::Images => self.on_images_timer(),
            Timer::Checkpoint(job) => self.on_checkpoint_timer(job),
            Timer::CheckpointAsked(job, number) => self.on_checkpoint_asked_timer(job, number),
            Timer::Ahead(key) => self.on_ahead_timer(key),
            Timer::Unneeded(key) => self.on_unneeded_timer(key),
            Timer::Agent => self.agent.start(&mut self.out),
            Timer::AgentSilent => self.agent.on_silence_timer(&mut self.out),
            Timer::Wills => self.open_wills(),
            Timer::Sight => self.on_sight_timer(),
            Timer::Orphans(node) => self.on_orphans_timer(&node),
            Timer::OutputEnd(job) => self.on_output_end_timer(job),
        }
    }

    /// Handles what the daemon's parts said to each other, also what they say in turn.
    fn handle_own(&mut self) {
        let own = self.own.clone();
        for _ in 0..OWN_MESSAGES_MAX {
            if let Some(fact) = self.out.take_inward() {
                match fact {
                    Inward::Queries(outcome) => self.on_outcome(outcome),
                    Inward::Agent(fact) => self.on_agent_fact(fact),
                }
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

    pub(super) fn carry_out_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Send { node, message } => self.peers.send(&node, message, Instant::now()),
            Effect::ForgetLinks { node } => self.peers.forget(&node),
            Effect::Keeper(order) => self.keeper.order(order),
            Effect::Note { job, epoch, kind } => {
                let now_us = self.out.now().0;
                self.log.note(now_us, job, epoch, kind);
            }
            Effect::Control { link, message } => self.control_senders.send(link, &message),
            Effect::Agent(effect) => {
                let reply = self.agent_process.carry_out(effect, &self.spec, &self.events);
                self.replies.extend(reply);
            }
            Effect::Methods(MethodsEffect::Read) => {
                let found = self.method_file.read_changed();
                self.replies.push_back(Event::CostsRead(found));
            }
            Effect::Methods(MethodsEffect::Learn(cost)) => self.method_file.learn(&cost),
            Effect::Logs(effect) => {
                let done = self.logs.carry_out(effect);
                self.replies.extend(done.map(|done| Event::Logs(Box::new(done))));
            }
            Effect::Record(_) | Effect::Arm { .. } => tracing::error!(?effect, "an effect is not for here"),
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
            records.extend(coordinated.output.written_records(*job));
        }
        for (job, part) in &self.parts {
            records.push(Record::Part {
                job: *job,
                state: Box::new(part.state.clone()),
            });
            let record = Box::new(part.reforming.record().clone());
            records.push(Record::Reform { job: *job, record });
            records.extend(part.output.printed_records(*job));
        }
        records.extend(self.kept.records());
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
