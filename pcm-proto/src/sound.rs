//! What can be read and makes no sense: indices that lead nowhere, numbers far above any that occur. Who holds the
//! cluster's key, or is a rank, may say such things by a defect or on purpose; it must not cost more than the message.
//! Daemons ask here about each message before acting on it.

use crate::app::AppToDaemon;
use crate::checkpoint::{CheckpointMessage, RankCheckpoint, Stamp};
use crate::ids::Rank;
use crate::image::ImageMessage;
use crate::job::{JobSpec, RANKS_MAX, SPARES_MAX};
use crate::layout::{Layout, Member, Plan};
use crate::parked::{BLOCK_BYTES, BlockRun, IMAGE_BYTES_MAX, RUNS_MAX, RestoreAsk};
use crate::peer::{CoordinatorToNode, DaemonToDaemon, JobMessage, NodeToCoordinator, StartOrder, WorldStart};
use crate::reconfiguration::{LeaseMessage, Order, ReconfigurationMessage};
use crate::registered::Registered;
use crate::spawn::{SpawnedWorld, WorldCommand};

/// Most processes that one order starts: all ranks of a job, and as many spares again.
const PROCESSES_MAX: u32 = 2 * RANKS_MAX;

/// Why a message makes no sense.
pub type Fault = String;

/// What is wrong with a message of another daemon, if anything.
pub fn fault_of_peer(message: &DaemonToDaemon) -> Option<Fault> {
    let DaemonToDaemon::Job { message, .. } = message else {
        return None;
    };
    match message.as_ref() {
        JobMessage::ToNode(CoordinatorToNode::Start(order)) => fault_of_order(order),
        JobMessage::ToNode(CoordinatorToNode::SpawnResult {
            result: Ok(SpawnedWorld { size, .. }),
            ..
        }) => (*size > RANKS_MAX).then(|| format!("{size} processes were spawned")),
        JobMessage::ToNode(CoordinatorToNode::Registered(registered))
        | JobMessage::ToCoordinator(NodeToCoordinator::Registered(registered)) => fault_of_registered(registered),
        JobMessage::ToCoordinator(NodeToCoordinator::Spawn(ask)) => {
            let commands = ask.commands.as_ref().ok()?;
            fault_of_commands(commands)
        }
        JobMessage::Reconfiguration(message) => fault_of_reconfiguration(message),
        JobMessage::Checkpoint(message) => match message.as_ref() {
            CheckpointMessage::Stored { stamp, rank, .. } | CheckpointMessage::Copy { stamp, rank, .. } => {
                fault_of_part(*stamp, *rank)
            }
            _ => None,
        },
        JobMessage::Image {
            message:
                ImageMessage::Block {
                    block,
                    image_bytes,
                    bytes,
                    ..
                },
            ..
        } => fault_of_block(*block, *image_bytes, bytes.len()),
        _ => None,
    }
}

/// What is wrong with a message of a rank, if anything.
pub fn fault_of_rank(message: &AppToDaemon) -> Option<Fault> {
    match message {
        AppToDaemon::Checkpoint(RankCheckpoint::Kept { rank, ranks, bytes, .. }) => {
            fault_of_rank_among(*rank, *ranks).or_else(|| fault_of_length(*bytes))
        }
        AppToDaemon::Parked { bytes, .. } => fault_of_length(*bytes),
        AppToDaemon::Restore(RestoreAsk::Blocks { runs, .. }) => fault_of_runs(runs),
        _ => None,
    }
}

/// What is wrong with an order to start, if anything.
pub fn fault_of_order(order: &StartOrder) -> Option<Fault> {
    let fault = fault_of_spec(&order.spec);
    if fault.is_some() {
        return fault;
    }
    if order.layout.len() > RANKS_MAX as usize {
        return Some(format!("a layout of {} ranks", order.layout.len()));
    }
    let fault = order.worlds.iter().find_map(fault_of_world);
    if fault.is_some() {
        return fault;
    }
    let processes = order.worlds.iter().flat_map(|world| &world.runs);
    let processes = processes.fold(0_u32, |sum, run| sum.saturating_add(run.count));
    if processes > PROCESSES_MAX {
        return Some(format!("{processes} processes"));
    }
    fault_of_stamp(order.restores.as_ref()?.stamp)
}

/// What is wrong with what a job is asked to be, if anything.
pub fn fault_of_spec(spec: &JobSpec) -> Option<Fault> {
    let (size, max, spares) = (spec.size, spec.max, spec.spares);
    let is_sound = size.max(max) <= RANKS_MAX && spares <= SPARES_MAX;
    let of_numbers = (!is_sound).then(|| format!("a job of {size} to {max} ranks with {spares} spares"));
    of_numbers.or_else(|| fault_of_registered(&spec.registered))
}

fn fault_of_registered(registered: &Registered) -> Option<Fault> {
    (!registered.is_sound()).then(|| {
        format!(
            "registered values beyond the limits, of {} bytes",
            registered.values.len()
        )
    })
}

fn fault_of_reconfiguration(message: &ReconfigurationMessage) -> Option<Fault> {
    match message {
        ReconfigurationMessage::Order {
            order: Order::Prepare { plan, .. },
            ..
        } => fault_of_plan(plan),
        ReconfigurationMessage::Lease(LeaseMessage::Promise { standing, .. }) => {
            fault_of_plan(&standing.engaged.as_ref()?.1)
        }
        ReconfigurationMessage::Lease(LeaseMessage::Newer { layout, .. }) => fault_of_layout(layout),
        _ => None,
    }
}

fn fault_of_plan(plan: &Plan) -> Option<Fault> {
    let fault = [&plan.old, &plan.new].into_iter().find_map(fault_of_layout);
    if fault.is_some() {
        return fault;
    }
    let (before, after) = (plan.old.size(), plan.new.size());
    if plan.continues.len() != after {
        return Some(format!("a plan for {after} ranks that names {}", plan.continues.len()));
    }
    let mut continued = plan.continues.iter().flatten();
    let beyond = continued.find(|rank| rank.0 as usize >= before)?;
    Some(format!("a plan that continues rank {beyond} of {before}"))
}

fn fault_of_layout(layout: &Layout) -> Option<Fault> {
    let (ranks, weights) = (layout.size(), layout.weights.len());
    if ranks == 0 || ranks > RANKS_MAX as usize || weights != 0 && weights != ranks {
        return Some(format!("a layout of {ranks} ranks with {weights} weights"));
    }
    let is_last = |member: &&Member| member.process.0 == u32::MAX || member.world.0 == u32::MAX;
    let member = layout.members.iter().find(is_last)?;
    Some(format!(
        "process {} of world {} in a layout",
        member.process, member.world
    ))
}

/// What is wrong with a world that is to be started, if anything.
pub fn fault_of_world(world: &WorldStart) -> Option<Fault> {
    let name = world.world;
    for run in &world.runs {
        if run.node as usize >= world.nodes.len() {
            return Some(format!("world {name} has no node number {}", run.node));
        }
        if run.count > RANKS_MAX || run.first.0.checked_add(run.count).is_none() {
            return Some(format!(
                "world {name} has {} processes from {} on",
                run.count, run.first
            ));
        }
    }
    fault_of_commands(&world.commands)
}

fn fault_of_commands(commands: &[WorldCommand]) -> Option<Fault> {
    let sum = commands
        .iter()
        .fold(0_u32, |sum, command| sum.saturating_add(command.count));
    (sum > PROCESSES_MAX).then(|| format!("{sum} processes are asked for"))
}

fn fault_of_stamp(stamp: Stamp) -> Option<Fault> {
    let is_sound = (1..=RANKS_MAX).contains(&stamp.ranks);
    (!is_sound).then(|| format!("a checkpoint of {} ranks", stamp.ranks))
}

fn fault_of_part(stamp: Stamp, rank: Rank) -> Option<Fault> {
    fault_of_rank_among(rank, stamp.ranks)
}

fn fault_of_rank_among(rank: Rank, ranks: u32) -> Option<Fault> {
    let is_sound = ranks <= RANKS_MAX && rank.0 < ranks;
    (!is_sound).then(|| format!("rank {rank} of {ranks}"))
}

fn fault_of_length(bytes: u64) -> Option<Fault> {
    (bytes > IMAGE_BYTES_MAX).then(|| format!("an image of {bytes} bytes"))
}

fn fault_of_block(block: u64, image_bytes: u64, length: usize) -> Option<Fault> {
    let is_sound = block <= IMAGE_BYTES_MAX / BLOCK_BYTES && length as u64 <= BLOCK_BYTES;
    let of_block = (!is_sound).then(|| format!("block {block} of {length} bytes"));
    of_block.or_else(|| fault_of_length(image_bytes))
}

fn fault_of_runs(runs: &[BlockRun]) -> Option<Fault> {
    if runs.len() > RUNS_MAX {
        return Some(format!("{} runs of blocks", runs.len()));
    }
    let bad = runs.iter().find(|run| run.first.checked_add(run.count).is_none())?;
    Some(format!("{} blocks from {} on", bad.count, bad.first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::PartTally;
    use crate::ids::{Bytes, CheckpointId, Epoch, Iteration, JobId, NodeName, ProcessId, Term, WorldId};
    use crate::layout::{Mode, PlanKind};
    use crate::peer::RankRun;
    use crate::reconfiguration::{Attempt, Reign, Standing};
    use crate::registered::VALUES_BYTES_MAX;

    fn fault_of(message: impl Into<JobMessage>) -> Option<Fault> {
        let message = Box::new(message.into());
        fault_of_peer(&DaemonToDaemon::Job { job: JobId(1), message })
    }

    fn layout(processes: &[u32]) -> Layout {
        let member = |process: &u32| Member {
            process: ProcessId(*process),
            node: NodeName::new("a").unwrap(),
            world: WorldId(0),
        };
        Layout {
            epoch: Epoch(1),
            members: processes.iter().map(member).collect(),
            weights: Vec::new(),
            witnesses: Vec::new(),
        }
    }

    fn plan(old: Layout, new: Layout, continues: &[u32]) -> Plan {
        Plan {
            kind: PlanKind::Expand,
            mode: Mode::Live,
            cause: "test".to_owned(),
            old,
            new,
            continues: continues.iter().map(|rank| Some(Rank(*rank))).collect(),
            method: Default::default(),
        }
    }

    /// The same plan as an order and as what a voter tells.
    fn faults_of_plan(plan: &Plan) -> [Option<Fault>; 2] {
        let attempt = Attempt {
            epoch: Epoch(1),
            term: Term(1),
            number: 1,
        };
        let order = ReconfigurationMessage::Order {
            reign: Reign::default(),
            attempt,
            order: Order::Prepare {
                plan: Box::new(plan.clone()),
                made_by: None,
                standing: None,
            },
        };
        let standing = Standing {
            engaged: Some((attempt, plan.clone(), true)),
            ceiling: None,
            decided: None,
            lost: None,
        };
        let promise = ReconfigurationMessage::Lease(LeaseMessage::Promise {
            reign: Reign::default(),
            standing: Box::new(standing),
        });
        [order, promise].map(|message| fault_of(JobMessage::Reconfiguration(Box::new(message))))
    }

    #[test]
    fn a_plan_whose_parts_do_not_fit_each_other_is_no_plan() {
        let faults = |old: &[u32], new: &[u32], continues: &[u32]| {
            faults_of_plan(&plan(layout(old), layout(new), continues)).map(|fault| fault.is_some())
        };
        assert_eq!(faults(&[0, 1], &[0, 2], &[0, 1]), [false, false]);
        assert_eq!(faults(&[0, 1], &[0, 2], &[0]), [true, true]);
        assert_eq!(faults(&[0, 1], &[0, 2], &[0, 2]), [true, true]);
        assert_eq!(faults(&[0, 1], &[0, u32::MAX], &[0, 1]), [true, true]);
        assert_eq!(faults(&[0, 1], &[], &[]), [true, true]);
        let many: Vec<u32> = (0..=RANKS_MAX).collect();
        assert_eq!(faults(&many, &[0], &[0]), [true, true]);
        let mut weighted = layout(&[0, 2]);
        weighted.weights = vec![1];
        let weighted = plan(layout(&[0, 1]), weighted, &[0, 1]);
        assert!(faults_of_plan(&weighted).iter().all(Option::is_some));
    }

    #[test]
    fn more_ranks_or_longer_values_than_any_job_has_are_refused() {
        let spawned = |size| {
            fault_of(CoordinatorToNode::SpawnResult {
                process: ProcessId(0),
                number: 0,
                result: Ok(SpawnedWorld {
                    world: WorldId(1),
                    size,
                }),
            })
        };
        assert_eq!(spawned(RANKS_MAX), None);
        assert!(spawned(u32::MAX).is_some());
        let registered = |length| Registered {
            values: "x".repeat(length),
            ..Registered::default()
        };
        let said = |length| fault_of(NodeToCoordinator::Registered(registered(length)));
        assert_eq!(said(VALUES_BYTES_MAX), None);
        assert!(said(VALUES_BYTES_MAX + 1).is_some());
        let spec = |max| JobSpec {
            name: "test".to_owned(),
            size: 1,
            min: 1,
            max,
            program: b"a.out".to_vec(),
            cwd: "/".into(),
            ..JobSpec::default()
        };
        assert_eq!(fault_of_spec(&spec(RANKS_MAX)), None);
        assert!(fault_of_spec(&spec(RANKS_MAX + 1)).is_some());
    }

    fn world(runs: Vec<RankRun>) -> WorldStart {
        WorldStart {
            world: WorldId(1),
            nodes: vec![NodeName::new("a").unwrap(), NodeName::new("b").unwrap()],
            runs,
            process_mapping: String::new(),
            commands: Vec::new(),
            preset: Vec::new(),
            spawned: false,
            parent: None,
            spare: false,
        }
    }

    fn run(node: u32, first: u32, count: u32) -> RankRun {
        let first = ProcessId(first);
        RankRun { node, first, count }
    }

    #[test]
    fn a_world_on_a_node_it_does_not_have_or_of_numbers_that_end_is_no_world() {
        let faults = |runs| fault_of_world(&world(runs)).is_some();
        assert!(!faults(vec![run(0, 0, 2), run(1, 2, 1)]));
        assert!(faults(vec![run(2, 0, 1)]));
        assert!(faults(vec![run(0, u32::MAX, 1)]));
        assert!(faults(vec![run(0, 0, u32::MAX)]));
    }

    #[test]
    fn a_checkpoint_of_more_ranks_than_a_job_can_have_is_refused_before_room_is_made_for_them() {
        let stored = |rank, ranks| {
            let stamp = Stamp {
                id: CheckpointId(1),
                epoch: Epoch(0),
                iteration: Iteration(1),
                ranks,
            };
            let message = CheckpointMessage::Stored {
                stamp,
                rank: Rank(rank),
                process: ProcessId(0),
                is_copy: false,
                tally: PartTally {
                    bytes: Bytes(1),
                    checksum: 1,
                },
                held_us: 0,
            };
            let message = Box::new(JobMessage::Checkpoint(Box::new(message)));
            fault_of_peer(&DaemonToDaemon::Job { job: JobId(1), message })
        };
        assert_eq!(stored(3, 4), None);
        assert_eq!(stored(4, 4).as_deref(), Some("rank 4 of 4"));
        assert!(stored(0, u32::MAX).is_some());
    }

    #[test]
    fn a_rank_that_asks_for_blocks_beyond_all_numbers_or_has_a_rank_it_cannot_have_is_refused() {
        let asked = crate::parked::Asked {
            rank: Rank(0),
            number: 0,
        };
        let blocks = |first, count| {
            let runs = vec![BlockRun { first, count }];
            fault_of_rank(&AppToDaemon::Restore(RestoreAsk::Blocks { asked, runs }))
        };
        assert_eq!(blocks(7, 2), None);
        assert!(blocks(2, u64::MAX - 1).is_some());
        let kept = |rank, ranks| {
            fault_of_rank(&AppToDaemon::Checkpoint(RankCheckpoint::Kept {
                buffer: 0,
                id: CheckpointId(1),
                iteration: Iteration(1),
                rank: Rank(rank),
                ranks,
                bytes: 1,
                held_us: 0,
            }))
        };
        assert_eq!(kept(0, 1), None);
        assert!(kept(1, 1).is_some() && kept(0, RANKS_MAX + 1).is_some());
    }
}
