//! A plot of a few lines over a common axis, as a file. Pure: must never measure.

use crate::svg::Svg;

/// Size of the picture and of the room beside the lines.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 45.0;

/// Told apart by most eyes, and in grey.
const COLOURS: [&str; 4] = ["#b03030", "#1f5fa8", "#2f7d32", "#6b4c9a"];

/// Numbers along an axis.
const TICKS: usize = 5;

/// Lines over a common axis.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// Part of the file's name.
    pub name: String,
    pub title: String,
    /// What runs along the axis.
    pub x: String,
    /// Whether that axis is logarithmic.
    pub is_logarithmic: bool,
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
    /// Moments worth a mark.
    pub marks: Vec<(f64, String)>,
}

impl Plot {
    /// One SVG document.
    pub fn svg(&self) -> String {
        let field = Field::of(self);
        let mut svg = Svg::file(WIDTH, HEIGHT);
        svg.text("font-size=\"15\"", (LEFT, 20.0), &self.title);
        for tick in 0..=TICKS {
            field.grid(&mut svg, tick as f64 / TICKS as f64);
        }
        for (nth, (at, what)) in self.marks.iter().enumerate() {
            let x = field.across(*at);
            let look = "fill=\"none\" stroke=\"#888\" stroke-dasharray=\"4 3\"";
            svg.line(look, (x, TOP), (x, HEIGHT - BOTTOM));
            svg.text("fill=\"#555\"", (x + 3.0, TOP + 10.0 + 12.0 * nth as f64), what);
        }
        for (number, (name, points)) in self.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let steps = points
                .iter()
                .map(|(x, y)| format!("{:.1} {:.1}", field.across(*x), field.up(*y)));
            let steps: Vec<String> = steps.collect();
            if !steps.is_empty() {
                let look = format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"");
                svg.path(&look, &format!("M{}", steps.join("L")), None);
            }
            let place = (LEFT + 170.0 * number as f64, 38.0);
            svg.text(&format!("fill=\"{colour}\""), place, name);
        }
        let below = ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 8.0);
        svg.text("text-anchor=\"middle\"", below, &self.x);
        svg.finish() + "\n"
    }
}

/// Where values lie in the picture.
struct Field {
    is_logarithmic: bool,
    low: f64,
    width: f64,
    top: f64,
}

impl Field {
    fn of(plot: &Plot) -> Self {
        let points = || plot.lines.iter().flat_map(|(_, points)| points);
        let mut field = Self {
            is_logarithmic: plot.is_logarithmic,
            low: 0.0,
            width: 1.0,
            top: points().map(|(_, y)| *y).fold(0.0, f64::max).max(1e-9) * 1.05,
        };
        let low = points().map(|(x, _)| field.scaled(*x)).fold(f64::INFINITY, f64::min);
        let high = points()
            .map(|(x, _)| field.scaled(*x))
            .fold(f64::NEG_INFINITY, f64::max);
        if high > low {
            (field.low, field.width) = (low, high - low);
        }
        field
    }

    fn scaled(&self, x: f64) -> f64 {
        if self.is_logarithmic { x.max(1e-9).log10() } else { x }
    }

    fn across(&self, x: f64) -> f64 {
        LEFT + (self.scaled(x) - self.low) / self.width * (WIDTH - LEFT - RIGHT)
    }

    fn up(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - y / self.top * (HEIGHT - TOP - BOTTOM)
    }

    /// Numbers at a part of both axes, and the line of the upright one.
    fn grid(&self, svg: &mut Svg, part: f64) {
        let (x, y) = (self.low + part * self.width, part * self.top);
        let x = if self.is_logarithmic { 10.0_f64.powf(x) } else { x };
        let height = self.up(y);
        svg.line("fill=\"none\" stroke=\"#ddd\"", (LEFT, height), (WIDTH - RIGHT, height));
        svg.text("text-anchor=\"end\"", (LEFT - 6.0, height + 4.0), &short(y));
        let below = (self.across(x), HEIGHT - BOTTOM + 18.0);
        svg.text("text-anchor=\"middle\"", below, &short(x));
    }
}

fn short(value: f64) -> String {
    if value >= 100.0 || value == 0.0 {
        format!("{value:.0}")
    } else if value >= 1.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_and_mark_is_drawn_within_the_picture() {
        let plot = Plot {
            title: "a < b".into(),
            lines: vec![
                ("one".into(), vec![(0.0, 1.0), (10.0, 3.0)]),
                ("none".into(), Vec::new()),
            ],
            marks: vec![(5.0, "load".into())],
            ..Plot::default()
        };
        let svg = plot.svg();
        assert!(svg.contains("a &lt; b") && svg.contains("load") && svg.ends_with("</svg>\n"));
        assert!(svg.contains(&format!("d=\"M{LEFT:.1} ")) && svg.contains(&format!("L{:.1} ", WIDTH - RIGHT)));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(!Plot::default().svg().contains("NaN"));
    }
}
