//! `foretoken simulate split`: GPUs for several servers of the target, or for one target that is split over them.

use super::super::{Failure, count, print_json};
use super::NamedPair;
use foretoken::{Error, Result};
use foretoken_simulate::offline::{Lookaheads, Means};
use foretoken_simulate::{Cell, Draws, Latency};
use serde::Serialize;
use std::io::{self, Write};

/// Explanation of the output, for `--help`.
pub(super) const ABOUT: &str = "SP (speculation parallelism): several servers, each with a whole target, verify at the same \
    time. MP (model or tensor parallelism): several GPUs compute one target. A row has 1, 2, 4, ... GPUs per target, and as \
    many servers as the GPUs are enough for; the drafter has a GPU of its own. Plain decoding and SI use one server. Below: how \
    many times as fast MP alone would have to make the target to decode as fast as DSI does without MP, simulated and by the \
    paper's estimate 1 / (1 - acceptance^lookahead).";

#[derive(clap::Args)]
pub(super) struct SplitArgs {
    #[command(flatten)]
    pair: NamedPair,
    /// Time of a forward of the target on one GPU, in any unit
    #[arg(long, value_name = "T", default_value_t = 1.0)]
    target_latency: f64,
    /// Time of a forward of the drafter
    #[arg(long, value_name = "T", default_value_t = 0.1)]
    drafter_latency: f64,
    /// GPUs for targets
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 8)]
    gpus: usize,
    /// Efficiency of each doubling of a target's GPUs: 1 halves the time of a forward, 0.5 changes nothing
    #[arg(long, value_name = "E", default_value_t = 0.8)]
    mp_efficiency: f64,
    /// Tokens to generate
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 50)]
    tokens: usize,
    /// Texts to average over
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 3000)]
    repeats: usize,
}

/// A division of the GPUs.
#[derive(Serialize)]
struct Split {
    gpus_per_target: usize,
    sp_degree: usize,
    target_latency: f64,
    #[serde(flatten)]
    means: Means,
    lookaheads: Lookaheads,
}

/// The schedule and division with the least latency.
#[derive(Serialize)]
struct Fastest {
    schedule: &'static str,
    gpus_per_target: usize,
    sp_degree: usize,
    latency: f64,
}

#[derive(Serialize)]
struct SplitReport {
    splits: Vec<Split>,
    best: Fastest,
    /// Speed-up of the target with which plain decoding is as fast as distributed speculation without MP.
    needed_mp_speedup: f64,
    /// The paper's estimate of it. `None`: every draft token is accepted, so there is no bound.
    estimated_mp_speedup: Option<f64>,
    gpus: usize,
    mp_efficiency: f64,
    drafter_latency: f64,
    acceptance: f64,
    tokens: usize,
    repeats: usize,
    seed: u64,
}

pub(super) fn run(args: &SplitArgs, json: bool) -> Result<(), Failure> {
    let report = report(args)?;
    if json {
        return print_json(&report);
    }
    print(&report, &mut io::stdout().lock())?;
    Ok(())
}

fn report(args: &SplitArgs) -> Result<SplitReport> {
    let SplitArgs { pair, gpus, mp_efficiency, repeats, .. } = args;
    if !(0.5..=1.0).contains(mp_efficiency) {
        let (value, allowed) = (mp_efficiency.to_string(), "0.5 to 1".into());
        return Err(Error::BadOption { option: "mp_efficiency".into(), value, allowed });
    }
    if !(1..=1000).contains(gpus) {
        let (value, allowed) = (gpus.to_string(), "1 to 1000".into());
        return Err(Error::BadOption { option: "gpus".into(), value, allowed });
    }
    let whole = pair.cell(args.target_latency, args.drafter_latency, *gpus, args.tokens)?;
    let draws = Draws::new(whole.tokens, *repeats, pair.seed)?.with_matches(&pair.match_lengths);
    let mut splits = Vec::new();
    for doublings in 0..=gpus.ilog2() {
        let (gpus_per_target, speedup) = (1 << doublings, (2.0 * mp_efficiency).powi(doublings as i32));
        let target = Latency { ttft: whole.target.ttft / speedup, tpot: whole.target.tpot / speedup };
        let cell = Cell { target, sp_degree: gpus / gpus_per_target, ..whole };
        let (used, means) = pair.means(&cell, *repeats, &draws)?;
        let (sp_degree, target_latency) = (cell.sp_degree, target.tpot);
        splits.push(Split { gpus_per_target, sp_degree, target_latency, means, lookaheads: used.lookaheads });
    }
    let all =
        splits.iter().flat_map(|&Split { gpus_per_target, sp_degree, means: Means { plain, si, dsi, .. }, .. }| {
            let fastest = move |schedule, sp_degree, latency| Fastest { schedule, gpus_per_target, sp_degree, latency };
            [fastest("plain decoding", 1, plain), fastest("SI", 1, si), fastest("DSI", sp_degree, dsi)]
        });
    // Of equal latencies, that of the simplest schedule on the fewest GPUs per target.
    let Split { means, lookaheads, .. } = &splits[0];
    let first = Fastest { schedule: "plain decoding", gpus_per_target: 1, sp_degree: 1, latency: means.plain };
    let best = all.fold(first, |best, next| if next.latency < best.latency * (1.0 - 1e-9) { next } else { best });
    let all_accepted = whole.acceptance.powi(lookaheads.dsi as i32);
    let needed_mp_speedup = means.plain / means.dsi;
    Ok(SplitReport {
        needed_mp_speedup,
        estimated_mp_speedup: (all_accepted < 1.0).then(|| 1.0 / (1.0 - all_accepted)),
        splits,
        best,
        gpus: *gpus,
        mp_efficiency: *mp_efficiency,
        drafter_latency: whole.drafter.tpot,
        acceptance: whole.acceptance,
        tokens: whole.tokens,
        repeats: *repeats,
        seed: pair.seed,
    })
}

fn print(report: &SplitReport, out: &mut impl Write) -> io::Result<()> {
    let SplitReport { splits, best, needed_mp_speedup, estimated_mp_speedup, .. } = report;
    writeln!(
        out,
        "{:>15}{:>11}{:>9}{:>10}{:>15}{:>16}",
        "GPUs per target", "SP degree", "forward", "plain", "SI (lookahead)", "DSI (lookahead)"
    )?;
    for Split { gpus_per_target, sp_degree, target_latency, means, lookaheads } in splits {
        let Means { plain, si, dsi, .. } = means;
        writeln!(
            out,
            "{gpus_per_target:>15}{sp_degree:>11}{target_latency:>9.3}{plain:>10.3}{si:>10.3} ({:>2}){dsi:>11.3} ({:>2})",
            lookaheads.si, lookaheads.dsi
        )?;
    }
    let Fastest { schedule, gpus_per_target, sp_degree, latency } = best;
    let gain = splits[0].means.plain / latency;
    writeln!(
        out,
        "\nfastest: {schedule}, {gpus_per_target} GPU(s) per target, SP degree {sp_degree}: {gain:.2}x plain decoding on 1 GPU"
    )?;
    let estimate = estimated_mp_speedup.map_or("without bound".into(), |speedup| format!("{speedup:.2}x"));
    writeln!(out, "MP speed-up that equals DSI without MP: {needed_mp_speedup:.2}x, by the paper's estimate {estimate}")
}
