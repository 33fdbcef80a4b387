//! What ranks do with each other, read from their shared pages.

use super::monotonic::monotonic_ns;
use pcm_proto::ids::{Bytes, NodeName, ProcessId, Rank};
use pcm_proto::page::{NOT_ONE, Page, State};
use pcm_proto::rank_snapshot::{
    APART_SHOWN_MAX, ApartLook, CallLook, CollectiveLook, CommunicatorLook, PEERS_SHOWN_MAX, PeerLook, RankLook,
    SendLook, Stage,
};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

/// Processes whose last look is kept per node and job; with more, the oldest are forgotten.
const LAST_LOOKS_MAX: usize = 256;

/// How processes that have ended left their pages: others may wait for them.
#[derive(Debug, Default)]
pub(super) struct LastLooks(BTreeMap<ProcessId, RankLook>);

impl LastLooks {
    pub(super) fn keep(&mut self, process: ProcessId, node: &NodeName, page: &Page<'_>) {
        let last = RankLook {
            stage: Stage::Finished,
            call: None,
            ..look(process, node, page, monotonic_ns())
        };
        self.0.insert(process, last);
        if self.0.len() > LAST_LOOKS_MAX {
            self.0.pop_first();
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &RankLook> {
        self.0.values()
    }
}

/// What a process does with others, from its page.
pub(super) fn look(process: ProcessId, node: &NodeName, page: &Page<'_>, now_ns: u64) -> RankLook {
    let record = &page.head.record;
    let seen = page.call_seen();
    let call = seen.map(|seen| CallLook {
        function: seen.function,
        peer: seen.peer,
        tag: seen.tag,
        bytes: Bytes(seen.bytes),
        communicator: seen.communicator,
        since_ms: now_ns.saturating_sub(seen.since_ns) as f64 / 1e6,
    });
    let collectives: Vec<CollectiveLook> = record
        .collectives()
        .into_iter()
        .map(|seen| CollectiveLook {
            communicator: seen.communicator,
            sequence: seen.sequence,
            function: page.function_name(usize::from(seen.function)),
            root: (seen.root != NOT_ONE).then_some(seen.root),
            bytes: Bytes(seen.bytes),
        })
        .collect();
    let sends = record.sends().into_iter().map(|seen| SendLook {
        communicator: seen.communicator,
        peer: seen.peer,
        tag: seen.tag,
        bytes: Bytes(seen.bytes),
    });
    // Read before the rows by peer, of which it is a part.
    let (apart, apart_left_out) = apart(page);
    // Of the communicators not all: those of all ranks would fill more than a message.
    let own = page.head.progress.job_rank.load(Relaxed) as u32;
    let current = match &call {
        Some(call) if call.communicator != 0 => Some(call.communicator),
        _ => collectives.last().map(|last| last.communicator),
    };
    let communicators = record.communicators().into_iter();
    let communicators =
        communicators.filter(|(identity, ranks)| Some(*identity) == current || ranks.first() == Some(&own));
    let communicators = communicators
        .map(|(identity, ranks)| CommunicatorLook { identity, ranks })
        .collect();
    let (peers, peers_left_out) = peers(page);
    RankLook {
        rank: Rank(own),
        process,
        node: node.clone(),
        stage: match page.state() {
            State::Starting => Stage::Starting,
            State::Running => Stage::Running,
            State::Finalizing | State::Done => Stage::Finished,
        },
        calls: page.calls(),
        call,
        sends: sends.collect(),
        communicators,
        from_anybody: record.from_anybody.load(Relaxed),
        collectives,
        peers,
        peers_left_out,
        apart,
        apart_left_out,
    }
}

/// The rows with the most messages, and how much is not in them.
fn apart(page: &Page<'_>) -> (Vec<ApartLook>, u64) {
    let part = &page.head.other_communicators;
    let rows = part.seen().into_iter().map(|row| ApartLook {
        communicator: row.communicator,
        peer: row.peer,
        messages_sent: row.messages_sent,
        bytes_sent: row.bytes_sent,
        receives_posted: row.receives_posted,
    });
    let mut rows: Vec<ApartLook> = rows.collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.messages_sent.max(row.receives_posted)));
    let beyond = rows.split_off(rows.len().min(APART_SHOWN_MAX));
    let beyond: u64 = beyond.iter().map(|row| row.messages_sent + row.receives_posted).sum();
    (rows, part.left_out.load(Relaxed) + beyond)
}

fn peers(page: &Page<'_>) -> (Vec<PeerLook>, u32) {
    let rows = (0..page.peers_max()).filter_map(|rank| {
        let row = page.peer(rank);
        let messages_sent = row.messages_sent.load(Relaxed);
        let receives_posted = row.messages_received.load(Relaxed);
        (messages_sent != 0 || receives_posted != 0).then(|| PeerLook {
            peer: rank as u32,
            messages_sent,
            bytes_sent: row.bytes_sent.load(Relaxed),
            receives_posted,
        })
    });
    let mut rows: Vec<PeerLook> = rows.collect();
    let left_out = rows.len().saturating_sub(PEERS_SHOWN_MAX);
    if left_out > 0 {
        rows.sort_by_key(|row| std::cmp::Reverse(row.messages_sent.max(row.receives_posted)));
        rows.truncate(PEERS_SHOWN_MAX);
        rows.sort_by_key(|row| row.peer);
    }
    (rows, left_out as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::{PageFile, PageMap};
    use pcm_proto::record::{CollectiveSeen, JOB};
    use std::os::fd::AsFd;

    #[test]
    fn a_look_names_the_call_the_collectives_and_the_busiest_peers() {
        let file = PageFile::new(PEERS_SHOWN_MAX + 10).unwrap();
        let map = PageMap::new(file.as_fd()).unwrap();
        let page = map.page();
        page.set_function_name(3, "Bcast");
        page.set_state(State::Running);
        page.head.record.collective_begun(&CollectiveSeen {
            communicator: JOB,
            sequence: 1,
            function: 3,
            root: 2,
            bytes: 8,
        });
        page.head.call.enter(3, 2, NOT_ONE, 8, JOB, 0);
        for rank in 0..PEERS_SHOWN_MAX + 10 {
            page.peer(rank).messages_sent.store(rank as u64, Relaxed);
        }
        let look = look(ProcessId(4), &NodeName::new("n0").unwrap(), page, 1_000_000);
        assert_eq!(look.stage, Stage::Running);
        assert_eq!(
            look.call.as_ref().map(|call| (call.function.as_str(), call.peer)),
            Some(("Bcast", Some(2)))
        );
        assert_eq!(
            (look.collectives[0].function.as_str(), look.collectives[0].root),
            ("Bcast", Some(2))
        );
        assert_eq!((look.peers.len(), look.peers_left_out), (PEERS_SHOWN_MAX, 9));
        assert_eq!(
            look.peers.last().map(|row| row.peer),
            Some((PEERS_SHOWN_MAX + 9) as u32)
        );
    }
}
