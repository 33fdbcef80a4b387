//! One row of `pcmctl ps` for each process, from its shared page.

use crate::rank::RankHandle;
use pcm_proto::ids::{Bytes, Iteration, NodeName, ProcessId, Rank};
use pcm_proto::job::RankStatus;
use pcm_proto::page::Page;
use std::sync::atomic::Ordering::Relaxed;

/// The row of a process; its coordinator knows better which rank it is.
pub(super) fn status(process: ProcessId, node: &NodeName, handle: &RankHandle, now_ns: u64) -> RankStatus {
    let page = handle.page().page();
    let progress = &page.head.progress;
    let iteration = page.iterations();
    let own = iteration.saturating_sub(progress.iterations_before.load(Relaxed));
    let per_iteration_ms = |ns: u64| ns as f64 / 1e6 / own.max(1) as f64;
    let declared = progress.iterations_declared.load(Relaxed);
    let call = page.call_seen();
    let since_ns = call.as_ref().map_or(0, |call| now_ns.saturating_sub(call.since_ns));
    let (sent, received) = traffic(page);
    RankStatus {
        rank: Rank(progress.job_rank.load(Relaxed) as u32),
        process,
        node: node.clone(),
        pid: handle.pid(),
        iteration: Iteration(iteration),
        iterations_here: own,
        useful_ms: per_iteration_ms(progress.useful_ns.load(Relaxed)),
        wait_ms: per_iteration_ms(page.mpi_ns()),
        memory: Bytes(proc_files::memory_bytes(handle.pid(), "VmRSS").unwrap_or(0)),
        iterations_declared: (declared != 0).then_some(Iteration(declared)),
        restored: Bytes(progress.restored_bytes.load(Relaxed)),
        call: call
            .as_ref()
            .map_or_else(|| "-".to_owned(), |call| call.function.clone()),
        call_since_ms: since_ns as f64 / 1e6,
        peer: call.as_ref().and_then(|call| call.peer),
        tag: call.as_ref().and_then(|call| call.tag),
        bytes: call.as_ref().map(|call| Bytes(call.bytes)),
        sent: Bytes(sent),
        received: Bytes(received),
        registered: Bytes(progress.registered_bytes.load(Relaxed)),
        constant: Bytes(progress.constant_bytes.load(Relaxed)),
    }
}

fn traffic(page: &Page<'_>) -> (u64, u64) {
    let peers = 0..=page.peers_max();
    peers.fold((0, 0), |(sent, received): (u64, u64), rank| {
        let peer = page.peer(rank);
        (
            sent.wrapping_add(peer.bytes_sent.load(Relaxed)),
            received.wrapping_add(peer.bytes_received.load(Relaxed)),
        )
    })
}
