//! Operations that combine in the order of ranks, wherever these are: prefixes, and sums with operators that are not
//! commutative, or whose bits must not depend on the sites. Leaders have what all ranks of their sites give.

use super::bcast::down;
use super::reduce::{There, fold};
use super::schedule::{At, Buffer, Schedule, Span};
use super::sites::{Place, Sites};

/// Which prefix a rank gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// With its own part.
    Inclusive,
    /// Without it; the lowest rank gets nothing.
    Exclusive,
}

/// What is combined first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Neighbouring ranks at one site: their sum crosses to other sites.
    Runs,
    /// Each rank's part crosses: the bits do not depend on the sites.
    Ranks,
}

/// Neighbours whose parts are combined before they travel.
#[derive(Clone, Debug)]
struct Group {
    site: usize,
    ranks: Vec<u32>,
}

fn groups(sites: &Sites, grouping: Grouping) -> Vec<Group> {
    let mut groups = Vec::new();
    for run in sites.runs() {
        let ranks: Vec<u32> = run.ranks.clone().collect();
        let site = run.site;
        match grouping {
            Grouping::Runs => groups.push(Group { site, ranks }),
            Grouping::Ranks => groups.extend(ranks.into_iter().map(|rank| Group {
                site,
                ranks: vec![rank],
            })),
        }
    }
    groups
}

/// The parts of a site's ranks at its leader; elsewhere the own part is sent.
fn collected(schedule: &mut Schedule, sites: &Sites, place: &Place, me: u32, count: usize) -> Vec<(u32, There)> {
    let own = Span::new(Buffer::Send, 0, count);
    if !place.is_leader() {
        schedule.send(place.leader, own, 1, &[]);
        return Vec::new();
    }
    let part = |rank: &u32| {
        let span = schedule.scratch(count);
        let since = Some(match *rank == me {
            true => schedule.copy(own, span, &[]),
            false => schedule.receive(*rank, span, 1, &[]),
        });
        (*rank, There { span, since })
    };
    sites.members(place.site).iter().map(part).collect()
}

/// Within each group of a site: each rank's sum of the group's parts up to its own.
fn within(schedule: &mut Schedule, group: &Group, parts: &[(u32, There)]) -> Vec<There> {
    let mut sums: Vec<There> = Vec::new();
    let of_group = parts.iter().filter(|(rank, _)| group.ranks.contains(rank));
    for (_, there) in of_group {
        let sum = match sums.last().copied() {
            None => *there,
            Some(before) => fold(schedule, [before, *there]).unwrap_or(*there),
        };
        sums.push(sum);
    }
    sums
}

/// The sums of all groups, in the order of ranks, at the leaders of all sites, or at `only`.
fn exchanged(
    schedule: &mut Schedule,
    sites: &Sites,
    (place, only): (&Place, Option<u32>),
    groups: &[Group],
    own: &[(usize, There)],
    count: usize,
) -> Vec<There> {
    let totals = schedule.scratch(own.len() * count);
    let mut copied = Vec::new();
    for (index, (_, there)) in own.iter().enumerate() {
        copied.push(schedule.copy(there.span, totals.part(index * count, count), &there.after()));
    }
    let receives = only.is_none_or(|only| place.leader == only);
    let mut all: Vec<Option<There>> = vec![None; groups.len()];
    for ((index, (group, _)), since) in own.iter().enumerate().zip(&copied) {
        let span = totals.part(index * count, count);
        all[*group] = Some(There {
            span,
            since: Some(*since),
        });
    }
    for other in sites.others(place.site) {
        let leader = sites.leader(other, only);
        if only.is_none_or(|only| leader == only) {
            schedule.send(leader, totals, 0, &copied);
        }
        if !receives {
            continue;
        }
        let theirs: Vec<usize> = (0..groups.len()).filter(|group| groups[*group].site == other).collect();
        let span = schedule.scratch(theirs.len() * count);
        let since = Some(schedule.receive(leader, span, 0, &[]));
        for (index, group) in theirs.into_iter().enumerate() {
            let span = span.part(index * count, count);
            all[group] = Some(There { span, since });
        }
    }
    all.into_iter().flatten().collect()
}

/// Each rank's prefix.
pub fn scan(sites: &Sites, me: u32, count: usize, prefix: Prefix, grouping: Grouping) -> Schedule {
    let place = Place::new(sites, me, None);
    let mut schedule = Schedule::default();
    let result = Span::new(Buffer::Receive, 0, count);
    let parts = collected(&mut schedule, sites, &place, me, count);
    let gets = |rank: u32| prefix == Prefix::Inclusive || rank > 0;
    if !place.is_leader() {
        if gets(me) {
            schedule.receive(place.leader, result, 3, &[]);
        }
        return schedule;
    }
    let groups = groups(sites, grouping);
    let ours = (0..groups.len()).filter(|group| groups[*group].site == place.site);
    let sums: Vec<(usize, Vec<There>)> = ours
        .map(|group| (group, within(&mut schedule, &groups[group], &parts)))
        .collect();
    let totals: Vec<(usize, There)> = sums
        .iter()
        .filter_map(|(group, sums)| Some((*group, *sums.last()?)))
        .collect();
    let all = exchanged(&mut schedule, sites, (&place, None), &groups, &totals, count);
    let mut before: Option<There> = None;
    for (number, total) in all.into_iter().enumerate() {
        if let Some((_, sums)) = sums.iter().find(|(group, _)| *group == number) {
            for (index, rank) in groups[number].ranks.iter().enumerate() {
                let of_group = match prefix {
                    Prefix::Inclusive => Some(sums[index]),
                    Prefix::Exclusive => index.checked_sub(1).map(|index| sums[index]),
                };
                let there = joined(&mut schedule, before, of_group);
                let Some(there) = there.filter(|_| gets(*rank)) else {
                    continue;
                };
                match *rank == me {
                    true => _ = schedule.copy(there.span, result, &there.after()),
                    false => _ = schedule.send(*rank, there.span, 3, &there.after()),
                }
            }
        }
        before = joined(&mut schedule, before, Some(total));
    }
    schedule
}

/// One after the other, in memory of its own where both are there.
fn joined(schedule: &mut Schedule, before: Option<There>, next: Option<There>) -> Option<There> {
    let (Some(before), Some(next)) = (before, next) else {
        return before.or(next);
    };
    let span = schedule.scratch(next.span.count);
    let since = Some(schedule.copy(next.span, span, &next.after()));
    fold(schedule, [before, There { span, since }])
}

/// The sum in the order of ranks: on the root, or on every rank.
pub fn ordered(sites: &Sites, me: u32, root: Option<u32>, count: usize, grouping: Grouping) -> Schedule {
    let place = Place::new(sites, me, root);
    let mut schedule = Schedule::default();
    let result = Span::new(Buffer::Receive, 0, count);
    let parts = collected(&mut schedule, sites, &place, me, count);
    let mut after: Vec<At> = Vec::new();
    if place.is_leader() {
        let groups = groups(sites, grouping);
        let ours = (0..groups.len()).filter(|group| groups[*group].site == place.site);
        let totals: Vec<(usize, There)> = ours
            .filter_map(|group| Some((group, *within(&mut schedule, &groups[group], &parts).last()?)))
            .collect();
        let all = exchanged(&mut schedule, sites, (&place, root), &groups, &totals, count);
        if root.is_none_or(|root| root == me)
            && let Some(all) = fold_apart(&mut schedule, all)
        {
            after.push(schedule.copy(all.span, result, &all.after()));
        }
    }
    if root.is_none() {
        down(&mut schedule, &place, result, 3, &after);
    }
    schedule
}

/// Like a fold that leaves what it is given as it is: it may be on its way to others.
fn fold_apart(schedule: &mut Schedule, parts: Vec<There>) -> Option<There> {
    parts
        .into_iter()
        .fold(None, |all, next| joined(schedule, all, Some(next)))
}
