//! Changes of a job's layout that are asked for: looks at the costs of methods, asks the job's nodes whether their
//! ranks iterate, plans with [`crate::node::layout_request`], and hands the plan to the job's reconfigurations.

use crate::job::placement::Share;
use crate::node::layout_request::{self, ClusterView, JobView, LayoutAsked};
use crate::node::machine::Node;
use crate::node::methods::{FileCosts, MethodBook};
use crate::node::queries::{ANSWER_WITHIN, Wanted};
use crate::node::requester::Requester;
use crate::reconfiguration::effects::Input;
use crate::reconfiguration::refusal::Refused;
use pcm_proto::control::{DaemonToControl, Refusal};
use pcm_proto::event::Reconfigured;
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::peer::{Question, RanksBegun};
use pcm_proto::refusal;

impl Node {
    /// A layout is asked for; the answer comes when it is there or was given up.
    pub(in crate::node) fn on_reconfigure(&mut self, from: Requester, asked: LayoutAsked) {
        let job = asked.job;
        let Some(coordinator) = self.jobs.coordinator(job) else {
            return self.refuse_unknown_job(from, job);
        };
        if !coordinator.is_running() {
            let message = format!("job {job} is starting or ending: ask again when `pcmctl jobs` shows it running");
            let refusal = Refusal::new(refusal::RECONFIGURING, message);
            return self.answer(from, DaemonToControl::Refused(refusal));
        }
        self.methods.begin(from, asked, &mut self.out);
    }

    /// The file of costs was looked at.
    pub(in crate::node) fn on_costs_read(&mut self, found: Option<FileCosts>) {
        for (from, asked) in self.methods.on_read(found) {
            self.gather_begun(from, asked);
        }
    }

    /// Asks all nodes of a job which of its ranks iterate.
    fn gather_begun(&mut self, from: Requester, asked: LayoutAsked) {
        let job = asked.job;
        let Some(coordinator) = self.jobs.coordinator(job) else {
            return self.refuse_unknown_job(from, job);
        };
        let nodes: Vec<NodeName> = coordinator.active_nodes().cloned().collect();
        let wanted = Wanted::Begun {
            asked: Box::new(asked),
            begun: RanksBegun::default(),
        };
        let question = Question::Begun { job };
        self.queries
            .gather(from, wanted, &question, &nodes, ANSWER_WITHIN, &mut self.out);
    }

    pub(in crate::node) fn on_begun_known(&mut self, from: Requester, asked: &LayoutAsked, begun: &RanksBegun) {
        match self.planned(asked, begun) {
            None => self.refuse_unknown_job(from, asked.job),
            Some(Err(refusal)) => self.answer(from, DaemonToControl::Refused(refusal)),
            Some(Ok(input)) => self.ask_reform(from, asked.job, input),
        }
    }

    /// The input for the job's reconfigurations; `None` for a job that is not coordinator here.
    fn planned(&mut self, asked: &LayoutAsked, begun: &RanksBegun) -> Option<Result<Input, Refusal>> {
        let job = asked.job;
        let coordinator = self.jobs.coordinator(job)?;
        let ranks = coordinator.rank_rows();
        let ranks = ranks.map(|(rank, process, node, _)| (rank, process, node));
        let processes = begun.processes.iter().copied().collect();
        let nodes = coordinator.rank_nodes();
        let layout = self.jobs.get(job).and_then(|known| known.machine.layout());
        let view = JobView {
            spec: coordinator.spec(),
            nodes: &nodes,
            weights: layout.map_or(&[], |layout| &layout.weights),
        };
        let planned = layout_request::check_begun(job, ranks, &processes)
            .and_then(|()| self.with_cluster(|cluster| layout_request::plan(&asked.change, view, cluster)));
        let planned = match planned {
            Ok(planned) => planned,
            Err(refusal) => return Some(Err(refusal)),
        };
        let sizes = (nodes.len() as u32, planned.size());
        let chosen = self.methods.choose(asked.method, view.spec, sizes, begun);
        let request = planned.into_request(asked, chosen.method(), &self.own, &nodes);
        let (coordinator, led) = self.jobs.led_with(job)?;
        led.chosen = Some(chosen);
        Some(Ok(Input::Request {
            request,
            next_process: coordinator.process_next(),
            next_world: coordinator.world_next(),
            worlds_met: coordinator.worlds_met(),
        }))
    }

    fn with_cluster<T>(&self, f: impl FnOnce(&ClusterView<'_>) -> T) -> T {
        let state = |node: &NodeName| self.nodes.state(node);
        let placed = |node: &NodeName| self.jobs.coordinators().map(|(_, job)| job.alive_on(node)).sum();
        f(&ClusterView {
            own: &self.own,
            nodes: self.nodes.views(),
            state: &state,
            placed: &placed,
        })
    }

    /// Finds places for so many ranks on these nodes, or on all nodes when none is named.
    pub(in crate::node) fn place(&self, allowed: &[NodeName], count: u32) -> Result<Vec<Share>, Refusal> {
        self.with_cluster(|cluster| cluster.place(allowed, count))
    }

    /// A change was made here: the event says why by that method, and its cost is learned.
    pub(in crate::node) fn on_changed_by_method(&mut self, job: JobId, done: &mut Reconfigured) {
        let chosen = self.jobs.led_mut(job).and_then(|led| led.chosen.take());
        MethodBook::on_changed(chosen, done, &mut self.out);
    }

    pub(in crate::node) fn refuse_layout(&mut self, from: Requester, refused: &Refused) {
        let refusal = Refusal::new(refused.code(), refused.to_string());
        self.answer(from, DaemonToControl::Refused(refusal));
    }
}
