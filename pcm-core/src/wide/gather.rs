//! Every rank's block to one, or from one to every rank: a message for each run of ranks crosses to another site.

use super::schedule::{At, Buffer, Schedule, Span};
use super::sites::{Run, Sites};
use std::ops::Range;

/// Where blocks of ranks lie, one after the other in the order of ranks.
struct Packed<'a> {
    counts: &'a [usize],
}

impl Packed<'_> {
    fn sum(&self, ranks: impl Iterator<Item = u32>) -> usize {
        ranks.map(|rank| self.counts[rank as usize]).sum()
    }

    fn of_rank(&self, rank: u32, whole: Buffer) -> Span {
        Span::new(whole, self.sum(0..rank), self.counts[rank as usize])
    }

    fn of_run(&self, run: &Run, whole: Buffer) -> Span {
        Span::new(whole, self.sum(0..run.ranks.start), self.sum(run.ranks.clone()))
    }

    /// In memory that has the blocks of a site alone.
    fn within(&self, members: &[u32], ranks: Range<u32>, of_site: Span) -> Span {
        let before = members.iter().copied().filter(|rank| *rank < ranks.start);
        of_site.part(self.sum(before), self.sum(ranks))
    }
}

/// The numbers of elements of its ranks at the leader of each site, but at the root, which knows them: an element of
/// each, in the order of ranks.
pub fn counts(sites: &Sites, me: u32, root: u32) -> Schedule {
    let mut schedule = Schedule::default();
    let site = sites.of(me);
    let (leader, own) = (sites.leader(site, Some(root)), Span::new(Buffer::Send, 0, 1));
    if me == leader && me != root {
        for rank in sites.members(site) {
            let into = Span::new(Buffer::Receive, *rank as usize, 1);
            match *rank == me {
                true => _ = schedule.copy(own, into, &[]),
                false => _ = schedule.receive(*rank, into, 1, &[]),
            }
        }
    } else if leader != root {
        schedule.send(leader, own, 1, &[]);
    }
    schedule
}

/// The elements of each rank, in the order of ranks, on the root. A rank need only know how many those have that pass
/// through it.
pub fn gather(sites: &Sites, me: u32, root: u32, counts: &[usize]) -> Schedule {
    let mut schedule = Schedule::default();
    let packed = Packed { counts };
    let own = Span::new(Buffer::Send, 0, counts[me as usize]);
    let site = sites.of(me);
    let leader = sites.leader(site, Some(root));
    if me == root {
        schedule.copy(own, packed.of_rank(me, Buffer::Receive), &[]);
        for rank in sites.members(site).iter().filter(|rank| **rank != me) {
            schedule.receive(*rank, packed.of_rank(*rank, Buffer::Receive), 1, &[]);
        }
        for other in sites.others(site) {
            for (key, run) in (0..).map(|run| run * 2).zip(sites.runs_of(other)) {
                let from = sites.leader(other, Some(root));
                schedule.receive(from, packed.of_run(run, Buffer::Receive), key, &[]);
            }
        }
        return schedule;
    }
    if me != leader {
        schedule.send(leader, own, 1, &[]);
        return schedule;
    }
    let members = sites.members(site);
    let all = schedule.scratch(packed.sum(members.iter().copied()));
    let mut there = Vec::new();
    for rank in members {
        let part = packed.within(members, *rank..*rank + 1, all);
        there.push(match *rank == me {
            true => schedule.copy(own, part, &[]),
            false => schedule.receive(*rank, part, 1, &[]),
        });
    }
    for (key, run) in (0..).map(|run| run * 2).zip(sites.runs_of(site)) {
        schedule.send(root, packed.within(members, run.ranks.clone(), all), key, &there);
    }
    schedule
}

/// The elements for each rank, in the order of ranks, from the root. A rank need only know how many are for those whose
/// elements pass through it.
pub fn scatter(sites: &Sites, me: u32, root: u32, counts: &[usize]) -> Schedule {
    let mut schedule = Schedule::default();
    let packed = Packed { counts };
    let own = Span::new(Buffer::Receive, 0, counts[me as usize]);
    let site = sites.of(me);
    let leader = sites.leader(site, Some(root));
    if me == root {
        for other in sites.others(site) {
            for (key, run) in (0..).map(|run| run * 2).zip(sites.runs_of(other)) {
                let to = sites.leader(other, Some(root));
                schedule.send(to, packed.of_run(run, Buffer::Send), key, &[]);
            }
        }
        for rank in sites.members(site).iter().filter(|rank| **rank != me) {
            schedule.send(*rank, packed.of_rank(*rank, Buffer::Send), 1, &[]);
        }
        schedule.copy(packed.of_rank(me, Buffer::Send), own, &[]);
        return schedule;
    }
    if me != leader {
        schedule.receive(leader, own, 1, &[]);
        return schedule;
    }
    let members = sites.members(site);
    let all = schedule.scratch(packed.sum(members.iter().copied()));
    let runs = (0..).map(|run| run * 2).zip(sites.runs_of(site));
    let there: Vec<At> = runs
        .map(|(key, run)| schedule.receive(root, packed.within(members, run.ranks.clone(), all), key, &[]))
        .collect();
    for rank in members {
        let part = packed.within(members, *rank..*rank + 1, all);
        match *rank == me {
            true => _ = schedule.copy(part, own, &there),
            false => _ = schedule.send(*rank, part, 1, &there),
        }
    }
    schedule
}
