//! From one rank to all, and nothing to all: a barrier.

use super::link::{Pieces, Way};
use super::schedule::{At, Buffer, Schedule, Span, segments};
use super::sites::{Place, Sites};

/// Keys of messages between sites are even, of those within a site odd.
pub(crate) fn keys(index: usize) -> (u32, u32) {
    let key = index as u32 * 2;
    (key, key + 1)
}

/// Passes a span that a leader has on to the rest of its site.
pub(crate) fn down(schedule: &mut Schedule, place: &Place, span: Span, key: u32, after: &[At]) -> Vec<At> {
    let got = place.parent.map(|parent| schedule.receive(parent, span, key, &[]));
    let after: Vec<At> = got.into_iter().chain(after.iter().copied()).collect();
    let children = place.children.iter().rev();
    let sent = children.map(|child| schedule.send(*child, span, key, &after));
    let sent: Vec<At> = sent.collect();
    after.into_iter().chain(sent).collect()
}

/// The caller's memory is [`Buffer::Receive`], on the root, too.
pub fn bcast(sites: &Sites, me: u32, root: u32, count: usize, pieces: Pieces) -> Schedule {
    let place = Place::new(sites, me, Some(root));
    let whole = Span::new(Buffer::Receive, 0, count);
    let own = sites.of(root);
    let passing: Vec<usize> = match pieces.way {
        Way::Shared if sites.count() > 1 => sites.others(own).collect(),
        _ => vec![own],
    };
    let leader = |site| sites.leader(site, Some(root));
    let mut schedule = Schedule::default();
    for (index, (first, length)) in segments(count, pieces.length).enumerate() {
        // The site that sends this piece to the others.
        let home = passing[index % passing.len()];
        let span = whole.part(first, length);
        let (wide, near) = keys(index);
        let mut after = Vec::new();
        if place.is_leader() && me != root {
            let from = if place.site == home { root } else { leader(home) };
            after.push(schedule.receive(from, span, wide, &[]));
        }
        if me == root && home != own {
            schedule.send(leader(home), span, wide, &[]);
        } else if place.is_leader() && place.site == home {
            for other in sites.others(home).filter(|other| *other != own) {
                schedule.send(leader(other), span, wide, &after);
            }
        }
        down(&mut schedule, &place, span, near, &after);
    }
    schedule
}

/// Each site says to each other one that it is there.
pub fn barrier(sites: &Sites, me: u32) -> Schedule {
    let place = Place::new(sites, me, None);
    let nothing = Span::new(Buffer::Receive, 0, 0);
    let mut schedule = Schedule::default();
    let here = place
        .children
        .iter()
        .map(|child| schedule.receive(*child, nothing, 1, &[]));
    let mut here: Vec<At> = here.collect();
    match place.parent {
        Some(parent) => {
            schedule.send(parent, nothing, 1, &here);
            here.clear();
        }
        None => {
            let others: Vec<u32> = sites
                .others(place.site)
                .map(|other| sites.leader(other, None))
                .collect();
            let mut heard = Vec::new();
            for other in others {
                schedule.send(other, nothing, 0, &here);
                heard.push(schedule.receive(other, nothing, 0, &[]));
            }
            here.extend(heard);
        }
    }
    down(&mut schedule, &place, nothing, 3, &here);
    schedule
}
