//! Jobs whose ranks talk through libfabric's shared memory, also with ranks of other MPI worlds (`run --between-worlds
//! shm`): full speed after a live change, for ranks of one host. Decides which nodes such a job may use and how many
//! processes it may meet; [`crate::mpi_settings`] sets its variables.

use crate::mpi_settings::{Circumstances, PROVIDER, SHARED_MEMORY_PROVIDER, settings};
use pcm_proto::control::Refusal;
use pcm_proto::ids::NodeName;
use pcm_proto::job::JobSpec;
use pcm_proto::refusal;
use std::collections::BTreeSet;

/// Processes that one of them may meet, itself among them. libfabric 2.5 has room for 256 in the life of a process and
/// MPICH never gives one back; MPICH ends a process that meets one more. The rest is for attempts that were given up.
pub const PEERS_MAX: u32 = 240;

/// Whether the ranks of a job talk through libfabric's shared memory, as the option or the user's own variable says.
pub fn is_shared_memory(spec: &JobSpec) -> bool {
    let settings = settings(Circumstances::default(), &spec.env, &spec.mpi_settings);
    let provider = settings.iter().find(|setting| setting.name == PROVIDER);
    provider.and_then(|setting| setting.value.as_deref()) == Some(SHARED_MEMORY_PROVIDER)
}

/// Whether a job of this kind can start on nodes of these hosts.
pub fn check_start(spec: &JobSpec, hosts: &BTreeSet<u64>) -> Result<(), Refusal> {
    if hosts.len() > 1 {
        let message = format!(
            "ranks that talk through shared memory need one host, the nodes that the job may use are on {}: name nodes \
             of one host with --nodes, or run with --between-worlds network",
            hosts.len()
        );
        return Err(Refusal::new(refusal::NO_NODES, message));
    }
    if spec.size > PEERS_MAX {
        let message = format!(
            "{} ranks are asked for, libfabric's shared memory has room for {PEERS_MAX}: run with --between-worlds \
             network",
            spec.size
        );
        return Err(Refusal::new(refusal::BAD_SIZE, message));
    }
    Ok(())
}

/// Why a node of another host takes no rank of such a job.
pub fn other_host(node: &NodeName) -> Refusal {
    let message = format!(
        "node {node} is on another host: the ranks of this job talk through shared memory; run it with \
         --between-worlds network to use nodes of several hosts"
    );
    Refusal::new(refusal::BAD_LAYOUT, message)
}

/// Why no more processes can join such a job while it runs.
pub fn no_room(met: u32, joining: u32) -> String {
    format!(
        "{joining} more than the {met} processes that its ranks have met by now, libfabric's shared memory has room \
         for {PEERS_MAX}"
    )
}

/// Whether so many can join ranks that have met so many.
pub fn has_room(met: u32, joining: u32) -> bool {
    met.saturating_add(joining) <= PEERS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::layout_request::tests::spec;

    fn over(provider: &str) -> JobSpec {
        let mut spec = spec();
        spec.mpi_settings = vec![(PROVIDER.to_owned(), provider.to_owned())];
        spec
    }

    #[test]
    fn the_users_own_variable_counts_as_the_option_does() {
        assert!(!is_shared_memory(&spec()));
        assert!(is_shared_memory(&over("shm")));
        assert!(!is_shared_memory(&over("tcp")));
        let mut spec = spec();
        spec.env = vec![(PROVIDER.into(), b"shm".to_vec())];
        assert!(is_shared_memory(&spec));
        spec.env.push((b"MPIR_CVAR_CH4_NETMOD".to_vec(), b"ucx".to_vec()));
        assert!(!is_shared_memory(&spec), "UCX has no such provider");
    }

    #[test]
    fn it_starts_on_one_host_and_within_its_room() {
        let mut spec = over("shm");
        assert_eq!(check_start(&spec, &BTreeSet::from([7])), Ok(()));
        let refusal = check_start(&spec, &BTreeSet::from([7, 8])).unwrap_err();
        assert_eq!(refusal.code, refusal::NO_NODES);
        spec.size = PEERS_MAX;
        assert_eq!(check_start(&spec, &BTreeSet::from([7])), Ok(()));
        spec.size += 1;
        let refusal = check_start(&spec, &BTreeSet::from([7])).unwrap_err();
        assert_eq!(refusal.code, refusal::BAD_SIZE);
    }

    #[test]
    fn the_room_is_for_all_that_were_ever_met() {
        assert!(has_room(PEERS_MAX - 2, 2));
        assert!(!has_room(PEERS_MAX - 2, 3));
        assert!(!has_room(u32::MAX, 1));
    }
}
