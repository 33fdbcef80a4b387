//! The picture of the best method for each pair of sizes (before, after), one panel for each kind of data. Pure.

use super::cell::{Cell, Metric};
use super::plan::{Data, name};
use std::fmt::Write as _;

const FIELD_WIDTH: usize = 210;
const FIELD_HEIGHT: usize = 58;
const LEFT: usize = 90;
const HEAD: usize = 56;
const GAP: usize = 24;

/// Blue for merge, green and orange for the baselines; darker for collective.
fn color(method: &str) -> &'static str {
    let is_collective = method.contains("collective");
    match (method.starts_with("merge"), method.contains("intra"), is_collective) {
        (true, _, false) => "#cfe2f3",
        (true, _, true) => "#9fc5e8",
        (false, true, false) => "#d9ead3",
        (false, true, true) => "#b6d7a8",
        (false, false, false) => "#fce5cd",
        (false, false, true) => "#f9cb9c",
    }
}

/// Panels of one metric: columns are sizes before, rows sizes after.
pub(super) fn draw(cells: &[Cell], metric: Metric) -> String {
    let mut kinds: Vec<Data> = Vec::new();
    for cell in cells {
        if !kinds.contains(&cell.data) {
            kinds.push(cell.data);
        }
    }
    let mut drawing = String::new();
    let (mut width, mut top) = (LEFT + FIELD_WIDTH, GAP);
    for kind in kinds {
        let of_kind: Vec<&Cell> = cells.iter().filter(|cell| cell.data == kind).collect();
        let (right, bottom) = panel(&mut drawing, &of_kind, kind, metric, top);
        width = width.max(right);
        top = bottom + GAP;
    }
    let (width, height) = (width + GAP, top + GAP);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n{drawing}</svg>\n"
    )
}

/// Draws one kind of data below `top`; where its right and lower ends are.
fn panel(drawing: &mut String, cells: &[&Cell], kind: Data, metric: Metric, top: usize) -> (usize, usize) {
    let sizes = |of: fn(&Cell) -> u32| {
        let mut sizes: Vec<u32> = cells.iter().map(|cell| of(cell)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    };
    let (before, after) = (sizes(|cell| cell.from), sizes(|cell| cell.to));
    let mut text = |x: usize, y: usize, style: &str, words: &str| {
        let _ = writeln!(drawing, "<text x=\"{x}\" y=\"{y}\" {style}>{words}</text>");
    };
    let title = format!("{kind}: least {}", metric.name());
    text(LEFT, top + 14, "font-weight=\"bold\" font-size=\"14\"", &title);
    for (column, size) in before.iter().enumerate() {
        let x = LEFT + column * FIELD_WIDTH + 6;
        text(x, top + HEAD - 10, "fill=\"#555\"", &format!("from {size} ranks"));
    }
    for (row, size) in after.iter().enumerate() {
        let y = top + HEAD + row * FIELD_HEIGHT + 30;
        text(8, y, "fill=\"#555\"", &format!("to {size} ranks"));
    }
    for cell in cells {
        let place = |sizes: &[u32], size| sizes.iter().position(|other| *other == size).unwrap_or(0);
        let x = LEFT + place(&before, cell.from) * FIELD_WIDTH;
        let y = top + HEAD + place(&after, cell.to) * FIELD_HEIGHT;
        field(drawing, cell, metric, (x, y));
    }
    (
        LEFT + before.len() * FIELD_WIDTH,
        top + HEAD + after.len() * FIELD_HEIGHT,
    )
}

fn field(drawing: &mut String, cell: &Cell, metric: Metric, (x, y): (usize, usize)) {
    let best = cell.best(metric);
    let alike = cell.as_good_as_best(metric).len() - 1;
    let _ = writeln!(
        drawing,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>\
         <text x=\"{}\" y=\"{}\" fill=\"#555\">{:.1} ms, {alike} as good; auto {:.2} x</text>",
        FIELD_WIDTH - 4,
        FIELD_HEIGHT - 4,
        color(name(best)),
        x + 8,
        y + 22,
        name(best),
        x + 8,
        y + 42,
        cell.median(best, metric),
        cell.auto_against_best(metric),
    );
}

#[cfg(test)]
mod tests {
    use super::super::cell::{METHODS, tests::cell_of};
    use super::*;

    #[test]
    fn every_method_has_a_color_by_what_it_does() {
        let mut colors: Vec<_> = METHODS.map(|method| color(name(method))).collect();
        colors.sort_unstable();
        colors.dedup();
        assert_eq!(colors.len(), 6);
    }

    #[test]
    fn a_cell_is_a_field_that_names_its_best_method() {
        let cells = [cell_of(|candidate| if candidate == 3 { 5.0 } else { 50.0 })];
        let picture = draw(&cells, Metric::Pause);
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
        assert!(
            picture.contains(">merge-collective-async<") && picture.contains("auto 9."),
            "{picture}"
        );
        assert!(draw(&[], Metric::Pause).starts_with("<svg"));
    }
}
