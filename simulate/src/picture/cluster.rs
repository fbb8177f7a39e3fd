//! Figures of many users on a few servers: total throughput and latency, by schedule.

use super::{Anchor, Svg, short};
use crate::cluster::{Cluster, Outcome, Point, Schedule};

const SIDE: (f64, f64) = (340.0, 260.0);
const LEFT: f64 = 62.0;
const TOP: f64 = 74.0;
/// Distance from one plot to the next.
const STRIDE: f64 = 426.0;
const WIDTH: f64 = 2.0 * STRIDE + 8.0;

fn colour(schedule: Schedule) -> &'static str {
    match schedule {
        Schedule::Plain => "ft-quiet",
        Schedule::Server => "ft-target",
        Schedule::Device => "ft-accepted",
        Schedule::Distributed => "ft-draft",
    }
}

/// Draws tokens per second, and milliseconds per token (solid: median text; dashed: 95th percentile), over the number of users. All scales
/// are logarithmic.
pub fn cluster(cluster: &Cluster, points: &[Point]) -> String {
    let mut svg = Svg::new(WIDTH, TOP + SIDE.1 + 84.0, "Tokens per second and latency by number of users");
    let Cluster { servers, drafter_latency, acceptance, round_trip, server_drafter, .. } = cluster;
    let servers = if *servers == 1 { "1 server".to_owned() } else { format!("{servers} servers") };
    let forward = |rows| short(cluster.curve.at(rows));
    let of_servers = format!(
        "{servers}: a forward of 1 row {} ms, of 64 {} ms, of 256 {} ms",
        forward(1),
        forward(64),
        forward(256)
    );
    let of_drafts = format!(
        "acceptance {acceptance}; draft tokens on devices {} ms, round trip {} ms; in the server {} forwards",
        short(*drafter_latency),
        short(*round_trip),
        short(*server_drafter),
    );
    svg.text(LEFT, 18.0, Anchor::Start, "ft-quiet", &of_servers);
    svg.text(LEFT, 35.0, Anchor::Start, "ft-quiet", &of_drafts);
    plot(&mut svg, points, LEFT, "tokens per second of all", &[|outcome| outcome.tokens_per_second]);
    let latencies: [fn(&Outcome) -> f64; 2] = [|outcome| outcome.latency_median, |outcome| outcome.latency_p95];
    plot(&mut svg, points, LEFT + STRIDE, "milliseconds per token (dashed: p95)", &latencies);
    svg.legend(LEFT, TOP + SIDE.1 + 66.0, Schedule::ALL.map(|schedule| (colour(schedule), schedule.title())));
    svg.finish()
}

fn plot(svg: &mut Svg, points: &[Point], left: f64, title: &str, lines: &[fn(&Outcome) -> f64]) {
    let (width, height) = SIDE;
    let foot = TOP + height;
    svg.text(left, TOP - 14.0, Anchor::Start, "ft-ink ft-b", title);
    let values = || points.iter().flat_map(|point| Schedule::ALL.map(|schedule| point.outcome_of(schedule)));
    let all = || values().flat_map(|outcome| lines.iter().map(move |line| line(&outcome)));
    let up = Scale::new(all(), foot, TOP);
    let across = Scale::new(points.iter().map(|point| point.users as f64), left, left + width);
    for tick in up.ticks() {
        let y = up.at(tick);
        svg.line((left, y), (left + width, y), "ft-s-line");
        svg.text(left - 8.0, y + 4.0, Anchor::End, "ft-quiet", &short(tick));
    }
    let mut free = f64::NEG_INFINITY;
    for point in points {
        let (x, label) = (across.at(point.users as f64), point.users.to_string());
        svg.line((x, foot), (x, foot + 4.0), "ft-s-quiet");
        // Leave out labels that would touch.
        if x - free > label.len() as f64 * 4.0 {
            svg.text(x, foot + 17.0, Anchor::Middle, "ft-quiet", &label);
            free = x + label.len() as f64 * 4.0;
        }
    }
    svg.text(left + width / 2.0, foot + 36.0, Anchor::Middle, "ft-ink", "users");
    for schedule in Schedule::ALL {
        for (dashed, line) in lines.iter().enumerate() {
            let place = |point: &Point| (across.at(point.users as f64), up.at(line(&point.outcome_of(schedule))));
            let places: Vec<(f64, f64)> = points.iter().map(place).collect();
            let dashes = if dashed > 0 { " ft-dashed" } else { "" };
            svg.path(&places, &format!("{}{dashes}", colour(schedule).replace("ft-", "ft-s-")));
        }
    }
}

struct Scale {
    values: (f64, f64),
    places: (f64, f64),
}

impl Scale {
    fn new(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let bounds = (f64::INFINITY, 0.0);
        let (least, most) = values.fold(bounds, |(least, most), value| (value.min(least), value.max(most)));
        // A single value needs a scale too.
        Self { values: (least, most.max(least * 1.01)), places: (from, to) }
    }

    fn at(&self, value: f64) -> f64 {
        let ((least, most), (from, to)) = (self.values, self.places);
        from + (value / least).ln() / (most / least).ln() * (to - from)
    }

    /// Returns 1, 2, 5, 10, 20, ... within the scale.
    fn ticks(&self) -> impl Iterator<Item = f64> {
        let (least, most) = self.values;
        let powers = (least.log10().floor() as i32)..=(most.log10().ceil() as i32);
        let all = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)));
        all.filter(move |tick| (least..=most).contains(tick))
    }
}
