//! [`Node`]: takes an event and the time, handles the event to its end, and leaves effects. Nothing in here waits.

use super::event::{AgentNews, ControlFact, Event};
use crate::job::ended::Ended;
use crate::moment::Moment;
use crate::node::agent::AgentLink;
use crate::node::cluster::boot::Boot;
use crate::node::cluster::doubt::DoubtTold;
use crate::node::cluster::drain::Draining;
use crate::node::cluster::nodes::Nodes;
use crate::node::cluster::preemption::Preemption;
use crate::node::cluster::quorum::Quorum;
use crate::node::cluster::shutdown::Stage;
use crate::node::cluster::transports::Transports;
use crate::node::jobs::succession::Wills;
use crate::node::jobs::table::Jobs;
use crate::node::links::Links;
use crate::node::methods::MethodBook;
use crate::node::outbox::{Effect, Outbox};
use crate::node::queries::Queries;
use crate::node::queries::control_links::ControlLinks;
use crate::node::queries::early_messages::EarlyMessages;
use crate::node::queries::series::SeriesBook;
use crate::node::ranks::launch::Launcher;
use crate::node::ranks::pages::PageQuestions;
use crate::node::record::Record;
use crate::node::requester::LinkId;
use crate::node::store::Store;
use crate::node::store::input::StoreInput;
use crate::node::store::route::{AllowedRoutes, EndAddresses};
use crate::node::timer::Timer;
use crate::reconfiguration::limits::Limits;
use pcm_proto::boot::BootSpec;
use pcm_proto::event::EventKind;
use pcm_proto::ids::{Epoch, JobId, NodeName};
use pcm_proto::peer::DaemonToDaemon;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

/// Job numbers remembered as over, so that a late order does not start them again.
const CLOSED_MAX: usize = 4096;

/// Messages to itself in one go; a loop among the node's own parts would be a bug, and is cut off here.
const OWN_MESSAGES_MAX: usize = 100_000;

/// Everything that one node of a cluster decides.
pub struct Node {
    pub(in crate::node) own: NodeName,
    pub(in crate::node) spec: BootSpec,
    pub(in crate::node) address: String,
    pub(in crate::node) cpus: Vec<u32>,
    pub(in crate::node) notice: Duration,
    pub(in crate::node) out: Outbox,
    pub(in crate::node) limits: Limits,
    pub(in crate::node) transports: Transports,
    pub(in crate::node) nodes: Nodes,
    pub(in crate::node) controls: ControlLinks,
    pub(in crate::node) queries: Queries,
    pub(in crate::node) early: EarlyMessages,
    pub(in crate::node) boot: Boot,
    pub(in crate::node) agent: AgentLink,
    pub(in crate::node) drain: Option<Draining>,
    pub(in crate::node) preemption: Option<Preemption>,
    pub(in crate::node) jobs: Jobs,
    pub(in crate::node) store: Store,
    pub(in crate::node) wills: Wills,
    pub(in crate::node) quorum: Quorum,
    pub(in crate::node) doubt: DoubtTold,
    pub(in crate::node) links: Links,
    pub(in crate::node) ended: Ended,
    pub(in crate::node) page_questions: PageQuestions,
    pub(in crate::node) launcher: Launcher,
    pub(in crate::node) series: SeriesBook,
    pub(in crate::node) closed: VecDeque<JobId>,
    pub(in crate::node) highest_job: JobId,
    pub(in crate::node) methods: MethodBook,
    pub(in crate::node) stage: Stage,
}

/// What a node is made of at its start; the rest is empty.
pub struct Beginnings {
    pub spec: BootSpec,
    /// Where its daemon listens.
    pub address: String,
    /// The CPUs of its ranks.
    pub cpus: Vec<u32>,
    pub now: Moment,
    pub limits: Limits,
    /// Time between a notice and the end of the node.
    pub notice: Duration,
    /// The library in front of MPI, for programs that are not linked with it.
    pub library: Option<PathBuf>,
    pub nodes: Nodes,
    /// Highest number of a job that the node has heard of.
    pub highest_job: JobId,
    /// Whether its daemon uses an InfiniBand or RoCE device.
    pub has_device: bool,
    /// The routes that images may take.
    pub routes: AllowedRoutes,
    /// Where images are received all at once, if they can be.
    pub bulk: Option<EndAddresses>,
}

impl Node {
    pub fn new(beginnings: Beginnings) -> Self {
        let Beginnings {
            spec,
            address,
            cpus,
            now,
            limits,
            notice,
            library,
            nodes,
            highest_job,
            has_device,
            routes,
            bulk,
        } = beginnings;
        let own = spec.node.name.clone();
        let quorum = Quorum::new(own.clone(), spec.patience());
        let cluster = (spec.cluster_id.clone(), spec.cluster_dir.clone());
        let mut store = Store::default();
        store.allow(routes);
        if let Some(addresses) = bulk {
            store.open(addresses);
        }
        Self {
            agent: AgentLink::new(cpus.clone()),
            out: Outbox::new(own.clone(), now),
            launcher: Launcher::new(cluster, own.clone(), cpus.clone(), library),
            transports: Transports::new(nodes.own().fabric.clone(), has_device),
            own,
            spec,
            address,
            cpus,
            notice,
            limits,
            nodes,
            controls: ControlLinks::default(),
            queries: Queries::default(),
            early: EarlyMessages::default(),
            boot: Boot::default(),
            drain: None,
            preemption: None,
            jobs: Jobs::default(),
            store,
            wills: Wills::default(),
            quorum,
            doubt: DoubtTold::default(),
            links: Links::default(),
            ended: Ended::default(),
            page_questions: PageQuestions::default(),
            series: SeriesBook::default(),
            closed: VecDeque::new(),
            highest_job,
            methods: MethodBook::default(),
            stage: Stage::Serving,
        }
    }

    /// Handles an event to its end.
    pub fn handle(&mut self, now: Moment, event: Event) -> Vec<Effect> {
        self.out.begin(now);
        self.on_event(event);
        self.handle_own();
        self.out.take()
    }

    /// Whether the node has ended: its daemon ends now.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Timer(timer) => self.on_timer(timer),
            Event::Keeper(fact) => self.on_keeper(fact),
            Event::KeeperLost { reason } => self.on_keeper_lost(&reason),
            Event::Peer(fact) => self.on_peer(fact),
            Event::Control(ControlFact::Linked { link }) => self.controls.on_linked(link),
            Event::Control(ControlFact::Said { link, message }) => self.on_control_said(link, *message),
            Event::Control(ControlFact::Lost { link, in_order }) => self.on_control_lost(link, in_order),
            Event::Agent(news) => self.on_agent(news),
            Event::Rank(news) => self.on_rank_news(news),
            Event::RankFact(fact) => self.on_rank_fact(fact),
            Event::Store(input) => self.store_input(input),
            Event::CostsRead(found) => self.on_costs_read(found),
            Event::Logs(done) => self.on_logs_answer(*done),
            Event::EventsRead { node, ask, events } => self.on_events_read(&node, ask, events),
            Event::Notice => self.on_notice(),
            Event::Boot(fact) => self.on_boot(fact),
            Event::Filed { job, pieces } => self.on_filed(job, &pieces),
        }
    }

    fn on_agent(&mut self, news: AgentNews) {
        match news {
            AgentNews::Linked { link } => self.on_agent_linked(link),
            AgentNews::Said { link, message } => self.on_agent_said(link, message),
            AgentNews::Lost { link, nonsense } => self.agent.on_lost(link, nonsense, &mut self.out),
            AgentNews::Ended { life, reason } => self.agent.on_ended(life, reason, &mut self.out),
        }
    }

    fn on_timer(&mut self, timer: Timer) {
        match timer {
            Timer::Job(job) => self.on_job_timer(job),
            Timer::CoordinatorLost(job) => self.on_coordinator_lost_timer(job),
            Timer::Abandoned(job) => self.on_abandoned_timer(job),
            Timer::Unattended(job) => self.on_unattended_timer(job),
            Timer::Reform(job, timer) => self.reform(job, crate::reconfiguration::effects::Input::Timer(*timer)),
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
    pub(in crate::node) fn handle_own(&mut self) {
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
    pub(in crate::node) fn send(&mut self, node: &NodeName, message: DaemonToDaemon) {
        self.out.send(node, message);
    }

    pub(in crate::node) fn record(&mut self, record: Record) {
        self.out.record(record);
    }

    /// Everything a successor would have to know.
    pub fn present(&mut self) -> Vec<Record> {
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
        for (job, known) in self.jobs.all() {
            records.push(Record::Job {
                job,
                entry: Box::new(known.machine.state()),
            });
            let output = known.led.iter().flat_map(|led| led.output.written_records());
            records.extend(output);
            let output = known.local.iter().flat_map(|local| local.output.printed_records());
            records.extend(output);
        }
        records.extend(self.store.records());
        records
    }

    /// Notes an event of a job, or of the node.
    pub(in crate::node) fn note(&mut self, job: Option<JobId>, epoch: Epoch, kind: EventKind) {
        tracing::info!(job = job.map(|job| job.0), ?kind, "event");
        self.out.note(job, epoch, kind);
    }

    /// Remembers that a job is over here.
    pub(in crate::node) fn close(&mut self, job: JobId) {
        if !self.closed.contains(&job) {
            self.closed.push_back(job);
        }
        if self.closed.len() > CLOSED_MAX {
            self.closed.pop_front();
        }
    }

    /// Takes note of a job number, so that none is given twice.
    pub(in crate::node) fn heard_of(&mut self, job: JobId) {
        if job > self.highest_job {
            self.highest_job = job;
            self.record(Record::HighestJob(job));
        }
    }
}
