//! Counters of ranks for the node's agent, read from their shared pages.

use pcm_proto::agent::{PEERS_TOLD_MAX, RankCounters};
use pcm_proto::ids::{Bytes, ProcessId, Rank};
use pcm_proto::page::Page;
use std::sync::atomic::Ordering::Relaxed;

/// The counters of a process that is this rank of so many.
pub(super) fn counters(process: ProcessId, rank: Rank, size: usize, page: &Page<'_>) -> RankCounters {
    let progress = &page.head.progress;
    RankCounters {
        process,
        rank,
        iterations: page.iterations(),
        iterations_declared: progress.iterations_declared.load(Relaxed),
        useful_ns: progress.useful_ns.load(Relaxed),
        mpi_ns: page.mpi_ns(),
        registered: Bytes(progress.registered_bytes.load(Relaxed)),
        sent: sent(page, size),
    }
}

fn sent(page: &Page<'_>, size: usize) -> Vec<(Rank, u64, u64)> {
    let rows = (0..size.min(page.peers_max())).filter_map(|rank| {
        let peer = page.peer(rank);
        let (messages, bytes) = (peer.messages_sent.load(Relaxed), peer.bytes_sent.load(Relaxed));
        (messages > 0).then_some((Rank(rank as u32), messages, bytes))
    });
    let mut rows: Vec<(Rank, u64, u64)> = rows.collect();
    rows.sort_by_key(|(rank, _, bytes)| (std::cmp::Reverse(*bytes), *rank));
    rows.truncate(PEERS_TOLD_MAX);
    rows
}
