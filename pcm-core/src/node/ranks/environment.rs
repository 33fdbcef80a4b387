//! The environment a rank starts with: what the user had, the MPI settings, and where the rank belongs. The numbers of
//! its descriptors come from the keeper, which chooses them.

use crate::mpi_settings::Setting;
use pcm_proto::app::environment as names;
use pcm_proto::ids::{NodeName, WorldId};
use pcm_proto::keeper::ProcessKey;
use std::collections::BTreeMap;
use std::path::Path;

/// Names the cluster in the environment of its ranks and of whatever these start: what bears it can be swept.
pub const CLUSTER_ID: &str = pcm_proto::app::environment::CLUSTER;
/// The cluster's directory, where `pcmctl` looks for it.
pub const CLUSTER: &str = "PCM_CLUSTER";

/// Where a rank belongs.
#[derive(Clone, Copy, Debug)]
pub struct Belonging<'a> {
    /// The cluster's id.
    pub cluster_id: &'a str,
    /// The cluster's directory.
    pub cluster_dir: &'a Path,
    pub node: &'a NodeName,
    pub site: &'a str,
    /// The number of the node's host.
    pub host: u64,
    pub key: ProcessKey,
    /// The world it starts in.
    pub world: WorldId,
    /// Its rank there.
    pub world_rank: u32,
    /// The world's size.
    pub world_size: u32,
    /// Whether the application itself started the world with `MPI_Comm_spawn`.
    pub is_spawned: bool,
    /// How many worlds begin the job together with its own.
    pub worlds: u32,
}

/// The whole environment. What the user's environment says about another job or another process manager is dropped:
/// `pcmctl run` may be called inside a job. `extra` comes last and wins.
pub fn environment(
    user: &[(Vec<u8>, Vec<u8>)],
    settings: &[Setting],
    belonging: &Belonging<'_>,
    extra: &[(String, String)],
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all: BTreeMap<Vec<u8>, Vec<u8>> = user.iter().filter(|(name, _)| !is_of_rank(name)).cloned().collect();
    for setting in settings {
        match &setting.value {
            Some(value) => all.insert(setting.name.clone().into_bytes(), value.clone().into_bytes()),
            None => all.remove(setting.name.as_bytes()),
        };
    }
    let mut put = |name: &str, value: String| all.insert(name.as_bytes().to_vec(), value.into_bytes());
    put(CLUSTER_ID, belonging.cluster_id.to_owned());
    put(names::NODE, belonging.node.to_string());
    put(names::SITE, belonging.site.to_owned());
    put(names::HOST, format!("pcm-{:016x}", belonging.host));
    put(names::JOB, belonging.key.job.to_string());
    put(names::PROCESS, belonging.key.process.to_string());
    put(names::WORLD, belonging.world.to_string());
    put("PMI_RANK", belonging.world_rank.to_string());
    put("PMI_SIZE", belonging.world_size.to_string());
    if belonging.is_spawned {
        put("PMI_SPAWNED", "1".to_owned());
    }
    if belonging.worlds > 1 {
        put(names::WORLDS, belonging.worlds.to_string());
    }
    for (name, value) in extra {
        put(name, value.clone());
    }
    let directory = belonging.cluster_dir.as_os_str().as_encoded_bytes();
    all.insert(CLUSTER.as_bytes().to_vec(), directory.to_vec());
    all.into_iter().collect()
}

/// Whether a variable says which process of which job it is: it is for no other.
pub(in crate::node) fn is_of_rank(name: &[u8]) -> bool {
    const PREFIXES: [&[u8]; 4] = [b"PMI_", b"PMIX_", b"HYDRA_", b"HYDI_"];
    let ours = [
        CLUSTER_ID,
        CLUSTER,
        names::CHANNEL_FD,
        names::PAGE_FD,
        names::HOST,
        names::JOB,
        names::PROCESS,
        names::WORLD,
        names::WORLDS,
        names::ROLE,
        names::EPOCH,
        names::RANK,
        names::SIZE,
        names::VALUES,
        names::STANDBY,
        // Open MPI in a process that has it waits for a parent.
        "OMPI_PARENT_PORT",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || ours.iter().any(|own| own.as_bytes() == name)
}
