//! `foretoken simulate table`: SI and DSI for a list of measured pairs.

use super::super::{Failure, count, print_json};
use foretoken::{Error, Result};
use foretoken_simulate::table::{TableRow, parse};
use std::io::{self, Write};
use std::path::PathBuf;

/// Format of the file, for `--help`.
pub(super) const FORMAT: &str = "FILE is a JSON list of objects {target_latency_ms, drafter_latency_ms, acceptance, \
    target_ttft_ms, drafter_ttft_ms, tokens}, with a name if you like. Lookaheads are 1, 5 and 10, with at most 7 target \
    servers; SI and DSI are shown with the best of \
    them; SI(1) is SI with lookahead 1.";

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
    let path = args.pairs.display().to_string();
    let text = std::fs::read_to_string(&args.pairs)
        .map_err(|error| Error::NotFound { path: path.clone(), reason: error.to_string() })?;
    let rows: Result<Vec<TableRow>> =
        parse(&text, &path)?.iter().map(|pair| pair.simulate(args.repeats, args.seed)).collect();
    let rows = rows?;
    if json {
        return print_json(&serde_json::json!({ "rows": rows, "repeats": args.repeats, "seed": args.seed }));
    }
    let mut out = io::stdout().lock();
    let width = rows.iter().map(|row| row.pair.name.chars().count()).max().unwrap_or(0).max(4);
    writeln!(
        out,
        "{:<width$}{:>8}{:>9}{:>8}{:>10}{:>15}{:>19}{:>8}{:>11}",
        "pair", "target", "drafter", "accept", "plain", "SI (lookahead)", "DSI (lookahead,SP)", "SI/DSI", "SI(1)/DSI"
    )?;
    for TableRow { pair, plain, si, dsi, ratio, ratio_of_1, lookaheads } in &rows {
        let best = |value: f64, of_dsi: bool| {
            let found = lookaheads.iter().find(|by| if of_dsi { by.dsi == Some(value) } else { by.si == value });
            found.map_or((0, 0), |by| (by.lookahead, by.sp_degree))
        };
        let (si_lookahead, _) = best(*si, false);
        let (dsi_lookahead, sp_degree) = best(*dsi, true);
        writeln!(
            out,
            "{:<width$}{:>8.1}{:>9.1}{:>8.2}{plain:>10.1}{si:>10.1} ({si_lookahead:>2}){dsi:>12.1} ({dsi_lookahead:>2},{sp_degree}){ratio:>7.2}x{ratio_of_1:>10.2}x",
            pair.name, pair.target_latency_ms, pair.drafter_latency_ms, pair.acceptance,
        )?;
    }
    Ok(())
}
