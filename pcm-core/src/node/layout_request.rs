//! From a request of a person, a program or an agent to the seats of a layout: the ranks that stay, move, join or
//! leave. Leaving ranks and the seats of newcomers are chosen so that block-partitioned data moves as little as
//! possible. Plans from views alone; holds no state.

use crate::job::placement::{self, Ending, NodeView, PerNode, Share, Wanted};
use crate::partition::bounds_by_shares;
use pcm_proto::control::{LayoutChange, NodeState, Refusal};
use pcm_proto::ids::{JobId, NodeName, ProcessId, Rank};
use pcm_proto::job::JobSpec;
use pcm_proto::layout::{ModeWanted, PlanKind, PlanRequest, Seat};
use pcm_proto::method::Method;
use pcm_proto::rank_counts::RankCounts;
use pcm_proto::refusal;
use std::collections::BTreeSet;

/// Shares are whole numbers of about this size, so that a per cent of speed counts.
const WEIGHT_SCALE: f64 = 1000.0;

/// Measured speeds of equal nodes differ by a few per cent, which is no reason to prefer one.
const CLEARLY: f64 = 1.1;

/// A layout that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct LayoutAsked {
    pub job: JobId,
    pub change: LayoutChange,
    pub mode: ModeWanted,
    pub cause: String,
    /// Instead of the job's.
    pub method: Option<Method>,
}

/// The job as its coordinator knows it.
#[derive(Clone, Copy, Debug)]
pub struct JobView<'a> {
    pub spec: &'a JobSpec,
    /// The node of each rank.
    pub nodes: &'a [NodeName],
    /// The shares of the present layout; empty means equal ones.
    pub weights: &'a [u32],
}

/// The nodes as this one knows them.
pub struct ClusterView<'a> {
    pub own: &'a NodeName,
    /// What placement has to know, in natural order.
    pub nodes: Vec<NodeView>,
    /// The state of a node; `None` for an unknown one.
    pub state: &'a dyn Fn(&NodeName) -> Option<NodeState>,
    /// Ranks of all jobs coordinated here that were placed on a node; reports lag behind.
    pub placed: &'a dyn Fn(&NodeName) -> u32,
}

/// The seats a request comes to.
#[derive(Debug, PartialEq)]
pub struct Planned {
    kind: PlanKind,
    seats: Vec<Seat>,
    weights: Vec<u32>,
    /// Why ranks come to or stay on the nodes they do, where these were chosen.
    pub placement: Option<String>,
}

impl Planned {
    /// The number of ranks of the new layout.
    pub fn size(&self) -> u32 {
        self.seats.len() as u32
    }

    /// The request for the job's reconfiguration. The own node takes part, with ranks or as a witness.
    pub fn into_request(self, asked: &LayoutAsked, method: Method, own: &NodeName, nodes: &[NodeName]) -> PlanRequest {
        let has_own = self.seats.iter().any(|seat| node_of(seat, nodes) == Some(own));
        PlanRequest {
            kind: self.kind,
            cause: asked.cause.clone(),
            mode: asked.mode,
            seats: self.seats,
            weights: self.weights,
            witnesses: if has_own { Vec::new() } else { vec![own.clone()] },
            method,
        }
    }
}

/// Refuses while a rank has not begun to iterate: a program that counts no iterations cannot stop at one, and a second
/// instance of it would not know that it is a newcomer. The ranks of a young job may iterate before long.
pub fn check_begun(
    job: JobId,
    is_young: bool,
    mut ranks: impl Iterator<Item = (Rank, ProcessId, NodeName)>,
    begun: &BTreeSet<ProcessId>,
) -> Result<(), Refusal> {
    let Some((rank, _, node)) = ranks.find(|(_, process, _)| !begun.contains(process)) else {
        return Ok(());
    };
    let message = format!(
        "rank {rank} of job {job} on node {node} has not called pcm_iterate yet: ask again when its loop has begun; a \
         program that never calls it cannot change (see docs/guide.md)"
    );
    let code = if is_young {
        refusal::JOB_STARTING
    } else {
        refusal::NOT_SUPPORTED
    };
    Err(Refusal::new(code, message))
}

/// The seats that a change comes to, or why it is not possible.
pub fn plan(change: &LayoutChange, job: JobView<'_>, cluster: &ClusterView<'_>) -> Result<Planned, Refusal> {
    let has_shares = matches!(change, LayoutChange::Rebalance | LayoutChange::Arrange { .. });
    if has_shares && !job.spec.registered.follows_shares() {
        let message = "no array of the program follows shares: one does that has a single divided axis, in blocks";
        return Err(Refusal::new(refusal::NOT_SUPPORTED, message.to_owned()));
    }
    let planned = seated(change, job, cluster)?;
    if planned.kind == PlanKind::Rebalance && !is_divided_otherwise(job, &planned.weights) {
        let message = "the arrays are divided as by these shares already, so nothing would move".to_owned();
        return Err(Refusal::new(refusal::BAD_LAYOUT, message));
    }
    let (to, counts) = (planned.size(), &job.spec.registered.counts);
    if to as usize == job.nodes.len() || counts.allow(to) {
        return Ok(planned);
    }
    Err(impossible_size(to, counts))
}

/// The seats, whatever the program says of their number.
fn seated(change: &LayoutChange, job: JobView<'_>, cluster: &ClusterView<'_>) -> Result<Planned, Refusal> {
    let size = job.nodes.len() as u32;
    let (least, most) = (job.spec.min.max(1), job.spec.max);
    let plain = |kind, seats| Planned {
        kind,
        seats,
        weights: Vec::new(),
        placement: None,
    };
    let explained = |kind, (seats, why)| Planned {
        placement: Some(why),
        ..plain(kind, seats)
    };
    match change {
        // Ranks take their shares along.
        LayoutChange::Migrate(moves) => Ok(Planned {
            weights: job.weights.to_vec(),
            ..plain(PlanKind::Migrate, cluster.moved(job.nodes, moves)?)
        }),
        LayoutChange::Expand { to, nodes: allowed } => {
            if *to <= size || *to > most {
                return Err(bad_size(*to, size, (size + 1, most)));
            }
            Ok(explained(PlanKind::Expand, cluster.grown(job, *to, allowed)?))
        }
        LayoutChange::Shrink { to } => {
            if *to >= size || *to < least {
                return Err(bad_size(*to, size, (least, size.saturating_sub(1))));
            }
            Ok(explained(PlanKind::Shrink, cluster.shrunk(job.nodes, *to)))
        }
        LayoutChange::Leave(ranks) => {
            let seats = without(size, ranks)?;
            let to = seats.len() as u32;
            if to >= size || to < least {
                return Err(bad_size(to, size, (least, size.saturating_sub(1))));
            }
            Ok(plain(PlanKind::Shrink, seats))
        }
        LayoutChange::Rebalance => Ok(Planned {
            weights: changed_weights(job.weights, cluster.weights(job.nodes))?,
            ..plain(PlanKind::Rebalance, stay(size))
        }),
        LayoutChange::Arrange { moves, weights } => {
            if weights.len() != job.nodes.len() || weights.contains(&0) {
                let message = format!(
                    "{} shares were given for {size} ranks, each must be above 0",
                    weights.len()
                );
                return Err(Refusal::new(refusal::BAD_LAYOUT, message));
            }
            let kind = match moves.is_empty() {
                true => PlanKind::Rebalance,
                false => PlanKind::Migrate,
            };
            Ok(Planned {
                weights: weights.clone(),
                ..plain(kind, cluster.moved(job.nodes, moves)?)
            })
        }
        LayoutChange::Evacuate { node } => Ok(explained(PlanKind::Migrate, cluster.evacuated(job, node)?)),
        LayoutChange::Relaunch => Ok(plain(PlanKind::Relaunch, stay(size))),
    }
}

/// Places, and what ranks find at each node that they may go to.
fn place_among(views: &[NodeView], wanted: &Wanted<'_>) -> Result<(Vec<Share>, String), Refusal> {
    let shares = placement::place(views, wanted).map_err(|error| Refusal::new(error.code(), error.to_string()))?;
    let allowed = wanted.allowed;
    let is_open = |view: &&NodeView| view.is_open && (allowed.is_empty() || allowed.contains(&view.name));
    let of = |view: &NodeView| shares.iter().find(|share| share.node == view.name);
    let placed = views.iter().filter(is_open);
    let placed = placed.map(|view| (view, of(view).map_or(0, |share| share.count as usize)));
    let why = placement::why(placed.collect());
    Ok((shares, why))
}

impl ClusterView<'_> {
    /// All seats, and those of so many ranks that join.
    fn grown(&self, job: JobView<'_>, to: u32, allowed: &[NodeName]) -> Result<(Vec<Seat>, String), Refusal> {
        let size = job.nodes.len() as u32;
        let (joining, why) = self.place_joining(job, to - size, allowed)?;
        Ok((expanded(size, to, one_by_one(&joining)), why))
    }

    /// Finds places for so many ranks that join a job.
    pub fn place_joining(
        &self,
        job: JobView<'_>,
        count: u32,
        allowed: &[NodeName],
    ) -> Result<(Vec<Share>, String), Refusal> {
        self.place(&Wanted {
            count,
            allowed: if allowed.is_empty() { &job.spec.nodes } else { allowed },
            ending: Ending::Shunned,
            per_node: PerNode::of(job.spec, job.nodes),
        })
    }

    /// All seats, with these ranks elsewhere.
    fn moved(&self, nodes: &[NodeName], moves: &[(Rank, NodeName)]) -> Result<Vec<Seat>, Refusal> {
        let size = nodes.len() as u32;
        let mut seats = stay(size);
        for (rank, to) in moves {
            let seat = seats.get_mut(rank.0 as usize).ok_or_else(|| bad_rank(*rank, size))?;
            self.check_target(to)?;
            if nodes[rank.0 as usize] != *to {
                *seat = Seat::Move {
                    rank: *rank,
                    to: to.clone(),
                };
            }
        }
        Ok(seats)
    }

    /// All seats, with the ranks of this node elsewhere, and what the other nodes had.
    fn evacuated(&self, job: JobView<'_>, node: &NodeName) -> Result<(Vec<Seat>, String), Refusal> {
        let size = job.nodes.len() as u32;
        let moving: Vec<u32> = (0..size).filter(|rank| job.nodes[*rank as usize] == *node).collect();
        let (targets, why) = self.place_elsewhere(&job.spec.nodes, node, moving.len() as u32)?;
        let mut seats = stay(size);
        for (rank, to) in moving.into_iter().zip(one_by_one(&targets)) {
            seats[rank as usize] = Seat::Move { rank: Rank(rank), to };
        }
        Ok((seats, why))
    }

    fn check_target(&self, node: &NodeName) -> Result<(), Refusal> {
        match (self.state)(node) {
            None => Err(unknown_node(node)),
            Some(NodeState::Up) => self.check_lasts(node),
            Some(state) => {
                let message = format!("node {node} takes no ranks now ({state:?}): see `pcmctl nodes`");
                Err(Refusal::new(refusal::BAD_LAYOUT, message))
            }
        }
    }

    /// Whether a node has the time for a rank to come and leave again.
    fn check_lasts(&self, node: &NodeName) -> Result<(), Refusal> {
        let view = self.nodes.iter().find(|view| view.name == *node);
        let Some(end) = view.and_then(|view| view.near_end) else {
            return Ok(());
        };
        let message = format!(
            "node {node} ends in {} s and takes no ranks in its last {} s: choose one with more LEFT in `pcmctl nodes`",
            end.left().as_secs(),
            end.closed_for().as_secs()
        );
        Err(Refusal::new(refusal::NODE_ENDS, message))
    }

    /// Finds places for ranks. Says what the nodes had, too.
    pub fn place(&self, wanted: &Wanted<'_>) -> Result<(Vec<Share>, String), Refusal> {
        if let Some(name) = wanted.allowed.iter().find(|name| (self.state)(name).is_none()) {
            return Err(unknown_node(name));
        }
        place_among(&self.counted(), wanted)
    }

    fn place_elsewhere(
        &self,
        of_job: &[NodeName],
        node: &NodeName,
        count: u32,
    ) -> Result<(Vec<Share>, String), Refusal> {
        let mut views = self.nodes.clone();
        views.retain(|view| view.name != *node);
        let allowed: Vec<NodeName> = of_job.iter().filter(|allowed| *allowed != node).cloned().collect();
        // Those that leave have no choice.
        let wanted = Wanted {
            count,
            allowed: &allowed,
            ending: Ending::Shunned,
            per_node: None,
        };
        place_among(&views, &wanted)
    }

    /// Of each of `to` blocks one rank stays, among those whose data is there: the one that finds most speed where it
    /// is, among equals the one on the emptier node, else the first, whose block begins where the new one does. Rank 0
    /// stays wherever it is: its process is the one with files and timers of its own. Says why, too.
    fn shrunk(&self, nodes: &[NodeName], to: u32) -> (Vec<Seat>, String) {
        let begin = |seat: u32| (u64::from(seat) * nodes.len() as u64 / u64::from(to)) as usize;
        let of_job = |name: &NodeName| nodes.iter().filter(|node| *node == name).count() as u32;
        let mut views = self.counted();
        for view in &mut views {
            view.ranks = view.ranks.saturating_sub(of_job(&view.name));
        }
        let others = views.clone();
        let mut staying = Vec::new();
        for seat in 0..to {
            let found = |rank: usize| {
                let view = views.iter().find(|view| view.name == nodes[rank]);
                view.map_or((0.0, 0), |view| (placement::speed_for_one_more(view), view.ranks))
            };
            let better = |best: usize, rank: usize| {
                let ((most, fewest), (speed, ranks)) = (found(best), found(rank));
                let is_better = speed > most * CLEARLY || (speed * CLEARLY >= most && ranks < fewest);
                if is_better { rank } else { best }
            };
            let block = begin(seat)..if seat == 0 { 1 } else { begin(seat + 1) };
            let Some(rank) = block.reduce(better) else {
                continue;
            };
            staying.push(Seat::Stay {
                rank: Rank(rank as u32),
            });
            if let Some(view) = views.iter_mut().find(|view| view.name == nodes[rank]) {
                view.ranks += 1;
            }
        }
        let stay_on = |view: &NodeView| {
            staying
                .iter()
                .filter(|seat| node_of(seat, nodes) == Some(&view.name))
                .count()
        };
        let with_ranks = others.iter().filter(|view| nodes.contains(&view.name));
        let why = placement::why(with_ranks.map(|view| (view, stay_on(view))).collect());
        (staying, format!("{why}; rank 0 stays where it is"))
    }

    /// The nodes with all ranks that were placed there; reports lag behind.
    fn counted(&self) -> Vec<NodeView> {
        let mut views = self.nodes.clone();
        for view in &mut views {
            view.ranks = view.ranks.max((self.placed)(&view.name));
        }
        views
    }

    /// Shares by what each rank gets of its node.
    fn weights(&self, nodes: &[NodeName]) -> Vec<u32> {
        let speeds = nodes.iter().map(|node| {
            let mates = nodes.iter().filter(|other| *other == node).count() as f64;
            let view = self.nodes.iter().find(|view| view.name == *node);
            view.map_or(1.0, |view| {
                let speed = if view.speed > 0.0 { view.speed } else { 1.0 };
                // Our own ranks' load is no reason to give them less.
                let free = (f64::from(view.cpus) - view.load_by_others).max(0.05);
                speed * (free / mates).min(1.0)
            })
        });
        let speeds: Vec<f64> = speeds.collect();
        let fastest = speeds.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        speeds
            .iter()
            .map(|speed| ((speed / fastest * WEIGHT_SCALE) as u32).max(1))
            .collect()
    }
}

fn unknown_node(node: &NodeName) -> Refusal {
    let message = format!("node {node} is not part of the cluster: `pcmctl nodes` lists those that are");
    Refusal::new(refusal::UNKNOWN_NODE, message)
}

fn node_of<'a>(seat: &'a Seat, nodes: &'a [NodeName]) -> Option<&'a NodeName> {
    match seat {
        Seat::Stay { rank } => nodes.get(rank.0 as usize),
        Seat::Move { to, .. } => Some(to),
        Seat::Join { node } => Some(node),
    }
}

fn stay(size: u32) -> Vec<Seat> {
    (0..size).map(|rank| Seat::Stay { rank: Rank(rank) }).collect()
}

fn one_by_one(shares: &[Share]) -> Vec<NodeName> {
    shares
        .iter()
        .flat_map(|share| std::iter::repeat_n(share.node.clone(), share.count as usize))
        .collect()
}

/// Old rank `i` of `size` sits where its block begins among `to` blocks, so it keeps the front of what it has; the
/// newcomers fill the seats between.
fn expanded(size: u32, to: u32, joining: Vec<NodeName>) -> Vec<Seat> {
    let mut seats: Vec<Option<Seat>> = vec![None; to as usize];
    for rank in 0..size {
        let seat = u64::from(rank) * u64::from(to) / u64::from(size);
        seats[seat as usize] = Some(Seat::Stay { rank: Rank(rank) });
    }
    let mut joining = joining.into_iter();
    seats
        .into_iter()
        .filter_map(|seat| seat.or_else(|| joining.next().map(|node| Seat::Join { node })))
        .collect()
}

/// The shares that were found, unless they are the present ones as nearly as speeds are known.
fn changed_weights(present: &[u32], found: Vec<u32>) -> Result<Vec<u32>, Refusal> {
    let share = |weights: &[u32], rank: usize| match weights.get(rank) {
        Some(weight) => f64::from(*weight) / weights.iter().map(|weight| f64::from(*weight)).sum::<f64>(),
        None => 1.0 / found.len() as f64,
    };
    let is_other = |rank: usize| {
        let (present, found) = (share(present, rank), share(&found, rank));
        found > present * CLEARLY || present > found * CLEARLY
    };
    if (0..found.len()).any(is_other) {
        return Ok(found);
    }
    let message = "the ranks' shares fit the nodes' speeds already, so nothing would move: --shares gives others";
    Err(Refusal::new(refusal::BAD_LAYOUT, message.to_owned()))
}

/// Whether an array gets other bounds by these shares.
fn is_divided_otherwise(job: JobView<'_>, shares: &[u32]) -> bool {
    let ranks = job.nodes.len() as u32;
    let mut extents = job.spec.registered.shared_extents.iter();
    extents.any(|extent| bounds_by_shares(*extent, ranks, job.weights) != bounds_by_shares(*extent, ranks, shares))
}

/// All seats but those of the ranks that leave.
fn without(size: u32, leaving: &[Rank]) -> Result<Vec<Seat>, Refusal> {
    if let Some(rank) = leaving.iter().find(|rank| rank.0 >= size) {
        return Err(bad_rank(*rank, size));
    }
    let staying = (0..size).map(Rank).filter(|rank| !leaving.contains(rank));
    Ok(staying.map(|rank| Seat::Stay { rank }).collect())
}

fn bad_rank(rank: Rank, size: u32) -> Refusal {
    let message = format!("there is no rank {rank}: the job has {size} ranks, numbered from 0");
    Refusal::new(refusal::BAD_LAYOUT, message)
}

/// The program itself would refuse to run on so many.
fn impossible_size(to: u32, counts: &RankCounts) -> Refusal {
    let near = counts.near_words(to);
    let message = format!("the program cannot run on {to} ranks, but on {near}: it runs on {counts}");
    Refusal::new(refusal::BAD_LAYOUT, message)
}

fn bad_size(to: u32, has: u32, (least, most): (u32, u32)) -> Refusal {
    let message = if least > most {
        format!("{to} ranks are asked for, the job has {has} and can go no further that way")
    } else {
        format!("{to} ranks are asked for, the job has {has}: {least} to {most} are possible that way")
    };
    Refusal::new(refusal::BAD_LAYOUT, message)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use pcm_proto::job::WorldShape;
    use pcm_proto::registered::{EXTENT_MAX, Registered};

    /// A job whose program may have up to eight ranks.
    pub(crate) fn spec() -> JobSpec {
        JobSpec {
            registered: Registered {
                shared_extents: vec![100],
                ..Registered::default()
            },
            name: "heat2d".to_owned(),
            size: 2,
            min: 1,
            max: 8,
            nodes: Vec::new(),
            per_node: None,
            commands: Vec::new(),
            policy: None,
            world: WorldShape::Job,
            program: b"heat2d".to_vec(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: "/".into(),
            bind: false,
            preload: false,
            mpi_settings: Vec::new(),
            detached: false,
            restarts_max: 0,
            method: None,
            spares: 0,
        }
    }

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn view(name: &str, cpus: u32) -> NodeView {
        NodeView {
            name: node(name),
            is_open: true,
            cpus,
            speed: 1.0,
            load_by_others: 0.0,
            ranks: 0,
            host: u64::from(cpus),
            near_end: None,
        }
    }

    /// Plans a change of a job with two ranks on `a`, beside an empty node `b` and one that is being emptied.
    fn planned(change: &LayoutChange) -> Result<Planned, Refusal> {
        planned_of(&spec(), change)
    }

    fn planned_of(spec: &JobSpec, change: &LayoutChange) -> Result<Planned, Refusal> {
        let (own, nodes) = (node("a"), [node("a"), node("a")]);
        let state = |name: &NodeName| match name.as_str() {
            "a" | "b" => Some(NodeState::Up),
            "draining" => Some(NodeState::Draining),
            _ => None,
        };
        let cluster = ClusterView {
            own: &own,
            nodes: vec![view("a", 2), view("b", 4)],
            state: &state,
            placed: &|name| if name.as_str() == "a" { 2 } else { 0 },
        };
        let job = JobView {
            spec,
            nodes: &nodes,
            weights: &[3, 1],
        };
        plan(change, job, &cluster)
    }

    fn code(change: &LayoutChange) -> String {
        planned(change).unwrap_err().code
    }

    #[test]
    fn a_rank_that_moves_takes_its_share_along() {
        let change = |to| LayoutChange::Migrate(vec![(Rank(1), node(to))]);
        let plan = planned(&change("b")).unwrap();
        let seats = vec![
            Seat::Stay { rank: Rank(0) },
            Seat::Move {
                rank: Rank(1),
                to: node("b"),
            },
        ];
        assert_eq!(
            (plan.kind, plan.seats, plan.weights),
            (PlanKind::Migrate, seats, vec![3, 1])
        );
        assert_eq!(code(&change("draining")), refusal::BAD_LAYOUT);
        assert_eq!(code(&change("nowhere")), refusal::UNKNOWN_NODE);
        assert_eq!(
            code(&LayoutChange::Migrate(vec![(Rank(2), node("b"))])),
            refusal::BAD_LAYOUT
        );
    }

    #[test]
    fn no_rank_is_sent_to_a_node_that_ends_soon() {
        let (own, nodes) = (node("a"), [node("a"), node("a")]);
        let mut views = vec![view("a", 2), view("b", 4), view("c", 1)];
        views[1].near_end = Some(pcm_proto::node_end::NodeEnd {
            at_us: 0,
            left_ms: 90_500,
            leaves_ms: 60_000,
        });
        let of = |nodes_known: Vec<NodeView>, change: &LayoutChange| {
            let cluster = ClusterView {
                own: &own,
                nodes: nodes_known,
                state: &|_| Some(NodeState::Up),
                placed: &|name| if name.as_str() == "a" { 2 } else { 0 },
            };
            let job = JobView {
                spec: &spec(),
                nodes: &nodes,
                weights: &[],
            };
            plan(change, job, &cluster)
        };
        let seats = |change| format!("{:?}", of(views.clone(), &change).unwrap().seats);
        let grown = seats(LayoutChange::Expand {
            to: 8,
            nodes: Vec::new(),
        });
        assert!(grown.contains("\"c\"") && !grown.contains("\"b\""), "{grown}");
        let left = seats(LayoutChange::Evacuate { node: node("a") });
        assert!(left.contains("\"c\"") && !left.contains("\"b\""), "{left}");
        let refused = of(views.clone(), &LayoutChange::Migrate(vec![(Rank(1), node("b"))])).unwrap_err();
        assert_eq!(refused.code, refusal::NODE_ENDS);
        assert!(refused.message.contains("node b ends in 90 s"), "{refused:?}");
        let named = LayoutChange::Expand {
            to: 3,
            nodes: vec![node("b")],
        };
        let refused = of(views.clone(), &named).unwrap_err();
        assert_eq!(refused.code, refusal::NO_NODES);
        assert!(refused.message.contains("end too soon"), "{refused:?}");
        views.pop();
        let nowhere = of(views, &LayoutChange::Evacuate { node: node("a") }).unwrap_err();
        assert_eq!(nowhere.code, refusal::NO_NODES);
    }

    #[test]
    fn a_job_grows_and_shrinks_within_its_bounds_only() {
        let grow = |to| LayoutChange::Expand { to, nodes: Vec::new() };
        let plan = planned(&grow(4)).unwrap();
        let joining = plan
            .seats
            .iter()
            .filter(|seat| matches!(seat, Seat::Join { node } if node.as_str() == "b"));
        assert_eq!(
            (plan.size(), joining.count()),
            (4, 2),
            "the empty node takes the newcomers"
        );
        let why = "2 ranks on b (4.0 of 4 CPUs free, 0 ranks there), none on a (2.0 of 2 CPUs free, 2 ranks there)";
        assert_eq!(plan.placement.as_deref(), Some(why));
        let shrunk = planned(&LayoutChange::Shrink { to: 1 }).unwrap();
        let why = "1 rank on a (2.0 of 2 CPUs free, 0 ranks there); rank 0 stays where it is";
        assert_eq!(shrunk.placement.as_deref(), Some(why));
        for change in [
            grow(2),
            grow(9),
            LayoutChange::Shrink { to: 0 },
            LayoutChange::Shrink { to: 2 },
        ] {
            assert_eq!(code(&change), refusal::BAD_LAYOUT, "{change:?}");
        }
    }

    #[test]
    fn a_node_that_is_left_keeps_no_rank_and_the_coordinator_becomes_a_witness() {
        let plan = planned(&LayoutChange::Evacuate { node: node("a") }).unwrap();
        let asked = LayoutAsked {
            job: JobId(1),
            change: LayoutChange::Relaunch,
            mode: ModeWanted::Auto,
            cause: "test".to_owned(),
            method: None,
        };
        let request = plan.into_request(&asked, Method::default(), &node("a"), &[node("a"), node("a")]);
        let leaves = |seat: &Seat| matches!(seat, Seat::Move { to, .. } if to.as_str() == "b");
        assert!(request.seats.iter().all(leaves), "{request:?}");
        assert_eq!(request.witnesses, [node("a")]);
    }

    #[test]
    fn a_rank_that_has_not_begun_to_iterate_forbids_a_change() {
        let ranks = || [(Rank(0), ProcessId(5), node("a")), (Rank(1), ProcessId(6), node("b"))].into_iter();
        let begun = |processes: &[u64]| processes.iter().map(|process| ProcessId(*process as _)).collect();
        for (is_young, code) in [(true, refusal::JOB_STARTING), (false, refusal::NOT_SUPPORTED)] {
            assert_eq!(check_begun(JobId(1), is_young, ranks(), &begun(&[5, 6])), Ok(()));
            let refusal = check_begun(JobId(1), is_young, ranks(), &begun(&[5])).unwrap_err();
            assert_eq!(refusal.code, code);
            assert!(refusal.message.contains("rank 1 of job 1 on node b"), "{refusal:?}");
        }
    }

    #[test]
    fn growing_from_two_to_four_puts_each_newcomer_behind_the_rank_it_takes_from() {
        let node = |name: &str| NodeName::new(name).unwrap();
        let seats = expanded(2, 4, vec![node("a"), node("b")]);
        let stay = |rank| Seat::Stay { rank: Rank(rank) };
        let join = |name| Seat::Join { node: node(name) };
        assert_eq!(seats, [stay(0), join("a"), stay(1), join("b")]);
    }

    #[test]
    fn every_size_has_its_seats_and_no_rank_sits_twice() {
        let node = NodeName::new("a").unwrap();
        for size in 1..20_u32 {
            for to in size + 1..30 {
                let seats = expanded(size, to, vec![node.clone(); (to - size) as usize]);
                assert_eq!(seats.len(), to as usize);
                assert_eq!(
                    seats.iter().filter(|seat| matches!(seat, Seat::Stay { .. })).count(),
                    size as usize
                );
            }
            for to in 1..size {
                let mut ranks = staying(&vec!["a"; size as usize], to);
                assert_eq!(ranks.len(), to as usize);
                ranks.dedup();
                assert_eq!(ranks.len(), to as usize);
            }
        }
    }

    /// The ranks that stay of a job on these nodes, of two CPUs each but for `slow`, where others take one and a half.
    fn staying(on: &[&str], to: u32) -> Vec<u32> {
        let nodes: Vec<NodeName> = on.iter().map(|name| node(name)).collect();
        let own = node("a");
        let mut views: Vec<NodeView> = ["a", "b", "c", "slow"].map(|name| view(name, 2)).into();
        views[3].load_by_others = 1.5;
        let cluster = ClusterView {
            own: &own,
            nodes: views,
            state: &|_| Some(NodeState::Up),
            placed: &|name| on.iter().filter(|node| **node == name.as_str()).count() as u32,
        };
        let rank = |seat: Seat| match seat {
            Seat::Stay { rank } => rank.0,
            seat => panic!("{seat:?}"),
        };
        cluster.shrunk(&nodes, to).0.into_iter().map(rank).collect()
    }

    #[test]
    fn ranks_that_stay_are_spread_over_nodes_and_leave_slow_ones() {
        assert_eq!(staying(&["a", "a", "b", "b"], 2), [0, 2]);
        // By data alone ranks 0 and 2 would stay, on one node.
        assert_eq!(staying(&["a", "b", "a", "c", "b"], 2), [0, 3]);
        assert_eq!(staying(&["a", "b", "slow", "b"], 2), [0, 3]);
        assert_eq!(staying(&["slow", "slow"], 1), [0]);
    }

    #[test]
    fn rank_0_stays() {
        assert_eq!(staying(&["slow", "a", "slow", "b"], 2), [0, 3]);
        assert_eq!(staying(&["a", "a", "a", "b"], 1), [0]);
    }

    #[test]
    fn a_program_that_runs_on_cubes_is_not_given_another_number() {
        let mut cubes = spec();
        cubes.registered.counts = RankCounts::of(|count| [1, 8, 27].contains(&count)).unwrap();
        let ask = |change| planned_of(&cubes, &change);
        let refused = ask(LayoutChange::Expand {
            to: 7,
            nodes: Vec::new(),
        })
        .unwrap_err();
        assert!(
            refused
                .message
                .contains("on 7 ranks, but on 1 or 8: it runs on 1, 8, 27"),
            "{refused:?}"
        );
        assert_eq!(
            ask(LayoutChange::Expand {
                to: 8,
                nodes: Vec::new()
            })
            .unwrap()
            .size(),
            8
        );
        assert_eq!(ask(LayoutChange::Shrink { to: 1 }).unwrap().size(), 1);
        // The number that it has was not asked for.
        assert_eq!(
            ask(LayoutChange::Migrate(vec![(Rank(0), node("b"))])).unwrap().size(),
            2
        );
    }

    #[test]
    fn shares_that_fit_already_are_no_reason_for_a_change() {
        let refused = |present: &[u32], found: Vec<u32>| changed_weights(present, found).is_err();
        assert!(refused(&[], vec![1000, 985]));
        assert!(refused(&[3, 1], vec![1000, 330]));
        assert!(!refused(&[], vec![1000, 500]));
        assert!(!refused(&[3, 1], vec![1000, 990]));
        let given = |weights: Vec<u32>| {
            let moves = Vec::new();
            planned_of(&spec(), &LayoutChange::Arrange { moves, weights })
        };
        assert!(given(vec![6, 2]).is_err());
        assert!(given(vec![1, 1]).is_ok());
    }

    #[test]
    fn shares_that_move_no_row_are_no_reason_for_a_change() {
        let (own, nodes) = (node("a"), ["a"; 4].map(node));
        let asked = |extents: &[u64], (change, load): (LayoutChange, f64)| {
            let mut spec = spec();
            spec.registered.shared_extents = extents.to_vec();
            let mut views = vec![view("a", 4), view("b", 4)];
            views[0].load_by_others = load;
            let cluster = ClusterView {
                own: &own,
                nodes: views,
                state: &|_| Some(NodeState::Up),
                placed: &|_| 4,
            };
            let (mut nodes, weights) = (nodes.clone(), &[]);
            nodes[0] = node("b");
            let (spec, nodes) = (&spec, &nodes);
            plan(&change, JobView { spec, nodes, weights }, &cluster)
        };
        let given = |weights: [u32; 4]| {
            let (moves, weights) = (Vec::new(), weights.to_vec());
            (LayoutChange::Arrange { moves, weights }, 0.0)
        };
        // Three ranks share what others leave of four CPUs: 0.83 of one each.
        for few in [given([6, 5, 5, 5]), (LayoutChange::Rebalance, 1.5)] {
            let refused = asked(&[4], few).unwrap_err();
            assert!(refused.message.contains("nothing would move"), "{refused:?}");
        }
        assert!(
            asked(&[4, 40], given([6, 5, 5, 5])).is_ok(),
            "of another array ten rows are a rank's"
        );
        assert!(asked(&[40], (LayoutChange::Rebalance, 1.5)).is_ok());
        assert!(asked(&[4], given([2, 1, 1, 1])).is_ok());
        let equal = given([1; 4]);
        assert!(
            asked(&[EXTENT_MAX], equal.clone()).is_ok(),
            "the program divides it by weights of its own"
        );
        assert!(asked(&[40], equal).is_err());
    }

    #[test]
    fn a_program_without_an_array_that_follows_shares_is_given_none() {
        let mut grid = spec();
        grid.registered.shared_extents.clear();
        let (moves, weights) = (Vec::new(), vec![1, 3]);
        for change in [LayoutChange::Rebalance, LayoutChange::Arrange { moves, weights }] {
            let refused = planned_of(&grid, &change).unwrap_err();
            assert!(refused.message.contains("follows shares"), "{refused:?}");
        }
    }
}
