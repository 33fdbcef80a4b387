//! A plot of a few lines as SVG, without any library. Pure: must never measure.

use std::fmt::Write;

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
pub(super) struct Plot {
    /// Part of the file's name.
    pub(super) name: String,
    pub(super) title: String,
    /// What runs along the axis.
    pub(super) x: String,
    /// Whether that axis is logarithmic.
    pub(super) is_logarithmic: bool,
    pub(super) lines: Vec<(String, Vec<(f64, f64)>)>,
    /// Moments worth a mark.
    pub(super) marks: Vec<(f64, String)>,
}

impl Plot {
    /// One SVG document.
    pub(super) fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let x_of = |x: f64| if self.is_logarithmic { x.max(1e-9).log10() } else { x };
        let low = points().map(|(x, _)| x_of(*x)).fold(f64::INFINITY, f64::min);
        let high = points().map(|(x, _)| x_of(*x)).fold(f64::NEG_INFINITY, f64::max);
        let (low, width) = if high > low { (low, high - low) } else { (0.0, 1.0) };
        let top = points().map(|(_, y)| *y).fold(0.0, f64::max).max(1e-9) * 1.05;
        let across = |x: f64| LEFT + (x_of(x) - low) / width * (WIDTH - LEFT - RIGHT);
        let up = |y: f64| HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"20\" font-size=\"15\">{}</text>\n",
            escape(&self.title)
        );
        for tick in 0..=TICKS {
            let part = tick as f64 / TICKS as f64;
            let (x, y) = (low + part * width, part * top);
            let at = if self.is_logarithmic { 10.0_f64.powf(x) } else { x };
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
                 <text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                up(y) + 4.0,
                short(y),
                across(at),
                HEIGHT - BOTTOM + 18.0,
                short(at),
                y = up(y),
            );
        }
        for (at, what) in &self.marks {
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{}\" stroke=\"#888\" stroke-dasharray=\"4 3\"/>\
                 <text x=\"{:.1}\" y=\"{}\" fill=\"#555\">{}</text>",
                HEIGHT - BOTTOM,
                across(*at) + 3.0,
                TOP + 10.0 + 12.0 * self.marks.iter().position(|(other, _)| other == at).unwrap_or(0) as f64,
                escape(what),
                x = across(*at),
            );
        }
        for (number, (name, points)) in self.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let path: Vec<String> = points
                .iter()
                .map(|(x, y)| format!("{:.1},{:.1}", across(*x), up(*y)))
                .collect();
            let _ = writeln!(
                svg,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" points=\"{}\"/>\
                 <text x=\"{}\" y=\"38\" fill=\"{colour}\">{}</text>",
                path.join(" "),
                LEFT + 170.0 * number as f64,
                escape(name)
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n</svg>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 8.0,
            escape(&self.x)
        );
        svg
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

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
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
        assert!(svg.contains(&format!("points=\"{LEFT:.1},")) && svg.contains(&format!("{:.1},", WIDTH - RIGHT)));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(!Plot::default().svg().contains("NaN"));
    }
}
