//! Every rank's block to every rank.

use super::bcast::down;
use super::schedule::{At, Buffer, Schedule, Span};
use super::sites::{Place, Sites};

/// Where each rank's block lies in the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub first: usize,
    pub count: usize,
}

/// Blocks of equal length.
pub fn equal(ranks: u32, count: usize) -> Vec<Block> {
    (0..ranks as usize)
        .map(|rank| Block {
            first: rank * count,
            count,
        })
        .collect()
}

/// Each rank's block, wherever it lies, on every rank. A block crosses once to each other site.
pub fn allgather(sites: &Sites, me: u32, blocks: &[Block]) -> Schedule {
    let place = Place::new(sites, me, None);
    let mut schedule = Schedule::default();
    let at = |rank: u32| {
        let block = blocks[rank as usize];
        Span::new(Buffer::Receive, block.first, block.count)
    };
    let own = Span::new(Buffer::Send, 0, blocks[me as usize].count);
    let mut here: Vec<At> = Vec::new();
    if place.is_leader() {
        for rank in sites.members(place.site) {
            here.push(match *rank == me {
                true => schedule.copy(own, at(me), &[]),
                false => schedule.receive(*rank, at(*rank), 1, &[]),
            });
        }
    } else {
        schedule.send(place.leader, own, 1, &[]);
    }
    if place.is_leader() {
        for other in sites.others(place.site) {
            let leader = sites.leader(other, None);
            for (key, (span, _)) in (0..).map(|key| key * 2).zip(joined(sites.members(place.site), &at)) {
                schedule.send(leader, span, key, &here);
            }
        }
    }
    // What is of this site is passed on when all of it is there, what comes from others as it comes.
    let mut key = 3;
    for (span, _) in joined(sites.members(place.site), &at) {
        down(&mut schedule, &place, span, key, &here);
        key += 2;
    }
    for other in sites.others(place.site) {
        let leader = sites.leader(other, None);
        for (wide, (span, _)) in (0..).map(|key| key * 2).zip(joined(sites.members(other), &at)) {
            let got: Vec<At> = match place.is_leader() {
                true => vec![schedule.receive(leader, span, wide, &[])],
                false => Vec::new(),
            };
            down(&mut schedule, &place, span, key, &got);
            key += 2;
        }
    }
    schedule
}

/// Spans that lie side by side made one, each with its first rank.
fn joined(ranks: &[u32], at: &impl Fn(u32) -> Span) -> Vec<(Span, u32)> {
    let mut joined: Vec<(Span, u32)> = Vec::new();
    for rank in ranks {
        let span = at(*rank);
        match joined.last_mut() {
            Some((last, _)) if last.first + last.count == span.first => last.count += span.count,
            _ => joined.push((span, *rank)),
        }
    }
    joined
}

/// From every rank to every other one at once: what is to be sent to and received from each.
pub fn alltoall(me: u32, sends: &[Block], receives: &[Block]) -> Schedule {
    let mut schedule = Schedule::default();
    let size = sends.len() as u32;
    let span = |buffer, block: Block| Span::new(buffer, block.first, block.count);
    // Each rank begins with its neighbour, so that not all talk to one.
    for distance in 1..size {
        let from = (me + size - distance) % size;
        schedule.receive(from, span(Buffer::Receive, receives[from as usize]), 0, &[]);
    }
    for distance in 1..size {
        let to = (me + distance) % size;
        schedule.send(to, span(Buffer::Send, sends[to as usize]), 0, &[]);
    }
    let own = me as usize;
    schedule.copy(
        span(Buffer::Send, sends[own]),
        span(Buffer::Receive, receives[own]),
        &[],
    );
    schedule
}
