//! Changes of a job's layout that are asked for: looks at the costs of methods, asks the job's nodes whether their
//! ranks iterate, plans with [`crate::node::layout_request`], and hands the plan to the job's reconfigurations.

use crate::between_worlds::{self, is_shared_memory};
use crate::job::at_node;
use crate::job::coordinator::Coordinator;
use crate::job::placement::{Ending, NodeView, Share};
use crate::node::context::Context;
use crate::node::cost_file::FileCosts;
use crate::node::jobs::machine::Jobs;
use crate::node::layout_request::{self, ClusterView, JobView, LayoutAsked};
use crate::node::queries::{ANSWER_WITHIN, Wanted};
use crate::node::requester::Requester;
use crate::reconfiguration::effects::{Effect, Input, Report};
use crate::reconfiguration::refusal::Refused;
use pcm_proto::control::{DaemonToControl, LayoutChange, NodeState, Refusal};
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::job::{JobSpec, JobState};
use pcm_proto::layout::{ModeWanted, PlanRequest, Seat};
use pcm_proto::peer::{Question, RanksBegun};
use pcm_proto::refusal;

/// A program that iterates does it so soon after the start of its job, mostly.
const YOUNG_FOR_US: u64 = 3_000_000;

impl Jobs {
    /// A layout is asked for; the answer comes when it is there or was given up.
    pub(in crate::node) fn on_reconfigure(&mut self, from: Requester, asked: LayoutAsked, cx: &mut Context<'_>) {
        let job = asked.job;
        let Some(coordinator) = self.table.coordinator(job) else {
            return self.refuse_unknown(from, job, cx);
        };
        if !coordinator.is_running() {
            let message = format!("job {job} is starting or ending: ask again when `pcmctl jobs` shows it running");
            let is_starting = coordinator.status().state == JobState::Starting;
            let code = if is_starting {
                refusal::JOB_STARTING
            } else {
                refusal::RECONFIGURING
            };
            let refusal = Refusal::new(code, message);
            return cx.answer(from, DaemonToControl::Refused(refusal));
        }
        if named(&asked.change).any(|node| cx.cluster.may_hear_of(node)) {
            return self.unheard_of.push((from, asked));
        }
        self.methods.begin(from, asked, cx.out);
    }

    /// More nodes are known, or all that there are: changes that name nodes which were not heard of are tried again.
    pub(in crate::node) fn on_nodes_heard(&mut self, cx: &mut Context<'_>) {
        for (from, asked) in std::mem::take(&mut self.unheard_of) {
            self.on_reconfigure(from, asked, cx);
        }
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
        let (shares_memory, host) = (is_shared_memory(view.spec), memory_host(coordinator, cx));
        let is_young = cx.now().0 < coordinator.status().started_us + YOUNG_FOR_US;
        let planned = layout_request::check_begun(job, is_young, ranks, &processes)
            .and_then(|()| check_hosts(&asked.change, host, cx))
            .and_then(|()| {
                let plan = |cluster: &ClusterView<'_>| layout_request::plan(&asked.change, view, cluster);
                self.with_cluster(host, plan, cx)
            });
        let mut planned = match planned {
            Ok(planned) => planned,
            Err(refusal) => return Some(Err(refusal)),
        };
        let sizes = (nodes.len() as u32, planned.size());
        let mut chosen = self.methods.choose(asked.method, view.spec, sizes, begun);
        chosen.placement = planned.placement.take();
        let mut request = planned.into_request(asked, chosen.method(), &cx.settings.own, &nodes);
        if shares_memory && let Err(refusal) = keep_room(&mut request, coordinator.worlds_met()) {
            return Some(Err(refusal));
        }
        let worlds_met = if shares_memory { 0 } else { coordinator.worlds_met() };
        let (coordinator, led) = self.table.led_with(job)?;
        led.chosen = Some(chosen);
        Some(Ok(Input::Request {
            request,
            next_process: coordinator.process_next(),
            next_world: coordinator.world_next(),
            worlds_met,
        }))
    }

    /// The cluster, or what of it is on one host.
    fn with_cluster<T>(&self, host: Option<u64>, f: impl FnOnce(&ClusterView<'_>) -> T, cx: &Context<'_>) -> T {
        let state = |node: &NodeName| cx.cluster.nodes().state(node);
        let placed = |node: &NodeName| self.table.coordinators().map(|(_, job)| job.alive_on(node)).sum();
        let mut nodes = cx.cluster.nodes().views(cx.now());
        nodes.retain(|view| host.is_none_or(|host| view.host == host));
        f(&ClusterView {
            own: &cx.settings.own,
            nodes,
            state: &state,
            placed: &placed,
        })
    }

    /// Finds places for so many ranks on these nodes, or on all nodes when none is named; on one host, where the job
    /// has its ranks there. These ranks have no choice but not to run: where all nodes end soon they run on those. Says
    /// what the nodes had, too.
    pub(super) fn place(
        &self,
        allowed: &[NodeName],
        count: u32,
        host: Option<u64>,
        cx: &Context<'_>,
    ) -> Result<(Vec<Share>, String), Refusal> {
        let on_host = |node: &&NodeName| host.is_none_or(|host| cx.cluster.nodes().host(node) == host);
        let of_host: Vec<NodeName> = allowed.iter().filter(on_host).cloned().collect();
        if let Some(node) = allowed.first().filter(|_| of_host.is_empty()) {
            return Err(between_worlds::other_host(node));
        }
        self.with_cluster(host, |cluster| cluster.place(&of_host, count, Ending::LastResort), cx)
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
                let refusal = known.refusal_while_ranks_end();
                cx.answer(from, DaemonToControl::Refused(refusal));
            }
        }
        self.finish(job, step, cx);
    }
}

/// The hosts of the nodes that are up and that a job may use, one for each node.
pub(super) fn hosts_open_to(spec: &JobSpec, cx: &Context<'_>) -> Vec<u64> {
    let may_use = |view: &NodeView| view.is_open && (spec.nodes.is_empty() || spec.nodes.contains(&view.name));
    let views = cx.cluster.nodes().views(cx.now()).into_iter();
    views.filter(may_use).map(|view| view.host).collect()
}

/// The host of a job whose ranks share memory: that of its ranks, if a node that it may use is up there, else that of
/// any such node. None for another job.
pub(super) fn memory_host(coordinator: &Coordinator, cx: &Context<'_>) -> Option<u64> {
    let spec = coordinator.spec();
    if !is_shared_memory(spec) {
        return None;
    }
    let of_ranks = coordinator
        .rank_nodes()
        .first()
        .map(|node| cx.cluster.nodes().host(node));
    let open = hosts_open_to(spec, cx);
    let of_ranks_and_open = of_ranks.filter(|host| open.contains(host));
    of_ranks_and_open.or(open.first().copied()).or(of_ranks)
}

/// The nodes that a change names for ranks to go to.
fn named(change: &LayoutChange) -> impl Iterator<Item = &NodeName> {
    let (moves, nodes) = match change {
        LayoutChange::Migrate(moves) | LayoutChange::Arrange { moves, .. } => (moves.as_slice(), &[][..]),
        LayoutChange::Expand { nodes, .. } => (&[][..], nodes.as_slice()),
        _ => (&[][..], &[][..]),
    };
    moves.iter().map(|(_, node)| node).chain(nodes)
}

/// The nodes that a change names are on the job's host, where it has one.
fn check_hosts(change: &LayoutChange, host: Option<u64>, cx: &Context<'_>) -> Result<(), Refusal> {
    let nodes = cx.cluster.nodes();
    let is_elsewhere = |node: &&NodeName| {
        let is_up = nodes.state(node) == Some(NodeState::Up);
        is_up && host.is_some_and(|host| nodes.host(node) != host)
    };
    match named(change).find(is_elsewhere) {
        Some(node) => Err(between_worlds::other_host(node)),
        None => Ok(()),
    }
}

/// A change that brings more processes than the ranks can meet is a relaunch, which begins to count again.
fn keep_room(request: &mut PlanRequest, met: u32) -> Result<(), Refusal> {
    let is_new = |seat: &&Seat| request.method.starts_all() || !matches!(seat, Seat::Stay { .. });
    let joining = request.seats.iter().filter(is_new).count() as u32;
    if between_worlds::has_room(met, joining) {
        return Ok(());
    }
    let too_many = between_worlds::no_room(met, joining);
    match request.mode {
        ModeWanted::Live => {
            let message = format!("{too_many}: use relaunch");
            Err(Refusal::new(refusal::NOT_SUPPORTED, message))
        }
        ModeWanted::Auto | ModeWanted::Relaunch => {
            request.cause = format!("{} (by relaunch: {too_many})", request.cause);
            request.mode = ModeWanted::Relaunch;
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::between_worlds::PEERS_MAX;
    use pcm_proto::ids::Rank;
    use pcm_proto::layout::PlanKind;
    use pcm_proto::method::Method;

    fn request(mode: ModeWanted) -> PlanRequest {
        let node = NodeName::new("a").unwrap();
        PlanRequest {
            kind: PlanKind::Expand,
            cause: "user".to_owned(),
            mode,
            seats: vec![Seat::Stay { rank: Rank(0) }, Seat::Join { node }],
            weights: Vec::new(),
            witnesses: Vec::new(),
            method: Method::default(),
        }
    }

    #[test]
    fn ranks_without_room_for_more_are_relaunched_and_the_cause_says_why() {
        let mut fits = request(ModeWanted::Auto);
        keep_room(&mut fits, PEERS_MAX - 1).unwrap();
        assert_eq!((fits.mode, fits.cause.as_str()), (ModeWanted::Auto, "user"));
        let mut full = request(ModeWanted::Auto);
        keep_room(&mut full, PEERS_MAX).unwrap();
        assert_eq!(full.mode, ModeWanted::Relaunch);
        assert!(full.cause.contains("240"), "{}", full.cause);
        let refusal = keep_room(&mut request(ModeWanted::Live), PEERS_MAX).unwrap_err();
        assert_eq!(refusal.code, refusal::NOT_SUPPORTED);
    }
}
