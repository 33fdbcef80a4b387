//! Any bytes as a message of an agent, of a rank, or of another daemon: what can be read is judged before it is acted
//! on, and judging survives whatever it says.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pcm_proto::{
    agent::{AgentToDaemon, DaemonToAgent},
    app::{AppToDaemon, DaemonToApp},
    frame,
    job::RANKS_MAX,
    keeper::{DaemonToKeeper, KeeperToDaemon},
    peer::{CoordinatorToNode, DaemonToDaemon, JobMessage},
    sound::{fault_of_peer, fault_of_rank},
    unpack,
};

fuzz_target!(|data: &[u8]| {
    let _ = frame::decode::<AgentToDaemon>(data);
    let _ = frame::decode::<DaemonToAgent>(data);
    let _ = frame::decode::<DaemonToApp>(data);
    let _ = unpack::from_slice_named::<DaemonToKeeper>(data);
    let _ = unpack::from_slice_named::<KeeperToDaemon>(data);
    if let Ok(message) = frame::decode::<AppToDaemon>(data) {
        let _ = fault_of_rank(&message);
    }
    let Ok(message) = frame::decode::<DaemonToDaemon>(data) else {
        return;
    };
    if fault_of_peer(&message).is_none()
        && let DaemonToDaemon::Job { message, .. } = message
        && let JobMessage::ToNode(CoordinatorToNode::Start(order)) = *message
    {
        for world in &order.worlds {
            let ranks: u32 = world.runs.iter().map(|run| run.count).sum();
            assert!(ranks <= 2 * RANKS_MAX);
            assert!(world.runs.iter().all(|run| (run.node as usize) < world.nodes.len()));
        }
    }
});
