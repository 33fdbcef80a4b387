//! What the node's agent and its daemon say to each other about jobs: what the ranks' pages show, words for the agents
//! of other nodes, proposals, decisions. An agent may be mad: what it says is limited in number and size, checked like
//! the request of a person, and never more than a wish.

use super::agent::Agent;
use super::daemon::Daemon;
use super::layout_requests::LayoutAsked;
use pcm_core::node::ranks::pages::{PageQuestion, Reader};
use pcm_core::node::requester::Requester;
use pcm_proto::agent::{
    AgentToAgent, DaemonToAgent, JobSample, NEIGHBOURS_MAX, Neighbour, ProposalOutcome, RankCounters,
};
use pcm_proto::control::{DaemonToControl, LayoutChange, Refusal};
use pcm_proto::event::{Decision, EventKind};
use pcm_proto::ids::{Bytes, Epoch, JobId, NodeName, ProcessId, Rank};
use pcm_proto::job::{JobSpec, RANKS_MAX};
use pcm_proto::layout::{Layout, ModeWanted};
use pcm_proto::peer::DaemonToDaemon;
use pcm_proto::refusal;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The policy of a job that names none. Only programs that were made malleable are changed.
const POLICY_DEFAULT: &str = "cost";

/// Messages an agent may send in a second: a leader offers to a few nodes, a walk passes now and then.
const TELLS_PER_S: f64 = 200.0;

/// Decisions and proposals in a second: one per job and look would be far more than anybody reads.
const WISHES_PER_S: f64 = 10.0;

/// Longest text an agent may put into an event.
const TEXT_MAX: usize = 1000;

/// Alternatives a decision may name.
const CONSIDERED_MAX: usize = 16;

/// The agent's neighbours are drawn anew so often.
const NEIGHBOURS_EVERY: Duration = Duration::from_secs(10);

/// A bucket that fills by itself, up to a second's worth.
#[derive(Debug)]
pub(super) struct Allowance {
    per_s: f64,
    left: f64,
    at: Instant,
}

impl Allowance {
    fn new(per_s: f64) -> Self {
        Self {
            per_s,
            left: per_s,
            at: Instant::now(),
        }
    }

    fn take(&mut self) -> bool {
        let now = Instant::now();
        self.left = (self.left + (now - self.at).as_secs_f64() * self.per_s).min(self.per_s);
        self.at = now;
        let is_there = self.left >= 1.0;
        if is_there {
            self.left -= 1.0;
        }
        is_there
    }
}

/// What one agent may still say, and when it was told of its neighbours.
#[derive(Debug)]
pub(super) struct Talk {
    tells: Allowance,
    wishes: Allowance,
    neighbours: Option<(Instant, bool)>,
}

impl Default for Talk {
    fn default() -> Self {
        Self {
            tells: Allowance::new(TELLS_PER_S),
            wishes: Allowance::new(WISHES_PER_S),
            neighbours: None,
        }
    }
}

impl Daemon {
    /// The agent asks what the pages show, and what the links to its jobs' nodes and these are like.
    pub(super) fn on_agent_samples(&mut self, about: Vec<NodeName>) {
        self.tell_agent_neighbours();
        let jobs = self.parts.iter().filter(|(_, part)| !part.state.is_ending());
        let jobs = jobs.filter_map(|(job, part)| Some((*job, ranks_of(part.reforming.layout()?))));
        let jobs = jobs.collect();
        let reader = Reader::Agent { about };
        self.page_questions
            .ask(reader, PageQuestion::Counters { jobs }, &mut self.out);
    }

    /// What the pages show is for the agent.
    pub(super) fn on_agent_counters(
        &mut self,
        about: &[NodeName],
        at_ns: u64,
        counters: Vec<(JobId, Vec<RankCounters>)>,
    ) {
        let jobs = counters.into_iter();
        let jobs = jobs.filter_map(|(job, ranks)| self.job_sample(job, ranks)).collect();
        let links = self.links_for_agent(about);
        self.agent.tell(&DaemonToAgent::Samples { at_ns, jobs, links });
    }

    fn job_sample(&self, job: JobId, mut ranks: Vec<RankCounters>) -> Option<JobSample> {
        let part = self.parts.get(&job).filter(|part| !part.state.is_ending())?;
        let (layout, spec) = (part.reforming.layout()?, part.state.spec());
        let (min, max) = sizes(spec, layout.size() as u32);
        // A rank that counts no iterations cannot be moved, and of its use nothing is known.
        ranks.retain(|rank| rank.iterations > 0);
        Some(JobSample {
            job,
            coordinator: part.state.coordinator().clone(),
            epoch: layout.epoch,
            size: layout.size() as u32,
            nodes: layout.nodes().len() as u32,
            started_with: spec.size,
            min,
            max,
            allowed: spec.nodes.clone(),
            policy: spec.policy.clone().unwrap_or_else(|| POLICY_DEFAULT.to_owned()),
            ranks,
        })
    }

    fn tell_agent_neighbours(&mut self) {
        let is_draining = self.nodes.is_draining();
        let is_told = self.agent.talk.neighbours;
        if is_told.is_some_and(|(at, told)| at.elapsed() < NEIGHBOURS_EVERY && told == is_draining) {
            return;
        }
        self.agent.talk.neighbours = Some((Instant::now(), is_draining));
        let neighbour = |report: &pcm_proto::peer::NodeReport| Neighbour {
            node: report.node.clone(),
            site: report.site.clone(),
            host: report.host,
        };
        let mut others: Vec<Neighbour> = self.nodes.others().map(|report| neighbour(&report)).collect();
        let mut chance = self.out.now().0;
        let mut nodes = Vec::with_capacity(NEIGHBOURS_MAX.min(others.len()));
        while nodes.len() < NEIGHBOURS_MAX && !others.is_empty() {
            // Any numbers do that differ between nodes and times.
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            nodes.push(others.swap_remove((chance >> 33) as usize % others.len()));
        }
        let own = neighbour(self.nodes.own());
        self.agent.tell(&DaemonToAgent::Neighbours {
            nodes,
            own,
            is_draining,
        });
    }

    /// The agent says something to the agent of another node.
    pub(super) fn on_agent_tells(&mut self, to: &NodeName, message: Box<AgentToAgent>) {
        if *to == self.own || !self.nodes.is_live(to) || !self.agent.talk.tells.take() {
            return;
        }
        self.send(to, DaemonToDaemon::Agent(message));
    }

    /// The agent of another node says something.
    pub(super) fn on_agent_heard(&self, from: &NodeName, message: Box<AgentToAgent>) {
        self.agent.tell(&DaemonToAgent::Heard {
            from: from.clone(),
            message,
        });
    }

    /// The agent wants a job changed that this daemon coordinates.
    pub(super) fn on_agent_proposes(&mut self, number: u64, wish: Wish) {
        let from = Requester::Agent { number };
        let Wish {
            job,
            epoch,
            change,
            cause,
        } = wish;
        if !self.agent.talk.wishes.take() {
            let message = format!("the agent of node {} wants too much at once", self.own);
            return self.answer(
                from,
                DaemonToControl::Refused(Refusal::new(refusal::LIMIT_REACHED, message)),
            );
        }
        let Some(coordinated) = self.jobs.get(&job) else {
            return self.refuse_unknown_job(from, job);
        };
        if coordinated.state.epoch() != epoch {
            let message = format!("job {job} has another layout by now: look again");
            return self.answer(
                from,
                DaemonToControl::Refused(Refusal::new(refusal::RECONFIGURING, message)),
            );
        }
        let cause = cut(cause);
        self.on_reconfigure(
            from,
            LayoutAsked {
                job,
                change,
                mode: ModeWanted::Live,
                cause,
                method: None,
            },
        );
    }

    /// The answer to a proposal.
    pub(super) fn answer_agent(&self, number: u64, answer: DaemonToControl) {
        let outcome = match answer {
            DaemonToControl::Reconfigured(done) => ProposalOutcome::Done {
                pause_ms: done.pause_ms,
                // What travelled ahead held nobody up.
                bytes_moved: Bytes(done.bytes_moved.0.saturating_sub(done.bytes_ahead.0)),
                total_ms: done.total_ms,
            },
            DaemonToControl::Refused(Refusal { code, message }) => ProposalOutcome::Refused { code, message },
            other => ProposalOutcome::Refused {
                code: refusal::NOT_SUPPORTED.to_owned(),
                message: format!("an unexpected answer: {other:?}"),
            },
        };
        self.agent.tell(&DaemonToAgent::Proposed { number, outcome });
    }

    /// The agent decided something about a job.
    pub(super) fn on_agent_decided(&mut self, job: JobId, mut decision: Box<Decision>) {
        let Some(coordinated) = self.jobs.get(&job) else { return };
        let epoch = coordinated.state.epoch();
        if !self.agent.talk.wishes.take() {
            return;
        }
        decision.policy = cut(std::mem::take(&mut decision.policy));
        decision.reason = cut(std::mem::take(&mut decision.reason));
        decision.chosen = decision.chosen.take().map(cut);
        decision.considered.truncate(CONSIDERED_MAX);
        for (words, _) in &mut decision.considered {
            *words = cut(std::mem::take(words));
        }
        self.note(Some(job), epoch, EventKind::Decision(decision));
    }
}

/// A change an agent wants.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) job: JobId,
    pub(super) epoch: Epoch,
    pub(super) change: LayoutChange,
    pub(super) cause: String,
}

impl Agent {
    /// Tells the agent, if there is one that listens.
    pub(super) fn tell(&self, message: &DaemonToAgent) {
        if let Some(sender) = self.sender()
            && let Err(error) = sender.try_send(message)
        {
            tracing::debug!(%error, "the agent was not told");
        }
    }
}

fn cut(mut text: String) -> String {
    if text.len() > TEXT_MAX {
        let end = (0..=TEXT_MAX)
            .rev()
            .find(|end| text.is_char_boundary(*end))
            .unwrap_or(0);
        text.truncate(end);
    }
    text
}

/// The numbers of ranks between which decisions may choose. A job that was started without `--min` and `--max` keeps
/// the size it has, for nobody said that another would do.
fn sizes(spec: &JobSpec, size: u32) -> (u32, u32) {
    match (spec.min > 1, spec.max < RANKS_MAX) {
        (false, false) => (size, size),
        (_, true) => (spec.min.max(1), spec.max),
        (true, false) => (spec.min, size.max(spec.size)),
    }
}

/// The rank of each process of a layout.
fn ranks_of(layout: &Layout) -> BTreeMap<ProcessId, Rank> {
    let members = layout.members.iter().zip(0..);
    members.map(|(member, rank)| (member.process, Rank(rank))).collect()
}

/// Whether there is a policy of this name.
pub(super) fn is_known_policy(name: &str) -> bool {
    pcm_proto::agent::POLICY_NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_shouts_is_heard_so_often_and_no_more() {
        let mut allowance = Allowance::new(10.0);
        let heard = (0..1000).filter(|_| allowance.take()).count();
        assert!((10..=12).contains(&heard), "{heard}");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("ä".repeat(TEXT_MAX)).len(), TEXT_MAX);
        assert_eq!(cut("x".to_owned()), "x");
    }
}
