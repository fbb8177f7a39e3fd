//! `foretoken simulate`: gains from speculation, without a model and without a GPU.

mod cluster;
mod drafters;
pub(super) mod draw;
mod split;
mod table;

use super::{Failure, count, print_json};
use foretoken::{Error, Result};
use foretoken_simulate::offline::{Lookaheads, Means, best_means, means};
use foretoken_simulate::online::{OnlineTimes, measure};
use foretoken_simulate::{Cell, Draws, Latency, acceptance_from_matches, best_lookahead};
use serde::Serialize;
use std::io::{self, Write};

/// Explanation of the schedules, for `--help`.
pub(super) const SCHEDULES: &str = "plain: one token per forward of the target. SI: sequential speculation, draft then \
    verify. DSI: distributed speculation, the drafter never waits and SP target servers verify at the same time. PEARL: \
    one block is drafted while the one before it is verified.";

const LONGEST: f64 = 60_000.0;

#[derive(clap::Args)]
#[command(subcommand_required = true)]
pub(super) struct SimulateArgs {
    #[command(subcommand)]
    what: SimulateCommand,
}

#[derive(clap::Subcommand)]
enum SimulateCommand {
    /// Compute mean latencies of one pair by addition
    #[command(after_help = SCHEDULES, allow_negative_numbers = true)]
    Offline(Offline),
    /// Measure latencies of one pair on threads that really wait; latencies in milliseconds
    #[command(after_help = SCHEDULES, allow_negative_numbers = true)]
    Online(Online),
    /// Let several drafters continue one text in branches; compare with each of them alone
    #[command(after_help = drafters::ABOUT, allow_negative_numbers = true)]
    Drafters(drafters::DraftersArgs),
    /// Compare divisions of GPUs between several targets (SP) and one target on several GPUs (MP)
    #[command(after_help = split::ABOUT, allow_negative_numbers = true)]
    Split(split::SplitArgs),
    /// Compare SI and DSI for a list of measured pairs
    #[command(after_help = table::FORMAT, allow_negative_numbers = true)]
    Table(table::TableArgs),
    /// Draw ratios of the schedules' latencies, over drafter latencies and acceptances, as SVG
    #[command(after_help = SCHEDULES, allow_negative_numbers = true)]
    Heatmap(draw::Heatmap),
    /// Count the tokens of plain decoding, SI and DSI over time for one text with one lookahead, and draw them as SVG; latencies in
    /// milliseconds
    #[command(after_help = SCHEDULES, allow_negative_numbers = true)]
    Timeline(draw::Timeline),
    /// Compare drafting in the servers, on the users' devices and not at all, for many users of a few servers; times in milliseconds
    #[command(after_help = cluster::ABOUT, allow_negative_numbers = true)]
    Cluster(cluster::ClusterArgs),
}

/// A pair of target and drafter, with the names that errors use.
#[derive(clap::Args)]
struct NamedPair {
    /// Time of the target's first forward [default: same as its other forwards]
    #[arg(long, value_name = "T")]
    target_ttft: Option<f64>,
    /// Time of the drafter's first forward [default: same as its other forwards]
    #[arg(long, value_name = "T")]
    drafter_ttft: Option<f64>,
    /// Probability that a draft token is accepted
    #[arg(long, value_name = "P", default_value_t = 0.8)]
    acceptance: f64,
    /// Observed numbers of accepted tokens before a rejection, from which texts are composed; replaces --acceptance
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = count, conflicts_with = "acceptance")]
    match_lengths: Vec<usize>,
    /// Draft tokens of a round, or of a verify task [default: the best for each schedule]
    #[arg(long, value_name = "N", value_parser = count)]
    lookahead: Option<usize>,
    /// Seed of the random draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(clap::Args)]
struct Offline {
    #[command(flatten)]
    pair: NamedPair,
    /// Time of a forward of the target, in any unit
    #[arg(long, value_name = "T", default_value_t = 1.0)]
    target_latency: f64,
    /// Time of a forward of the drafter
    #[arg(long, value_name = "T", default_value_t = 0.1)]
    drafter_latency: f64,
    /// Target servers of DSI
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 7)]
    sp_degree: usize,
    /// Tokens to generate
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 50)]
    tokens: usize,
    /// Texts to average over
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 3000)]
    repeats: usize,
}

#[derive(clap::Args)]
struct Online {
    #[command(flatten)]
    pair: NamedPair,
    /// Time of a forward of the target
    #[arg(long, value_name = "MS", default_value_t = 30.0)]
    target_latency: f64,
    /// Time of a forward of the drafter
    #[arg(long, value_name = "MS", default_value_t = 3.0)]
    drafter_latency: f64,
    /// Target servers of DSI
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 7)]
    sp_degree: usize,
    /// Tokens to generate
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 50)]
    tokens: usize,
    /// Texts to average over
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 3)]
    repeats: usize,
}

/// Parameters of a simulation.
#[derive(Serialize)]
struct Parameters {
    target_latency: f64,
    drafter_latency: f64,
    target_ttft: f64,
    drafter_ttft: f64,
    acceptance: f64,
    lookahead: Option<usize>,
    lookaheads: Lookaheads,
    sp_degree: usize,
    tokens: usize,
    repeats: usize,
    seed: u64,
}

pub(super) fn run(args: &SimulateArgs, json: bool) -> Result<(), Failure> {
    match &args.what {
        SimulateCommand::Offline(args) => offline(args, json),
        SimulateCommand::Online(args) => online(args, json),
        SimulateCommand::Drafters(args) => drafters::run(args, json),
        SimulateCommand::Split(args) => split::run(args, json),
        SimulateCommand::Table(args) => table::run(args, json),
        SimulateCommand::Heatmap(args) => draw::heatmap(args, json),
        SimulateCommand::Timeline(args) => draw::timeline(args, json),
        SimulateCommand::Cluster(args) => cluster::run(args, json),
    }
}

impl NamedPair {
    fn cell(&self, target: f64, drafter: f64, sp_degree: usize, tokens: usize) -> Result<Cell> {
        let acceptance = match self.match_lengths.as_slice() {
            [] => self.acceptance,
            lengths => acceptance_from_matches(lengths),
        };
        let cell = Cell {
            target: Latency { ttft: self.target_ttft.unwrap_or(target), tpot: target },
            drafter: Latency { ttft: self.drafter_ttft.unwrap_or(drafter), tpot: drafter },
            acceptance,
            lookahead: self.lookahead.unwrap_or(1),
            sp_degree,
            tokens,
        };
        cell.validate()?;
        Ok(cell)
    }

    /// Runs the offline simulation. Returns its parameters and results.
    fn means(&self, cell: &Cell, repeats: usize, draws: &Draws) -> Result<(Parameters, Means)> {
        let (lookaheads, found) = match self.lookahead {
            Some(lookahead) => {
                let lookaheads = Lookaheads::all(lookahead);
                (lookaheads, means(cell, lookaheads, draws)?)
            }
            None => best_means(cell, draws)?,
        };
        let used = Parameters {
            target_latency: cell.target.tpot,
            drafter_latency: cell.drafter.tpot,
            target_ttft: cell.target.ttft,
            drafter_ttft: cell.drafter.ttft,
            acceptance: cell.acceptance,
            lookahead: self.lookahead,
            lookaheads,
            sp_degree: cell.sp_degree,
            tokens: cell.tokens,
            repeats,
            seed: self.seed,
        };
        Ok((used, found))
    }
}

#[derive(Serialize)]
struct Best {
    lookahead: usize,
    latency: f64,
}

fn offline(args: &Offline, json: bool) -> Result<(), Failure> {
    let cell = args.pair.cell(args.target_latency, args.drafter_latency, args.sp_degree, args.tokens)?;
    let draws = Draws::new(cell.tokens, args.repeats, args.pair.seed)?.with_matches(&args.pair.match_lengths);
    let (used, means) = args.pair.means(&cell, args.repeats, &draws)?;
    let (lookahead, latency) = best_lookahead(&cell);
    let bound = Cell { lookahead: used.lookaheads.dsi, ..cell }.bound();
    if json {
        #[derive(Serialize)]
        struct Report {
            #[serde(flatten)]
            means: Means,
            /// Best expected result of sequential speculation.
            si_best: Best,
            /// Upper bound of `dsi`, for as many servers as its lookahead needs.
            dsi_bound: f64,
            #[serde(flatten)]
            used: Parameters,
        }
        return print_json(&Report { means, si_best: Best { lookahead, latency }, dsi_bound: bound, used });
    }
    let mut out = io::stdout().lock();
    let Lookaheads { si, dsi, pearl } = used.lookaheads;
    writeln!(out, "{:<8}{:>12}{:>11}{:>11}", "", "latency", "speed-up", "lookahead")?;
    let rows = [("plain", means.plain, None), ("SI", means.si, Some(si)), ("DSI", means.dsi, Some(dsi))];
    for (name, latency, lookahead) in rows.into_iter().chain([("PEARL", means.pearl, Some(pearl))]) {
        let lookahead = lookahead.map_or(String::new(), |lookahead| lookahead.to_string());
        writeln!(out, "{name:<8}{latency:>12.3}{:>10.2}x{lookahead:>11}", means.plain / latency)?;
    }
    writeln!(out, "\nSI is expected to be fastest with lookahead {lookahead}: {latency:.3}")?;
    Ok(())
}

fn online(args: &Online, json: bool) -> Result<(), Failure> {
    let cell = args.pair.cell(args.target_latency, args.drafter_latency, args.sp_degree, args.tokens)?;
    let Cell { target, drafter, .. } = cell;
    let names = ["target_latency", "target_ttft", "drafter_latency", "drafter_ttft"];
    for (option, value) in names.into_iter().zip([target.tpot, target.ttft, drafter.tpot, drafter.ttft]) {
        if value > LONGEST {
            let (value, allowed) = (value.to_string(), format!("0.000001 to {LONGEST} milliseconds"));
            return Err(Error::BadOption { option: option.into(), value, allowed }.into());
        }
    }
    let draws = Draws::new(cell.tokens, args.repeats, args.pair.seed)?.with_matches(&args.pair.match_lengths);
    let (used, added) = args.pair.means(&cell, args.repeats, &draws)?;
    let measured = measure(&cell, used.lookaheads, &draws)?;
    let Means { plain, si, dsi, pearl } = measured;
    if json {
        #[derive(Serialize)]
        struct Report {
            /// Milliseconds of a whole text.
            plain: f64,
            si: f64,
            dsi: f64,
            pearl: f64,
            /// Totals, with times to the first token and per later token.
            times: Means<OnlineTimes>,
            /// Result of the offline simulation for the same draws; the difference is the cost of scheduling.
            offline: Means,
            #[serde(flatten)]
            used: Parameters,
        }
        let (plain, si, dsi, pearl) = (plain.total, si.total, dsi.total, pearl.total);
        return print_json(&Report { plain, si, dsi, pearl, times: measured, offline: added, used });
    }
    let mut out = io::stdout().lock();
    let head = ["TTFT", "TPOT", "total", "offline"].map(|name| format!("{name:>11}")).concat();
    writeln!(out, "{:<8}{head}{:>11}", "ms", "overhead")?;
    for (name, OnlineTimes { ttft, tpot, total }, offline) in
        [("plain", plain, added.plain), ("SI", si, added.si), ("DSI", dsi, added.dsi), ("PEARL", pearl, added.pearl)]
    {
        let overhead = (total / offline - 1.0) * 100.0;
        writeln!(out, "{name:<8}{ttft:>11.2}{tpot:>11.2}{total:>11.1}{offline:>11.1}{overhead:>10.1}%")?;
    }
    Ok(())
}
