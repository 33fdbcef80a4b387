//! From what somebody asks for to a plan that names every process: checks the request, numbers the newcomers, chooses
//! between live and relaunch.

use super::limits::Limits;
use super::refusal::PlanError;
use pcm_proto::ids::{Epoch, NodeName, ProcessId, Rank, WorldId};
use pcm_proto::job::RANKS_MAX;
use pcm_proto::layout::{Layout, Member, Mode, ModeWanted, Plan, PlanKind, PlanRequest, Seat};
use pcm_proto::reconfiguration::{MeetOrder, MeetingWorld, WorldPort};

/// What a plan is made against.
pub(super) struct Ground<'a> {
    pub(super) old: &'a Layout,
    pub(super) me: &'a NodeName,
    pub(super) limits: &'a Limits,
    pub(super) worlds_met: u32,
    pub(super) is_gone: &'a dyn Fn(&NodeName) -> bool,
}

/// The lowest numbers of processes and worlds that were never used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fresh {
    pub(super) process: ProcessId,
    pub(super) world: WorldId,
}

/// Makes the plan, and the numbers that are unused after it.
pub(super) fn plan(request: &PlanRequest, ground: &Ground<'_>, fresh: Fresh) -> Result<(Plan, Fresh), PlanError> {
    check(request, ground)?;
    let old = ground.old;
    let is_same = request.seats.len() == old.size()
        && request
            .seats
            .iter()
            .zip(0..)
            .all(|(seat, i)| *seat == Seat::Stay { rank: Rank(i) })
        && request.weights == old.weights;
    if is_same && request.mode != ModeWanted::Relaunch {
        return Err(PlanError::NothingToDo);
    }
    let mode = mode(request, ground)?;
    let mut fresh = fresh;
    let members = match mode {
        Mode::Live => members_live(request, old, &mut fresh)?,
        Mode::Relaunch => members_relaunch(request, old, &mut fresh)?,
    };
    Ok((finish(request, ground, mode, members), fresh))
}

/// Where a relaunch that follows a failed live reconfiguration goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RelaunchTo {
    /// The layout that was planned.
    Planned,
    /// The places of the old layout, because a node of the planned one is gone.
    OldPlaces,
}

/// The same reconfiguration as a relaunch.
pub(super) fn relaunch_of(plan: &Plan, to: RelaunchTo, fresh: Fresh) -> Result<(Plan, Fresh), PlanError> {
    let mut next = fresh;
    let world = take_world(&mut next)?;
    let mut relaunch = plan.clone();
    relaunch.mode = Mode::Relaunch;
    if to == RelaunchTo::OldPlaces {
        relaunch.kind = PlanKind::Relaunch;
        relaunch.continues = (0..).map(|i| Some(Rank(i))).take(plan.old.size()).collect();
        relaunch.new.members.clone_from(&plan.old.members);
        relaunch.new.weights.clone_from(&plan.old.weights);
        relaunch.new.witnesses.clone_from(&plan.old.witnesses);
    }
    for member in &mut relaunch.new.members {
        member.process = take_process(&mut next)?;
        member.world = world;
    }
    Ok((relaunch, next))
}

fn check(request: &PlanRequest, ground: &Ground<'_>) -> Result<(), PlanError> {
    let (size, ranks) = (ground.old.size(), request.seats.len());
    if ranks == 0 {
        return Err(PlanError::NoRanks);
    }
    if ranks > RANKS_MAX as usize {
        return Err(PlanError::TooManyRanks { ranks });
    }
    if !request.weights.is_empty() && request.weights.len() != ranks {
        let weights = request.weights.len();
        return Err(PlanError::Weights { weights, ranks });
    }
    if let Some(zero) = request.weights.iter().position(|w| *w == 0) {
        return Err(PlanError::ZeroWeight {
            rank: Rank(zero as u32),
        });
    }
    let mut is_named = vec![false; size];
    for seat in &request.seats {
        if let Seat::Stay { rank } | Seat::Move { rank, .. } = seat {
            let named = is_named.get_mut(rank.0 as usize);
            let named = named.ok_or(PlanError::UnknownRank { rank: *rank, size })?;
            if std::mem::replace(named, true) {
                return Err(PlanError::RankTwice { rank: *rank });
            }
        }
    }
    let wanted = request.seats.iter().filter_map(|seat| match seat {
        Seat::Stay { .. } => None,
        Seat::Move { to: node, .. } | Seat::Join { node } => Some(node),
    });
    let everywhere = ground.old.nodes();
    let mut nodes = wanted.chain(&everywhere).chain(&request.witnesses);
    match nodes.find(|node| (ground.is_gone)(node)) {
        Some(node) => Err(PlanError::NodeGone { node: node.clone() }),
        None => Ok(()),
    }
}

fn mode(request: &PlanRequest, ground: &Ground<'_>) -> Result<Mode, PlanError> {
    let is_newcomer = |seat: &Seat| !matches!(seat, Seat::Stay { .. });
    let joining = u32::from(request.method.starts_all() || request.seats.iter().any(is_newcomer));
    let in_communicator = ground.old.worlds().len() as u32 + joining;
    let met = ground.worlds_met.saturating_add(joining).max(in_communicator);
    let limits = ground.limits;
    let fits = in_communicator <= limits.worlds_in_communicator_max && met <= limits.worlds_met_max;
    match request.mode {
        ModeWanted::Relaunch => Ok(Mode::Relaunch),
        ModeWanted::Auto if request.kind == PlanKind::Relaunch => Ok(Mode::Relaunch),
        _ if fits || joining == 0 => Ok(Mode::Live),
        ModeWanted::Auto => Ok(Mode::Relaunch),
        ModeWanted::Live => Err(PlanError::Worlds { in_communicator, met }),
    }
}

fn node_of<'a>(seat: &'a Seat, old: &'a Layout) -> &'a NodeName {
    match seat {
        Seat::Stay { rank } => &old.members[rank.0 as usize].node,
        Seat::Move { to: node, .. } | Seat::Join { node } => node,
    }
}

fn take_process(fresh: &mut Fresh) -> Result<ProcessId, PlanError> {
    let process = fresh.process;
    fresh.process = ProcessId(process.0.checked_add(1).ok_or(PlanError::NumbersExhausted)?);
    Ok(process)
}

fn take_world(fresh: &mut Fresh) -> Result<WorldId, PlanError> {
    let world = fresh.world;
    fresh.world = WorldId(world.0.checked_add(1).ok_or(PlanError::NumbersExhausted)?);
    Ok(world)
}

/// All newcomers form one world, over however many nodes: they are joined in one step. A method that starts all
/// processes anew makes newcomers of the ranks that stay, too.
fn members_live(request: &PlanRequest, old: &Layout, fresh: &mut Fresh) -> Result<Vec<Member>, PlanError> {
    let mut world = None;
    let mut members = Vec::with_capacity(request.seats.len());
    for seat in &request.seats {
        members.push(match seat {
            Seat::Stay { rank } if !request.method.starts_all() => old.members[rank.0 as usize].clone(),
            Seat::Stay { .. } | Seat::Move { .. } | Seat::Join { .. } => {
                let world = match world {
                    Some(world) => world,
                    None => *world.insert(take_world(fresh)?),
                };
                Member {
                    process: take_process(fresh)?,
                    node: node_of(seat, old).clone(),
                    world,
                }
            }
        });
    }
    Ok(members)
}

fn members_relaunch(request: &PlanRequest, old: &Layout, fresh: &mut Fresh) -> Result<Vec<Member>, PlanError> {
    let world = take_world(fresh)?;
    let mut members = Vec::with_capacity(request.seats.len());
    for seat in &request.seats {
        let process = take_process(fresh)?;
        members.push(Member {
            process,
            node: node_of(seat, old).clone(),
            world,
        });
    }
    Ok(members)
}

fn finish(request: &PlanRequest, ground: &Ground<'_>, mode: Mode, members: Vec<Member>) -> Plan {
    let continues = request.seats.iter().map(|seat| match seat {
        Seat::Stay { rank } | Seat::Move { rank, .. } => Some(*rank),
        Seat::Join { .. } => None,
    });
    let new = Layout {
        epoch: Epoch(ground.old.epoch.0 + 1),
        members,
        weights: request.weights.clone(),
        witnesses: request.witnesses.clone(),
    };
    let mut plan = Plan {
        kind: request.kind,
        mode,
        cause: request.cause.clone(),
        old: ground.old.clone(),
        new,
        continues: continues.collect(),
        method: request.method,
    };
    // A successor can only be sure that nothing was decided when it has heard the one who decides.
    if !plan.participants().contains(ground.me) {
        plan.new.witnesses.push(ground.me.clone());
    }
    plan
}

/// The call to the meeting, the same for every process of the plan.
pub fn meet_order(plan: &Plan, ports: &[WorldPort]) -> MeetOrder {
    let port_of = |world: WorldId| {
        let found = ports.iter().find(|p| p.world == world);
        found.map(|p| p.port.clone()).unwrap_or_default()
    };
    let old_size = plan.old.size() as u32;
    let mut worlds: Vec<MeetingWorld> = Vec::new();
    for newcomer in plan.newcomers() {
        match worlds.iter_mut().find(|w| w.world == newcomer.world) {
            Some(world) => world.size += 1,
            None => worlds.push(MeetingWorld {
                world: newcomer.world,
                size: 1,
                port: port_of(newcomer.world),
            }),
        }
    }
    let mut next: Vec<u32> = worlds
        .iter()
        .scan(old_size, |offset, world| {
            let first = *offset;
            *offset += world.size;
            Some(first)
        })
        .collect();
    let order = plan
        .new
        .members
        .iter()
        .map(|member| match plan.old.rank_of(member.process) {
            Some(rank) => rank.0,
            None => {
                let world = worlds.iter().position(|w| w.world == member.world);
                let place = &mut next[world.expect("every newcomer's world was listed above")];
                *place += 1;
                *place - 1
            }
        });
    let order = order.collect();
    let root = plan.old.members.first().map(|m| m.world);
    MeetOrder {
        old_size,
        port: root.map(port_of).unwrap_or_default(),
        worlds,
        order,
        continues: plan.continues.clone(),
        weights: plan.new.weights.clone(),
        method: plan.method,
    }
}
