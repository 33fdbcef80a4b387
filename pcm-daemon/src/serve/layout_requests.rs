//! From what a person asks for to the seats of a layout: which ranks stay, which move where, which join. Who leaves and
//! where newcomers sit in the rank order is chosen so that block-partitioned data moves as little as it can.

use super::daemon::Daemon;
use pcm_core::job::placement::{self, Share};
use pcm_core::node::requester::Requester;
use pcm_core::reconfiguration::effects::Input;
use pcm_core::reconfiguration::refusal::Refused;
use pcm_proto::control::{DaemonToControl, LayoutChange, Refusal};
use pcm_proto::ids::{JobId, NodeName, Rank};
use pcm_proto::job::RankStatus;
use pcm_proto::layout::{ModeWanted, PlanKind, PlanRequest, Seat};
use pcm_proto::method::Method;
use pcm_proto::refusal;

/// Shares are whole numbers of about this size, so that a per cent of speed counts.
const WEIGHT_SCALE: f64 = 1000.0;

/// What a request comes to.
struct Wanted {
    kind: PlanKind,
    seats: Vec<Seat>,
    weights: Vec<u32>,
}

/// A layout somebody asks for.
#[derive(Clone, Debug)]
pub(super) struct LayoutAsked {
    pub(super) job: JobId,
    pub(super) change: LayoutChange,
    pub(super) mode: ModeWanted,
    pub(super) cause: String,
    /// Instead of the job's.
    pub(super) method: Option<Method>,
}

impl Daemon {
    /// A layout is asked for; the answer comes when it is there or was given up.
    pub(super) fn on_reconfigure(&mut self, from: Requester, asked: LayoutAsked) {
        let job = asked.job;
        let Some(coordinated) = self.jobs.get(&job) else {
            return self.refuse_unknown_job(from, job);
        };
        if !coordinated.state.is_running() {
            let message = format!("job {job} is starting or ending: ask again when `pcmctl jobs` shows it running");
            return self.answer(
                from,
                DaemonToControl::Refused(Refusal::new(refusal::RECONFIGURING, message)),
            );
        }
        self.gather_steps(from, asked);
    }

    /// Every rank's page was looked at. A program that counts no iterations cannot stop at one, and a second instance
    /// of it would not know that it is a newcomer.
    pub(super) fn on_steps_known(&mut self, from: Requester, asked: &LayoutAsked, seen: &[RankStatus]) {
        let job = asked.job;
        let Some(coordinated) = self.jobs.get(&job) else {
            return self.refuse_unknown_job(from, job);
        };
        let iterates = |process| seen.iter().any(|row| row.process == process && row.iteration.0 > 0);
        let idle = coordinated
            .state
            .rank_rows()
            .find(|(_, process, ..)| !iterates(*process));
        if let Some((rank, _, node, _)) = idle {
            let message = format!(
                "rank {rank} of job {job} on node {node} has not called pcm_iterate: the program is not made malleable (see docs/guide.md), or it has not begun its loop"
            );
            return self.answer(
                from,
                DaemonToControl::Refused(Refusal::new(refusal::NOT_SUPPORTED, message)),
            );
        }
        let nodes = coordinated.state.rank_nodes();
        let wanted = match self.wanted(job, &asked.change, &nodes) {
            Ok(wanted) => wanted,
            Err(refusal) => return self.answer(from, DaemonToControl::Refused(refusal)),
        };
        let Some(chosen) = self.method_for(asked, wanted.seats.len() as u32, seen) else {
            return self.refuse_unknown_job(from, job);
        };
        let Some(coordinated) = self.jobs.get(&job) else { return };
        let has_own = wanted.seats.iter().any(|seat| node_of(seat, &nodes) == Some(&self.own));
        let request = PlanRequest {
            kind: wanted.kind,
            cause: asked.cause.clone(),
            mode: asked.mode,
            seats: wanted.seats,
            weights: wanted.weights,
            witnesses: if has_own { Vec::new() } else { vec![self.own.clone()] },
            method: chosen.choice.method,
        };
        let input = Input::Request {
            request,
            next_process: coordinated.state.process_next(),
            next_world: coordinated.state.world_next(),
            worlds_met: coordinated.state.worlds_met(),
        };
        self.ask_reform(from, job, input);
    }

    fn wanted(&self, job: JobId, change: &LayoutChange, nodes: &[NodeName]) -> Result<Wanted, Refusal> {
        let size = nodes.len() as u32;
        let bounds = self
            .jobs
            .get(&job)
            .map(|job| (job.state.spec().min, job.state.spec().max))
            .unwrap_or((1, 1));
        let plain = |kind, seats| {
            Ok(Wanted {
                kind,
                seats,
                weights: Vec::new(),
            })
        };
        match change {
            // Ranks take their shares along.
            LayoutChange::Migrate(moves) => Ok(Wanted {
                kind: PlanKind::Migrate,
                seats: self.moved(nodes, moves)?,
                weights: self.present_weights(job),
            }),
            LayoutChange::Expand { to, nodes: allowed } => {
                if *to <= size || *to > bounds.1 {
                    return Err(bad_size(*to, size + 1, bounds.1));
                }
                let joining = self.place_newcomers(job, allowed, *to - size)?;
                plain(PlanKind::Expand, expanded(size, *to, joining))
            }
            LayoutChange::Shrink { to } => {
                if *to >= size || *to < bounds.0.max(1) {
                    return Err(bad_size(*to, bounds.0.max(1), size.saturating_sub(1)));
                }
                plain(PlanKind::Shrink, shrunk(size, *to))
            }
            LayoutChange::Leave(ranks) => {
                let seats = without(size, ranks)?;
                let to = seats.len() as u32;
                if to >= size || to < bounds.0.max(1) {
                    return Err(bad_size(to, bounds.0.max(1), size.saturating_sub(1)));
                }
                plain(PlanKind::Shrink, seats)
            }
            LayoutChange::Rebalance => Ok(Wanted {
                kind: PlanKind::Rebalance,
                seats: stay(size),
                weights: self.weights(nodes),
            }),
            LayoutChange::Arrange { moves, weights } => {
                if weights.len() != nodes.len() || weights.contains(&0) {
                    let message = format!(
                        "{} shares were given for {size} ranks, each must be above 0",
                        weights.len()
                    );
                    return Err(Refusal::new(refusal::BAD_LAYOUT, message));
                }
                let kind = if moves.is_empty() {
                    PlanKind::Rebalance
                } else {
                    PlanKind::Migrate
                };
                let (seats, weights) = (self.moved(nodes, moves)?, weights.clone());
                Ok(Wanted { kind, seats, weights })
            }
            LayoutChange::Evacuate { node } => {
                let moving: Vec<u32> = (0..size).filter(|rank| nodes[*rank as usize] == *node).collect();
                let targets = self.place_elsewhere(job, node, moving.len() as u32)?;
                let mut seats = stay(size);
                for (rank, to) in moving.into_iter().zip(targets) {
                    seats[rank as usize] = Seat::Move { rank: Rank(rank), to };
                }
                plain(PlanKind::Migrate, seats)
            }
            LayoutChange::Relaunch => plain(PlanKind::Relaunch, stay(size)),
        }
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

    fn present_weights(&self, job: JobId) -> Vec<u32> {
        let layout = self.parts.get(&job).and_then(|part| part.reforming.layout());
        layout.map(|layout| layout.weights.clone()).unwrap_or_default()
    }

    fn check_target(&self, node: &NodeName) -> Result<(), Refusal> {
        match self.nodes.state(node) {
            None => {
                let message = format!("node {node} is not part of the cluster: `pcmctl nodes` lists those that are");
                Err(Refusal::new(refusal::UNKNOWN_NODE, message))
            }
            Some(pcm_proto::control::NodeState::Up) => Ok(()),
            Some(state) => {
                let message = format!("node {node} takes no ranks now ({state:?}): see `pcmctl nodes`");
                Err(Refusal::new(refusal::BAD_LAYOUT, message))
            }
        }
    }

    fn place_newcomers(&self, job: JobId, allowed: &[NodeName], count: u32) -> Result<Vec<NodeName>, Refusal> {
        let of_job = self
            .jobs
            .get(&job)
            .map(|job| job.state.spec().nodes.clone())
            .unwrap_or_default();
        let allowed = if allowed.is_empty() { of_job } else { allowed.to_vec() };
        Ok(one_by_one(&self.place(&allowed, count)?))
    }

    fn place_elsewhere(&self, job: JobId, node: &NodeName, count: u32) -> Result<Vec<NodeName>, Refusal> {
        let of_job = self
            .jobs
            .get(&job)
            .map(|job| job.state.spec().nodes.clone())
            .unwrap_or_default();
        let mut views = self.nodes.views();
        views.retain(|view| view.name != *node);
        let allowed: Vec<NodeName> = of_job.into_iter().filter(|allowed| allowed != node).collect();
        let shares = placement::place(&views, &allowed, count);
        let shares = shares.map_err(|error| Refusal::new(refusal::NO_NODES, error.to_string()))?;
        Ok(one_by_one(&shares))
    }

    /// Shares by what each rank gets of its node.
    fn weights(&self, nodes: &[NodeName]) -> Vec<u32> {
        let views = self.nodes.views();
        let speeds = nodes.iter().map(|node| {
            let mates = nodes.iter().filter(|other| *other == node).count() as f64;
            let view = views.iter().find(|view| view.name == *node);
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

    pub(super) fn refuse_layout(&mut self, from: Requester, refused: &Refused) {
        self.answer(
            from,
            DaemonToControl::Refused(Refusal::new(refused.code(), refused.to_string())),
        );
    }
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

/// Of `size` ranks those stay whose block begins where one of `to` blocks begins, as nearly as can be.
fn shrunk(size: u32, to: u32) -> Vec<Seat> {
    let kept = |seat: u32| (u64::from(seat) * u64::from(size) / u64::from(to)) as u32;
    (0..to).map(|seat| Seat::Stay { rank: Rank(kept(seat)) }).collect()
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

fn bad_size(to: u32, least: u32, most: u32) -> Refusal {
    let message = if least > most {
        format!("{to} ranks are asked for, but the job can go no further that way")
    } else {
        format!("{to} ranks are asked for, {least} to {most} are possible")
    };
    Refusal::new(refusal::BAD_LAYOUT, message)
}

#[cfg(test)]
mod tests {
    use super::*;

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
                let mut ranks: Vec<Seat> = shrunk(size, to);
                assert_eq!(ranks.len(), to as usize);
                ranks.dedup();
                assert_eq!(ranks.len(), to as usize);
            }
        }
    }
}
