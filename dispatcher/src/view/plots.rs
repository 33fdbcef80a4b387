//! The plots of a job's story.

use super::story::{Change, Story};
use super::svg::{Chart, number};
use crate::output::bytes;
use std::collections::BTreeMap;

/// Colours there are; nodes beyond share them, and their names stand beside.
const COLOURS: usize = 8;
/// Cells along one side of the matrix; with more ranks a cell stands for several.
const CELLS_MAX: usize = 64;
/// Columns of the load; more samples than that are put together.
const COLUMNS_MAX: usize = 128;

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
        let words = format!(
            "rank {} on {} from {:.1} to {:.1} s",
            stay.rank, stay.node, stay.from, stay.to
        );
        let gap = (height * 0.1).min(2.0);
        chart.cell(
            &format!("n{colour}"),
            "",
            (from, y + gap),
            (to - from, height - 2.0 * gap),
            &words,
        );
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
    for change in &story.changes {
        chart.mark(change.at, &change_words(change));
    }
    chart.finish()
}

/// The highest load of a node by others, in CPUs.
pub(super) fn load_most(story: &Story) -> f64 {
    let values = story.loads.values().flatten().map(|(_, load)| *load);
    values.fold(0.0, f64::max)
}

/// CPUs taken by others on each node, darker for more.
pub(super) fn loads(story: &Story) -> String {
    let rows = story.loads.len();
    let most = load_most(story);
    let names: Vec<String> = story.loads.keys().map(ToString::to_string).collect();
    let mut chart = Chart::new(
        &format!("Load by others on {rows} nodes, at most {most:.2} CPUs"),
        (rows as f64 * 20.0).clamp(60.0, 420.0) + 48.0,
        ("time (s)", story.seconds),
        ("node", rows as f64),
        Some(&names),
    );
    for (row, (node, points)) in story.loads.iter().enumerate() {
        let (y, height) = chart.row(row, rows);
        let together = points.len().div_ceil(COLUMNS_MAX).max(1);
        for (place, piece) in points.chunks(together).enumerate() {
            let from = points
                .get((place * together).wrapping_sub(1))
                .map_or(piece[0].0, |before| before.0);
            let to = piece.last().map_or(from, |last| last.0);
            let load = piece.iter().map(|(_, load)| *load).fold(0.0, f64::max);
            let style = shade(load, most);
            let (x, width) = (chart.x(from), chart.x(to) - chart.x(from));
            chart.cell(
                "heat",
                &style,
                (x, y + 1.0),
                (width, height - 2.0),
                &format!("{node} at {to:.1} s: {load:.2} CPUs"),
            );
        }
    }
    chart.finish()
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
    let mut chart = Chart::new(
        &format!("Bytes between {ranks} ranks, at most {}", bytes(most)),
        360.0,
        ("to rank", f64::from(ranks)),
        ("from rank", f64::from(ranks)),
        Some(&names),
    );
    for ((from, to), (sum, messages)) in &sums {
        let (y, height) = chart.row(*from, cells);
        let (left, right) = (chart.x((to * together) as f64), chart.x(((to + 1) * together) as f64));
        let words = format!(
            "{} to {}: {messages} messages, {}",
            label(*from),
            label(*to),
            bytes(*sum)
        );
        chart.cell(
            "heat",
            &shade(*sum as f64, most as f64),
            (left, y),
            (right - left, height),
            &words,
        );
    }
    chart.finish()
}

fn shade(value: f64, most: f64) -> String {
    let strength = if most > 0.0 { value / most } else { 0.0 };
    format!("fill-opacity=\"{:.2}\"", 0.06 + 0.94 * strength)
}
