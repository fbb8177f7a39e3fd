//! `foretoken simulate heatmap` and `timeline`: drawings.

use super::super::{Failure, count, print_json};
use super::NamedPair;
use foretoken::{Error, Result};
use foretoken_simulate::heatmap::{GridOptions, Ratio, grid};
use foretoken_simulate::{Cell, Draws, Trace, Traces, picture};
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(super) struct Heatmap {
    /// File to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Ratio to draw: si_plain, dsi_si, dsi_plain, dsi_best [default: all four in one picture]
    #[arg(long, value_name = "RATIO")]
    which: Option<String>,
    /// Number of drafter latencies
    #[arg(long, value_name = "N", value_parser = count, default_value_t = defaults().columns)]
    columns: usize,
    /// Number of acceptances
    #[arg(long, value_name = "N", value_parser = count, default_value_t = defaults().rows)]
    rows: usize,
    /// Draft tokens of a round, or of a verify task [default: the best for each schedule]
    #[arg(long, value_name = "N", value_parser = count)]
    lookahead: Option<usize>,
    /// Target servers of DSI
    #[arg(long, value_name = "N", value_parser = count, default_value_t = defaults().sp_degree)]
    sp_degree: usize,
    /// Tokens of a text
    #[arg(long, value_name = "N", value_parser = count, default_value_t = defaults().tokens)]
    tokens: usize,
    /// Texts per cell
    #[arg(long, value_name = "N", value_parser = count, default_value_t = defaults().repeats)]
    repeats: usize,
    /// Seed of the random draws
    #[arg(long, value_name = "N", default_value_t = defaults().seed)]
    seed: u64,
}

#[derive(clap::Args)]
pub(super) struct Timeline {
    /// Also draw the run in this SVG file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    pair: NamedPair,
    /// Time of a forward of the target
    #[arg(long, value_name = "MS", default_value_t = 30.0)]
    target_latency: f64,
    /// Time of a forward of the drafter
    #[arg(long, value_name = "MS", default_value_t = 6.0)]
    drafter_latency: f64,
    /// Target servers of DSI
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 3)]
    sp_degree: usize,
    /// Tokens to generate
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 20)]
    tokens: usize,
}

fn ratio(name: &str) -> Result<Ratio> {
    let names = ["si_plain", "dsi_si", "dsi_plain", "dsi_best"];
    let found = names.iter().zip(Ratio::ALL).find(|(known, _)| **known == name);
    found.map(|(_, ratio)| ratio).ok_or_else(|| Error::BadOption {
        option: "which".into(),
        value: name.into(),
        allowed: names.join(", "),
    })
}

fn defaults() -> GridOptions {
    GridOptions::default()
}

pub(super) fn heatmap(args: &Heatmap, json: bool) -> Result<(), Failure> {
    let ratios = match args.which.as_deref() {
        None => Ratio::ALL.to_vec(),
        Some(name) => vec![ratio(name)?],
    };
    let Heatmap { columns, rows, lookahead, sp_degree, tokens, repeats, seed, .. } = *args;
    let grid = grid(GridOptions { columns, rows, lookahead, sp_degree, tokens, repeats, seed })?;
    write(&args.out, &picture::heatmaps(&grid, &ratios, 2))?;
    if json { print_json(&grid) } else { report_file(&args.out) }
}

pub(super) fn timeline(args: &Timeline, json: bool) -> Result<(), Failure> {
    let cell = args.pair.cell(args.target_latency, args.drafter_latency, args.sp_degree, args.tokens)?;
    let cell = if args.pair.lookahead.is_some() { cell } else { cell.with_least_lookahead() };
    let draws = Draws::new(cell.tokens, 1, args.pair.seed)?.with_matches(&args.pair.match_lengths);
    let traces = Traces::new(&cell, &draws)?;
    if let Some(out) = &args.out {
        write(out, &picture::timeline(&traces, "ms"))?;
        report_file(out)?;
    }
    let ticks = traces.ticks();
    let Traces { plain, si, dsi, .. } = &traces;
    let counts = |trace: &Trace| ticks.iter().map(|&tick| trace.tokens_at(tick)).collect::<Vec<_>>();
    if json {
        #[derive(Serialize)]
        struct Report {
            /// Times at which tokens are counted.
            ticks: Vec<f64>,
            plain: Emissions,
            si: Emissions,
            dsi: Emissions,
            #[serde(flatten)]
            cell: Cell,
        }
        #[derive(Serialize)]
        struct Emissions {
            latency: f64,
            /// Number of tokens at each tick.
            tokens: Vec<usize>,
            /// Time of each token.
            emitted: Vec<f64>,
        }
        let [plain, si, dsi] = [plain, si, dsi].map(|trace| Emissions {
            latency: trace.latency(),
            tokens: counts(trace),
            emitted: trace.emitted.iter().map(|&(time, _)| time).collect(),
        });
        return print_json(&Report { ticks, plain, si, dsi, cell });
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{:>12}{:>12}{:>12}{:>12}", "ms", "plain", "SI", "DSI")?;
    let [plain_counts, si_counts, dsi_counts] = [plain, si, dsi].map(counts);
    for (at, tick) in ticks.iter().enumerate() {
        writeln!(out, "{tick:>12.2}{:>12}{:>12}{:>12}", plain_counts[at], si_counts[at], dsi_counts[at])?;
    }
    writeln!(out, "\n{:>12}{:>12.2}{:>12.2}{:>12.2}", "all after", plain.latency(), si.latency(), dsi.latency())?;
    Ok(())
}

pub(crate) fn write(path: &Path, picture: &str) -> Result<()> {
    std::fs::write(path, picture).map_err(|error| refuse(path, &error))
}

/// Checks that the file can be written, before a slow measurement. Creates an empty file if there is none.
pub(crate) fn check(path: &Path) -> Result<()> {
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).map_err(|error| refuse(path, &error))
}

fn refuse(path: &Path, error: &io::Error) -> Error {
    Error::BadOption {
        option: "out".into(),
        value: path.display().to_string(),
        allowed: format!("a file that can be written ({error})"),
    }
}

/// Prints where a file was written.
pub(crate) fn report_file(path: &Path) -> Result<(), Failure> {
    writeln!(io::stderr(), "wrote {}", path.display())?;
    Ok(())
}
