//! Figures of simulations and measurements as SVG for files and pages, with light and dark colours and without scripts.
//!
//! A page can set the custom properties `--ft-paper`, `--ft-ink`, `--ft-quiet`, `--ft-line`, `--ft-accepted`, `--ft-target`, `--ft-draft`,
//! `--ft-verify` and `--ft-0` to `--ft-10` on any element around a figure.

mod cluster;
mod heatmaps;
mod timeline;

pub use cluster::cluster;
pub use heatmaps::heatmaps;
pub use timeline::timeline;

/// Custom properties with their light and dark colours. The scale goes from 0 (much faster) over 5 (equal) to 10 (much slower), from blue
/// to orange. Colour-blind people can distinguish these, and they also differ in lightness.
const COLOURS: [(&str, &str, &str); 19] = [
    ("paper", "#ffffff", "#15181c"),
    ("ink", "#1c2126", "#e8eaed"),
    ("quiet", "#5b6570", "#a3acb6"),
    ("line", "#d5dae0", "#3a4149"),
    ("accepted", "#2f79b9", "#6fb2f0"),
    ("target", "#cf5b1c", "#f0a060"),
    ("draft", "#8fbce6", "#2c5f92"),
    ("verify", "#c9cfd6", "#4a535d"),
    ("0", "#083f7d", "#a9d6ff"),
    ("1", "#2868ab", "#78b8f5"),
    ("2", "#5c9ad0", "#4d93d8"),
    ("3", "#97c3e6", "#326fae"),
    ("4", "#cfe2f2", "#244b72"),
    ("5", "#f3f3f0", "#2a2d31"),
    ("6", "#fbdfc6", "#5a3d26"),
    ("7", "#f5b583", "#86542b"),
    ("8", "#e98a48", "#b87033"),
    ("9", "#c4561b", "#e5944c"),
    ("10", "#863306", "#ffc690"),
];

/// Figure that is being drawn. Classes are `ft-` and a property's name for fills, `ft-s-` for strokes.
pub struct Svg {
    text: String,
}

/// Alignment of a text relative to its point.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "as in SVG")]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// Creates an empty figure with its size in pixels and an accessible title.
    pub fn new(width: f64, height: f64, title: &str) -> Self {
        let mut svg = Self { text: String::new() };
        let title = escape(title);
        svg.add(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"ft\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title><style>"
        ));
        let rules = |dark: bool| -> String {
            let rule = |&(name, light, night)| {
                let colour = format!("var(--ft-{name},{})", if dark { night } else { light });
                let stroke = match name {
                    "line" | "quiet" | "accepted" | "target" | "draft" => {
                        format!(".ft .ft-s-{name}{{stroke:{colour}}}")
                    }
                    _ => String::new(),
                };
                format!(".ft .ft-{name}{{fill:{colour}}}{stroke}")
            };
            COLOURS.iter().map(rule).collect()
        };
        svg.add(&rules(false));
        svg.add("@media(prefers-color-scheme:dark){");
        svg.add(&rules(true));
        svg.add("}.ft text{font-family:system-ui,sans-serif;font-size:12px}.ft rect{shape-rendering:crispEdges}.ft .ft-b{font-weight:600}.ft .ft-small{font-size:10px}");
        svg.add(".ft .ft-off{fill-opacity:.25;stroke-dasharray:2 2}");
        svg.add(".ft path{fill:none;stroke-width:2}.ft .ft-dashed{stroke-width:1;stroke-dasharray:4 3}</style>");
        svg.rect(0.0, 0.0, width, height, "ft-paper");
        svg
    }

    fn add(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Draws a filled rectangle.
    pub fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, class: &str) {
        let (x, y, width, height) = (short(x), short(y), short(width), short(height));
        self.add(&format!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" class=\"{class}\"/>"));
    }

    /// Draws a line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let (x1, y1, x2, y2) = (short(from.0), short(from.1), short(to.0), short(to.1));
        self.add(&format!("<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" class=\"{class}\"/>"));
    }

    /// Draws a line through all points.
    pub fn path(&mut self, points: &[(f64, f64)], class: &str) {
        let points: Vec<String> = points.iter().map(|&(x, y)| format!("{} {}", short(x), short(y))).collect();
        self.add(&format!("<path d=\"M{}\" class=\"{class}\"/>", points.join("L")));
    }

    /// Draws a text at its baseline.
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y, text) = (short(x), short(y), escape(text));
        self.add(&format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>"));
    }

    /// Draws a centred text that reads upwards.
    fn upwards(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let (x, y, text) = (short(x), short(y), escape(text));
        let place = format!("transform=\"translate({x} {y}) rotate(-90)\"");
        self.add(&format!("<text {place} text-anchor=\"middle\" class=\"{class}\">{text}</text>"));
    }

    /// Draws a row of colours with their meanings.
    fn legend(&mut self, mut x: f64, y: f64, items: impl IntoIterator<Item = (&'static str, &'static str)>) {
        for (class, says) in items {
            self.rect(x, y - 9.0, 12.0, 11.0, class);
            self.text(x + 17.0, y, Anchor::Start, "ft-quiet", says);
            x += 34.0 + says.chars().count() as f64 * 6.4;
        }
    }

    /// Returns the file.
    pub fn finish(mut self) -> String {
        self.add("</svg>");
        self.text
    }
}

/// Formats a number with up to two decimals.
pub fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

/// Escapes a text for SVG.
fn escape(text: &str) -> String {
    // XML does not allow control characters.
    let text = text.replace(char::is_control, " ").replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
