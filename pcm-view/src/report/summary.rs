//! How a job went, on one screen: its ranks over time, its speed, what was changed and at what price, and what may be
//! worth a try the next time. Says nothing that the story does not know.

use super::story::Story;
use crate::table::bytes;
use crate::time::span;
use pcm_proto::ids::NodeName;
use pcm_proto::time_use::TimeUse;
use std::collections::BTreeMap;

/// Layouts that are named one by one.
const LAYOUTS_MAX: usize = 5;

/// Growth that brings less than this is worth a word.
const WORTH_GROWING: f64 = 1.1;

/// Checkpoints that hold the program for more than this part of its time are worth a word.
const HELD_MAX: f64 = 0.02;

/// Below this the ranks wait for the slowest for a good part of their time.
const BALANCED_FROM: f64 = 0.85;

/// Below this more ranks bring little.
const COMMUNICATES_WELL_FROM: f64 = 0.6;

/// A job that ran for longer than this without a checkpoint had something to lose.
const LONG_S: f64 = 600.0;

/// CPUs of a node that others take, from which an agent would move ranks away.
const LOADED_FROM: f64 = 0.5;

/// A stretch of time with the same number of ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    ranks: u32,
    from: f64,
    to: f64,
    /// Iterations per second, where there are samples.
    speed: Option<f64>,
}

/// See the file head.
pub(super) fn summary(story: &Story) -> String {
    let (stretches, loads) = (stretches(story), loads(story));
    let rows = [
        ("ranks", Some(ranks(story, &stretches))),
        ("speed", speed(&stretches)),
        ("efficiency", efficiency(&story.uses)),
        ("changes", changes(story)),
        ("agents", agents(story)),
        ("checkpoints", checkpoints(story)),
        ("crashes", crashes(story)),
        ("others", others(&loads)),
    ];
    let mut lines = vec![head(story)];
    for (title, text) in rows {
        lines.extend(text.map(|text| format!("  {title:<12}{text}")));
    }
    let tips = tips(story, &stretches, !loads.is_empty());
    lines.extend(tips.iter().map(|tip| format!("  {:<12}{tip}", "to try")));
    lines.join("\n") + "\n"
}

fn seconds(seconds: f64) -> String {
    span((seconds * 1e6) as u64)
}

/// A span that may be milliseconds.
fn short(time: f64) -> String {
    match time {
        1.0.. => seconds(time),
        _ => format!("{:.0} ms", time * 1000.0),
    }
}

fn part(of: f64, whole: f64) -> String {
    format!("{:.2} % of the time", 100.0 * of / whole)
}

/// `1 move`, `2 moves`.
fn count(number: usize, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {what}{s}")
}

fn head(story: &Story) -> String {
    let status = &story.status;
    let time = seconds(story.seconds);
    let how = match &status.end {
        None => format!("runs for {time} so far"),
        Some(end) if end.code == 0 => format!("ended well after {time}"),
        Some(end) => format!("ended with code {} after {time}: {}", end.code, end.reason),
    };
    format!("job {} {}: {how}", status.job, status.name)
}

fn stretches(story: &Story) -> Vec<Stretch> {
    let first = story.changes.first();
    let mut ranks = first.map_or(story.status.size, |change| change.done.ranks_before);
    let mut from = 0.0;
    let mut found = Vec::new();
    let ends = story.changes.iter().map(|change| (change.at, change.done.ranks_after));
    for (to, next) in ends.chain([(story.seconds, 0)]) {
        if next != ranks {
            let speed = speed_within(story, from, to);
            found.push(Stretch { ranks, from, to, speed });
            (ranks, from) = (next, to);
        }
    }
    found
}

/// Two samples are the least from which there is a speed. A rate is that of the time since the sample before it; on a
/// loaded machine these times differ, and a short one may have any rate.
fn speed_within(story: &Story, from: f64, to: f64) -> Option<f64> {
    let pairs = story.rates.windows(2);
    let within = pairs.filter(|pair| pair[0].0 >= from && pair[1].0 <= to);
    let (time, iterations) = within.fold((0.0, 0.0), |(time, iterations), pair| {
        let length = pair[1].0 - pair[0].0;
        (time + length, iterations + pair[1].1 * length)
    });
    (time > 0.0).then(|| iterations / time)
}

fn ranks(story: &Story, stretches: &[Stretch]) -> String {
    let over_time = if stretches.len() > LAYOUTS_MAX {
        let (least, most) = stretches.iter().fold((u32::MAX, 0), |(least, most), stretch| {
            (least.min(stretch.ranks), most.max(stretch.ranks))
        });
        format!("{least} to {most}, {} changes of their number", stretches.len() - 1)
    } else {
        let named = stretches
            .iter()
            .map(|stretch| format!("{} for {}", stretch.ranks, seconds(stretch.to - stretch.from)));
        named.collect::<Vec<_>>().join(", ")
    };
    let time: f64 = stretches
        .iter()
        .map(|stretch| f64::from(stretch.ranks) * (stretch.to - stretch.from))
        .sum();
    let mut nodes: Vec<_> = story.stays.iter().map(|stay| &stay.node).collect();
    nodes.sort();
    nodes.dedup();
    format!(
        "{over_time}; {} of rank time on {}",
        seconds(time),
        count(nodes.len(), "node")
    )
}

fn speed(stretches: &[Stretch]) -> Option<String> {
    let mut by_ranks: Vec<(u32, f64, f64)> = Vec::new();
    for stretch in stretches {
        let Some(speed) = stretch.speed else { continue };
        let length = stretch.to - stretch.from;
        match by_ranks.iter_mut().find(|(ranks, ..)| *ranks == stretch.ranks) {
            Some((_, iterations, time)) => {
                *iterations += speed * length;
                *time += length;
            }
            None => by_ranks.push((stretch.ranks, speed * length, length)),
        }
    }
    let named = by_ranks.iter().take(LAYOUTS_MAX).map(|(ranks, iterations, time)| {
        let ranks = count(*ranks as usize, "rank");
        format!("{} with {ranks}", rate(iterations / time))
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| format!("iterations per second: {}", named.join(", ")))
}

/// In the terms of POP, as in [`TimeUse`]; a line for each number of ranks.
fn efficiency(uses: &[TimeUse]) -> Option<String> {
    let percent = |part: f64| format!("{:.0} %", part * 100.0);
    let named = uses.iter().take(LAYOUTS_MAX).map(|used| {
        format!(
            "{} with {}: load balance {} \u{d7} communication {}",
            percent(used.parallel()),
            count(used.ranks as usize, "rank"),
            percent(used.load_balance()),
            percent(used.communication())
        )
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| named.join(&format!("\n{:14}", "")))
}

fn rate(per_second: f64) -> String {
    match per_second {
        10.0.. => format!("{per_second:.0}"),
        _ => format!("{per_second:.2}"),
    }
}

fn changes(story: &Story) -> Option<String> {
    let done = || story.changes.iter().map(|change| &change.done);
    let mut plans: BTreeMap<&str, usize> = BTreeMap::new();
    for change in done() {
        *plans.entry(&change.plan).or_default() += 1;
    }
    let named: Vec<String> = plans.iter().map(|(plan, count)| format!("{count} {plan}")).collect();
    let held: f64 = done().map(|change| change.pause_ms / 1000.0).sum();
    let moved: u64 = done().map(|change| change.bytes_moved.0).sum();
    (!named.is_empty()).then(|| {
        format!(
            "{}: held the program for {} ({}), moved {}",
            named.join(", "),
            short(held),
            part(held, story.seconds),
            bytes(moved)
        )
    })
}

fn agents(story: &Story) -> Option<String> {
    let choices = &story.choices;
    let known: Vec<(f64, f64)> = choices
        .iter()
        .filter_map(|choice| Some((choice.achieved_s?, choice.predicted_s)))
        .collect();
    let gained: f64 = known.iter().map(|(gained, _)| gained).sum();
    let predicted: f64 = known.iter().map(|(_, predicted)| predicted).sum();
    (!choices.is_empty()).then(|| {
        let chosen = format!("{} chosen", count(choices.len(), "change"));
        match known.len() {
            0 => format!("{chosen}; what they gained is not known yet"),
            measured => format!("{chosen}; {measured} measured: {gained:.1} s gained, {predicted:.1} s predicted"),
        }
    })
}

/// Seconds for which checkpoints held the program, each by its slowest rank.
fn held_by_checkpoints(story: &Story) -> f64 {
    story.checkpoints.iter().map(|made| made.held_ms / 1000.0).sum()
}

fn checkpoints(story: &Story) -> Option<String> {
    let last = story.checkpoints.last()?;
    let made = story.checkpoints.len();
    let held = held_by_checkpoints(story);
    Some(format!(
        "{made}, the last of iteration {} with {}: held the program for {} ({})",
        last.iteration,
        bytes(last.bytes),
        short(held),
        part(held, story.seconds)
    ))
}

fn crashes(story: &Story) -> Option<String> {
    let back: Vec<_> = story.crashes.iter().filter_map(|crash| crash.back.as_ref()).collect();
    let away: f64 = back.iter().map(|back| back.total_ms / 1000.0).sum();
    let again: u64 = back.iter().map(|back| back.rolled_back).sum();
    (!story.crashes.is_empty()).then(|| {
        format!(
            "{}, and {} returns: {} without ranks, {again} iterations computed again",
            story.crashes.len(),
            back.len(),
            short(away)
        )
    })
}

/// Mean load by others of the nodes on which the job had ranks, the highest first.
fn loads(story: &Story) -> Vec<(String, f64)> {
    let used = |node: &NodeName| story.stays.iter().any(|stay| stay.node == *node);
    let loads = story
        .loads
        .iter()
        .filter(|(node, loads)| used(node) && !loads.is_empty());
    let mean = |loads: &[(f64, f64)]| loads.iter().map(|(_, load)| load).sum::<f64>() / loads.len() as f64;
    let mut means: Vec<(String, f64)> = loads.map(|(node, loads)| (node.to_string(), mean(loads))).collect();
    means.retain(|(_, load)| *load >= LOADED_FROM);
    means.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    means
}

fn others(loads: &[(String, f64)]) -> Option<String> {
    let named: Vec<String> = loads
        .iter()
        .take(3)
        .map(|(node, load)| format!("{load:.1} CPUs of {node}"))
        .collect();
    (!named.is_empty()).then(|| format!("took {} on average", named.join(", ")))
}

fn tips(story: &Story, stretches: &[Stretch], is_loaded: bool) -> Vec<String> {
    let mut tips = Vec::new();
    for pair in stretches.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        let (Some(slow), Some(fast)) = (before.speed, after.speed) else {
            continue;
        };
        if after.ranks > before.ranks && fast < slow * WORTH_GROWING {
            tips.push(format!(
                "fewer ranks: {} were {:.2} times as fast as {}",
                after.ranks,
                fast / slow,
                before.ranks
            ));
            break;
        }
    }
    if tips.is_empty() {
        tips.extend(story.uses.last().and_then(|last| used_better(last, story)));
    }
    if held_by_checkpoints(story) > HELD_MAX * story.seconds {
        tips.push("fewer checkpoints (--checkpoint-every), as they hold the program for so long".to_owned());
    }
    if story.checkpoints.is_empty() && story.seconds > LONG_S {
        tips.push("--checkpoint-every 60: a crash would have cost all of it".to_owned());
    }
    if is_loaded && story.choices.is_empty() {
        let job = story.status.job;
        tips.push(format!(
            "'pcmctl explain {job}', which says why no rank left the nodes that others load"
        ));
    }
    tips
}

/// What ranks that wait a lot are helped by.
fn used_better(last: &TimeUse, story: &Story) -> Option<String> {
    let job = story.status.job;
    if last.load_balance() < BALANCED_FROM {
        let lost = 100.0 * (last.communication() - last.parallel());
        return Some(format!(
            "'pcmctl rebalance {job}', or shares for arrays: ranks waited {lost:.0} % of their time for the slowest"
        ));
    }
    (last.ranks > 1 && last.communication() < COMMUNICATES_WELL_FROM).then(|| {
        let spent = 100.0 * (1.0 - last.communication());
        format!("fewer ranks, or more work for each: {spent:.0} % of the time of each goes into MPI")
    })
}
