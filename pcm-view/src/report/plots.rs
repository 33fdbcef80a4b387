//! The plots of a job's story.

use super::story::{Change, Choice, Story};
use crate::chart::{Chart, number};
use crate::table::bytes;
use pcm_proto::ids::NodeName;
use std::collections::BTreeMap;

/// Colours there are; nodes beyond share them, and their names stand beside.
const COLOURS: usize = 8;
/// Cells along one side of the matrix; with more ranks a cell stands for several.
const CELLS_MAX: usize = 64;
/// Columns of the load; more samples than that are put together.
const COLUMNS_MAX: usize = 128;
/// Rows of the load; with more nodes a row stands for several, and shows the highest load of them.
const ROWS_MAX: usize = 64;
/// Cells of a plot that a pointer finds words at; with more the plot has no words, and is drawn in no time.
const WORDED_MAX: usize = 1024;

/// Words for a reconfiguration.
pub(super) fn change_words(change: &Change) -> String {
    let done = &change.done;
    format!(
        "{} at {:.1} s: {} to {} ranks, {} moved, {} of data, pause {:.1} ms, cause {}",
        done.plan,
        change.at,
        done.ranks_before,
        done.ranks_after,
        done.moved.len(),
        bytes(done.bytes_moved.0),
        done.pause_ms,
        done.cause
    )
}

/// Which rank was on which node, when.
pub(super) fn timeline(story: &Story) -> String {
    let ranks = story.stays.iter().map(|stay| stay.rank + 1).max().unwrap_or(1) as usize;
    let height = (ranks as f64 * 22.0).clamp(80.0, 420.0) + 48.0;
    let names: Vec<String> = (0..ranks).map(|rank| rank.to_string()).collect();
    let mut chart = Chart::new(
        &format!("Timeline of {ranks} ranks over nodes"),
        height,
        ("time (s)", story.seconds),
        ("rank", ranks as f64),
        Some(&names),
    );
    let nodes = story.nodes();
    for stay in &story.stays {
        let colour = nodes.iter().position(|node| **node == stay.node).unwrap_or(0) % COLOURS;
        let (y, height) = chart.row(stay.rank as usize, ranks);
        let (from, to) = (chart.x(stay.from), chart.x(stay.to));
        let gap = (height * 0.1).min(2.0);
        let (class, place, size) = (format!("n{colour}"), (from, y + gap), (to - from, height - 2.0 * gap));
        if story.stays.len() > WORDED_MAX / 4 {
            chart.plain_cell(&class, "", place, size);
            continue;
        }
        let words = format!(
            "rank {} on {} from {:.1} to {:.1} s",
            stay.rank, stay.node, stay.from, stay.to
        );
        chart.cell(&class, "", place, size, &words);
        if height >= 13.0 && to - from > 8.0 * stay.node.as_str().len() as f64 + 6.0 {
            chart.words((from + 4.0, y + height / 2.0 + 4.0), stay.node.as_str());
        }
    }
    for change in &story.changes {
        chart.mark(change.at, &change_words(change));
    }
    chart.finish()
}

/// Iterations per second, every reconfiguration marked.
pub(super) fn rates(story: &Story) -> String {
    let most = story.rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let mut chart = Chart::new(
        &format!("Iterations per second, at most {}", number(most)),
        200.0,
        ("time (s)", story.seconds),
        ("iterations/s", (most * 1.05).max(1.0)),
        None,
    );
    chart.line(&story.rates);
    for checkpoint in &story.checkpoints {
        let foot = (chart.x(checkpoint.at), chart.y(0.0) - 7.0);
        chart.plain_cell("kept", "", foot, (1.5, 7.0));
    }
    for crash in &story.crashes {
        chart.crash(crash.at, &format!("crash at {:.1} s: {}", crash.at, crash.reason));
    }
    for change in &story.changes {
        chart.mark(change.at, &change_words(change));
    }
    chart.finish()
}

/// Choices along the gain that is shown of each, the newest; more make no bar that can be told from the next.
const CHOICES_MAX: usize = 24;

/// What each change that agents chose was to gain, and what it has gained.
pub(super) fn gains(choices: &[Choice]) -> String {
    let shown = &choices[choices.len().saturating_sub(CHOICES_MAX)..];
    let most = shown
        .iter()
        .map(|choice| choice.predicted_s.max(choice.achieved_s.unwrap_or(0.0)))
        .fold(0.0, f64::max);
    let names: Vec<String> = shown.iter().map(|choice| format!("{:.0} s", choice.at)).collect();
    let rows = shown.len().max(1);
    let mut chart = Chart::new(
        &format!("Predicted and achieved gain of {} changes", shown.len()),
        (rows as f64 * 30.0).clamp(60.0, 420.0) + 48.0,
        ("gain (s of run time)", (most * 1.05).max(0.1)),
        ("change at", rows as f64),
        Some(&names),
    );
    for (row, choice) in shown.iter().enumerate() {
        let (y, height) = chart.row(row, rows);
        let bar = |value: f64| chart.x(value) - chart.x(0.0);
        let (left, half) = (chart.x(0.0), height * 0.4);
        let (predicted, achieved) = (bar(choice.predicted_s), choice.achieved_s.map(bar));
        let words = format!(
            "{}: {:.1} s predicted, {:.1} s cost",
            choice.chosen, choice.predicted_s, choice.cost_s
        );
        chart.cell("predicted", "", (left, y + height * 0.1), (predicted, half), &words);
        if let (Some(width), Some(gain)) = (achieved, choice.achieved_s) {
            let words = format!("{}: {gain:.1} s achieved", choice.chosen);
            chart.cell("achieved", "", (left, y + height * 0.5), (width, half), &words);
        }
    }
    chart.finish()
}

/// The highest load of a node by others, in CPUs.
pub(super) fn load_most(story: &Story) -> f64 {
    let values = story.loads.values().flatten().map(|(_, load)| *load);
    values.fold(0.0, f64::max)
}

/// CPUs taken by others on each node, stronger for more.
pub(super) fn loads(story: &Story) -> String {
    let nodes: Vec<(&NodeName, &Vec<(f64, f64)>)> = story.loads.iter().collect();
    let together = nodes.len().div_ceil(ROWS_MAX).max(1);
    let groups: Vec<_> = nodes.chunks(together).collect();
    let rows = groups.len();
    let most = load_most(story);
    let names: Vec<String> = groups.iter().map(|group| group_name(group)).collect();
    let mut chart = Chart::new(
        &format!("Load by others on {} nodes, at most {most:.2} CPUs", nodes.len()),
        (rows as f64 * 20.0).clamp(60.0, 420.0) + 48.0,
        ("time (s)", story.seconds),
        ("node", rows as f64),
        Some(&names),
    );
    let samples = nodes.iter().map(|(_, points)| points.len()).max().unwrap_or(0);
    let has_words = rows * samples.min(COLUMNS_MAX) <= WORDED_MAX;
    for (row, (group, name)) in groups.iter().zip(&names).enumerate() {
        let (y, height) = chart.row(row, rows);
        for (from, to, load) in columns(group) {
            let place = (chart.x(from), y + height * 0.05);
            let size = (chart.x(to) - chart.x(from), height * 0.9);
            if has_words {
                let words = format!("{name} at {to:.1} s: {load:.2} CPUs");
                chart.cell("heat", &shade(load, most), place, size, &words);
            } else {
                chart.plain_cell("heat", &coarse_shade(load, most), place, size);
            }
        }
    }
    chart.finish()
}

fn group_name(group: &[(&NodeName, &Vec<(f64, f64)>)]) -> String {
    match group {
        [] => String::new(),
        [(only, _)] => only.to_string(),
        [(first, _), .., (last, _)] => format!("{first} to {last}"),
    }
}

/// From when to when, and the highest load of any of the nodes; equal neighbours are one.
fn columns(group: &[(&NodeName, &Vec<(f64, f64)>)]) -> Vec<(f64, f64, f64)> {
    let Some((_, times)) = group.iter().max_by_key(|(_, points)| points.len()) else {
        return Vec::new();
    };
    let together = times.len().div_ceil(COLUMNS_MAX).max(1);
    let mut from = times.first().map_or(0.0, |first| first.0);
    let mut after = f64::NEG_INFINITY;
    let mut columns: Vec<(f64, f64, f64)> = Vec::new();
    for piece in times.chunks(together) {
        let to = piece.last().map_or(from, |last| last.0);
        // Nodes that came later have fewer samples, so they are put together by time.
        let of_piece = group.iter().flat_map(|(_, points)| {
            let begin = points.partition_point(|(at, _)| *at <= after);
            points[begin..].iter().take_while(|(at, _)| *at <= to)
        });
        let load = of_piece.map(|(_, load)| *load).fold(0.0, f64::max);
        match columns.last_mut() {
            Some(last) if (last.2 - load).abs() < 0.005 => last.1 = to,
            _ => columns.push((from, to, load)),
        }
        (from, after) = (to, to);
    }
    columns
}

/// Bytes from every rank to every rank.
pub(super) fn matrix(story: &Story) -> String {
    let ranks = story
        .traffic
        .iter()
        .map(|row| row.from.max(row.to) + 1)
        .max()
        .unwrap_or(1)
        .max(story.status.size);
    let together = (ranks as usize).div_ceil(CELLS_MAX);
    let cells = (ranks as usize).div_ceil(together);
    let mut sums: BTreeMap<(usize, usize), (u64, u64)> = BTreeMap::new();
    for row in &story.traffic {
        let sum = sums
            .entry((row.from as usize / together, row.to as usize / together))
            .or_default();
        *sum = (sum.0 + row.bytes, sum.1 + row.messages);
    }
    let most = sums.values().map(|(bytes, _)| *bytes).max().unwrap_or(0);
    let label = |cell: usize| (cell * together).to_string();
    let names: Vec<String> = (0..cells).map(label).collect();
    let mut chart = Chart::square(
        &format!("Bytes between {ranks} ranks, at most {}", bytes(most)),
        360.0,
        ("to rank", "from rank"),
        (cells * together) as f64,
        &names,
    );
    for ((from, to), (sum, messages)) in &sums {
        let (y, height) = chart.row(*from, cells);
        let (left, right) = (chart.x((to * together) as f64), chart.x(((to + 1) * together) as f64));
        let (share, place, size) = ((*sum as f64, most as f64), (left, y), (right - left, height));
        if sums.len() > WORDED_MAX {
            chart.plain_cell("heat", &coarse_shade(share.0, share.1), place, size);
            continue;
        }
        let words = format!(
            "{} to {}: {messages} messages, {}",
            label(*from),
            label(*to),
            bytes(*sum)
        );
        chart.cell("heat", &shade(share.0, share.1), place, size, &words);
    }
    chart.finish()
}

/// Of few kinds, so that many cells are few elements.
fn coarse_shade(value: f64, most: f64) -> String {
    shade((value / most.max(f64::MIN_POSITIVE) * 16.0).ceil(), 16.0)
}

fn shade(value: f64, most: f64) -> String {
    let strength = if most > 0.0 { value / most } else { 0.0 };
    format!("fill-opacity=\"{:.2}\"", 0.06 + 0.94 * strength)
}
