//! SVG text: what a picture is made of, and its colours.

use crate::style::COLOURS;
use std::fmt::Write;

/// A picture, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
    pub(crate) body: String,
}

impl Picture {
    /// The picture as a file, or a part of a page.
    pub fn svg(&self) -> String {
        let Picture { width, height, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" style=\"max-width:100%;height:auto\" font-family=\"system-ui,sans-serif\" \
             font-size=\"15\">\n{}<rect class=\"ap-ground\" width=\"{width}\" height=\"{height}\"/>\n{body}</svg>\n",
            css()
        )
    }
}

/// Pictures one above the other.
pub fn stacked(parts: &[Picture]) -> Picture {
    let (mut body, mut height) = (String::new(), 0);
    for part in parts {
        let _ = writeln!(body, "<g transform=\"translate(0,{height})\">\n{}</g>", part.body);
        height += part.height;
    }
    Picture { width: parts.iter().map(|part| part.width).max().unwrap_or(0), height, body }
}

/// Colours by class: `s` strokes and `f` fills with a curve's colour.
fn css() -> String {
    let rules = |colours: &dyn Fn(&(&'static str, &'static str)) -> &'static str, rest: [&str; 5]| {
        let [ground, ink, soft, grid, axis] = rest;
        let mut text = format!(
            ".ap-ground{{fill:{ground}}}.ap-ink{{fill:{ink}}}.ap-soft{{fill:{soft}}}.ap-grid{{stroke:{grid}}}\
             .ap-axis{{stroke:{axis}}}"
        );
        for (number, pair) in COLOURS.iter().enumerate() {
            let colour = colours(pair);
            let _ = write!(text, ".ap-s{number}{{stroke:{colour}}}.ap-f{number}{{fill:{colour}}}");
        }
        text
    };
    let light = rules(&|(light, _)| light, ["#ffffff", "#1c1c1c", "#555555", "#e4e4e4", "#777777"]);
    let dark = rules(&|(_, dark)| dark, ["#16181c", "#eeeeee", "#b4b4b4", "#33373d", "#9a9a9a"]);
    format!("<style>{light}@media (prefers-color-scheme:dark){{{dark}}}</style>\n")
}

/// Text at a place; `anchor`: start, middle or end.
pub fn text(out: &mut String, (x, y): (f64, f64), class: &str, anchor: &str, size: u32, content: &str) {
    let content = content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{content}</text>"
    );
}

/// A straight line.
pub fn line(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64), dashed: bool) {
    let dashes = if dashed { " stroke-dasharray=\"5 4\"" } else { "" };
    let _ = writeln!(
        out,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"{dashes}/>",
        from.0, from.1, to.0, to.1
    );
}

/// About how wide a text is, pixels: the width of text is not known without its font.
pub fn width_of(content: &str, size: u32) -> f64 {
    0.56 * f64::from(size) * content.chars().count() as f64
}
