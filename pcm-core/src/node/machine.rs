//! [`Node`]: takes an event and the time, hands the event to the part that it concerns, and handles what the parts tell
//! each other, to the end. Nothing in here waits.

use super::agent::AgentLink;
use super::cluster::boot::Boot;
use super::cluster::machine::Cluster;
use super::cluster::nodes::Nodes;
use super::context::Context;
use super::desk::machine::{Desk, answer_question};
use super::ending::Ending;
use super::event::{AgentNews, BootFact, ControlFact, Event};
use super::jobs::machine::Jobs;
use super::numbers::Numbers;
use super::outbox::{Effect, Outbox};
use super::ranks::effect::RankFact;
use super::ranks::launch::{InFront, Launcher};
use super::record::Record;
use super::requester::LinkId;
use super::settings::Settings;
use super::store::Store;
use super::store::end::EndAddresses;
use super::store::input::StoreInput;
use super::store::route::AllowedRoutes;
use super::surroundings::Around;
use super::timer::Timer;
use crate::moment::Moment;
use crate::reconfiguration::limits::Limits;
use pcm_proto::boot::BootSpec;
use pcm_proto::peer::Answer;
use std::time::Duration;

/// Messages to itself in one go; a loop among the node's own parts would be a bug, and is cut off here.
const OWN_MESSAGES_MAX: usize = 100_000;

/// Everything that one node of a cluster decides.
pub struct Node {
    pub(in crate::node) settings: Settings,
    pub(in crate::node) out: Outbox,
    pub(in crate::node) cluster: Cluster,
    pub(in crate::node) jobs: Jobs,
    pub(in crate::node) store: Store,
    pub(in crate::node) desk: Desk,
    pub(in crate::node) agent: AgentLink,
    pub(in crate::node) boot: Boot,
    pub(in crate::node) ending: Ending,
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
    /// The libraries in front of MPI.
    pub libraries: InFront,
    pub nodes: Nodes,
    /// Highest numbers of jobs that the node has heard of.
    pub numbers: Numbers,
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
            libraries,
            mut nodes,
            numbers,
            has_device,
            routes,
            bulk,
        } = beginnings;
        nodes.begin_countdown(now);
        let own = spec.node.name.clone();
        let directory = (spec.cluster_id.clone(), spec.cluster_dir.clone());
        let place = (own.clone(), spec.node.site.clone());
        let launcher = Launcher::new(directory, place, cpus.clone(), libraries);
        let mut store = Store::default();
        store.allow(routes);
        if let Some(addresses) = bulk {
            store.open(addresses);
        }
        Self {
            out: Outbox::new(own.clone(), now),
            cluster: Cluster::new(own.clone(), nodes, spec.patience(), has_device),
            jobs: Jobs::new(launcher, numbers),
            store,
            desk: Desk::default(),
            agent: AgentLink::new(cpus.clone()),
            boot: Boot::default(),
            ending: Ending::default(),
            settings: Settings {
                own,
                spec,
                address,
                cpus,
                limits,
                notice,
            },
        }
    }

    /// Handles an event to its end.
    pub fn handle(&mut self, now: Moment, event: Event) -> Vec<Effect> {
        self.out.begin(now);
        self.jobs.table.touch_none();
        self.cluster.note_time(now);
        self.on_event(event);
        self.handle_own();
        self.out.take()
    }

    /// After a panic: what is to be remembered of it, where it has to do with a job.
    pub fn after_panic(&self, now: Moment) -> Option<Record> {
        let job = self.jobs.table.touched()?;
        Some(Record::Panicked { job, at_us: now.0 })
    }

    /// Whether the node has ended: its daemon ends now.
    pub fn is_over(&self) -> bool {
        self.ending.is_over()
    }

    /// Whether it ended because it will be taken away.
    pub fn is_taken_away(&self) -> bool {
        self.ending.is_taken_away()
    }

    /// Everything a successor would have to know.
    pub fn present(&mut self) -> Vec<Record> {
        let address = self.settings.address.clone();
        let mut records = vec![Record::Listens { address }];
        records.extend(self.cluster.records());
        records.extend(self.jobs.present(self.out.now().0));
        records.extend(self.store.records());
        records
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Timer(timer) => self.on_timer(timer),
            Event::Keeper(fact) => self.with_jobs(|jobs, cx| jobs.on_keeper(fact, cx)),
            Event::KeeperLost { reason } => {
                self.with_ending(|ending, jobs, cx| ending.on_keeper_lost(&reason, jobs, cx));
            }
            Event::Peer(fact) => self.on_peer(fact),
            Event::Control(ControlFact::Linked { link }) => self.desk.controls.on_linked(link),
            Event::Control(ControlFact::Said { link, message }) => self.on_control_said(link, *message),
            Event::Control(ControlFact::Lost { link, in_order }) => {
                self.desk.controls.on_lost(link);
                self.with_jobs(|jobs, cx| jobs.table.on_link_lost(link, in_order, cx));
            }
            Event::Agent(news) => self.on_agent(news),
            Event::Rank(news) => self.with_jobs(|jobs, cx| jobs.on_rank_news(news, cx)),
            Event::RankFact(RankFact::PagesRead { number, pages }) => {
                if let Some(read) = self.desk.on_pages_read(number, pages, &mut self.out) {
                    self.on_agent_counters(read);
                }
            }
            Event::RankFact(fact) => self.with_jobs(|jobs, cx| jobs.on_rank_fact(fact, cx)),
            Event::Store(input) => self.store_input(input),
            Event::CostsRead(found) => self.with_jobs(|jobs, cx| jobs.on_costs_read(found, cx)),
            Event::Happened(kind) => self.note(kind),
            Event::Logs(done) => self.on_logs_answer(*done),
            Event::EventsRead { node, ask, events } => {
                answer_question(&node, ask, Answer::Events(events), &mut self.out);
            }
            Event::StacksRead { node, ask, stacks } => {
                answer_question(&node, ask, Answer::Stacks(stacks), &mut self.out);
            }
            Event::Notice => self.with_ending(|ending, jobs, cx| ending.on_notice(jobs, cx)),
            Event::Boot(BootFact::Unheard) => {
                // The process that wanted this node has given up or was interrupted, and counts it as not booted.
                tracing::warn!("the report that this node is up has no reader: its daemon ends");
                self.ending.quit();
            }
            Event::Boot(fact) => self.boot.on_fact(fact, &self.cluster, &mut self.out),
            Event::Filed { job, pieces } => self.with_jobs(|jobs, cx| jobs.table.on_filed(job, &pieces, cx)),
        }
    }

    fn on_agent(&mut self, news: AgentNews) {
        match news {
            AgentNews::Linked { link } => {
                self.agent.on_linked(link, &mut self.out);
                self.tell_agent_ranks();
            }
            AgentNews::Said { link, message } => self.on_agent_said(link, message),
            AgentNews::Lost { link, nonsense } => self.agent.on_lost(link, nonsense, &mut self.out),
            AgentNews::Ended { life, reason } => self.agent.on_ended(life, reason, &mut self.out),
        }
    }

    fn on_timer(&mut self, timer: Timer) {
        match timer {
            Timer::Job(job, timer) => self.with_jobs(|jobs, cx| jobs.on_timer(job, timer, cx)),
            Timer::Ask(ask) => self.desk.queries.on_ask_timer(ask, &mut self.out),
            Timer::Gather(number) => self.desk.queries.on_gather_timer(number, &mut self.out),
            Timer::Follow(link) => self.with_desk(|desk, _, cx| desk.on_follow_timer(LinkId(link), cx)),
            Timer::Beat => self.on_beat(),
            Timer::Membership => self.cluster.on_membership_timer(&mut self.out),
            Timer::Held => {
                self.store_input(StoreInput::HeldTimer);
                self.with_jobs(|jobs, cx| jobs.confirm_parts(cx));
            }
            Timer::Images => self.store_input(StoreInput::ImagesTimer),
            Timer::Ahead(key) => self.store_input(StoreInput::AheadTimer(key)),
            Timer::Unneeded(key) => self.store_input(StoreInput::UnneededTimer(key)),
            Timer::Orphans(node) => self.on_orphans_timer(node),
            Timer::Settled => self.on_settled(),
            Timer::Number => self.with_jobs(|jobs, cx| jobs.on_number_timer(cx)),
            Timer::Redial(node) => self.dial_if_needed(&node),
            Timer::Drain => self.with_ending(|ending, jobs, cx| ending.drain_next(jobs, cx)),
            Timer::End => self.with_ending(|ending, jobs, cx| ending.on_end_timer(jobs, cx)),
            Timer::Leave => {
                let holds_unsettled = self.store.holds_unsettled();
                self.with_ending(|ending, jobs, cx| ending.leave_when_safe(holds_unsettled, jobs, cx));
            }
            Timer::LastWords(key) => self.with_jobs(|jobs, cx| jobs.on_last_words(key, cx)),
            Timer::Agent => self.agent.start(&mut self.out),
            Timer::AgentSilent => self.agent.on_silence_timer(&mut self.out),
            Timer::Wills => self.with_jobs(|jobs, cx| jobs.look_at_wills(cx)),
            Timer::WillsHeld => self.with_jobs(|jobs, cx| jobs.succession.check(cx)),
            Timer::Quorum => self.on_quorum_timer(),
        }
    }

    /// Handles what the parts of the node said to each other, also what they say in turn.
    pub(in crate::node) fn handle_own(&mut self) {
        let own = self.settings.own.clone();
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
        tracing::error!(left, "the node keeps talking to itself; the rest is dropped");
    }

    /// The parts that see the others through a context, and that context.
    fn split(&mut self) -> (&mut Jobs, &mut Desk, &mut Ending, Context<'_>) {
        let context = Context {
            is_going_down: self.ending.is_going_down(),
            settings: &self.settings,
            cluster: &mut self.cluster,
            out: &mut self.out,
        };
        (&mut self.jobs, &mut self.desk, &mut self.ending, context)
    }

    /// Does something with the jobs.
    pub(in crate::node) fn with_jobs<T>(&mut self, act: impl FnOnce(&mut Jobs, &mut Context<'_>) -> T) -> T {
        let (jobs, _, _, mut context) = self.split();
        act(jobs, &mut context)
    }

    /// Does something with the desk.
    pub(in crate::node) fn with_desk<T>(&mut self, act: impl FnOnce(&mut Desk, &Jobs, &mut Context<'_>) -> T) -> T {
        let (jobs, desk, _, mut context) = self.split();
        act(desk, jobs, &mut context)
    }

    /// Does something with the node's end.
    pub(in crate::node) fn with_ending<T>(
        &mut self,
        act: impl FnOnce(&mut Ending, &mut Jobs, &mut Context<'_>) -> T,
    ) -> T {
        let (jobs, _, ending, mut context) = self.split();
        act(ending, jobs, &mut context)
    }

    /// Hands an input to the store.
    pub(in crate::node) fn store_input(&mut self, input: StoreInput) {
        let Self {
            cluster,
            jobs,
            store,
            out,
            ..
        } = self;
        let jobs = &jobs.table;
        store.handle(input, &Around { jobs, cluster }, out);
    }
}
