//! Who has sent how much to whom, and what of it nobody has asked for, as a whole and on each communicator. Pure.

use pcm_proto::other_communicators::{ENDED, UNKNOWN};
use pcm_proto::page::ANY;
use pcm_proto::rank_snapshot::{ApartLook, RankLook};
use pcm_proto::record::JOB;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What one rank sent to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Pair {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// Receives of `to` that name `from`.
    pub(crate) posted: u64,
    /// Messages that no receive has asked for yet; none where `to` also takes messages from anybody.
    pub(crate) unmatched: Option<u64>,
}

/// What went over one communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct OnCommunicator {
    /// `MPI_COMM_WORLD`, or what kind it is.
    pub(crate) name: String,
    /// Its ranks in the job; none where they are not known.
    pub(crate) ranks: Vec<u32>,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// Receives, those that take from anybody too.
    pub(crate) posted: u64,
    /// Messages that no receive has asked for yet; none where not everything is known.
    pub(crate) unmatched: Option<u64>,
    pub(crate) pairs: Vec<Pair>,
}

/// Every pair with traffic, by sender and receiver, whatever it went over.
pub(crate) fn pairs(ranks: &[RankLook]) -> Vec<Pair> {
    let mut all = Counts::default();
    for look in ranks {
        for row in &look.peers {
            all.add(
                look.rank.0,
                row.peer,
                row.messages_sent,
                row.bytes_sent,
                row.receives_posted,
            );
        }
        all.from_anybody.insert(look.rank.0, look.from_anybody);
    }
    all.pairs(&doubtful(ranks))
}

/// Every communicator with traffic: the job's own, others by what their ranks are, then the rest.
pub(crate) fn by_communicator(ranks: &[RankLook]) -> Vec<OnCommunicator> {
    let mut members: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for communicator in ranks.iter().flat_map(|look| &look.communicators) {
        members.insert(communicator.identity, communicator.ranks.clone());
    }
    members.insert(JOB, ranks.iter().map(|look| look.rank.0).collect());
    let mut counts: BTreeMap<u64, Counts> = BTreeMap::new();
    for look in ranks {
        for row in &look.apart {
            counts.entry(row.communicator).or_default().add_apart(look.rank.0, row);
        }
        add_own(counts.entry(JOB).or_default(), look);
    }
    let mut doubtful = doubtful(ranks);
    doubtful.extend(
        ranks
            .iter()
            .filter(|look| look.apart_left_out > 0)
            .map(|look| look.rank.0),
    );
    let mut rows: Vec<OnCommunicator> = counts
        .into_iter()
        .filter(|(_, counts)| !counts.is_empty())
        .map(|(identity, counts)| {
            let ranks = members.remove(&identity).unwrap_or_default();
            counts.on(name(identity), ranks, &doubtful)
        })
        .collect();
    rows.sort_by_key(|row| (place(row), row.ranks.clone()));
    rows
}

fn name(identity: u64) -> String {
    match identity {
        JOB => "MPI_COMM_WORLD",
        ENDED => "freed communicators",
        UNKNOWN => "to other programs",
        _ => "communicator",
    }
    .to_owned()
}

fn place(row: &OnCommunicator) -> usize {
    let order = ["MPI_COMM_WORLD", "communicator", "freed communicators"];
    order.iter().position(|name| *name == row.name).unwrap_or(order.len())
}

/// Ranks of which not everything is known.
fn doubtful(ranks: &[RankLook]) -> BTreeSet<u32> {
    let doubtful = ranks.iter().filter(|look| look.peers_left_out > 0);
    doubtful.map(|look| look.rank.0).collect()
}

/// What the job's own communicator carried is what is left of all.
fn add_own(counts: &mut Counts, look: &RankLook) {
    let elsewhere = |peer: i32, of: fn(&ApartLook) -> u64| -> u64 {
        look.apart.iter().filter(|row| row.peer == peer).map(of).sum()
    };
    for row in &look.peers {
        let peer = i32::try_from(row.peer).unwrap_or(i32::MAX);
        counts.add(
            look.rank.0,
            row.peer,
            row.messages_sent
                .saturating_sub(elsewhere(peer, |row| row.messages_sent)),
            row.bytes_sent.saturating_sub(elsewhere(peer, |row| row.bytes_sent)),
            row.receives_posted
                .saturating_sub(elsewhere(peer, |row| row.receives_posted)),
        );
    }
    let from_anybody = look
        .from_anybody
        .saturating_sub(elsewhere(ANY, |row| row.receives_posted));
    counts.from_anybody.insert(look.rank.0, from_anybody);
}

#[derive(Debug, Default)]
struct Counts {
    /// Messages and bytes by sender and receiver.
    sent: BTreeMap<(u32, u32), (u64, u64)>,
    /// Receives by sender and receiver.
    posted: BTreeMap<(u32, u32), u64>,
    /// Receives from anybody by receiver.
    from_anybody: BTreeMap<u32, u64>,
}

impl Counts {
    fn add(&mut self, rank: u32, peer: u32, messages: u64, bytes: u64, posted: u64) {
        if messages > 0 {
            self.sent.insert((rank, peer), (messages, bytes));
        }
        if posted > 0 {
            self.posted.insert((peer, rank), posted);
        }
    }

    /// A row may come twice for the same peer.
    fn add_apart(&mut self, rank: u32, row: &ApartLook) {
        let Ok(peer) = u32::try_from(row.peer) else {
            *self.from_anybody.entry(rank).or_default() += row.receives_posted;
            return;
        };
        let (messages, bytes) = self.sent.get(&(rank, peer)).copied().unwrap_or_default();
        let posted = self.posted.get(&(peer, rank)).copied().unwrap_or_default();
        self.add(
            rank,
            peer,
            messages + row.messages_sent,
            bytes + row.bytes_sent,
            posted + row.receives_posted,
        );
    }

    fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.posted.is_empty() && self.from_anybody.values().all(|count| *count == 0)
    }

    fn takes_from_anybody(&self, rank: u32) -> u64 {
        self.from_anybody.get(&rank).copied().unwrap_or(0)
    }

    fn pairs(&self, doubtful: &BTreeSet<u32>) -> Vec<Pair> {
        let pairs = self.sent.iter().map(|(&(from, to), &(messages, bytes))| {
            let posted = self.posted.get(&(from, to)).copied().unwrap_or(0);
            let is_exact = self.from_anybody.contains_key(&to) && self.takes_from_anybody(to) == 0;
            let is_exact = is_exact && !doubtful.contains(&to);
            Pair {
                from,
                to,
                messages,
                bytes,
                posted,
                unmatched: is_exact.then(|| messages.saturating_sub(posted)),
            }
        });
        pairs.collect()
    }

    /// What a receiver that takes from anybody has not asked for yet is told by all that were sent to it.
    fn unmatched_at(&self, receiver: u32) -> u64 {
        let to_it = |all: &BTreeMap<(u32, u32), u64>| -> u64 {
            all.iter()
                .filter(|((_, to), _)| *to == receiver)
                .map(|(_, count)| count)
                .sum()
        };
        let sent = self.sent.iter().filter(|((_, to), _)| *to == receiver);
        let from_anybody = self.takes_from_anybody(receiver);
        if from_anybody > 0 {
            let sent: u64 = sent.map(|(_, (messages, _))| messages).sum();
            return sent.saturating_sub(to_it(&self.posted) + from_anybody);
        }
        let open =
            sent.map(|(pair, (messages, _))| messages.saturating_sub(self.posted.get(pair).copied().unwrap_or(0)));
        open.sum()
    }

    fn on(mut self, name: String, ranks: Vec<u32>, doubtful: &BTreeSet<u32>) -> OnCommunicator {
        let receivers: BTreeSet<u32> = self.sent.keys().map(|(_, to)| *to).collect();
        for receiver in &receivers {
            // Who posted nothing there takes nothing from anybody there.
            self.from_anybody.entry(*receiver).or_default();
        }
        let is_known = doubtful.is_empty();
        OnCommunicator {
            name,
            ranks,
            messages: self.sent.values().map(|(messages, _)| messages).sum(),
            bytes: self.sent.values().map(|(_, bytes)| bytes).sum(),
            posted: self.posted.values().chain(self.from_anybody.values()).sum(),
            unmatched: is_known.then(|| receivers.iter().map(|receiver| self.unmatched_at(*receiver)).sum()),
            pairs: self.pairs(doubtful),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::{NodeName, ProcessId, Rank};
    use pcm_proto::rank_snapshot::{CommunicatorLook, PeerLook, Stage};

    /// Rows are peer, messages sent, receives posted; a message has 8 bytes.
    fn look(rank: u32, from_anybody: u64, peers: &[(u32, u64, u64)], apart: &[(u64, i32, u64, u64)]) -> RankLook {
        let peers = peers.iter().map(|(peer, messages_sent, receives_posted)| PeerLook {
            peer: *peer,
            messages_sent: *messages_sent,
            bytes_sent: messages_sent * 8,
            receives_posted: *receives_posted,
        });
        let apart = apart
            .iter()
            .map(|(communicator, peer, messages_sent, receives_posted)| ApartLook {
                communicator: *communicator,
                peer: *peer,
                messages_sent: *messages_sent,
                bytes_sent: messages_sent * 8,
                receives_posted: *receives_posted,
            });
        RankLook {
            rank: Rank(rank),
            process: ProcessId(rank),
            node: NodeName::new("n0").unwrap(),
            stage: Stage::Running,
            calls: 1,
            call: None,
            collectives: Vec::new(),
            sends: Vec::new(),
            communicators: vec![CommunicatorLook {
                identity: 70,
                ranks: vec![0, 1],
            }],
            from_anybody,
            peers: peers.collect(),
            peers_left_out: 0,
            apart: apart.collect(),
            apart_left_out: 0,
        }
    }

    #[test]
    fn what_was_sent_and_not_asked_for_is_counted_by_pair() {
        let pairs = pairs(&[look(0, 0, &[(1, 5, 0)], &[]), look(1, 0, &[(0, 0, 3)], &[])]);
        assert_eq!(pairs.len(), 1);
        assert_eq!(
            (pairs[0].messages, pairs[0].bytes, pairs[0].unmatched),
            (5, 40, Some(2))
        );
    }

    #[test]
    fn of_a_pair_nothing_is_claimed_where_the_receiver_takes_from_anybody() {
        let ranks = [look(0, 0, &[(1, 5, 0)], &[]), look(1, 4, &[], &[])];
        assert_eq!(pairs(&ranks)[0].unmatched, None);
        // Whoever it took them from, one is left.
        assert_eq!(by_communicator(&ranks)[0].unmatched, Some(1));
    }

    #[test]
    fn each_communicator_has_its_own_sums_and_the_job_s_own_has_the_rest() {
        let ranks = [
            look(0, 0, &[(1, 7, 0), (2, 1, 0)], &[(70, 1, 4, 0)]),
            look(1, 2, &[(0, 0, 4)], &[(70, 0, 0, 1), (70, ANY, 0, 2)]),
            look(2, 0, &[], &[]),
        ];
        let rows = by_communicator(&ranks);
        let sums: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    row.name.as_str(),
                    row.ranks.len(),
                    row.messages,
                    row.posted,
                    row.unmatched,
                )
            })
            .collect();
        // On the own one 3 of the 7 went to rank 1, which asked for 3 of them, and one to rank 2, which asked for none.
        assert_eq!(
            sums,
            [("MPI_COMM_WORLD", 3, 4, 3, Some(1)), ("communicator", 2, 4, 3, Some(1))]
        );
        assert_eq!(rows[0].pairs[0].unmatched, Some(0));
        assert_eq!((rows[1].pairs[0].bytes, rows[1].pairs[0].unmatched), (32, None));
    }

    #[test]
    fn nothing_is_claimed_where_something_was_left_out() {
        let mut ranks = [look(0, 0, &[(1, 5, 0)], &[]), look(1, 0, &[], &[])];
        ranks[1].apart_left_out = 1;
        assert_eq!(by_communicator(&ranks)[0].unmatched, None);
    }
}
