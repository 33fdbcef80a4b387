//! Open files of a node: what its keeper and its daemon need, so that what refuses and what advises count alike. Reads
//! no limit and opens nothing.

/// Most that a keeper asks for, whatever it may: eight for each rank of some thousand.
pub const LIMIT_MAX: u64 = 1 << 16;

/// What a daemon holds at most besides those of ranks: places of strangers and of transfers, links, logs.
const OF_DAEMON: u64 = 640;

/// What either holds for a rank: sockets, pipes, a page. With checkpoints in memory eight were counted, between two
/// checkpoints; while one is made and copied there are the images of the next as well.
pub const OF_RANK: u64 = 5;
const OF_RANK_WITH_CHECKPOINTS: u64 = 12;

/// Buffers of checkpoints that a keeper holds at once, each an open file there and in the daemon.
const BUFFERS_MAX: u64 = 2048;

/// Of these for each rank: its own two, and as many copies for others.
const BUFFERS_OF_RANK: u64 = 4;

/// How many ranks a node may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RanksMax {
    pub without_checkpoints: u64,
    /// With checkpoints in memory.
    pub with_checkpoints: u64,
}

/// The ranks that this limit is enough for, whatever else happens.
pub fn ranks_max(limit: u64) -> RanksMax {
    let for_ranks = limit.saturating_sub(OF_DAEMON);
    RanksMax {
        without_checkpoints: for_ranks / OF_RANK,
        with_checkpoints: (for_ranks / OF_RANK_WITH_CHECKPOINTS).min(BUFFERS_MAX / BUFFERS_OF_RANK),
    }
}

/// The limit that is enough for this many ranks with checkpoints in memory.
pub fn limit_for(ranks: u64) -> u64 {
    OF_DAEMON + ranks * OF_RANK_WITH_CHECKPOINTS
}

/// The buffers that a keeper may hold beside so many ranks and images. Under a low limit a part of it stays free: a
/// daemon that can open nothing is lost with all ranks.
pub fn buffers_max(limit: u64, ranks: u64, images: u64) -> u64 {
    let reserve = OF_DAEMON.min(limit / 4);
    let room = limit.saturating_sub(reserve).saturating_sub(ranks * OF_RANK + images);
    room.min(BUFFERS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_are_promised_checkpoints_have_room_for_their_buffers() {
        for limit in [0, 256, 652, 1024, 1408, 4096, 10_000, LIMIT_MAX, u64::MAX] {
            let ranks = ranks_max(limit).with_checkpoints;
            let room = buffers_max(limit, ranks, ranks);
            assert!(
                room >= ranks * BUFFERS_OF_RANK,
                "{room} for {ranks} ranks with limit {limit}"
            );
        }
        assert_eq!(ranks_max(limit_for(64)).with_checkpoints, 64);
    }

    #[test]
    fn a_keeper_leaves_files_free_under_every_limit_and_holds_no_more_than_the_most() {
        assert_eq!(buffers_max(256, 0, 0), 192);
        assert_eq!(buffers_max(256, 10, 2), 140);
        assert_eq!(buffers_max(256, 100, 0), 0);
        assert_eq!(buffers_max(u64::MAX, 100, 0), BUFFERS_MAX);
    }
}
