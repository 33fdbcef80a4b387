//! What the agent's side needs of the rest of the daemon: the counters on the pages of the ranks here, the node's
//! profile, the jobs that it proposes to change. The agent itself is [`pcm_core::node::agent`].

use super::daemon::Daemon;
use super::ps::monotonic_ns;
use pcm_core::node::agent::samples::job_sample;
use pcm_core::node::agent::{AgentFact, AgentView};
use pcm_core::node::requester::LinkId;
use pcm_proto::agent::{AgentToDaemon, JobSample, PEERS_TOLD_MAX, RankCounters};
use pcm_proto::ids::{Bytes, JobId, NodeName, Rank};
use pcm_proto::keeper::ProcessKey;
use pcm_proto::layout::Layout;
use pcm_proto::page::Page;
use std::sync::atomic::Ordering::Relaxed;

impl Daemon {
    pub(super) fn on_agent_linked(&mut self, link: LinkId) {
        self.agent.on_linked(link, &mut self.out);
        self.tell_agent_ranks();
    }

    pub(super) fn on_agent_said(&mut self, link: LinkId, message: AgentToDaemon) {
        let view = AgentView {
            epoch: &|job| self.jobs.get(&job).map(|coordinated| coordinated.state.epoch()),
            is_live: &|node| self.nodes.is_live(node),
        };
        self.agent.on_said(link, message, &view, &mut self.out);
    }

    pub(super) fn on_agent_fact(&mut self, fact: AgentFact) {
        match fact {
            AgentFact::Profile(profile) => {
                let own = self.nodes.own_mut();
                own.speed = profile.speed;
                own.load_by_others = profile.load_by_others;
                own.free_memory = profile.free_memory;
            }
            AgentFact::SamplesWanted { about } => self.answer_agent_samples(&about),
            AgentFact::Proposal { from, asked } => self.on_reconfigure(from, asked),
            AgentFact::UnknownJob { from, job } => self.refuse_unknown_job(from, job),
            AgentFact::Gone => self.links.on_agent_gone(),
        }
    }

    fn answer_agent_samples(&mut self, about: &[NodeName]) {
        let jobs: Vec<JobSample> = self.parts.keys().filter_map(|job| self.job_sample(*job)).collect();
        let links = self.links_for_agent(about);
        let own = (self.nodes.own(), self.nodes.is_draining());
        let others = self.nodes.others();
        self.agent
            .answer_samples((monotonic_ns(), jobs), links, own, others, &mut self.out);
    }

    fn job_sample(&self, job: JobId) -> Option<JobSample> {
        let part = self.parts.get(&job).filter(|part| !part.state.is_ending())?;
        let layout = part.reforming.layout()?;
        let counters = self.read_counters(job, layout);
        let of_job = (part.state.spec(), layout);
        Some(job_sample(job, part.state.coordinator(), of_job, counters))
    }

    /// Reads the pages of a job's ranks here.
    fn read_counters(&self, job: JobId, layout: &Layout) -> Vec<RankCounters> {
        let locals = self.parts.get(&job).into_iter().flat_map(|part| &part.locals);
        let counters = locals.filter_map(|(process, local)| {
            let page = local.handle.page().page();
            let progress = &page.head.progress;
            Some(RankCounters {
                process: *process,
                rank: layout.rank_of(*process)?,
                iterations: progress.iteration.load(Relaxed),
                iterations_declared: progress.iterations_declared.load(Relaxed),
                useful_ns: progress.useful_ns.load(Relaxed),
                mpi_ns: page.mpi_ns(),
                registered: Bytes(progress.registered_bytes.load(Relaxed)),
                sent: sent(page, layout),
            })
        });
        counters.collect()
    }

    /// Tells the agent which processes are ours.
    pub(super) fn tell_agent_ranks(&mut self) {
        let ranks = self.parts.iter().flat_map(|(job, part)| {
            let key = |process| ProcessKey { job: *job, process };
            let alive = part.state.alive();
            alive.filter_map(move |process| Some((key(process), part.locals.get(&process)?.handle.pid())))
        });
        self.agent.tell_ranks(ranks.collect(), &mut self.out);
    }
}

fn sent(page: &Page<'_>, layout: &Layout) -> Vec<(Rank, u64, u64)> {
    let rows = (0..layout.size().min(page.peers_max())).filter_map(|rank| {
        let peer = page.peer(rank);
        let (messages, bytes) = (peer.messages_sent.load(Relaxed), peer.bytes_sent.load(Relaxed));
        (messages > 0).then_some((Rank(rank as u32), messages, bytes))
    });
    let mut rows: Vec<(Rank, u64, u64)> = rows.collect();
    rows.sort_by_key(|(rank, _, bytes)| (std::cmp::Reverse(*bytes), *rank));
    rows.truncate(PEERS_TOLD_MAX);
    rows
}
