//! What the store reads of other parts of the node.

use super::cluster::machine::Cluster;
use super::jobs::table::Table;
use super::store::step::{JobFacts, RdmaReach, Surroundings};
use pcm_proto::ids::{JobId, NodeName};

/// What the store reads of other parts of the node.
pub(in crate::node) struct Around<'a> {
    pub(in crate::node) jobs: &'a Table,
    pub(in crate::node) cluster: &'a Cluster,
}

impl Surroundings for Around<'_> {
    fn job(&self, job: JobId) -> Option<JobFacts<'_>> {
        let machine = &self.jobs.get(job)?.machine;
        let state = machine.part()?;
        Some(JobFacts {
            coordinator: state.coordinator(),
            is_ending: state.is_ending(),
            engaged: machine.engaged(),
            layout: machine.layout(),
            processes: state.processes(),
            restores: state.restores(),
        })
    }

    fn is_live(&self, node: &NodeName) -> bool {
        self.cluster.nodes().is_live(node)
    }

    fn is_same_host(&self, node: &NodeName) -> bool {
        self.cluster.nodes().host(node) == self.cluster.nodes().own().host
    }

    fn rdma_reach(&self, node: &NodeName) -> RdmaReach {
        self.cluster.transports().rdma_reach(node)
    }
}
