//! Changes of a job's layout that are asked for: looks at the costs of methods, asks the job's nodes whether their
//! ranks iterate, plans with [`crate::node::layout_request`], and hands the plan to the job's reconfigurations.

use crate::job::at_node;
use crate::job::placement::Share;
use crate::node::context::Context;
use crate::node::jobs::machine::Jobs;
use crate::node::layout_request::{self, ClusterView, JobView, LayoutAsked};
use crate::node::methods::FileCosts;
use crate::node::queries::{ANSWER_WITHIN, Wanted};
use crate::node::requester::Requester;
use crate::reconfiguration::effects::{Effect, Input, Report};
use crate::reconfiguration::refusal::Refused;
use pcm_proto::control::{DaemonToControl, Refusal};
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::peer::{Question, RanksBegun};
use pcm_proto::refusal;

impl Jobs {
    /// A layout is asked for; the answer comes when it is there or was given up.
    pub(in crate::node) fn on_reconfigure(&mut self, from: Requester, asked: LayoutAsked, cx: &mut Context<'_>) {
        let job = asked.job;
        let Some(coordinator) = self.table.coordinator(job) else {
            return self.refuse_unknown(from, job, cx);
        };
        if !coordinator.is_running() {
            let message = format!("job {job} is starting or ending: ask again when `pcmctl jobs` shows it running");
            let refusal = Refusal::new(refusal::RECONFIGURING, message);
            return cx.answer(from, DaemonToControl::Refused(refusal));
        }
        self.methods.begin(from, asked, cx.out);
    }

    /// The file of costs was looked at.
    pub(in crate::node) fn on_costs_read(&mut self, found: Option<FileCosts>, cx: &mut Context<'_>) {
        for (from, asked) in self.methods.on_read(found) {
            self.gather_begun(from, asked, cx);
        }
    }

    /// Asks all nodes of a job which of its ranks iterate.
    fn gather_begun(&mut self, from: Requester, asked: LayoutAsked, cx: &mut Context<'_>) {
        let job = asked.job;
        let Some(coordinator) = self.table.coordinator(job) else {
            return self.refuse_unknown(from, job, cx);
        };
        let nodes: Vec<NodeName> = coordinator.active_nodes().cloned().collect();
        let wanted = Wanted::Begun {
            asked: Box::new(asked),
            begun: RanksBegun::default(),
        };
        let question = Question::Begun { job };
        cx.gather(from, wanted, question, nodes, ANSWER_WITHIN);
    }

    pub(in crate::node) fn on_begun_known(
        &mut self,
        from: Requester,
        asked: &LayoutAsked,
        begun: &RanksBegun,
        cx: &mut Context<'_>,
    ) {
        match self.planned(asked, begun, cx) {
            None => self.refuse_unknown(from, asked.job, cx),
            Some(Err(refusal)) => cx.answer(from, DaemonToControl::Refused(refusal)),
            Some(Ok(input)) => self.ask_reform(from, asked.job, input, cx),
        }
    }

    /// The input for the job's reconfigurations; `None` for a job that is not coordinator here.
    fn planned(
        &mut self,
        asked: &LayoutAsked,
        begun: &RanksBegun,
        cx: &mut Context<'_>,
    ) -> Option<Result<Input, Refusal>> {
        let job = asked.job;
        let coordinator = self.table.coordinator(job)?;
        let ranks = coordinator.rank_rows();
        let ranks = ranks.map(|(rank, process, node, _)| (rank, process, node));
        let processes = begun.processes.iter().copied().collect();
        let nodes = coordinator.rank_nodes();
        let layout = self.table.get(job).and_then(|known| known.machine.layout());
        let view = JobView {
            spec: coordinator.spec(),
            nodes: &nodes,
            weights: layout.map_or(&[], |layout| &layout.weights),
        };
        let planned = layout_request::check_begun(job, ranks, &processes)
            .and_then(|()| self.with_cluster(|cluster| layout_request::plan(&asked.change, view, cluster), cx));
        let planned = match planned {
            Ok(planned) => planned,
            Err(refusal) => return Some(Err(refusal)),
        };
        let sizes = (nodes.len() as u32, planned.size());
        let chosen = self.methods.choose(asked.method, view.spec, sizes, begun);
        let request = planned.into_request(asked, chosen.method(), &cx.settings.own, &nodes);
        let (coordinator, led) = self.table.led_with(job)?;
        led.chosen = Some(chosen);
        Some(Ok(Input::Request {
            request,
            next_process: coordinator.process_next(),
            next_world: coordinator.world_next(),
            worlds_met: coordinator.worlds_met(),
        }))
    }

    fn with_cluster<T>(&self, f: impl FnOnce(&ClusterView<'_>) -> T, cx: &Context<'_>) -> T {
        let state = |node: &NodeName| cx.cluster.nodes().state(node);
        let placed = |node: &NodeName| self.table.coordinators().map(|(_, job)| job.alive_on(node)).sum();
        f(&ClusterView {
            own: &cx.settings.own,
            nodes: cx.cluster.nodes().views(),
            state: &state,
            placed: &placed,
        })
    }

    /// Finds places for so many ranks on these nodes, or on all nodes when none is named.
    pub(super) fn place(&self, allowed: &[NodeName], count: u32, cx: &Context<'_>) -> Result<Vec<Share>, Refusal> {
        self.with_cluster(|cluster| cluster.place(allowed, count), cx)
    }

    pub(in crate::node) fn refuse_layout(&mut self, from: Requester, refused: &Refused, cx: &mut Context<'_>) {
        let refusal = Refusal::new(refused.code(), refused.to_string());
        cx.answer(from, DaemonToControl::Refused(refusal));
    }

    /// A requester wants another layout; this node answers when the layout is there or was given up.
    pub(in crate::node) fn ask_reform(&mut self, from: Requester, job: JobId, input: Input, cx: &mut Context<'_>) {
        let now = cx.now();
        let Some(known) = self.table.get_mut(job).filter(|known| known.local.is_some()) else {
            return self.refuse_unknown(from, job, cx);
        };
        let step = known
            .machine
            .handle(now, at_node::Input::Change(input), cx.cluster.nodes());
        let verdict = step.effects.iter().find_map(|effect| match effect {
            at_node::Effect::Change(Effect::Report(Report::Accepted { attempt })) => Some(Ok(*attempt)),
            at_node::Effect::Change(Effect::Report(Report::Refused(refused))) => Some(Err(refused.clone())),
            _ => None,
        });
        match verdict {
            Some(Ok(attempt)) => {
                if let Some(local) = &mut known.local {
                    local.requesters.insert(attempt, from);
                }
            }
            Some(Err(refused)) => self.refuse_layout(from, &refused, cx),
            None => {
                let message = format!("job {job} is ending");
                let refusal = Refusal::new(refusal::JOB_ENDED, message);
                cx.answer(from, DaemonToControl::Refused(refusal));
            }
        }
        self.finish(job, step, cx);
    }
}
