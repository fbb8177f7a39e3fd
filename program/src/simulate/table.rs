//! `foretoken simulate table`: SI and DSI for a list of measured pairs.

use super::super::{Failure, count, files, print_json};
use foretoken::Result;
use foretoken_simulate::table::{TableRow, fastest, parse};
use std::io::{self, Write};
use std::path::PathBuf;

/// Format of the file, for `--help`.
pub(super) const FORMAT: &str = "FILE is a JSON list of objects {target_latency_ms, drafter_latency_ms, acceptance, \
    target_ttft_ms, drafter_ttft_ms, tokens}, with a name and a published_ratio if you like. Lookaheads are 1, 5 and 10, with 7 \
    target servers; SI and DSI are shown with the best of them. Ratios of SI to DSI: with the best lookahead of each; of SI with \
    lookahead 1; the largest with the same lookahead; of SI as the authors of the paper simulate it; as published.";

#[derive(clap::Args)]
pub(super) struct TableArgs {
    /// JSON file with the pairs
    #[arg(long, value_name = "FILE")]
    pairs: PathBuf,
    /// Texts to average over
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 1000)]
    repeats: usize,
    /// Seed of the random draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

pub(super) fn run(args: &TableArgs, json: bool) -> Result<(), Failure> {
    let pairs = parse(&files::text(&args.pairs)?, &args.pairs.display().to_string())?;
    let rows: Result<Vec<TableRow>> = pairs.iter().map(|pair| pair.simulate(args.repeats, args.seed)).collect();
    let rows = rows?;
    if json {
        return print_json(&serde_json::json!({ "rows": rows, "repeats": args.repeats, "seed": args.seed }));
    }
    let mut out = io::stdout().lock();
    let width = rows.iter().map(|row| row.pair.name.chars().count()).max().unwrap_or(0).max(4);
    writeln!(
        out,
        "{:<width$}{:>8}{:>9}{:>8}{:>10}{:>15}{:>16}{:>8}{:>8}{:>8}{:>9}{:>11}",
        "pair",
        "target",
        "drafter",
        "accept",
        "plain",
        "SI (lookahead)",
        "DSI (lookahead)",
        "SI/DSI",
        "SI(1)",
        "same",
        "authors",
        "published"
    )?;
    for row in &rows {
        let TableRow { pair, plain, lookaheads, ratio, ratio_of_1, ratio_of_same, ratio_of_authors } = row;
        let (si, dsi) = (fastest(lookaheads, |by| by.si), fastest(lookaheads, |by| by.dsi));
        let published = pair.published_ratio.map_or("-".into(), |ratio| format!("{ratio:.2}x"));
        writeln!(
            out,
            "{:<width$}{:>8.1}{:>9.1}{:>8.2}{plain:>10.1}{:>10.1} ({:>2}){:>11.1} ({:>2}){ratio:>7.2}x{ratio_of_1:>7.2}x{ratio_of_same:>7.2}x{ratio_of_authors:>8.2}x{published:>11}",
            pair.name,
            pair.target_latency_ms,
            pair.drafter_latency_ms,
            pair.acceptance,
            si.si,
            si.lookahead,
            dsi.dsi,
            dsi.lookahead,
        )?;
    }
    Ok(())
}
