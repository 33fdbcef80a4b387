//! The picture of the best method for each pair of sizes (before, after), one panel for each kind of data. Pure.

use super::cell::{Cell, Metric};
use super::plan::{Data, name};
use pcm_view::svg::Svg;

const FIELD_WIDTH: f64 = 210.0;
const FIELD_HEIGHT: f64 = 58.0;
const LEFT: f64 = 90.0;
const HEAD: f64 = 56.0;
const GAP: f64 = 24.0;

/// Words that are not the figure itself.
const SOFT: &str = "fill=\"#555\"";

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
    let panels = kinds.into_iter().map(|kind| Panel::of(cells, kind));
    let panels: Vec<Panel<'_>> = panels.collect();
    let width = panels.iter().map(Panel::width).fold(LEFT + FIELD_WIDTH, f64::max);
    let height: f64 = panels.iter().map(|panel| panel.height() + GAP).sum();
    let mut svg = Svg::file(width + GAP, GAP + height + GAP);
    let mut top = GAP;
    for panel in &panels {
        panel.draw(&mut svg, metric, top);
        top += panel.height() + GAP;
    }
    svg.finish() + "\n"
}

/// The cells of one kind of data.
struct Panel<'a> {
    kind: Data,
    cells: Vec<&'a Cell>,
    before: Vec<u32>,
    after: Vec<u32>,
}

impl<'a> Panel<'a> {
    fn of(cells: &'a [Cell], kind: Data) -> Self {
        let cells: Vec<&Cell> = cells.iter().filter(|cell| cell.data == kind).collect();
        let sizes = |of: fn(&Cell) -> u32| {
            let mut sizes: Vec<u32> = cells.iter().map(|cell| of(cell)).collect();
            sizes.sort_unstable();
            sizes.dedup();
            sizes
        };
        let (before, after) = (sizes(|cell| cell.from), sizes(|cell| cell.to));
        Self {
            kind,
            cells,
            before,
            after,
        }
    }

    fn width(&self) -> f64 {
        LEFT + self.before.len() as f64 * FIELD_WIDTH
    }

    fn height(&self) -> f64 {
        HEAD + self.after.len() as f64 * FIELD_HEIGHT
    }

    fn draw(&self, svg: &mut Svg, metric: Metric, top: f64) {
        let title = format!("{}: least {}", self.kind, metric.name());
        svg.text("font-weight=\"bold\" font-size=\"14\"", (LEFT, top + 14.0), &title);
        let column = |nth: usize| LEFT + nth as f64 * FIELD_WIDTH;
        let row = |nth: usize| top + HEAD + nth as f64 * FIELD_HEIGHT;
        for (nth, size) in self.before.iter().enumerate() {
            let place = (column(nth) + 6.0, top + HEAD - 10.0);
            svg.text(SOFT, place, &format!("from {size} ranks"));
        }
        for (nth, size) in self.after.iter().enumerate() {
            svg.text(SOFT, (8.0, row(nth) + 30.0), &format!("to {size} ranks"));
        }
        for cell in &self.cells {
            let place = |sizes: &[u32], size| sizes.iter().position(|other| *other == size).unwrap_or(0);
            let corner = (column(place(&self.before, cell.from)), row(place(&self.after, cell.to)));
            field(svg, cell, metric, corner);
        }
    }
}

fn field(svg: &mut Svg, cell: &Cell, metric: Metric, (x, y): (f64, f64)) {
    let best = cell.best(metric);
    let alike = cell.as_good_as_best(metric).len() - 1;
    let look = format!("fill=\"{}\"", color(name(best)));
    svg.rect(&look, (x, y), (FIELD_WIDTH - 4.0, FIELD_HEIGHT - 4.0), None);
    svg.text("", (x + 8.0, y + 22.0), name(best));
    let auto = cell.auto_against_best(metric);
    let words = format!("{:.1} ms, {alike} as good; auto {auto:.2} x", cell.median(best, metric));
    svg.text(SOFT, (x + 8.0, y + 42.0), &words);
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
