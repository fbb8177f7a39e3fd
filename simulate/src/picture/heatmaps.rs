//! Heatmaps of latency ratios.

use super::{Anchor, Svg};
use crate::heatmap::{Grid, Ratio};

/// Ratios at which the colour changes.
const STEPS: [f64; 10] = [0.25, 0.4, 0.6, 0.8, 0.98, 1.02, 1.25, 1.7, 2.5, 4.0];

const SIDE: f64 = 240.0;
/// Width of a colour in the legend, in pixels.
const SWATCH: f64 = 30.0;
const LEFT: f64 = 58.0;
const TOP: f64 = 58.0;
/// Width of the legend with its labels.
const NARROWEST: f64 = 450.0;
/// Distance from one plot to the next.
const STRIDE: (f64, f64) = (330.0, 326.0);

/// Draws a grid as heatmaps, one per ratio, `columns` in a row: drafter latency to the right, acceptance upwards.
pub fn heatmaps(grid: &Grid, ratios: &[Ratio], columns: usize) -> String {
    let across = ratios.len().clamp(1, columns.max(1));
    let down = ratios.len().div_ceil(across);
    let plots = across as f64 * STRIDE.0;
    let (width, height) = (plots.max(NARROWEST), down as f64 * STRIDE.1 + 66.0);
    let left = (width - plots) / 2.0 + LEFT;
    let titles: Vec<&str> = ratios.iter().map(|ratio| ratio.title()).collect();
    let mut svg = Svg::new(width, height, &format!("Ratios of latencies: {}", titles.join(", ")));
    let options = &grid.options;
    let lookahead = match options.lookahead {
        Some(lookahead) => format!("lookahead {lookahead}"),
        None => "best lookahead of each".into(),
    };
    let all = (0..grid.drafter_latencies.len()).all(|column| grid.keeps_up(column));
    let empty = if all { "" } else { "; empty: equation 1 not met" };
    let what = format!("{} tokens, SP degree {}, {lookahead}{empty}", options.tokens, options.sp_degree);
    svg.text(left, 22.0, Anchor::Start, "ft-quiet", &what);
    for (at, &ratio) in ratios.iter().enumerate() {
        let (x, y) = ((at % across) as f64 * STRIDE.0 + left, (at / across) as f64 * STRIDE.1 + TOP);
        plot(&mut svg, grid, ratio, x, y);
    }
    legend(&mut svg, (width - 11.0 * SWATCH) / 2.0, height - 48.0);
    svg.finish()
}

fn plot(svg: &mut Svg, grid: &Grid, ratio: Ratio, x: f64, y: f64) {
    let (columns, rows) = (grid.drafter_latencies.len(), grid.acceptances.len());
    let (width, height) = (SIDE / columns as f64, SIDE / rows as f64);
    svg.text(x, y - 10.0, Anchor::Start, "ft-ink ft-b", ratio.title());
    for (row, cells) in grid.cells.chunks(columns).enumerate() {
        let top = y + SIDE - (row + 1) as f64 * height;
        let drawn = |column| ratio == Ratio::SiPlain || grid.keeps_up(column);
        let colours = cells.iter().enumerate().map(|(at, means)| drawn(at).then(|| colour(ratio.of_means(means))));
        let mut column = 0;
        // Neighbours of the same colour share a rectangle.
        for run in colours.collect::<Vec<_>>().chunk_by(|a, b| a == b) {
            if let Some(colour) = run[0] {
                let class = format!("ft-{colour}");
                svg.rect(x + column as f64 * width, top, run.len() as f64 * width, height, &class);
            }
            column += run.len();
        }
    }
    let foot = y + SIDE;
    for tick in 0..=4 {
        let value = f64::from(tick) / 4.0;
        let label = format!("{value}");
        // A tick is in the middle of the cell with its value.
        let across = x + (value * columns as f64 - 0.5).clamp(0.0, columns as f64) * width;
        let up = foot - (value * (rows - 1) as f64 + 0.5) * height;
        if tick > 0 {
            svg.line((across, foot), (across, foot + 4.0), "ft-s-quiet");
            svg.text(across, foot + 17.0, Anchor::Middle, "ft-quiet", &label);
        }
        svg.line((x - 4.0, up), (x, up), "ft-s-quiet");
        svg.text(x - 8.0, up + 4.0, Anchor::End, "ft-quiet", &label);
    }
    svg.text(x + SIDE / 2.0, foot + 34.0, Anchor::Middle, "ft-ink", "drafter latency / target latency");
    svg.upwards(x - 40.0, y + SIDE / 2.0, "ft-ink", "acceptance");
}

fn colour(ratio: f64) -> usize {
    STEPS.iter().filter(|&&step| ratio > step).count()
}

fn legend(svg: &mut Svg, x: f64, y: f64) {
    for at in 0..=STEPS.len() {
        svg.rect(x + at as f64 * SWATCH, y, SWATCH, 14.0, &format!("ft-{at}"));
    }
    for (at, step) in STEPS.iter().enumerate() {
        let at = x + (at + 1) as f64 * SWATCH;
        svg.line((at, y + 14.0), (at, y + 18.0), "ft-s-quiet");
        svg.text(at, y + 29.0, Anchor::Middle, "ft-quiet ft-small", &format!("{step}"));
    }
    svg.text(x - 8.0, y + 11.0, Anchor::End, "ft-ink", "faster");
    svg.text(x + 11.0 * SWATCH + 8.0, y + 11.0, Anchor::Start, "ft-ink", "slower");
}
