//! Single nodes without a shell, for tests that are their surroundings.
#![allow(dead_code, unreachable_pub, reason = "each test target uses its part")]

use pcm_core::membership::{Details, LocalNode, Membership, timing};
use pcm_core::moment::Moment;
use pcm_core::node::cluster::nodes::Nodes;
use pcm_core::node::event::{Event, PeerFact};
use pcm_core::node::numbers::Numbers;
use pcm_core::node::record::Past;
use pcm_core::node::store::route::AllowedRoutes;
use pcm_core::node::{Beginnings, Heritage, Node};
use pcm_core::reconfiguration::limits::Limits;
use pcm_proto::boot::{BootSpec, NodeSpec, Reach};
use pcm_proto::control::NodeState;
use pcm_proto::fabric::{FabricReport, FabricWish};
use pcm_proto::ids::{Epoch, JobId, NodeName, ProcessId, WorldId};
use pcm_proto::job::JobSpec;
use pcm_proto::node_end::NodeEnd;
use pcm_proto::peer::{CoordinatorToNode, DaemonToDaemon, JobMessage, NodeReport, RankRun, StartOrder, WorldStart};
use pcm_proto::secret::Secret;
use std::time::Duration;

pub fn name(index: usize) -> NodeName {
    NodeName::new(format!("n{index}")).expect("a name")
}

pub fn address(index: usize) -> String {
    format!("h:{index}")
}

fn boot_spec(index: usize) -> BootSpec {
    BootSpec {
        version: 0,
        cluster_id: "c".to_owned(),
        cluster_dir: "/c".into(),
        key: Secret::default(),
        node: NodeSpec {
            name: name(index),
            address: address(index),
            site: "here".to_owned(),
            cpus: vec![0],
            reach: Reach::Local,
        },
        subtree: Vec::new(),
        seeds: (0..index).map(address).collect(),
        fabric: FabricWish::default(),
        is_rdma_sealed: false,
        patience_ms: 2400,
    }
}

pub fn report(index: usize, ends: Option<NodeEnd>) -> NodeReport {
    NodeReport {
        node: name(index),
        address: address(index),
        site: "here".to_owned(),
        cpus: vec![0],
        state: NodeState::Up,
        host: 1,
        host_name: String::new(),
        speed: 1.0,
        load_by_others: 0.0,
        ranks: 0,
        free_memory: 0,
        daemon_pid: 1,
        highest_job: JobId(0),
        keeper_since_us: 1 + index as u64,
        fabric: FabricReport::default(),
        ends,
    }
}

/// A node that begins now.
pub fn node(index: usize, now: Moment, notice: Duration, ends: Option<NodeEnd>) -> Node {
    let spec = boot_spec(index);
    let local = LocalNode {
        node: name(index),
        boot: now.0,
        details: Details {
            address: address(index),
            site: "here".to_owned(),
            cpus: vec![0],
            host: 1,
            ud: None,
        },
        patience: timing::PATIENCE,
    };
    let members = Membership::new(local, spec.seeds.clone(), Duration::from_micros(now.0));
    Node::new(Beginnings {
        address: address(index),
        cpus: vec![0],
        now,
        limits: Limits::default(),
        notice,
        libraries: Default::default(),
        nodes: Nodes::new(report(index, ends), members),
        numbers: Numbers::new(&name(index)),
        has_device: false,
        routes: AllowedRoutes::default(),
        bulk: None,
        spec,
    })
}

/// What it inherits of a daemon before, which held nothing.
pub fn heritage(past: Past) -> Heritage {
    Heritage {
        restarts: 0,
        held: Vec::new(),
        parked: Vec::new(),
        buffers: Vec::new(),
        past,
    }
}

/// A journal that says nothing yet.
pub fn no_past(index: usize) -> Past {
    Past::new(name(index), Limits::default())
}

/// A world of one process, on the node of this index of its list, which is node 1 only.
pub fn world(node: u32) -> WorldStart {
    WorldStart {
        world: WorldId(0),
        nodes: vec![name(1)],
        runs: vec![RankRun {
            node,
            first: ProcessId(0),
            count: 1,
        }],
        process_mapping: String::new(),
        commands: Vec::new(),
        preset: Vec::new(),
        spawned: false,
        parent: None,
        spare: false,
    }
}

/// An order of node 0 to start one process at node 1.
pub fn start_order() -> StartOrder {
    let spec = JobSpec {
        name: "test".to_owned(),
        size: 1,
        min: 1,
        max: 1,
        program: b"a.out".to_vec(),
        cwd: "/".into(),
        ..JobSpec::default()
    };
    StartOrder {
        number: 0,
        coordinator: name(0),
        tree: vec![name(0), name(1)],
        spec: Box::new(spec),
        epoch: Epoch(0),
        is_crowded: false,
        layout: vec![(ProcessId(0), WorldId(0))],
        worlds: vec![world(0)],
        life: Epoch(0),
        restarts: 0,
        restores: None,
        keeper_since_us: 0,
    }
}

/// It comes from node 0.
pub fn order(job: JobId, order: StartOrder) -> Event {
    let message = JobMessage::ToNode(CoordinatorToNode::Start(Box::new(order)));
    let message = Box::new(message);
    Event::Peer(PeerFact::Said {
        node: name(0),
        message: DaemonToDaemon::Job { job, message },
    })
}
