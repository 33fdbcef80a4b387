//! The one writer of SVG: elements, one after the other, with every word escaped. Knows no axes.

use std::fmt::Write as _;

/// A drawing under way.
#[derive(Debug)]
pub struct Svg {
    text: String,
}

impl Svg {
    /// A drawing inside a page, whose style sheet knows the classes.
    pub fn inline(width: f64, height: f64, description: &str) -> Self {
        let description = escape(description);
        let text = format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{description}\">");
        Self { text }
    }

    /// A drawing that is a file of its own, dark on white.
    pub fn file(width: f64, height: f64) -> Self {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
        );
        Self { text }
    }

    /// A path; a pointer or a screen reader finds the words. `look` is attributes.
    pub fn path(&mut self, look: &str, way: &str, words: Option<&str>) {
        self.element("path", &format!("{look} d=\"{way}\""), words);
    }

    /// A box from its upper left corner.
    pub fn rect(&mut self, look: &str, (x, y): (f64, f64), (width, height): (f64, f64), words: Option<&str>) {
        let place = format!("{look} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"");
        self.element("rect", &place, words);
    }

    /// A straight line.
    pub fn line(&mut self, look: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.path(look, &format!("M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}"), None);
    }

    /// Words from a place on, or about it as `look` says.
    pub fn text(&mut self, look: &str, (x, y): (f64, f64), words: &str) {
        let words = escape(words);
        _ = write!(self.text, "<text x=\"{x:.1}\" y=\"{y:.1}\" {look}>{words}</text>");
    }

    /// Words upwards, about a place.
    pub fn text_upwards(&mut self, (x, y): (f64, f64), words: &str) {
        let words = escape(words);
        _ = write!(
            self.text,
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"middle\">{words}</text>"
        );
    }

    fn element(&mut self, name: &str, attributes: &str, words: Option<&str>) {
        _ = match words {
            None => write!(self.text, "<{name} {attributes}/>"),
            Some(words) => {
                let words = escape(words);
                write!(self.text, "<{name} {attributes}><title>{words}</title></{name}>")
            }
        };
    }

    /// The whole drawing.
    pub fn finish(mut self) -> String {
        self.text += "</svg>";
        self.text
    }
}

/// Text as it may stand in a document or in an attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_drawing_are_never_markup() {
        let mut svg = Svg::file(10.0, 10.0);
        svg.text("", (1.0, 1.0), "<script>");
        svg.rect("class=\"a\"", (0.0, 0.0), (2.0, 2.0), Some("a & 'b'"));
        let text = svg.finish();
        assert!(
            text.contains("&lt;script&gt;") && text.contains("<title>a &amp; &#39;b&#39;</title>"),
            "{text}"
        );
        assert!(!text.contains("<script>") && text.ends_with("</svg>"));
    }
}
