//! Growing, shrinking, giving nodes back and sharing data anew: what all policies but `none` and `random` have in
//! common. Pure.
//!
//! How jobs share a cluster: a job grows only onto CPUs nobody uses; a thief takes the offer of the job that has grown
//! least; where ranks of several jobs crowd a node, those that have more ranks than they began with give way.

use super::greedy;
use crate::decide::predict::Model;
use crate::decide::proposal::{Change, Proposal};
use crate::decide::tuning::Tuning;
use crate::decide::view::{SPARE_PER_RANK, View};
use pcm_proto::agent::Need;

/// Newcomers one proposal may name.
const NEWCOMERS_MAX: usize = 64;

/// All that concerns the number of ranks and their shares.
pub fn propose(view: &View, tuning: &Tuning) -> Vec<Proposal> {
    propose_near(view, tuning, &|_| true)
}

/// The same where ranks should go to near nodes: others take newcomers last, and ranks only of nodes that are being
/// emptied.
pub fn propose_near(view: &View, tuning: &Tuning, is_near: &dyn Fn(usize) -> bool) -> Vec<Proposal> {
    let model = Model::new(view, tuning);
    let found = [
        refuge(&model, tuning, is_near),
        give_way(&model),
        grow(&model, tuning, is_near),
        shrink(&model, tuning),
        rebalance(&model),
        arrange(&model, is_near),
    ];
    found.into_iter().flatten().collect()
}

/// Leaves nodes that are being emptied or that their owners use.
fn refuge(model: &Model<'_>, tuning: &Tuning, is_near: &dyn Fn(usize) -> bool) -> Option<Proposal> {
    let view = model.view;
    let is_wanted = |node: usize| {
        let of = &view.nodes[node];
        let wants = of.demand >= tuning.size.owner_load * of.cpus.len() as f64;
        of.is_draining || (wants && of.others_since_s >= tuning.size.owner_s && view.spare(node) < -0.3)
    };
    let affected: Vec<usize> = (0..view.ranks.len())
        .filter(|rank| is_wanted(view.ranks[*rank].node))
        .collect();
    let node = view.ranks[*affected.first()?].node;
    let is_drain = view.nodes[node].is_draining;
    let mut places = view.places();
    for rank in affected.iter().copied().take(greedy::MOVES_MAX) {
        let arrived = |places: &[usize], node| {
            places
                .iter()
                .zip(&view.ranks)
                .filter(|(to, rank)| **to == node && rank.node != node)
                .count()
        };
        let must_leave = view.nodes[view.ranks[rank].node].is_draining;
        let free = |node: &usize| {
            !is_wanted(*node)
                && (must_leave || is_near(*node))
                && greedy::has_room(view, *node, arrived(&places, *node))
                && view.spare(*node) - arrived(&places, *node) as f64 >= SPARE_PER_RANK
        };
        let better = |a: &usize, b: &usize| {
            let nearer = is_near(*a).cmp(&is_near(*b));
            nearer.then(view.nodes[*a].speed.total_cmp(&view.nodes[*b].speed))
        };
        let target = (0..view.nodes.len()).filter(free).max_by(better);
        if let Some(target) = target {
            places[rank] = target;
        }
    }
    let why = if is_drain {
        format!("node {} is being emptied", view.nodes[node].name)
    } else {
        format!(
            "others want {:.1} CPUs of node {} for {:.0} s",
            view.nodes[node].demand, view.nodes[node].name, view.nodes[node].others_since_s
        )
    };
    let all_placed = affected
        .iter()
        .take(greedy::MOVES_MAX)
        .all(|rank| places[*rank] != view.ranks[*rank].node);
    if all_placed {
        let found = greedy::migration(view, &places, model.after(&places), why)?;
        return Some(Proposal {
            need: Need::Refuge,
            is_forced: true,
            ..found
        });
    }
    let room = view.ranks.len().saturating_sub(view.min.max(1));
    let leaving: Vec<usize> = affected.into_iter().take(room).collect();
    leave(model, as_many_as_may(view, leaving), Need::Refuge, true, why)
}

/// Of these ranks the first, as many as leave a number on which the program can run.
fn as_many_as_may(view: &View, mut leaving: Vec<usize>) -> Vec<usize> {
    let is_possible = |count: &usize| view.counts.allow((view.ranks.len() - count) as u32);
    leaving.truncate((1..=leaving.len()).rev().find(is_possible).unwrap_or(0));
    leaving
}

fn leave(model: &Model<'_>, leaving: Vec<usize>, need: Need, is_forced: bool, why: String) -> Option<Proposal> {
    if leaving.is_empty() {
        return None;
    }
    let view = model.view;
    let staying = (0..view.ranks.len()).filter(|rank| !leaving.contains(rank));
    let places: Vec<usize> = staying.map(|rank| view.ranks[rank].node).collect();
    Some(Proposal {
        then_ms: model.after_resize(&places),
        bytes: resize_bytes(view, places.len()),
        change: Change::Leave(leaving),
        need,
        is_forced,
        why,
    })
}

/// Bytes that a change of the number of ranks moves: equal blocks keep their fronts.
fn resize_bytes(view: &View, to: usize) -> f64 {
    let all: f64 = view.ranks.iter().map(|rank| rank.registered).sum();
    let (from, to) = (view.ranks.len() as f64, to as f64);
    all * (1.0 - from.min(to) / from.max(to)).max(1.0 / from.max(to))
}

/// Where ranks of several jobs crowd a node, ranks beyond the number the job began with leave.
fn give_way(model: &Model<'_>) -> Option<Proposal> {
    let view = model.view;
    let beyond = view.ranks.len().saturating_sub(view.started_with.max(view.min));
    let is_crowded =
        |node: usize| f64::from(view.nodes[node].ranks) > view.own_ranks(node) as f64 && view.spare(node) < -0.3;
    let leaving = (0..view.ranks.len())
        .rev()
        .filter(|rank| is_crowded(view.ranks[*rank].node));
    let leaving = as_many_as_may(view, leaving.take(beyond).collect());
    let node = view.ranks[*leaving.first()?].node;
    let why = format!(
        "ranks of other jobs need the CPUs of node {}, and this job has more than the {} ranks it began with",
        view.nodes[node].name, view.started_with
    );
    leave(model, leaving, Need::Refuge, true, why)
}

fn grow(model: &Model<'_>, tuning: &Tuning, is_near: &dyn Fn(usize) -> bool) -> Option<Proposal> {
    let view = model.view;
    let size = view.ranks.len();
    let useful = view.useful_part();
    if size >= view.max || useful < tuning.size.grow_useful_min {
        return None;
    }
    let mut slots: Vec<usize> = Vec::new();
    for node in 0..view.nodes.len() {
        let taken = slots.len();
        while slots.len() < taken + NEWCOMERS_MAX
            && greedy::has_room(view, node, slots.len() - taken)
            && view.spare(node) - (slots.len() - taken) as f64 >= SPARE_PER_RANK
        {
            slots.push(node);
        }
    }
    slots.sort_by(|a, b| {
        let nearer = is_near(*b).cmp(&is_near(*a));
        let faster = view.nodes[*b].speed.total_cmp(&view.nodes[*a].speed);
        nearer.then(faster).then(a.cmp(b))
    });
    let at_once = ((size as f64 * tuning.size.grow_part_max) as usize).max(1);
    let most = slots.len().min(view.max - size).min(at_once).min(NEWCOMERS_MAX);
    let mut best: Option<(usize, f64)> = None;
    for count in (1..=most).filter(|count| view.counts.allow((size + count) as u32)) {
        let places: Vec<usize> = view
            .places()
            .into_iter()
            .chain(slots[..count].iter().copied())
            .collect();
        let measured = view.measured_sizes.get(&(size + count)).copied();
        let then = measured.unwrap_or_else(|| model.after_resize(&places));
        // A newcomer must pay: each adds at least a per cent.
        if best.is_none_or(|(_, other)| then < other * 0.99) {
            best = Some((count, then));
        }
    }
    let (count, then_ms) = best?;
    Some(Proposal {
        change: Change::Expand(slots[..count].to_vec()),
        then_ms,
        bytes: resize_bytes(view, size + count),
        need: Need::Growth,
        is_forced: false,
        why: format!(
            "{:.0} % of the time of {size} ranks is useful, and {} CPUs are free",
            useful * 100.0,
            slots.len()
        ),
    })
}

fn shrink(model: &Model<'_>, tuning: &Tuning) -> Option<Proposal> {
    let view = model.view;
    let (size, useful) = (view.ranks.len(), view.useful_part());
    if size <= view.min.max(1) || useful >= tuning.size.shrink_useful_max {
        return None;
    }
    let slowest_first = {
        let mut ranks: Vec<usize> = (0..size).collect();
        let speed = |rank: &usize| view.nodes[view.ranks[*rank].node].speed * view.ranks[*rank].cpu_share;
        ranks.sort_by(|a, b| speed(a).total_cmp(&speed(b)).then(b.cmp(a)));
        ranks
    };
    let mut best = None;
    for count in (1..=size - view.min.max(1)).filter(|count| view.counts.allow((size - count) as u32)) {
        let found = leave(
            model,
            slowest_first[..count].to_vec(),
            Need::Relief,
            false,
            String::new(),
        )?;
        let then_ms = view
            .measured_sizes
            .get(&(size - count))
            .copied()
            .unwrap_or(found.then_ms);
        if then_ms > view.iteration_ms * (1.0 + tuning.size.shrink_loss_max) {
            break;
        }
        best = Some(Proposal { then_ms, ..found });
    }
    best.map(|found| Proposal {
        why: format!(
            "{:.0} % of the time of {size} ranks is useful, and fewer ranks are no slower",
            useful * 100.0
        ),
        ..found
    })
}

/// Shares by speed: processes stay, data moves.
fn rebalance(model: &Model<'_>) -> Option<Proposal> {
    let why = format!(
        "shares of the data do not follow the speeds of the ranks: {}",
        greedy::slowest_in_words(model.view)
    );
    arranged(model, &model.view.places(), why)
}

/// Slow ranks go elsewhere and shares follow the speeds: where shares are unequal already, a move alone helps nobody.
fn arrange(model: &Model<'_>, is_near: &dyn Fn(usize) -> bool) -> Option<Proposal> {
    let view = model.view;
    let time = |places: &[usize]| model.after_arranging(places).0;
    let mut places = view.places();
    let mut now = time(&places);
    for _ in 0..greedy::MOVES_MAX.min(view.ranks.len()) {
        let (_, speeds) = model.after_arranging(&places);
        let slowest = (0..speeds.len()).min_by(|a, b| speeds[*a].total_cmp(&speeds[*b]))?;
        let arrived = |node: usize| {
            places
                .iter()
                .zip(&view.ranks)
                .filter(|(to, rank)| **to == node && rank.node != node)
                .count()
        };
        let may = |node: &usize| {
            *node != places[slowest]
                && is_near(*node)
                && !view.share_cpus(*node, places[slowest])
                && greedy::has_room(view, *node, arrived(*node))
        };
        let after = |node: usize| {
            let mut trial = places.clone();
            trial[slowest] = node;
            time(&trial)
        };
        let best = (0..view.nodes.len())
            .filter(may)
            .map(|node| (node, after(node)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        match best {
            Some((node, then)) if then < now * (1.0 - 1e-3) => (places[slowest], now) = (node, then),
            _ => break,
        }
    }
    if places == view.places() {
        return None;
    }
    let why = format!(
        "a faster place and shares that follow it: {}",
        greedy::slowest_in_words(view)
    );
    arranged(model, &places, why)
}

fn arranged(model: &Model<'_>, places: &[usize], why: String) -> Option<Proposal> {
    let view = model.view;
    // Ranks that take turns on the same CPUs are equally fast, whatever one look at them says.
    let is_one_pool = places.iter().all(|node| view.share_cpus(places[0], *node));
    if !view.follows_shares || view.ranks.len() < 2 || is_one_pool {
        return None;
    }
    let (then_ms, speeds) = model.after_arranging(places);
    let (all, fastest) = (speeds.iter().sum::<f64>(), speeds.iter().copied().fold(0.0, f64::max));
    let all_data = view.all_data();
    let ranks = view.ranks.iter().zip(&speeds);
    let shares = ranks.map(|(rank, speed)| (rank.data / all_data, speed / all.max(1e-9)));
    let reshared = shares.map(|(now, then)| (now - then).abs()).sum::<f64>() / 2.0;
    let all_bytes: f64 = view.ranks.iter().map(|rank| rank.registered).sum();
    let moves = places
        .iter()
        .zip(&view.ranks)
        .enumerate()
        .filter(|(_, (to, rank))| rank.node != **to);
    let moves: Vec<(usize, usize)> = moves.map(|(rank, (to, _))| (rank, *to)).collect();
    let moved: f64 = moves.iter().map(|(rank, _)| view.ranks[*rank].registered).sum();
    Some(Proposal {
        change: Change::Arrange(
            moves,
            speeds
                .iter()
                .map(|speed| (speed / fastest.max(1e-9)).max(1e-3))
                .collect(),
        ),
        then_ms,
        bytes: all_bytes * reshared + moved,
        need: Need::Relief,
        is_forced: false,
        why,
    })
}
