//! What the parts of a node tell each other, and what the cluster, the transport and the agent mean to several of them.

use super::agent::samples::job_samples;
use super::agent::{AgentFact, AgentView, OwnState};
use super::cluster::fact::ClusterFact;
use super::cluster::machine::Birth;
use super::desk::machine::ForAgent;
use super::event::PeerFact;
use super::links::Transfer;
use super::machine::Node;
use super::outbox::{Effect, Inward, PeersEffect};
use super::queries::{ANSWER_WITHIN, Asker};
use super::ranks::oversubscription;
use super::ranks::pages::{PageQuestion, Reader};
use super::reach::Transport;
use super::requester::LinkId;
use super::store::checkpoint_store::ABANDONED_AFTER;
use super::store::input::StoreInput;
use super::surroundings::Around;
use super::timer::Timer;
use crate::job::coordinator::Coordinator;
use crate::membership::Change;
use crate::reconfiguration::effects as change;
use pcm_proto::agent::AgentToDaemon;
use pcm_proto::event::EventKind;
use pcm_proto::fabric::FabricReport;
use pcm_proto::ids::{Epoch, NodeName};
use pcm_proto::peer::{DaemonToDaemon, NodeReport, Question};
use std::collections::BTreeSet;
use std::time::Duration;

/// How often a node says how it is.
const BEAT: Duration = Duration::from_secs(1);

/// Pause between two attempts to reach a node that has part in a job of ours.
const REDIAL: Duration = Duration::from_millis(200);

impl Node {
    pub(in crate::node) fn on_inward(&mut self, fact: Inward) {
        match fact {
            Inward::Reconfigure { job, input } => self.with_jobs(|jobs, cx| jobs.table.reform(job, *input, cx)),
            Inward::CopyMeasured {
                node,
                goes,
                since,
                bytes,
            } => {
                let (began, ended) = (since, self.out.now());
                self.cluster.measure_copy(&node, goes, Transfer { began, ended, bytes });
            }
            Inward::Answered { node, ask, answer } => self.desk.given.give(node, ask, *answer, &mut self.out),
            Inward::Queries(outcome) => self.on_outcome(outcome),
            Inward::Agent(fact) => self.on_agent_fact(fact),
            Inward::Cluster(fact) => self.on_cluster(fact),
            Inward::Store(input) => self.store_input(*input),
            Inward::Led { job, by, reign } => self.with_jobs(|jobs, cx| jobs.say_part(job, by, reign, cx)),
            Inward::Ask {
                node,
                question,
                asker,
                within,
            } => {
                self.desk.queries.ask(&node, *question, *asker, within, &mut self.out);
                if node != self.settings.own && !self.cluster.may_answer(&node) {
                    self.desk.queries.on_node_gone(&node, &mut self.out);
                }
            }
            Inward::Gather {
                from,
                wanted,
                question,
                nodes,
                within,
            } => self
                .desk
                .queries
                .gather(from, *wanted, &question, &nodes, within, &mut self.out),
            Inward::ReadPages { reader, question } => self.desk.pages.ask(reader, question, &mut self.out),
            Inward::RanksChanged => self.on_ranks_changed(),
            Inward::SayReport { node } => {
                self.update_report();
                self.cluster.say_report(&node, &mut self.out);
            }
            Inward::JobEnded => self.with_ending(|ending, jobs, cx| ending.on_job_ended(jobs, cx)),
        }
    }

    // Other nodes.

    /// Each fact goes to the parts of the node that it concerns.
    pub(in crate::node) fn on_peer(&mut self, fact: PeerFact) {
        let now = self.out.now();
        let is_linked = |node: &NodeName| self.cluster.transports().is_linked(node);
        let is_link_replaced = matches!(&fact, PeerFact::Linked(node) if is_linked(node));
        self.cluster.note_peer(&fact, now);
        match fact {
            PeerFact::Linked(node) => {
                if is_link_replaced {
                    // What was asked over the link before may be lost.
                    self.desk.queries.on_node_gone(&node, &mut self.out);
                }
                // Before anything else over the link: the other one must know whose answers it hears.
                self.update_report();
                self.cluster.say_report(&node, &mut self.out);
                self.desk.given.on_linked(&node, &mut self.out);
                self.jobs.doubt_testator(&node, self.store.jobs_led_by(&node));
                self.with_jobs(|jobs, cx| jobs.table.tell_silence(&node, false, cx));
                self.say_what_is_here(&node);
                self.store_input(StoreInput::NodeLinked { node });
            }
            PeerFact::Unlinked(node) => {
                tracing::debug!(%node, "no link to this node any more");
                self.on_out_of_reach(&node);
                self.with_jobs(|jobs, cx| {
                    jobs.table.tell_silence(&node, true, cx);
                    jobs.on_unlinked(&node, cx);
                });
                self.dial_if_needed(&node);
            }
            PeerFact::Unreachable { node, reason } => {
                tracing::debug!(%node, reason, "a node was not reached");
                self.on_out_of_reach(&node);
                if self.is_needed(&node) {
                    self.out.arm(REDIAL, Timer::Redial(node));
                }
            }
            PeerFact::Said { node, message } => self.on_peer_said(&node, message),
            PeerFact::PathChanged {
                node,
                transport,
                is_recovered,
                carried_by,
                reason,
            } => {
                if (transport, is_recovered) == (Transport::Rdma, true) {
                    self.store_input(StoreInput::RdmaHeard { node: node.clone() });
                }
                self.cluster.own_report().fabric = self.fabric_report();
                if let Some(reason) = reason {
                    let (name, by) = (node, carried_by);
                    self.note(EventKind::FabricChanged { name, by, reason });
                }
            }
            PeerFact::Transports(_) => self.cluster.own_report().fabric = self.fabric_report(),
            PeerFact::Confirmed { .. } | PeerFact::Reach { .. } => {}
        }
    }

    fn on_out_of_reach(&mut self, node: &NodeName) {
        self.cluster.on_unreachable(node);
        self.desk.queries.on_node_gone(node, &mut self.out);
    }

    pub(in crate::node) fn on_peer_said(&mut self, node: &NodeName, message: DaemonToDaemon) {
        match message {
            DaemonToDaemon::Membership(bytes) => self.cluster.on_membership(node, &bytes, &mut self.out),
            DaemonToDaemon::Report(report) => self.on_report(*report),
            DaemonToDaemon::Job { job, message } => {
                self.with_jobs(|jobs, cx| jobs.on_message(job, node, *message, cx));
            }
            DaemonToDaemon::Ask { ask, question } => self.on_question(node, ask, *question),
            DaemonToDaemon::Answer { ask, answer } => {
                self.desk.queries.on_answer(node, ask, *answer, &mut self.out);
            }
            DaemonToDaemon::Agent(message) => self.agent.on_heard(node, message, &mut self.out),
        }
    }

    /// Takes in how another node says it is.
    pub(in crate::node) fn on_report(&mut self, report: NodeReport) {
        if report.node == self.settings.own {
            return;
        }
        self.with_jobs(|jobs, cx| jobs.numbering.heard_of(report.highest_job, cx));
        let node = report.node.clone();
        let birth = self.cluster.note_report(report, &mut self.out);
        if birth == Birth::Unseen {
            self.with_jobs(|jobs, cx| jobs.on_node_gone(&node, cx));
        }
        if birth == Birth::Known {
            if self.jobs.succession.trust(&node) {
                self.say_what_is_here(&node);
            }
            return;
        }
        let held = self.store.jobs_led_by(&node);
        self.with_jobs(|jobs, cx| {
            jobs.bury_testator(&node, held, cx);
            jobs.table.reform_all(&change::Input::NodeReborn { node }, cx);
        });
    }

    /// Copies that a lost node's daemon had ordered may be of no use, unless this node waits to take over its jobs.
    pub(in crate::node) fn on_orphans_timer(&mut self, node: NodeName) {
        if self.jobs.succession.holds_will_of(&node) && self.cluster.is_cut_off(self.out.now()) {
            return self.out.arm(ABANDONED_AFTER, Timer::Orphans(node));
        }
        self.store_input(StoreInput::OrphansTimer(node));
    }

    /// A node hears what is here of the jobs that it coordinates, or may coordinate: checkpoints first. When it knows
    /// how all processes of a lost set have ended it chooses the checkpoint for the next.
    fn say_what_is_here(&mut self, node: &NodeName) {
        self.store_input(StoreInput::CoordinatorLinked { node: node.clone() });
        self.with_jobs(|jobs, cx| jobs.on_linked(node, cx));
    }

    fn is_needed(&self, node: &NodeName) -> bool {
        let is_shared = self.jobs.table.is_any_shared_with(node) || self.jobs.succession.holds_will_of(node);
        let has_to_say = is_shared || self.jobs.has_claims() || self.store.holds_for(node);
        has_to_say && self.cluster.may_live(node)
    }

    pub(in crate::node) fn dial_if_needed(&mut self, node: &NodeName) {
        if self.is_needed(node) {
            let node = node.clone();
            self.out.push(Effect::Peers(PeersEffect::Dial { node }));
        }
    }

    fn on_cluster(&mut self, fact: ClusterFact) {
        match fact {
            ClusterFact::There { node, change } => {
                // Another daemon, with other ports.
                self.store_input(StoreInput::NodeReplaced { node: node.clone() });
                if matches!(change, Change::Returned | Change::Restarted) {
                    let back = change::Input::NodeBack { node: node.clone() };
                    self.with_jobs(|jobs, cx| {
                        jobs.table.reform_all(&back, cx);
                        jobs.succession.on_daemon_back(cx);
                    });
                }
                self.update_report();
                self.cluster.say_report(&node, &mut self.out);
                self.boot.on_heard(&node, &self.cluster, &mut self.out);
                self.with_jobs(|jobs, cx| {
                    jobs.table.leave_wills(cx);
                    jobs.on_nodes_heard(cx);
                });
                if self.cluster.transports().is_linked(&node) {
                    // It was taken for lost, or not seen yet, and what was said over the link was said of that.
                    self.say_what_is_here(&node);
                }
                self.dial_if_needed(&node);
            }
            ClusterFact::Silent { node, is_silent } => {
                self.with_jobs(|jobs, cx| jobs.table.tell_silence(&node, is_silent, cx));
            }
            ClusterFact::Gone { node, on_purpose } => {
                if !on_purpose {
                    self.with_jobs(|jobs, cx| jobs.numbering.succeed(&node, cx));
                    self.look_around();
                }
                self.with_jobs(|jobs, cx| jobs.on_node_gone(&node, cx));
                self.desk.queries.on_node_gone(&node, &mut self.out);
                self.cluster.forget_links(&node, &mut self.out);
                self.with_jobs(|jobs, cx| {
                    jobs.table.leave_wills(cx);
                    jobs.open_wills(cx);
                });
            }
            ClusterFact::Left => self.ending.quit(),
        }
    }

    /// Some time after a restart: nodes of our jobs that were not seen since are gone.
    pub(in crate::node) fn on_settled(&mut self) {
        let nodes = self.jobs.table.coordinators();
        let nodes = nodes.flat_map(|(_, coordinator)| coordinator.nodes_with_output().cloned());
        let missing: BTreeSet<NodeName> = nodes.filter(|node| !self.cluster.nodes().is_live(node)).collect();
        for node in self.cluster.settle().union(&missing) {
            self.cluster.note_loss(self.out.now(), node);
            self.desk.queries.on_node_gone(node, &mut self.out);
        }
        self.look_around();
        self.tell_doubt();
        for node in missing {
            tracing::warn!(%node, "this node of a job was not seen since the daemon started again");
            self.with_jobs(|jobs, cx| jobs.on_node_gone(&node, cx));
        }
        self.with_jobs(|jobs, cx| jobs.on_nodes_heard(cx));
    }

    pub(in crate::node) fn on_quorum_timer(&mut self) {
        self.desk.doubt.on_timer();
        self.look_around();
    }

    /// Tells the jobs led from here when doubt begins and ends, and attached readers to look elsewhere.
    fn look_around(&mut self) {
        let now = self.out.now();
        self.cluster.note_rejoined(now);
        if self.desk.doubt.is_other(self.cluster.is_in_doubt(now)) {
            self.tell_doubt();
        }
        let links = self.jobs.table.links();
        self.desk.doubt.look_around(&self.cluster, &links, &mut self.out);
    }

    fn tell_doubt(&mut self) {
        let is_in_doubt = self.cluster.is_in_doubt(self.out.now());
        self.desk.doubt.on_told(is_in_doubt);
        self.with_jobs(|jobs, cx| jobs.table.tell_doubt(is_in_doubt, cx));
    }

    // This node.

    pub(in crate::node) fn note(&mut self, kind: EventKind) {
        tracing::info!(?kind, "event");
        self.out.note(None, Epoch(0), kind);
    }

    /// Brings the report of this node up to date.
    pub(in crate::node) fn update_report(&mut self) {
        let ends = self.cluster.nodes().end_of(self.out.now(), &self.settings.own);
        let report = self.cluster.own_report();
        report.ranks = self.jobs.table.ranks_here() as u32;
        report.ends = ends;
        report.highest_job = self.jobs.numbering.highest();
    }

    /// Says how this node is.
    pub(in crate::node) fn on_beat(&mut self) {
        self.out.arm(BEAT, Timer::Beat);
        self.cluster.own_report().fabric = self.fabric_report();
        self.desk.sample_jobs(&self.jobs, &mut self.out);
        for node in self.cluster.take_silent(self.out.now()) {
            let queries = &mut self.desk.queries;
            queries.ask(&node, Question::Ping, Asker::Links, ANSWER_WITHIN, &mut self.out);
        }
        self.out.push(Effect::Peers(PeersEffect::Tick));
        self.update_report();
        self.cluster.say_reports(&mut self.out);
    }

    /// The transports of this node's messages and copies, and why better ones are not in use.
    fn fabric_report(&self) -> FabricReport {
        let now = self.out.now();
        let transports = self.cluster.transports();
        let mut report = transports.report().clone();
        let nodes = self.cluster.nodes().reachable();
        let around = Around {
            jobs: &self.jobs.table,
            cluster: &self.cluster,
        };
        report.copies = self.store.routes_in_use(now, &around, &nodes);
        let why_not = self.store.why_not_rdma(now, transports.has_device());
        report.why_not.extend(why_not);
        report
    }

    /// Tells the agent and the ranks, after a process came, went, or has initialised MPI.
    fn on_ranks_changed(&mut self) {
        self.update_report();
        self.tell_agent_ranks();
        let cpus = self.settings.cpus.len();
        let starting = self.jobs.table.starting_since();
        oversubscription::tell_ranks(self.jobs.table.ranks_here(), cpus, starting, &mut self.out);
    }

    // The agent.

    pub(in crate::node) fn on_agent_said(&mut self, link: LinkId, message: AgentToDaemon) {
        let view = AgentView {
            epoch: &|job| self.jobs.table.coordinator(job).map(Coordinator::epoch),
            is_live: &|node| self.cluster.nodes().is_live(node),
        };
        self.agent.on_said(link, message, &view, &mut self.out);
    }

    fn on_agent_fact(&mut self, fact: AgentFact) {
        match fact {
            AgentFact::Profile(profile) => self.cluster.note_profile(&profile),
            AgentFact::SamplesWanted { about } => {
                let jobs = self.jobs.table.ranks_by_job();
                let reader = Reader::Agent { about };
                self.desk
                    .pages
                    .ask(reader, PageQuestion::Counters { jobs }, &mut self.out);
            }
            AgentFact::Proposal { from, asked } => self.with_jobs(|jobs, cx| jobs.on_reconfigure(from, asked, cx)),
            AgentFact::UnknownJob { from, job } => {
                self.with_jobs(|jobs, cx| jobs.table.past.refuse_unknown(from, job, cx))
            }
            AgentFact::Gone => self.cluster.on_agent_gone(),
        }
    }

    /// What the pages show is for the agent.
    pub(in crate::node) fn on_agent_counters(&mut self, read: ForAgent) {
        let (now, table) = (self.out.now(), &self.jobs.table);
        let samples = job_samples(table, read.counters);
        let mut candidates = table.nodes_of_parts(&self.settings.own);
        candidates.extend(read.about);
        let links = self.cluster.links_among(now, &candidates);
        let nodes = self.cluster.nodes();
        let own = (nodes.own(), OwnState::of(nodes, now));
        self.agent
            .answer_samples((read.at_ns, samples), links, own, nodes.others(), &mut self.out);
    }

    /// Tells the agent which processes are ours.
    pub(in crate::node) fn tell_agent_ranks(&mut self) {
        self.agent.tell_ranks(self.jobs.table.pids(), &mut self.out);
    }
}
