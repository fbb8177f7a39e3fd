//! Figure of one text by plain decoding, sequential and distributed speculation: forwards, cancellations, and emitted tokens.

use super::{Anchor, Svg, short};
use crate::offline::Span;
use crate::{Cell, Trace, Traces};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 60.0;
const LANE: f64 = 26.0;
const BAR: f64 = 20.0;
/// Height of a schedule's emitted tokens: those of one moment are stacked.
const STACK: f64 = 24.0;
/// Distance from one schedule to the next.
const GAP: f64 = 18.0;

/// Draws the schedules below each other, on one time axis. `unit` is the unit of the cell's latencies, for example `ms`.
pub fn timeline(traces: &Traces, unit: &str) -> String {
    let Traces { cell, plain, si, dsi } = traces;
    let Cell { target, drafter, acceptance, lookahead, sp_degree, tokens } = cell;
    let foot = TOP + (sp_degree + 3) as f64 * LANE + 3.0 * (STACK + GAP);
    let mut svg = Svg::new(WIDTH, foot + 52.0, "Plain decoding, sequential and distributed speculation over time");
    let [plain_total, si_total, dsi_total] = [plain, si, dsi].map(|trace| short(trace.latency()));
    let total = format!("{tokens} tokens: plain {plain_total} {unit}, SI {si_total} {unit}, DSI {dsi_total} {unit}");
    svg.text(LEFT, 20.0, Anchor::Start, "ft-ink ft-b", &total);
    let (t, c) = (short(target.tpot), short(drafter.tpot));
    let what = format!(
        "target {t} {unit}, drafter {c} {unit}, acceptance {acceptance}, lookahead {lookahead}, SP degree {sp_degree}"
    );
    svg.text(LEFT, 38.0, Anchor::Start, "ft-quiet", &what);

    let end = traces.end();
    let x = |time: f64| LEFT + time * (WIDTH - LEFT - RIGHT) / end;
    for at in traces.ticks() {
        svg.line((x(at), TOP - 6.0), (x(at), foot - GAP), "ft-s-line");
        svg.text(x(at), foot - 2.0, Anchor::Middle, "ft-quiet", &short(at));
    }
    svg.text((LEFT + WIDTH - RIGHT) / 2.0, foot + 14.0, Anchor::Middle, "ft-ink", &format!("time ({unit})"));
    let servers = (1..=*sp_degree).map(|server| format!("server {server}"));
    let most = [plain, si, dsi].into_iter().flat_map(moments).map(<[_]>::len).max().unwrap_or(1);
    let height = (STACK / most as f64).min(8.0);
    let mut top = TOP;
    for (trace, lanes) in [
        (plain, vec!["plain".into()]),
        (si, vec!["SI".into()]),
        (dsi, ["DSI: drafter".into()].into_iter().chain(servers).collect()),
    ] {
        top = schedule(&mut svg, trace, &lanes, (top, height), x);
    }
    let items = [
        ("ft-draft", "drafts tokens"),
        ("ft-verify", "target forward"),
        ("ft-verify ft-off ft-s-quiet", "cancelled"),
        ("ft-accepted", "accepted token"),
        ("ft-target", "the target's own token"),
    ];
    svg.legend(LEFT, foot + 38.0, items);
    svg.finish()
}

/// Draws the lanes of a schedule, then its emitted tokens, each `height` high. Returns the top of the next schedule.
fn schedule(svg: &mut Svg, trace: &Trace, lanes: &[String], (top, height): (f64, f64), x: impl Fn(f64) -> f64) -> f64 {
    let lane = |at: usize| top + at as f64 * LANE;
    let foot = lane(lanes.len());
    for (at, name) in lanes.iter().enumerate() {
        svg.text(LEFT - 10.0, lane(at) + BAR - 5.0, Anchor::End, "ft-ink", name);
    }
    for span in &trace.spans {
        // With one lane, drafter and target take turns.
        let at = span.server.map_or(0, |server| server + 1).min(lanes.len() - 1);
        bar(svg, span, x(span.from), x(span.to), lane(at));
    }
    svg.text(LEFT - 10.0, foot + STACK, Anchor::End, "ft-quiet ft-small", "emitted");
    for tokens in moments(trace) {
        let (accepted, all) = (tokens.iter().filter(|token| token.1).count(), tokens.len());
        for (class, from, to) in
            [("ft-accepted", 0, accepted), ("ft-target", accepted, all)].into_iter().filter(|(_, from, to)| from < to)
        {
            let [from, to] = [from, to].map(|count| count as f64 * height);
            svg.rect(x(tokens[0].0) - 2.5, foot + STACK - to, 5.0, to - from, class);
        }
    }
    foot + STACK + GAP
}

/// Returns the tokens emitted at each moment.
fn moments(trace: &Trace) -> impl Iterator<Item = &[(f64, bool)]> {
    trace.emitted.chunk_by(|a, b| a.0 == b.0)
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
