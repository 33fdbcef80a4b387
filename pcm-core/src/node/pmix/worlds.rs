//! Worlds of a job as PMIx sees them, and what their ranks need in their environment.

use super::effect::HelperId;
use super::folder;
use crate::job::local_world::LocalWorld;
use crate::job::participant::Participant;
use crate::job::worlds::ranks_of;
use crate::node::settings::Settings;
use pcm_proto::app::environment as names;
use pcm_proto::fnv::fnv1a_32;
use pcm_proto::ids::{NodeName, ProcessId, WorldId};
use pcm_proto::job::JobSpec;
use pcm_proto::pmix::{Namespace, Place, Process, Program, Serve};
use pcm_proto::spawn::WorldCommand;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Variables that are others on each node: a child gets those of its own node, not of its parent's.
pub(super) const OF_NODE: [&str; 2] = ["OMPI_MCA_btl_sm_backing_directory", "OMPI_MCA_btl_tcp_if_include"];

/// Variables of an environment.
pub(super) type Variables = Vec<(Vec<u8>, Vec<u8>)>;

fn value<'a>(spec: &'a JobSpec, name: &str) -> Option<&'a [u8]> {
    let entry = spec.env.iter().find(|(known, _)| known == name.as_bytes());
    entry.map(|(_, value)| value.as_slice())
}

/// What a helper begins with.
pub(super) fn serve(part: &Participant, helper: HelperId, settings: &Settings) -> Serve {
    let own = &settings.own;
    Serve {
        library: value(part.spec(), names::PMIX_LIBRARY).unwrap_or_default().to_vec(),
        node: own.clone(),
        host: own.as_str().to_owned(),
        folder: folder::of_helper(&settings.spec.cluster_id, own, helper).into_bytes(),
        // It has a part in each of its jobs, with ranks or without.
        directory: part.coordinator().clone(),
        first_context: u64::from(fnv1a_32(own.as_str().bytes())) << 32,
    }
}

/// A world with processes here.
#[derive(Debug)]
pub(super) struct ServedWorld {
    pub(super) namespace: String,
    /// Its processes here by their ranks in it.
    pub(super) processes: BTreeMap<u32, ProcessId>,
    /// What each needs, once the helper knows the world.
    pub(super) environments: Option<BTreeMap<u32, Variables>>,
    /// What the process that asked for the world wants its processes to find.
    of_parent: Variables,
}

impl ServedWorld {
    pub(super) fn new(
        part: &Participant,
        world: WorldId,
        local: &LocalWorld,
        (helper, settings): (HelperId, &Settings),
    ) -> (Self, Namespace) {
        let namespace = namespace_of(world, helper, settings);
        let of_parent = local.start().preset.iter();
        let of_parent = of_parent.map(|(name, value)| (name.clone().into(), value.clone().into()));
        let here = part.processes().iter().filter(|(_, process)| process.world == world);
        let served = Self {
            namespace: namespace.clone(),
            processes: here.map(|(process, local)| (local.world_rank, *process)).collect(),
            environments: None,
            of_parent: of_parent.collect(),
        };
        let parent = local.start().parent.map(|parent| {
            let of_parent = namespace_of(parent.world, helper, settings);
            Process::new(of_parent, parent.rank)
        });
        let max = part.spec().max;
        (
            served,
            Namespace {
                parent,
                ..named(namespace, local, max)
            },
        )
    }

    /// All that one of its processes gets beside what every rank of its job gets.
    pub(super) fn variables(&self, rank: u32, settings: &Settings, helper: HelperId) -> Option<Variables> {
        let mut all = self.environments.as_ref()?.get(&rank)?.clone();
        all.extend(self.of_parent.iter().cloned());
        let mut put = |name: &str, value: &str| all.push((name.into(), value.into()));
        let folder = folder::of_helper(&settings.spec.cluster_id, &settings.own, helper);
        let [in_memory, interfaces] = OF_NODE;
        put(in_memory, &folder);
        if is_loopback(&settings.address) {
            // Open MPI leaves it out by itself.
            put(interfaces, "127.0.0.0/8");
        }
        Some(all)
    }
}

/// The name of a world.
pub(super) fn namespace_of(world: WorldId, HelperId { job, life }: HelperId, settings: &Settings) -> String {
    format!("pcm-{}-{job}-{life}-{world}", settings.spec.cluster_id)
}

fn named(name: String, world: &LocalWorld, max: u32) -> Namespace {
    let start = world.start();
    let mut ranks: Vec<Vec<u32>> = vec![Vec::new(); start.nodes.len()];
    for (rank, (_, node)) in (0..).zip(ranks_of(start)) {
        if let Some(of_node) = ranks.get_mut(node as usize) {
            of_node.push(rank);
        }
    }
    let place = |(node, ranks): (&NodeName, Vec<u32>)| Place {
        node: node.clone(),
        host: node.as_str().to_owned(),
        ranks,
    };
    Namespace {
        name,
        places: start.nodes.iter().zip(ranks).map(place).collect(),
        universe: max.max(world.size()),
        parent: None,
        programs: start.commands.iter().map(program).collect(),
    }
}

fn program(command: &WorldCommand) -> Program {
    Program {
        number: command.number,
        processes: command.count,
    }
}

fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_this_machine_alone_is_known() {
        for (address, is) in [
            ("127.0.0.1:4000", true),
            ("127.0.1.7:1", true),
            ("[::1]:4000", true),
            ("localhost:4000", true),
            ("10.0.0.1:4000", false),
            ("node7:4000", false),
        ] {
            assert_eq!(is_loopback(address), is, "{address}");
        }
    }
}
