//! The folders of helpers: in memory, because Open MPI shares memory by files there, and named so that what a killed
//! helper leaves can be found.

use super::effect::HelperId;
use pcm_proto::fnv::{fnv1a, fnv1a_32};
use pcm_proto::ids::NodeName;

/// Where they are.
pub const PARENT: &str = "/dev/shm";

/// How the names of those of a cluster begin.
pub fn prefix(cluster_id: &str) -> String {
    format!("pcm-pmix-{:016x}-", fnv1a(cluster_id.bytes()))
}

/// How the names of those of a node begin.
pub fn prefix_of_node(cluster_id: &str, node: &NodeName) -> String {
    format!("{}{:08x}-", prefix(cluster_id), fnv1a_32(node.as_str().bytes()))
}

/// The folder of a helper. Short: libpmix makes sockets in it.
pub(super) fn of_helper(cluster_id: &str, node: &NodeName, helper: HelperId) -> String {
    let HelperId { job, life } = helper;
    format!("{PARENT}/{}{job}-{life}", prefix_of_node(cluster_id, node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::{Epoch, JobId};

    #[test]
    fn a_folder_leaves_room_for_the_name_of_a_socket() {
        let node = NodeName::new("a-node-with-a-long-name-in-a-far-domain").unwrap();
        let helper = HelperId {
            job: JobId(u32::MAX.into()),
            life: Epoch(u32::MAX.into()),
        };
        let folder = of_helper(&"c".repeat(60), &node, helper);
        assert!(folder.len() <= 80, "{folder}");
    }
}
