//! Changes of a job's layout that are asked for: looks at the costs of methods, asks the job's nodes whether their
//! ranks iterate, and plans with [`crate::node::layout_request`]. The job's reconfigurations get the plan.

use super::placing::{memory_host, with_cluster};
use super::table::Table;
use crate::between_worlds::{self, is_shared_memory};
use crate::node::context::Context;
use crate::node::cost_file::FileCosts;
use crate::node::layout_request::{self, ClusterView, JobView, LayoutAsked};
use crate::node::methods::MethodBook;
use crate::node::queries::{ANSWER_WITHIN, Wanted};
use crate::node::requester::Requester;
use crate::reconfiguration::effects::Input;
use pcm_proto::control::{DaemonToControl, LayoutChange, NodeState, Refusal};
use pcm_proto::ids::NodeName;
use pcm_proto::job::JobState;
use pcm_proto::layout::{ModeWanted, PlanRequest, Seat};
use pcm_proto::peer::{Question, RanksBegun};
use pcm_proto::refusal;

/// A program that iterates does it so soon after the start of its job, mostly.
const YOUNG_FOR_US: u64 = 3_000_000;

/// See the file head.
#[derive(Debug, Default)]
pub(in crate::node) struct Changes {
    methods: MethodBook,
    /// Changes that name a node of which this one, just started, may hear yet.
    unheard_of: Vec<(Requester, LayoutAsked)>,
}

impl Changes {
    /// A layout is asked for; the answer comes when it is there or was given up.
    pub(super) fn ask(&mut self, from: Requester, asked: LayoutAsked, table: &Table, cx: &mut Context<'_>) {
        let job = asked.job;
        let Some(coordinator) = table.coordinator(job) else {
            return table.past.refuse_unknown(from, job, cx);
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
    pub(super) fn on_nodes_heard(&mut self, table: &Table, cx: &mut Context<'_>) {
        for (from, asked) in std::mem::take(&mut self.unheard_of) {
            self.ask(from, asked, table, cx);
        }
    }

    /// The file of costs was looked at: all nodes of the jobs are asked which of their ranks iterate.
    pub(super) fn on_costs_read(&mut self, found: Option<FileCosts>, table: &Table, cx: &mut Context<'_>) {
        for (from, asked) in self.methods.on_read(found) {
            let job = asked.job;
            let Some(coordinator) = table.coordinator(job) else {
                table.past.refuse_unknown(from, job, cx);
                continue;
            };
            let nodes: Vec<NodeName> = coordinator.active_nodes().cloned().collect();
            let wanted = Wanted::Begun {
                asked: Box::new(asked),
                begun: RanksBegun::default(),
            };
            let question = Question::Begun { job };
            cx.gather(from, wanted, question, nodes, ANSWER_WITHIN);
        }
    }

    /// The input for the job's reconfigurations; `None` for a job that is not led here.
    pub(super) fn plan(
        &self,
        asked: &LayoutAsked,
        begun: &RanksBegun,
        table: &mut Table,
        cx: &Context<'_>,
    ) -> Option<Result<Input, Refusal>> {
        let job = asked.job;
        let coordinator = table.coordinator(job)?;
        let ranks = coordinator.rank_rows();
        let ranks = ranks.map(|(rank, process, node, _)| (rank, process, node));
        let processes = begun.processes.iter().copied().collect();
        let nodes = coordinator.rank_nodes();
        let layout = table.get(job).and_then(|known| known.machine.layout());
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
                with_cluster(table, host, plan, cx)
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
        let (coordinator, led) = table.led_with(job)?;
        led.chosen = Some(chosen);
        Some(Ok(Input::Request {
            request,
            next_process: coordinator.process_next(),
            next_world: coordinator.world_next(),
            worlds_met,
        }))
    }
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
