//! Axes: a frame, round numbers along it with a unit, and the place of a value. Text is large enough for a narrow
//! screen, on which the whole drawing is made smaller.

use crate::svg::Svg;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Size of a drawing in its own units.
const WIDTH: f64 = 480.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 40.0;

/// Numbers along an axis, about.
const TICKS: f64 = 5.0;

/// A plot under way.
pub struct Chart {
    svg: Svg,
    height: f64,
    x_max: f64,
    y_max: f64,
    /// Boxes without words, by their look: one element each, for a browser slows down with elements.
    boxes: BTreeMap<String, String>,
}

impl Chart {
    /// Empty axes from 0 to these ends, with what they count and in which unit. `y_ticks` gives names instead of
    /// numbers.
    pub fn new(
        description: &str,
        height: f64,
        (x_label, x_max): (&str, f64),
        (y_label, y_max): (&str, f64),
        y_names: Option<&[String]>,
    ) -> Self {
        let mut chart = Self::begin(description, height, x_max, y_max);
        for tick in ticks(chart.x_max) {
            let x = chart.x(tick);
            let (top, bottom) = (TOP, height - BOTTOM);
            chart
                .svg
                .path("class=\"grid\"", &format!("M{x:.1} {top}V{bottom:.1}"), None);
            chart.x_tick(x, &number(tick));
        }
        match y_names {
            None => {
                for tick in ticks(chart.y_max) {
                    chart.y_tick(chart.y(tick), &number(tick));
                }
            }
            Some(names) => chart.y_names(names),
        }
        chart.labels(x_label, y_label);
        chart
    }

    /// Empty axes of as many columns as rows, with the same names.
    pub fn square(
        description: &str,
        height: f64,
        (x_label, y_label): (&str, &str),
        cells_max: f64,
        names: &[String],
    ) -> Self {
        let mut chart = Self::begin(description, height, cells_max, cells_max);
        let longest = names.iter().map(String::len).max().unwrap_or(1) as f64;
        for (column, name) in evenly(names, 8.0 * longest + 6.0, WIDTH - LEFT - RIGHT) {
            let x = LEFT + (column as f64 + 0.5) / names.len() as f64 * (WIDTH - LEFT - RIGHT);
            chart.x_tick(x, name);
        }
        chart.y_names(names);
        chart.labels(x_label, y_label);
        chart
    }

    fn begin(description: &str, height: f64, x_max: f64, y_max: f64) -> Self {
        Self {
            svg: Svg::inline(WIDTH, height, description),
            height,
            x_max: x_max.max(f64::MIN_POSITIVE),
            y_max: y_max.max(f64::MIN_POSITIVE),
            boxes: BTreeMap::new(),
        }
    }

    fn labels(&mut self, x_label: &str, y_label: &str) {
        let (foot, end) = (self.height - BOTTOM, WIDTH - RIGHT);
        let frame = format!("M{LEFT} {TOP}V{foot:.1}H{end:.1}");
        self.svg.path("class=\"axis\"", &frame, None);
        let below = ((LEFT + end) / 2.0, self.height - 6.0);
        self.svg.text("text-anchor=\"middle\"", below, x_label);
        self.svg.text_upwards((12.0, (TOP + foot) / 2.0), y_label);
    }

    fn y_names(&mut self, names: &[String]) {
        let height = self.height - TOP - BOTTOM;
        for (row, name) in evenly(names, 13.0, height) {
            self.y_tick(TOP + (row as f64 + 0.5) / names.len() as f64 * height, name);
        }
    }

    fn x_tick(&mut self, x: f64, name: &str) {
        let place = (x, self.height - BOTTOM + 15.0);
        self.svg.text("text-anchor=\"middle\"", place, name);
    }

    fn y_tick(&mut self, y: f64, name: &str) {
        self.svg.text("text-anchor=\"end\"", (LEFT - 5.0, y + 4.0), name);
    }

    /// Place of a value along the axis to the right.
    pub fn x(&self, value: f64) -> f64 {
        LEFT + (value / self.x_max).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    /// Place of a value along the axis upwards.
    pub fn y(&self, value: f64) -> f64 {
        let span = self.height - TOP - BOTTOM;
        TOP + span - (value / self.y_max).clamp(0.0, 1.0) * span
    }

    /// Upper end and height of row `row` of `rows` rows.
    pub fn row(&self, row: usize, rows: usize) -> (f64, f64) {
        let height = (self.height - TOP - BOTTOM) / rows.max(1) as f64;
        (TOP + row as f64 * height, height)
    }

    /// A line through points.
    pub fn line(&mut self, points: &[(f64, f64)]) {
        let mut path = String::new();
        for (place, (x, y)) in points.iter().enumerate() {
            let command = if place == 0 { 'M' } else { 'L' };
            _ = write!(path, "{command}{:.1} {:.1}", self.x(*x), self.y(*y));
        }
        self.svg.path("class=\"line\"", &path, None);
    }

    /// A vertical mark with words that a pointer or a screen reader finds.
    pub fn mark(&mut self, at: f64, words: &str) {
        self.upright("class=\"mark\"", at, words);
    }

    fn upright(&mut self, look: &str, at: f64, words: &str) {
        self.boxes_out();
        let way = format!("M{:.1} {TOP}V{:.1}", self.x(at), self.height - BOTTOM);
        self.svg.path(look, &way, Some(words));
    }

    /// As [`Chart::mark`], of something that went wrong.
    pub fn crash(&mut self, at: f64, words: &str) {
        self.upright("class=\"crash\"", at, words);
    }

    /// A filled box in drawing units, with words.
    pub fn cell(&mut self, class: &str, style: &str, place: (f64, f64), (width, height): (f64, f64), words: &str) {
        let look = format!("class=\"{class}\" {style}");
        self.svg
            .rect(&look, place, (width.max(0.5), height.max(0.5)), Some(words));
    }

    /// As [`Chart::cell`], one of too many to have words.
    pub fn plain_cell(&mut self, class: &str, style: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let look = format!("class=\"{class}\" {style}");
        let path = self.boxes.entry(look).or_default();
        let (width, height) = (width.max(0.5), height.max(0.3));
        _ = write!(path, "M{x:.1} {y:.1}h{width:.1}v{height:.1}h-{width:.1}z");
    }

    fn boxes_out(&mut self) {
        for (look, path) in std::mem::take(&mut self.boxes) {
            self.svg.path(&look, &path, None);
        }
    }

    /// Words inside the drawing.
    pub fn words(&mut self, place: (f64, f64), words: &str) {
        self.svg.text("class=\"inside\"", place, words);
    }

    /// The finished drawing.
    pub fn finish(mut self) -> String {
        self.boxes_out();
        self.svg.finish()
    }
}

/// Names that would overlap are left out evenly.
fn evenly(names: &[String], each: f64, room: f64) -> impl Iterator<Item = (usize, &String)> {
    let step = (names.len() as f64 * each / room).ceil().max(1.0) as usize;
    names.iter().enumerate().step_by(step)
}

/// Round numbers from 0 to `max`.
fn ticks(max: f64) -> Vec<f64> {
    let rough = max / TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = steps.into_iter().find(|step| *step >= rough).unwrap_or(power);
    // The bound is for a maximum that is no number.
    (0..=2 * TICKS as usize)
        .map(|count| count as f64 * step)
        .take_while(|tick| *tick <= max)
        .collect()
}

/// A number along an axis, short.
pub fn number(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{value:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_columns_stand_in_their_middle_and_only_those_that_have_room() {
        let names = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
        let chart = |count: usize| Chart::square("", 360.0, ("to", "from"), count as f64, &names(count)).finish();
        let two = chart(2);
        for part in [
            "x=\"161.0\" y=\"335.0\" text-anchor=\"middle\">0<",
            "x=\"367.0\" y=\"335.0\" text-anchor=\"middle\">1<",
        ] {
            assert!(two.contains(part), "{part} in {two}");
        }
        let along = chart(1000).matches("y=\"335.0\"").count();
        assert!((5..=20).contains(&along), "{along}");
    }
}
