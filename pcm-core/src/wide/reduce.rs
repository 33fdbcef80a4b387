//! Operations that combine. The order of combination follows from the sites and the ranks alone, so a layout always
//! gives the same bits. The operator must be commutative; others take the way of [`super::scan`], which combines in the
//! order of ranks.

use super::bcast::{down, keys};
use super::link::{Pieces, Way};
use super::schedule::{At, Buffer, Schedule, Span, segments};
use super::sites::{Place, Sites};

/// Something that is there after a step; at once without one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct There {
    pub(crate) span: Span,
    pub(crate) since: Option<At>,
}

impl There {
    pub(crate) fn after(self) -> Vec<At> {
        self.since.into_iter().collect()
    }
}

/// Combines what follows with what was before.
pub(crate) fn fold(schedule: &mut Schedule, parts: impl IntoIterator<Item = There>) -> Option<There> {
    let mut parts = parts.into_iter();
    let mut all = parts.next()?;
    for next in parts {
        let after: Vec<At> = all.since.into_iter().chain(next.since).collect();
        let since = Some(schedule.combine(all.span, next.span, &after));
        all = There { since, ..next };
    }
    Some(all)
}

/// What a site's ranks have, combined at its leader: there it is returned, elsewhere it was sent.
fn up(schedule: &mut Schedule, place: &Place, own: Span, key: u32) -> Option<There> {
    let mut parts = vec![There { span: own, since: None }];
    for child in &place.children {
        let span = schedule.scratch(own.count);
        let since = Some(schedule.receive(*child, span, key, &[]));
        parts.push(There { span, since });
    }
    let all = fold(schedule, parts)?;
    match place.parent {
        Some(parent) => {
            schedule.send(parent, all.span, key, &all.after());
            None
        }
        None => Some(all),
    }
}

/// What all sites have, combined in the order of sites. The own part may be overwritten once it was sent.
fn across(schedule: &mut Schedule, sites: &Sites, own: (usize, There, &[At]), received: &[(usize, There)]) -> There {
    let (site, there, sent) = own;
    let part = |other: usize| {
        received
            .iter()
            .find(|(known, _)| *known == other)
            .map(|(_, there)| *there)
    };
    let mut all: Option<There> = None;
    for other in 0..sites.count() {
        let next = if other == site { Some(there) } else { part(other) };
        let Some(next) = next else { continue };
        all = Some(match all {
            None => next,
            Some(before) => {
                let mut after: Vec<At> = before.since.into_iter().chain(next.since).collect();
                if other == site {
                    after.extend(sent);
                }
                let since = Some(schedule.combine(before.span, next.span, &after));
                There { since, ..next }
            }
        });
    }
    all.unwrap_or(there)
}

/// The sum of all on the root.
pub fn reduce(sites: &Sites, me: u32, root: u32, count: usize, pieces: Pieces) -> Schedule {
    let place = Place::new(sites, me, Some(root));
    let leader = |site| sites.leader(site, Some(root));
    let mut schedule = Schedule::default();
    for (index, (first, length)) in segments(count, pieces.length).enumerate() {
        let (wide, near) = keys(index);
        let (own, result) = (
            Span::new(Buffer::Send, first, length),
            Span::new(Buffer::Receive, first, length),
        );
        // The site that makes this piece's sum.
        let home = match pieces.way {
            Way::Direct => sites.of(root),
            Way::Shared => index % sites.count(),
        };
        let Some(here) = up(&mut schedule, &place, own, near) else {
            continue;
        };
        if place.site != home {
            let sent = schedule.send(leader(home), here.span, wide, &here.after());
            if me == root {
                schedule.receive(leader(home), result, wide, &[sent]);
            }
            continue;
        }
        let here = movable(&mut schedule, here);
        let received = from_others(&mut schedule, sites, place.site, Some(root), (length, wide));
        let all = across(&mut schedule, sites, (place.site, here, &[]), &received);
        match me == root {
            true => schedule.copy(all.span, result, &all.after()),
            false => schedule.send(root, all.span, wide, &all.after()),
        };
    }
    schedule
}

/// The sum of all on every rank.
pub fn allreduce(sites: &Sites, me: u32, count: usize, pieces: Pieces) -> Schedule {
    let place = Place::new(sites, me, None);
    let mut schedule = Schedule::default();
    for (index, (first, length)) in segments(count, pieces.length).enumerate() {
        let (wide, near) = keys(index);
        let (own, result) = (
            Span::new(Buffer::Send, first, length),
            Span::new(Buffer::Receive, first, length),
        );
        // Up and down between the same two ranks in opposite directions.
        let here = up(&mut schedule, &place, own, near);
        let after = here.map(|here| match pieces.way {
            Way::Direct => {
                let all = exchanged(&mut schedule, sites, &place, here, (length, wide));
                schedule.copy(all.span, result, &all.after())
            }
            Way::Shared => made_by(
                index % sites.count(),
                &mut schedule,
                sites,
                &place,
                (here, result),
                wide,
            ),
        });
        let after: Vec<At> = after.into_iter().collect();
        down(&mut schedule, &place, result, near, &after);
    }
    schedule
}

/// Each rank's part of the sum: `counts` elements for each.
pub fn reduce_scatter(sites: &Sites, me: u32, counts: &[usize]) -> Schedule {
    let place = Place::new(sites, me, None);
    let mut schedule = Schedule::default();
    let firsts: Vec<usize> = counts
        .iter()
        .scan(0, |sum, count| {
            *sum += count;
            Some(*sum - count)
        })
        .collect();
    let whole: usize = counts.iter().sum();
    let own = counts[me as usize];
    let result = Span::new(Buffer::Receive, 0, own);
    let Some(here) = up(&mut schedule, &place, Span::new(Buffer::Send, 0, whole), 1) else {
        schedule.receive(place.leader, result, 3, &[]);
        return schedule;
    };
    let here = movable(&mut schedule, here);
    // What goes to a site, or is for this one, lies side by side.
    let gathered = |schedule: &mut Schedule, site: usize| {
        let members = sites.members(site);
        let length = members.iter().map(|rank| counts[*rank as usize]).sum();
        let span = schedule.scratch(length);
        let (mut at, mut since) = (0, here.since);
        for rank in members {
            let (first, count) = (firsts[*rank as usize], counts[*rank as usize]);
            let after: Vec<At> = since.into_iter().collect();
            since = Some(schedule.copy(here.span.part(first, count), span.part(at, count), &after));
            at += count;
        }
        There { span, since }
    };
    for other in sites.others(place.site) {
        let theirs = gathered(&mut schedule, other);
        schedule.send(sites.leader(other, None), theirs.span, 0, &theirs.after());
    }
    let ours = gathered(&mut schedule, place.site);
    let received = from_others(&mut schedule, sites, place.site, None, (ours.span.count, 0));
    let all = across(&mut schedule, sites, (place.site, ours, &[]), &received);
    let after = all.after();
    let mut at = 0;
    for rank in sites.members(place.site) {
        let count = counts[*rank as usize];
        let part = all.span.part(at, count);
        match *rank == me {
            true => _ = schedule.copy(part, result, &after),
            false => _ = schedule.send(*rank, part, 3, &after),
        }
        at += count;
    }
    schedule
}

/// A site's part in memory that may be overwritten: what the caller gave is copied.
fn movable(schedule: &mut Schedule, here: There) -> There {
    if here.span.buffer != Buffer::Send {
        return here;
    }
    let span = schedule.scratch(here.span.count);
    let since = Some(schedule.copy(here.span, span, &here.after()));
    There { span, since }
}

fn from_others(
    schedule: &mut Schedule,
    sites: &Sites,
    site: usize,
    named: Option<u32>,
    (length, key): (usize, u32),
) -> Vec<(usize, There)> {
    let receive = |other: usize| {
        let span = schedule.scratch(length);
        let since = Some(schedule.receive(sites.leader(other, named), span, key, &[]));
        (other, There { span, since })
    };
    sites.others(site).map(receive).collect()
}

/// The sum of all sites' parts, at each leader.
fn exchanged(schedule: &mut Schedule, sites: &Sites, place: &Place, here: There, (length, key): (usize, u32)) -> There {
    let here = movable(schedule, here);
    let others = sites.others(place.site);
    let sent = others.map(|other| schedule.send(sites.leader(other, None), here.span, key, &here.after()));
    let sent: Vec<At> = sent.collect();
    let received = from_others(schedule, sites, place.site, None, (length, key));
    across(schedule, sites, (place.site, here, &sent), &received)
}

/// The sum of all sites' parts, which one site makes and sends to the others.
fn made_by(
    home: usize,
    schedule: &mut Schedule,
    sites: &Sites,
    place: &Place,
    (here, result): (There, Span),
    key: u32,
) -> At {
    let leader = |site| sites.leader(site, None);
    if place.site != home {
        let sent = schedule.send(leader(home), here.span, key, &here.after());
        return schedule.receive(leader(home), result, key, &[sent]);
    }
    let here = movable(schedule, here);
    let received = from_others(schedule, sites, home, None, (result.count, key));
    let all = across(schedule, sites, (home, here, &[]), &received);
    for other in sites.others(home) {
        schedule.send(leader(other), all.span, key, &all.after());
    }
    schedule.copy(all.span, result, &all.after())
}
