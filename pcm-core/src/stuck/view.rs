//! Two looks at a job's ranks, made ready for questions. Knows no rule of MPI.

use pcm_proto::rank_snapshot::{CallLook, CollectiveLook, RankLook, Stage};
use pcm_proto::record::JOB;
use std::collections::{BTreeMap, BTreeSet};

/// See the file head.
#[derive(Debug)]
pub struct View<'a> {
    ranks: BTreeMap<u32, &'a RankLook>,
    held: BTreeSet<u32>,
    members: BTreeMap<u64, Vec<u32>>,
}

impl<'a> View<'a> {
    /// Of a first look only what tells who moved since is used.
    pub fn new(first: &[RankLook], second: &'a [RankLook]) -> Self {
        let before: BTreeMap<_, _> = first.iter().map(|look| (look.process, look)).collect();
        let is_held = |look: &RankLook| {
            let same = before
                .get(&look.process)
                .is_some_and(|was| was.calls == look.calls && was.call.is_some());
            same && look.call.is_some() && look.stage == Stage::Running
        };
        let mut members: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for communicator in second.iter().flat_map(|look| &look.communicators) {
            members.insert(communicator.identity, communicator.ranks.clone());
        }
        members.insert(JOB, second.iter().map(|look| look.rank.0).collect());
        Self {
            held: second
                .iter()
                .filter(|look| is_held(look))
                .map(|look| look.rank.0)
                .collect(),
            ranks: second.iter().map(|look| (look.rank.0, look)).collect(),
            members,
        }
    }

    /// All ranks seen.
    pub fn ranks(&self) -> impl Iterator<Item = &'a RankLook> + '_ {
        self.ranks.values().copied()
    }

    /// Ranks that were in one and the same call both times.
    pub fn held(&self) -> impl Iterator<Item = u32> + '_ {
        self.held.iter().copied()
    }

    /// Whether a rank is one of them.
    pub fn is_held(&self, rank: u32) -> bool {
        self.held.contains(&rank)
    }

    pub fn look(&self, rank: u32) -> Option<&'a RankLook> {
        self.ranks.get(&rank).copied()
    }

    /// The call a rank is in.
    pub fn call(&self, rank: u32) -> Option<&'a CallLook> {
        self.look(rank)?.call.as_ref()
    }

    /// Whether a rank sends nothing any more.
    pub fn is_finished(&self, rank: u32) -> bool {
        self.look(rank).is_some_and(|look| look.stage == Stage::Finished)
    }

    /// Ranks of a communicator; none where they are not known.
    pub fn members(&self, communicator: u64) -> &[u32] {
        self.members.get(&communicator).map_or(&[], Vec::as_slice)
    }

    /// Messages `from` has sent to `to`, and receives `to` has posted that name `from`. None where one of them has more
    /// peers than a look shows.
    pub fn traffic(&self, from: u32, to: u32) -> Option<(u64, u64)> {
        let row = |look: &RankLook, peer: u32| look.peers.iter().find(|row| row.peer == peer).copied();
        let (sender, receiver) = (self.look(from)?, self.look(to)?);
        if sender.peers_left_out > 0 || receiver.peers_left_out > 0 {
            return None;
        }
        let sent = row(sender, to).map_or(0, |row| row.messages_sent);
        let posted = row(receiver, from).map_or(0, |row| row.receives_posted);
        Some((sent, posted))
    }

    /// The collective a rank is in, if its call is one.
    pub fn collective(&self, rank: u32) -> Option<&'a CollectiveLook> {
        let look = self.look(rank)?;
        let (call, last) = (look.call.as_ref()?, look.collectives.last()?);
        (last.function == call.function && last.communicator == call.communicator).then_some(last)
    }

    /// What a rank did as collective number `sequence` on a communicator.
    pub fn turn(&self, rank: u32, communicator: u64, sequence: u64) -> Turn<'a> {
        let Some(look) = self.look(rank) else {
            return Turn::Unknown;
        };
        let mut on_it = look.collectives.iter().filter(|one| one.communicator == communicator);
        match on_it.clone().find(|one| one.sequence == sequence) {
            Some(one) => Turn::Begun(one),
            // More were begun since than are kept.
            None if on_it.any(|one| one.sequence > sequence) => Turn::Unknown,
            None => Turn::NotYet,
        }
    }
}

/// Where a rank is as to one collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn<'a> {
    /// It has begun this one.
    Begun(&'a CollectiveLook),
    /// It has not begun it.
    NotYet,
    /// It cannot be told.
    Unknown,
}
