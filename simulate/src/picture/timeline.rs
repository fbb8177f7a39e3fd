//! Figure of a run of distributed speculation: draft and verify tasks, cancellations, and emitted tokens.

use super::{Anchor, Svg, short};
use crate::offline::{Span, Watch, dsi, means};
use crate::{Cell, Draws, offline::Lookaheads};
use foretoken::Result;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 66.0;
const LANE: f64 = 30.0;
const BAR: f64 = 20.0;

/// All spans and emitted tokens, in order.
#[derive(Default)]
struct Record {
    spans: Vec<Span>,
    emitted: Vec<(f64, bool)>,
}

impl Watch for Record {
    fn span(&mut self, span: Span) {
        self.spans.push(span);
    }

    fn emitted(&mut self, now: f64, accepted: bool) {
        self.emitted.push((now, accepted));
    }
}

/// Simulates one text and draws it. `unit` is the unit of the cell's latencies, for example `ms`.
///
/// # Errors
/// [`Error::BadOption`](foretoken::Error::BadOption).
pub fn timeline(cell: &Cell, seed: u64, unit: &str) -> Result<String> {
    cell.validate()?;
    let draws = Draws::new(cell.tokens, 1, seed)?;
    let mut record = Record::default();
    let mut total = 0.0;
    for agreements in draws.agreements(cell.acceptance) {
        total = dsi(cell, cell.patience(), &agreements, &mut record)?;
    }
    let others = means(cell, Lookaheads { dsi: cell.lookahead, ..Lookaheads::good(cell) }, &draws)?;
    let lanes = cell.sp_degree + 2;
    let height = TOP + lanes as f64 * LANE + 62.0;
    let mut svg = Svg::new(WIDTH, height, "A run of distributed speculation");
    let title = format!("{} tokens in {} {unit}", cell.tokens, short(total));
    let compare =
        format!("{title}; sequential speculation {}, plain decoding {}", short(others.si), short(others.plain));
    svg.text(LEFT, 20.0, Anchor::Start, "ft-ink ft-b", &compare);
    let Cell { target, drafter, acceptance, lookahead, sp_degree, .. } = cell;
    let (t, c) = (short(target.tpot), short(drafter.tpot));
    let what = format!(
        "target {t} {unit}, drafter {c} {unit}, acceptance {acceptance}, lookahead {lookahead}, SP degree {sp_degree}"
    );
    svg.text(LEFT, 38.0, Anchor::Start, "ft-quiet", &what);

    let scale = (WIDTH - LEFT - RIGHT) / total;
    let x = |time: f64| LEFT + time * scale;
    let foot = TOP + lanes as f64 * LANE;
    let step = tick(total);
    let mut at = 0.0;
    while at <= total * 1.0001 {
        svg.line((x(at), TOP - 6.0), (x(at), foot), "ft-s-line");
        svg.text(x(at), foot + 15.0, Anchor::Middle, "ft-quiet", &short(at));
        at += step;
    }
    svg.text((LEFT + WIDTH - RIGHT) / 2.0, foot + 31.0, Anchor::Middle, "ft-ink", &format!("time ({unit})"));
    let lane = |at: usize| TOP + at as f64 * LANE;
    let names = (1..=*sp_degree).map(|server| format!("server {server}"));
    for (at, name) in ["drafter".to_owned()].into_iter().chain(names).chain(["emitted".to_owned()]).enumerate() {
        svg.text(LEFT - 10.0, lane(at) + BAR - 5.0, Anchor::End, "ft-ink", &name);
    }
    for span in &record.spans {
        bar(&mut svg, span, x(span.from), x(span.to), lane(span.server.map_or(0, |server| server + 1)));
    }
    // Tokens emitted at the same moment are drawn next to each other. Tasks cancelled by the last token are already recorded.
    let mut marks: Vec<(f64, bool)> = Vec::new();
    for &(time, accepted) in &record.emitted {
        let free = marks.last().map_or(0.0, |&(last, _)| last + 5.0);
        marks.push((x(time).max(free).min(WIDTH - 5.0), accepted));
    }
    for (place, accepted) in marks {
        svg.rect(place - 2.0, lane(lanes - 1), 4.0, BAR, if accepted { "ft-accepted" } else { "ft-target" });
    }
    let items = [
        ("ft-draft", "drafts token n"),
        ("ft-verify", "verifies tokens n–m"),
        ("ft-verify ft-off ft-s-quiet", "cancelled"),
        ("ft-accepted", "accepted token"),
        ("ft-target", "the target's own token"),
    ];
    svg.legend(LEFT, foot + 48.0, items);
    Ok(svg.finish())
}

fn bar(svg: &mut Svg, span: &Span, from: f64, to: f64, top: f64) {
    let kind = if span.server.is_some() { "ft-verify" } else { "ft-draft" };
    let off = if span.cancelled { " ft-off ft-s-quiet" } else { "" };
    let width = (to - from - 1.0).max(0.5);
    svg.rect(from + 0.5, top, width, BAR, &format!("{kind}{off}"));
    let label = match span.count {
        1 => (span.position + 1).to_string(),
        count => format!("{}–{}", span.position + 1, span.position + count),
    };
    // Digits of this size are about 6 pixels wide.
    if width > label.chars().count() as f64 * 6.0 + 2.0 {
        let class = if span.cancelled { "ft-quiet ft-small" } else { "ft-ink ft-small" };
        svg.text((from + to) / 2.0, top + 14.0, Anchor::Middle, class, &label);
    }
}

/// Returns a round distance for about ten ticks.
fn tick(total: f64) -> f64 {
    let power = 10f64.powf((total / 10.0).log10().floor());
    let fits = |step: &f64| total / step <= 12.0;
    [1.0, 2.0, 5.0, 10.0].map(|step| step * power).into_iter().find(fits).unwrap_or(total)
}
