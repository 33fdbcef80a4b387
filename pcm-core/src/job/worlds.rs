//! How a set of placed ranks becomes worlds, and what MPI is told of which ranks of a world share memory.

use super::placement::Share;
use pcm_proto::ids::{NodeName, ProcessId, WorldId};
use pcm_proto::job::WorldShape;
use pcm_proto::layout::{Layout, Member};
use pcm_proto::peer::{RankRun, StartOrder, WorldStart};
use pcm_proto::spawn::WorldCommand;
use std::collections::BTreeMap;

/// Longest value of a PMI key, as we announce it to MPI.
pub const PMI_VALUE_BYTES_MAX: usize = 1024;

/// Most worlds a job may begin with: MPICH 5.0.2 asserts at 100 in one communicator, and a job that changes meets more.
pub const WORLDS_MAX: usize = 64;

/// Worlds for the shares of a placement. Processes are numbered from `first_process` in rank order, worlds from
/// `first_world`.
pub fn worlds(shape: WorldShape, shares: &[Share], first_process: ProcessId, first_world: WorldId) -> Vec<WorldStart> {
    let groups: Vec<Vec<Share>> = match shape {
        WorldShape::Job => vec![shares.to_vec()],
        WorldShape::Node => shares.iter().map(|share| vec![share.clone()]).collect(),
        WorldShape::Rank => shares
            .iter()
            .flat_map(|share| {
                (0..share.count).map(|_| {
                    vec![Share {
                        count: 1,
                        ..share.clone()
                    }]
                })
            })
            .collect(),
    };
    let mut process = first_process.0;
    let mut result = Vec::with_capacity(groups.len());
    for (index, group) in groups.iter().enumerate() {
        let world = WorldId(first_world.0 + index as u32);
        result.push(world_over(world, group, ProcessId(process)));
        process += group.iter().map(|share| share.count).sum::<u32>();
    }
    result
}

/// One world that an application asked for.
pub fn spawned_world(
    world: WorldId,
    shares: &[Share],
    first_process: ProcessId,
    commands: Vec<WorldCommand>,
) -> WorldStart {
    WorldStart {
        commands,
        spawned: true,
        ..world_over(world, shares, first_process)
    }
}

/// A world of one process that is held in `MPI_Init` until a spawn takes it.
pub fn spare_world(world: WorldId, node: NodeName, process: ProcessId, command: WorldCommand) -> WorldStart {
    // Alone in its world, it shares memory with nobody, so the host does not matter.
    let share = Share {
        node,
        host: 0,
        count: 1,
    };
    WorldStart {
        spare: true,
        ..spawned_world(world, &[share], process, vec![command])
    }
}

/// A process of a world whose place is given.
#[derive(Clone, Debug)]
pub struct PlacedMember {
    pub process: ProcessId,
    pub node: NodeName,
    /// The host on which the node stands.
    pub host: u64,
}

/// A world of these members of a layout, in rank order.
pub fn world_placed<'a>(
    world: WorldId,
    members: impl Iterator<Item = &'a Member>,
    host: impl Fn(&NodeName) -> u64,
) -> WorldStart {
    let placed = members.map(|member| PlacedMember {
        process: member.process,
        node: member.node.clone(),
        host: host(&member.node),
    });
    world_of_members(world, &placed.collect::<Vec<_>>())
}

/// A world whose processes are given in rank order.
pub fn world_of_members(world: WorldId, members: &[PlacedMember]) -> WorldStart {
    let mut nodes: Vec<NodeName> = Vec::new();
    let mut runs: Vec<RankRun> = Vec::new();
    let mut shares: Vec<Share> = Vec::new();
    for PlacedMember { process, node, host } in members {
        let known = nodes.iter().position(|known| known == node);
        let index = known.unwrap_or_else(|| {
            nodes.push(node.clone());
            nodes.len() - 1
        });
        match runs.last_mut() {
            Some(run) if run.node as usize == index && run.first.0 + run.count == process.0 => run.count += 1,
            _ => runs.push(RankRun {
                node: index as u32,
                first: *process,
                count: 1,
            }),
        }
        shares.push(Share {
            node: node.clone(),
            host: *host,
            count: 1,
        });
    }
    WorldStart {
        world,
        nodes,
        runs,
        process_mapping: process_mapping(&shares),
        commands: Vec::new(),
        preset: Vec::new(),
        spawned: false,
        parent: None,
        spare: false,
    }
}

fn world_over(world: WorldId, shares: &[Share], first_process: ProcessId) -> WorldStart {
    let mut runs = Vec::with_capacity(shares.len());
    let mut process = first_process.0;
    for (index, share) in shares.iter().enumerate() {
        runs.push(RankRun {
            node: index as u32,
            first: ProcessId(process),
            count: share.count,
        });
        process += share.count;
    }
    WorldStart {
        world,
        nodes: shares.iter().map(|share| share.node.clone()).collect(),
        runs,
        process_mapping: process_mapping(shares),
        commands: Vec::new(),
        preset: Vec::new(),
        spawned: false,
        parent: None,
        spare: false,
    }
}

/// Ranks of a world in order, each with its process and the index of its node.
pub fn ranks_of(world: &WorldStart) -> impl Iterator<Item = (ProcessId, u32)> + '_ {
    world
        .runs
        .iter()
        .flat_map(|run| (0..run.count).map(|offset| (ProcessId(run.first.0 + offset), run.node)))
}

/// How many ranks a world has.
pub fn size_of(world: &WorldStart) -> u32 {
    world.runs.iter().map(|run| run.count).sum()
}

/// The value of PMI's key `PMI_process_mapping`: blocks (first host, hosts, ranks on each) in rank order. Hosts, not
/// nodes: ranks of several nodes on one machine use shared memory. Empty when it would be longer than a PMI value may
/// be; MPI then takes every rank for alone on its host, which is slow and right.
fn process_mapping(shares: &[Share]) -> String {
    let mut numbers: Vec<u64> = Vec::new();
    let mut stretches: Vec<(usize, u32)> = Vec::new();
    for share in shares {
        let known = numbers.iter().position(|host| *host == share.host);
        let number = known.unwrap_or_else(|| {
            numbers.push(share.host);
            numbers.len() - 1
        });
        match stretches.last_mut() {
            Some((last, count)) if *last == number => *count += share.count,
            _ => stretches.push((number, share.count)),
        }
    }
    let mut blocks: Vec<(usize, usize, u32)> = Vec::new();
    for (number, count) in stretches {
        match blocks.last_mut() {
            Some((first, hosts, each)) if *each == count && *first + *hosts == number => *hosts += 1,
            _ => blocks.push((number, 1, count)),
        }
    }
    let blocks: Vec<String> = blocks
        .iter()
        .map(|(first, hosts, each)| format!("({first},{hosts},{each})"))
        .collect();
    let mapping = format!("(vector,{})", blocks.join(","));
    if mapping.len() < PMI_VALUE_BYTES_MAX {
        mapping
    } else {
        String::new()
    }
}

/// The layout a job starts with. Its coordinator takes part, with ranks or without.
pub fn first_layout(order: &StartOrder) -> Layout {
    let mut places: BTreeMap<ProcessId, (NodeName, WorldId)> = BTreeMap::new();
    for world in &order.worlds {
        for (process, node) in ranks_of(world) {
            places.insert(process, (world.nodes[node as usize].clone(), world.world));
        }
    }
    let members = order.layout.iter().filter_map(|(process, _)| {
        let (node, world) = places.get(process)?.clone();
        Some(Member {
            process: *process,
            node,
            world,
        })
    });
    let members: Vec<Member> = members.collect();
    let has_coordinator = members.iter().any(|member| member.node == order.coordinator);
    let witnesses = if has_coordinator {
        Vec::new()
    } else {
        vec![order.coordinator.clone()]
    };
    Layout {
        epoch: order.epoch,
        members,
        weights: Vec::new(),
        witnesses,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(node: &str, host: u64, count: u32) -> Share {
        Share {
            node: NodeName::new(node).unwrap(),
            host,
            count,
        }
    }

    #[test]
    fn nodes_of_one_host_are_one_block_of_the_mapping() {
        let shares = [
            share("a", 7, 1),
            share("b", 7, 2),
            share("c", 9, 3),
            share("d", 8, 3),
            share("e", 7, 1),
        ];
        assert_eq!(process_mapping(&shares), "(vector,(0,3,3),(0,1,1))");
        assert_eq!(process_mapping(&shares[..2]), "(vector,(0,1,3))");
    }

    #[test]
    fn a_world_of_given_members_keeps_their_order() {
        let node = |name: &str| NodeName::new(name).unwrap();
        let members = [(7, "b", 1), (8, "b", 1), (3, "a", 2), (9, "b", 1)];
        let members = members.map(|(process, name, host)| PlacedMember {
            process: ProcessId(process),
            node: node(name),
            host,
        });
        let world = world_of_members(WorldId(4), &members);
        let ranks: Vec<(u32, u32)> = ranks_of(&world).map(|(process, node)| (process.0, node)).collect();
        assert_eq!(ranks, [(7, 0), (8, 0), (3, 1), (9, 0)]);
        assert_eq!(world.process_mapping, "(vector,(0,1,2),(1,1,1),(0,1,1))");
    }

    #[test]
    fn a_mapping_too_long_for_pmi_is_left_out() {
        let shares: Vec<Share> = (0..400)
            .map(|i| share(&format!("n{i}"), i % 50, 1 + (i % 3) as u32))
            .collect();
        assert_eq!(process_mapping(&shares), "");
    }

    #[test]
    fn every_shape_numbers_the_processes_in_rank_order() {
        let shares = [share("a", 1, 2), share("b", 1, 1)];
        for (shape, sizes) in [
            (WorldShape::Job, vec![3]),
            (WorldShape::Node, vec![2, 1]),
            (WorldShape::Rank, vec![1, 1, 1]),
        ] {
            let made = worlds(shape, &shares, ProcessId(5), WorldId(2));
            assert_eq!(made.iter().map(size_of).collect::<Vec<_>>(), sizes);
            let processes: Vec<u32> = made.iter().flat_map(|w| ranks_of(w).map(|(p, _)| p.0)).collect();
            assert_eq!(processes, [5, 6, 7]);
            assert!(made.iter().zip(2..).all(|(world, id)| world.world == WorldId(id)));
        }
    }
}
