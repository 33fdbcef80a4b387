//! What the agent's side needs of the rest of the daemon: the counters on the pages of the ranks here, the node's
//! profile, the jobs that it proposes to change. The agent itself is [`crate::node::agent`].

use crate::job::coordinator::Coordinator;
use crate::job::participant::Participant;
use crate::node::agent::samples::job_sample;
use crate::node::agent::{AgentFact, AgentView};
use crate::node::machine::Node;
use crate::node::ranks::pages::{PageQuestion, Reader};
use crate::node::requester::LinkId;
use pcm_proto::agent::{AgentToDaemon, JobSample, RankCounters};
use pcm_proto::ids::{JobId, NodeName, ProcessId, Rank};
use pcm_proto::keeper::ProcessKey;
use pcm_proto::layout::Layout;
use std::collections::BTreeMap;

impl Node {
    pub(in crate::node) fn on_agent_linked(&mut self, link: LinkId) {
        self.agent.on_linked(link, &mut self.out);
        self.tell_agent_ranks();
    }

    pub(in crate::node) fn on_agent_said(&mut self, link: LinkId, message: AgentToDaemon) {
        let view = AgentView {
            epoch: &|job| self.jobs.coordinator(job).map(Coordinator::epoch),
            is_live: &|node| self.nodes.is_live(node),
        };
        self.agent.on_said(link, message, &view, &mut self.out);
    }

    pub(in crate::node) fn on_agent_fact(&mut self, fact: AgentFact) {
        match fact {
            AgentFact::Profile(profile) => {
                let own = self.nodes.own_mut();
                own.speed = profile.speed;
                own.load_by_others = profile.load_by_others;
                own.free_memory = profile.free_memory;
            }
            AgentFact::SamplesWanted { about } => self.on_agent_samples(about),
            AgentFact::Proposal { from, asked } => self.on_reconfigure(from, asked),
            AgentFact::UnknownJob { from, job } => self.refuse_unknown_job(from, job),
            AgentFact::Gone => self.links.on_agent_gone(),
        }
    }

    /// The agent asks what the pages show, and what the links to its jobs' nodes and these are like.
    fn on_agent_samples(&mut self, about: Vec<NodeName>) {
        let jobs = self.jobs.all().filter_map(|(job, known)| {
            let is_ending = known.machine.part()?.is_ending();
            let ranks = ranks_of(known.machine.layout()?);
            (!is_ending).then_some((job, ranks))
        });
        let jobs = jobs.collect();
        let reader = Reader::Agent { about };
        self.page_questions
            .ask(reader, PageQuestion::Counters { jobs }, &mut self.out);
    }

    /// What the pages show is for the agent.
    pub(in crate::node) fn on_agent_counters(
        &mut self,
        about: &[NodeName],
        at_ns: u64,
        counters: Vec<(JobId, Vec<RankCounters>)>,
    ) {
        let jobs = counters.into_iter();
        let jobs = jobs.filter_map(|(job, ranks)| self.sample(job, ranks)).collect();
        let links = self.links_for_agent(about);
        let own = (self.nodes.own(), self.nodes.is_draining());
        let others = self.nodes.others();
        self.agent
            .answer_samples((at_ns, jobs), links, own, others, &mut self.out);
    }

    fn sample(&self, job: JobId, counters: Vec<RankCounters>) -> Option<JobSample> {
        let machine = &self.jobs.get(job)?.machine;
        let part = machine.part().filter(|part| !part.is_ending())?;
        let of_job = (part.spec(), machine.layout()?);
        Some(job_sample(job, part.coordinator(), of_job, counters))
    }

    /// Tells the agent which processes are ours.
    pub(in crate::node) fn tell_agent_ranks(&mut self) {
        let ranks = self.jobs.all().flat_map(|(job, known)| {
            let key = move |process| ProcessKey { job, process };
            let alive = known.machine.part().into_iter().flat_map(Participant::alive);
            alive.filter_map(move |process| Some((key(process), known.local.as_ref()?.ranks.pid(process)?)))
        });
        self.agent.tell_ranks(ranks.collect(), &mut self.out);
    }
}

/// The rank of each process of a layout.
fn ranks_of(layout: &Layout) -> BTreeMap<ProcessId, Rank> {
    let members = layout.members.iter().zip(0..);
    members.map(|(member, rank)| (member.process, Rank(rank))).collect()
}
