//! What can be read and makes no sense: indices that lead nowhere, numbers far above any that occur. Who holds the
//! cluster's key, or is a rank, may say such things by a defect or on purpose; it must not cost more than the message.
//! Daemons ask here about each message before acting on it.

use crate::app::AppToDaemon;
use crate::checkpoint::{CheckpointMessage, RankCheckpoint, Stamp};
use crate::ids::Rank;
use crate::image::ImageMessage;
use crate::job::RANKS_MAX;
use crate::parked::{BLOCK_BYTES, BlockRun, IMAGE_BYTES_MAX, RUNS_MAX, RestoreAsk};
use crate::peer::{
    CoordinatorToNode, DaemonToDaemon, JobMessage, NodeToCoordinator, StartOrder, WorldCommand, WorldStart,
};

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
        JobMessage::ToCoordinator(NodeToCoordinator::Spawn(ask)) => {
            let commands = ask.commands.as_ref().ok()?;
            fault_of_commands(commands)
        }
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

fn fault_of_order(order: &StartOrder) -> Option<Fault> {
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
    use crate::ids::{Bytes, CheckpointId, Epoch, Iteration, JobId, NodeName, ProcessId, WorldId};
    use crate::peer::RankRun;

    fn world(runs: Vec<RankRun>) -> WorldStart {
        WorldStart {
            world: WorldId(1),
            nodes: vec![NodeName::new("a").unwrap(), NodeName::new("b").unwrap()],
            runs,
            process_mapping: String::new(),
            commands: Vec::new(),
            preset: Vec::new(),
            spawned: false,
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
