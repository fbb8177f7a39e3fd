//! Figures of measured values as lines over one quantity, with linear scales.

use foretoken_simulate::picture::{Anchor, Svg, short};

const SIDE: (f64, f64) = (340.0, 220.0);
const LEFT: f64 = 52.0;
const TOP: f64 = 68.0;
/// Distance from one plot to the next.
const STRIDE: f64 = 416.0;
const COLOURS: [&str; 3] = ["accepted", "target", "quiet"];

/// Plots next to each other, with the same lines.
pub(super) struct LinePlots<'a> {
    /// Title for screen readers.
    pub title: &'a str,
    /// Text above the plots.
    pub about: &'a str,
    /// Name of the quantity of the horizontal axis.
    pub across: &'a str,
    /// Names of the lines, at most three.
    pub names: &'a [&'a str],
    pub plots: &'a [LinePlot<'a>],
}

/// A plot.
pub(super) struct LinePlot<'a> {
    pub title: &'a str,
    /// Points of each line.
    pub lines: Vec<Vec<(f64, f64)>>,
}

/// Draws the plots. A dashed line marks the value 1, which is that of plain decoding.
pub(super) fn lines(figure: &LinePlots<'_>) -> String {
    let width = figure.plots.len() as f64 * STRIDE;
    let mut svg = Svg::new(width, TOP + SIDE.1 + 78.0, figure.title);
    svg.text(LEFT, 22.0, Anchor::Start, "ft-quiet", figure.about);
    for (index, LinePlot { title, lines }) in figure.plots.iter().enumerate() {
        plot(&mut svg, LEFT + index as f64 * STRIDE, title, figure.across, lines);
    }
    let (mut x, y) = (LEFT, TOP + SIDE.1 + 62.0);
    for (name, colour) in figure.names.iter().zip(COLOURS) {
        svg.rect(x, y - 6.0, 16.0, 3.0, &format!("ft-{colour}"));
        svg.text(x + 22.0, y, Anchor::Start, "ft-quiet", name);
        x += 52.0 + name.chars().count() as f64 * 6.4;
    }
    svg.finish()
}

fn plot(svg: &mut Svg, left: f64, title: &str, across: &str, lines: &[Vec<(f64, f64)>]) {
    let (width, height) = SIDE;
    let foot = TOP + height;
    svg.text(left, TOP - 14.0, Anchor::Start, "ft-ink ft-b", title);
    let points = || lines.iter().flatten();
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(1.0, f64::max);
    let (most_x, most_y) = (most(&mut points().map(|point| point.0)), most(&mut points().map(|point| 1.1 * point.1)));
    let place = |(x, y): (f64, f64)| (left + x / most_x * width, foot - y / most_y * height);
    for tick in ticks(most_y) {
        let (_, y) = place((0.0, tick));
        svg.line((left, y), (left + width, y), "ft-s-line");
        svg.text(left - 8.0, y + 4.0, Anchor::End, "ft-quiet", &short(tick));
    }
    for tick in ticks(most_x) {
        let (x, _) = place((tick, 0.0));
        svg.line((x, foot), (x, foot + 4.0), "ft-s-quiet");
        svg.text(x, foot + 17.0, Anchor::Middle, "ft-quiet", &short(tick));
    }
    svg.text(left + width / 2.0, foot + 36.0, Anchor::Middle, "ft-ink", across);
    svg.path(&[place((0.0, 1.0)), place((most_x, 1.0))], "ft-s-quiet ft-dashed");
    for (points, colour) in lines.iter().zip(COLOURS) {
        let places: Vec<(f64, f64)> = points.iter().copied().map(place).collect();
        if !places.is_empty() {
            svg.path(&places, &format!("ft-s-{colour}"));
        }
        for (x, y) in places {
            svg.rect(x - 2.5, y - 2.5, 5.0, 5.0, &format!("ft-{colour}"));
        }
    }
}

/// Returns multiples of 1, 2 or 5 times a power of ten, from 0 on: at most seven.
fn ticks(most: f64) -> impl Iterator<Item = f64> {
    let power = 10f64.powf((most / 6.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| most / step <= 6.0);
    let step = step.unwrap_or(most);
    (0..=6).map(move |index| f64::from(index) * step).take_while(move |tick| *tick <= most)
}
