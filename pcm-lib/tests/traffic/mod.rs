//! What the pages of both ranks of `programs/traffic.c` show in the end.
#![allow(clippy::unwrap_used, reason = "a test")]

use pcm_proto::page::{Page, State};
use std::sync::atomic::Ordering::Relaxed;

/// Messages and bytes sent to a peer, receives and bytes posted for it.
fn row(page: Page<'_>, peer: usize) -> [u64; 4] {
    let row = page.peer(peer);
    [
        &row.messages_sent,
        &row.bytes_sent,
        &row.messages_received,
        &row.bytes_received,
    ]
    .map(|word| word.load(Relaxed))
}

fn class(page: Page<'_>, name: &str) -> [u64; 2] {
    let class = (0..page.head.classes.len())
        .find(|class| page.class_name(*class) == name)
        .unwrap();
    let class = &page.head.classes[class];
    [class.calls.load(Relaxed), class.bytes.load(Relaxed)]
}

/// All that a rank of the two did in `traffic.c`.
pub(crate) fn assert_counted(page: Page<'_>, own: usize) {
    assert_eq!(page.state(), State::Done);
    // 3 of 800 or 1 of 24 in one direction, in both 1 of 5 and 4 of 16; a byte to oneself.
    let (from_0, from_1) = ([3 + 1 + 4, 2400 + 5 + 64], [1 + 1 + 4, 24 + 5 + 64]);
    let (sent, received) = if own == 0 { (from_0, from_1) } else { (from_1, from_0) };
    assert_eq!(
        row(page, 1 - own),
        [sent[0], sent[1], received[0], received[1]],
        "rank {own}"
    );
    assert_eq!(row(page, own), [1, 1, 1, 1], "rank {own} to itself");
    assert_eq!(row(page, page.peers_max()), [0; 4], "to others");
    assert_eq!(class(page, "collective"), [2, 160]);
    assert_eq!(class(page, "start")[0], 4);
    assert_eq!(class(page, "wait")[0], 4);
    assert_eq!(class(page, "exchange"), [2, 12]);
    assert_eq!(class(page, "communicator")[0], 6);
    let progress = &page.head.progress;
    let ranks = [
        &progress.world_rank,
        &progress.world_size,
        &progress.job_rank,
        &progress.job_size,
    ];
    assert_eq!(ranks.map(|word| word.load(Relaxed)), [own as u64, 2, own as u64, 2]);
    assert!(
        page.calls() >= 20 && page.mpi_ns() > 1_000,
        "{} calls, {} ns",
        page.calls(),
        page.mpi_ns()
    );
}
