//! [`Desk`]: passes requests on to the node that can answer them, gathers answers, and reads for others what pages,
//! stacks and events of this node show.

use crate::node::cluster::doubt::DoubtTold;
use crate::node::context::Context;
use crate::node::jobs::machine::Jobs;
use crate::node::outbox::{Effect, Outbox, StacksWanted};
use crate::node::queries::addressee::{Addressee, addressee, coordinator_answers_within};
use crate::node::queries::control_links::ControlLinks;
use crate::node::queries::given::Given;
use crate::node::queries::hang_watch::HangWatch;
use crate::node::queries::series::SeriesBook;
use crate::node::queries::{ANSWER_WITHIN, Queries, Wanted};
use crate::node::ranks::page_questions::PageQuestions;
use crate::node::ranks::pages::{PageQuestion, Pages, Reader};
use crate::node::requester::{LinkId, Requester};
use pcm_proto::agent::RankCounters;
use pcm_proto::checkpoint::CheckpointMessage;
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::peer::{Answer, DaemonToDaemon, JobMessage, Question};
use std::time::Duration;

/// A node that does not report within this time is listed with its last report.
const NODES_WITHIN: Duration = Duration::from_millis(500);

/// See the file head.
#[derive(Debug, Default)]
pub(in crate::node) struct Desk {
    pub(in crate::node) controls: ControlLinks,
    pub(in crate::node) queries: Queries,
    pub(in crate::node) given: Given,
    pub(in crate::node) pages: PageQuestions,
    pub(in crate::node) doubt: DoubtTold,
    pub(super) series: SeriesBook,
    pub(super) hangs: HangWatch,
}

/// What the pages show for the agent.
#[derive(Debug)]
pub(in crate::node) struct ForAgent {
    /// The nodes to which it wants to know the links.
    pub(in crate::node) about: Vec<NodeName>,
    pub(in crate::node) at_ns: u64,
    pub(in crate::node) counters: Vec<(JobId, Vec<RankCounters>)>,
}

impl Desk {
    // Requests of `pcmctl`.

    /// Passes a request on to the node that can answer it; hands back one that this node answers.
    pub(in crate::node) fn pass_on(
        &mut self,
        from: Requester,
        request: ControlToDaemon,
        jobs: &Jobs,
        cx: &mut Context<'_>,
    ) -> Option<ControlToDaemon> {
        let leads = |job| jobs.table.leads(job) || jobs.table.past.find(job).is_some();
        let state = |node: &NodeName| cx.cluster.nodes().state(node);
        match addressee(&request, &cx.settings.own, leads, state) {
            Addressee::Here => return Some(request),
            Addressee::Coordinator(job) => self.find_coordinator(from, job, request, (jobs, cx)),
            Addressee::Refused(refusal) => cx.answer(from, DaemonToControl::Refused(refusal)),
            Addressee::Node { node, .. } if matches!(request, ControlToDaemon::Ping { .. }) => {
                self.queries.ping(from, &node, cx.out);
            }
            Addressee::Node { node, within } => self.queries.forward(from, &node, request, within, cx.out),
        }
        None
    }

    /// A request about a job that only its coordinator can answer, which is another daemon.
    fn find_coordinator(
        &mut self,
        from: Requester,
        job: JobId,
        request: ControlToDaemon,
        (jobs, cx): (&Jobs, &mut Context<'_>),
    ) {
        let within = coordinator_answers_within(&request);
        let known = jobs.table.part(job).map(|part| part.coordinator());
        // In place of one that is gone another may lead the job.
        let may_answer = |node: &&NodeName| **node != cx.settings.own && cx.cluster.may_answer(node);
        if let Some(coordinator) = known.filter(may_answer) {
            return self.queries.forward(from, coordinator, request, within, cx.out);
        }
        let nodes = cx.cluster.nodes().reachable();
        let question = Question::Control(Box::new(request));
        self.queries
            .gather(from, Wanted::Knowing { job }, &question, &nodes, within, cx.out);
    }

    pub(in crate::node) fn gather_nodes(&mut self, from: Requester, cx: &mut Context<'_>) {
        let nodes = cx.cluster.nodes().reachable();
        self.queries
            .gather(from, Wanted::Nodes, &Question::Report, &nodes, NODES_WITHIN, cx.out);
    }

    pub(in crate::node) fn gather_jobs(&mut self, from: Requester, question: &Question, cx: &mut Context<'_>) {
        let (wanted, nodes) = (Wanted::Jobs(Vec::new()), cx.cluster.all_nodes());
        self.queries
            .gather(from, wanted, question, &nodes, ANSWER_WITHIN, cx.out);
    }

    /// Events are wanted, once or from now on.
    pub(in crate::node) fn on_events_wanted(
        &mut self,
        link: LinkId,
        job: Option<JobId>,
        follow: bool,
        cx: &mut Context<'_>,
    ) {
        if follow {
            self.controls.begin_to_follow(link, job);
        }
        self.gather_events(link, (job, 0), follow, cx);
    }

    pub(in crate::node) fn on_follow_timer(&mut self, link: LinkId, cx: &mut Context<'_>) {
        if let Some(since) = self.controls.following(link) {
            self.gather_events(link, since, true, cx);
        }
    }

    fn gather_events(
        &mut self,
        link: LinkId,
        (job, since_us): (Option<JobId>, u64),
        follow: bool,
        cx: &mut Context<'_>,
    ) {
        let (events, follower) = (Vec::new(), follow.then_some(link));
        let (wanted, nodes) = (Wanted::Events { events, follower }, cx.cluster.all_nodes());
        let (from, question) = (Requester::Control(link), Question::Events { job, since_us });
        self.queries
            .gather(from, wanted, &question, &nodes, ANSWER_WITHIN, cx.out);
    }

    /// Begins a view of a job that this node leads; hands back another request.
    pub(in crate::node) fn begin_view(
        &mut self,
        from: &Requester,
        request: ControlToDaemon,
        jobs: &Jobs,
        cx: &mut Context<'_>,
    ) -> Option<ControlToDaemon> {
        let from = from.clone();
        match request {
            ControlToDaemon::Ps { job } => self.gather_ps(from, job, jobs, cx),
            ControlToDaemon::Look { job } => self.gather_looks(from, job, jobs, cx),
            ControlToDaemon::Stacks { job, rank } => self.gather_stacks(from, (job, rank), jobs, cx),
            ControlToDaemon::Series { job } => self.answer_series(from, job, jobs, cx),
            ControlToDaemon::Trace { job, after, is_last } => {
                self.gather_traces(from, job, (after, is_last), (jobs, cx));
            }
            request => return Some(request),
        }
        None
    }

    // Answers that were gathered.

    /// Finishes a view of a job; hands back what is for other parts of the node.
    pub(in crate::node) fn on_gathered(
        &mut self,
        from: Requester,
        wanted: Wanted,
        jobs: &Jobs,
        cx: &mut Context<'_>,
    ) -> Option<(Requester, Wanted)> {
        match wanted {
            Wanted::Ranks { status, ranks } => self.answer_ps(from, *status, ranks, (jobs, cx)),
            Wanted::Look { status, ranks } => self.answer_looks(from, *status, ranks, (jobs, cx)),
            Wanted::Stacks { status, rank, stacks } => self.answer_stacks(from, (*status, rank), stacks, (jobs, cx)),
            Wanted::Sample { job, ranks } => self.on_sampled(job, &ranks, (jobs, cx)),
            Wanted::Traffic { job, ranks } => self.series.set_traffic(job, &ranks),
            Wanted::Events { events, follower } => self.controls.answer_events(from, events, follower, cx.out),
            Wanted::Knowing { job } => jobs.table.past.refuse_unknown(from, job, cx),
            wanted => return Some((from, wanted)),
        }
        None
    }

    // Questions of other daemons.

    /// Begins to read what a daemon asks for; hands back a question to which the answer is in memory.
    pub(in crate::node) fn read(
        &mut self,
        node: &NodeName,
        ask: u64,
        question: Question,
        out: &mut Outbox,
    ) -> Option<Question> {
        let wanted = match question {
            Question::Events { job, since_us } => {
                let node = node.clone();
                out.push(Effect::ReadEvents {
                    node,
                    ask,
                    job,
                    since_us,
                });
                return None;
            }
            Question::Stacks { job, process } => {
                let node = node.clone();
                out.push(Effect::ReadStacks(StacksWanted {
                    node,
                    ask,
                    job,
                    process,
                }));
                return None;
            }
            Question::Ranks { job } => PageQuestion::Ranks { job },
            Question::Begun { job } => PageQuestion::Begun { job },
            Question::Look { job } => PageQuestion::Looks { job },
            Question::Trace {
                job,
                after,
                is_last,
                entries_max,
            } => PageQuestion::Traces {
                job,
                after,
                is_last,
                entries_max,
                now: out.now(),
            },
            question => return Some(question),
        };
        let node = node.clone();
        self.pages.ask(Reader::Node { node, ask }, wanted, out);
        None
    }

    /// Pages were read; hands back what is for the agent.
    pub(in crate::node) fn on_pages_read(&mut self, number: u64, pages: Pages, out: &mut Outbox) -> Option<ForAgent> {
        let (node, ask, answer) = match (self.pages.on_read(number)?, pages) {
            (Reader::Node { node, ask }, Pages::Ranks(rows)) => (node, ask, Answer::Ranks(rows)),
            (Reader::Node { node, ask }, Pages::Begun(begun)) => (node, ask, Answer::Begun(begun)),
            (Reader::Node { node, ask }, Pages::Looks(looks)) => (node, ask, Answer::Look(looks)),
            (Reader::Node { node, ask }, Pages::Traces(chunks)) => (node, ask, Answer::Trace(chunks)),
            (Reader::Agent { about }, Pages::Counters { at_ns, jobs: counters }) => {
                return Some(ForAgent { about, at_ns, counters });
            }
            (Reader::Coordinator { job, node }, Pages::Reached { iteration }) => {
                if let Some(iteration) = iteration {
                    let message = Box::new(CheckpointMessage::Reached { iteration });
                    out.send_job(&node, job, JobMessage::Checkpoint(message));
                }
                return None;
            }
            (reader, _) => {
                tracing::error!(?reader, "pages were read that were not asked for");
                return None;
            }
        };
        answer_question(&node, ask, answer, out);
        None
    }
}

/// Answers a question of another daemon, or of this one.
pub(in crate::node) fn answer_question(node: &NodeName, ask: u64, answer: Answer, out: &mut Outbox) {
    let answer = Box::new(answer);
    out.send(node, DaemonToDaemon::Answer { ask, answer });
}
