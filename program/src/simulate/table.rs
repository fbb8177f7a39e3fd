//! `foretoken simulate table`: SI and DSI for a list of measured pairs.

use super::super::{Failure, count, files, print_json};
use foretoken::{Error, Result};
use foretoken_simulate::offline::dsi;
use foretoken_simulate::{Cell, Draws, Latency, Pass, si, si_of_authors};
use serde::Serialize;
use serde_json::Value;
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
    let rows: Result<Vec<TableRow>> = pairs.iter().map(|pair| pair.results(args.repeats, args.seed)).collect();
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

/// Lookaheads simulated for each row, as in the paper.
const LOOKAHEADS: [usize; 3] = [1, 5, 10];

/// Target servers: a machine with eight GPUs, one of them for the drafter.
const SERVERS: usize = 7;

/// A target, a drafter and a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Pair {
    /// Name of the pair; empty if it has none.
    name: String,
    /// Milliseconds of the target per token.
    target_latency_ms: f64,
    /// Milliseconds of the drafter per token.
    drafter_latency_ms: f64,
    /// Probability that a draft token is accepted.
    acceptance: f64,
    /// Milliseconds of the target to its first token.
    target_ttft_ms: f64,
    /// Milliseconds of the drafter to its first token.
    drafter_ttft_ms: f64,
    /// Tokens to generate.
    tokens: usize,
    /// Ratio of sequential to distributed speculation that was published for the pair.
    published_ratio: Option<f64>,
}

/// Simulated times of a pair, in milliseconds. Ratios are those of sequential to distributed speculation.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct TableRow {
    /// The pair.
    #[serde(flatten)]
    pair: Pair,
    /// Plain decoding.
    plain: f64,
    /// Results by lookahead.
    lookaheads: Vec<ByLookahead>,
    /// Ratio, each with its best lookahead.
    ratio: f64,
    /// Ratio, if the lookahead of sequential speculation is 1.
    ratio_of_1: f64,
    /// Largest ratio with the same lookahead.
    ratio_of_same: f64,
    /// Ratio, each with its best lookahead, as the authors' public simulator counts.
    ratio_of_authors: f64,
}

/// Milliseconds of a pair with one lookahead.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct ByLookahead {
    /// Draft tokens.
    lookahead: usize,
    /// Sequential speculation.
    si: f64,
    /// Sequential speculation as the authors' public simulator counts it.
    si_of_authors: f64,
    /// Distributed speculation on [`SERVERS`] target servers.
    dsi: f64,
}

/// Returns the result with the least time; there is one or more.
fn fastest(results: &[ByLookahead], time: impl Fn(&ByLookahead) -> f64) -> &ByLookahead {
    results.iter().fold(&results[0], |best, next| if time(next) < time(best) { next } else { best })
}

impl Pair {
    fn cell(&self, lookahead: usize) -> Cell {
        Cell {
            target: Latency { ttft: self.target_ttft_ms, tpot: self.target_latency_ms },
            drafter: Latency { ttft: self.drafter_ttft_ms, tpot: self.drafter_latency_ms },
            acceptance: self.acceptance,
            lookahead,
            sp_degree: SERVERS,
            tokens: self.tokens,
        }
    }

    /// Simulates the pair.
    ///
    /// # Errors
    /// [`Error::BadOption`].
    fn results(&self, repeats: usize, seed: u64) -> Result<TableRow> {
        let draws = Draws::new(self.tokens, repeats, seed)?;
        let mean = |run: &mut dyn FnMut(&[bool]) -> Result<f64>| {
            let sum: Result<f64> = draws.agreements(self.acceptance).map(|agreements| run(&agreements)).sum();
            sum.map(|sum| sum / repeats as f64)
        };
        let by_lookahead = |lookahead| {
            let cell = self.cell(lookahead);
            let sequential = |run: fn(&Cell, &[bool], &mut dyn FnMut(Pass))| {
                mean(&mut |agreements| {
                    let mut total = 0.0;
                    run(&cell, agreements, &mut |pass| total += pass.total());
                    Ok(total)
                })
            };
            let patience = cell.patience();
            Ok(ByLookahead {
                lookahead,
                si: sequential(si)?,
                si_of_authors: sequential(si_of_authors)?,
                dsi: mean(&mut |agreements| dsi(&cell, patience, agreements, &mut ()))?,
            })
        };
        let lookaheads = LOOKAHEADS.into_iter().map(by_lookahead).collect::<Result<Vec<_>>>()?;
        let plain = self.target_ttft_ms + (self.tokens - 1) as f64 * self.target_latency_ms;
        let dsi = fastest(&lookaheads, |by| by.dsi).dsi;
        Ok(TableRow {
            pair: self.clone(),
            plain,
            ratio: fastest(&lookaheads, |by| by.si).si / dsi,
            ratio_of_1: lookaheads[0].si / dsi,
            ratio_of_same: lookaheads.iter().map(|by| by.si / by.dsi).fold(0.0, f64::max),
            ratio_of_authors: fastest(&lookaheads, |by| by.si_of_authors).si_of_authors / dsi,
            lookaheads,
        })
    }
}

/// Reads rows: a JSON list of objects.
///
/// # Errors
/// [`Error::BadConfig`] with the row, counted from 1, and the field.
fn parse(text: &str, file: &str) -> Result<Vec<Pair>> {
    let bad = |key: String, reason: String| Error::BadConfig { file: file.into(), key, reason };
    let value: Value = serde_json::from_str(text).map_err(|error| bad("-".into(), error.to_string()))?;
    let rows = value.as_array().filter(|rows| !rows.is_empty());
    let rows = rows.ok_or_else(|| bad("-".into(), "it has to be a list of one object or more".into()))?;
    rows.iter()
        .zip(1..)
        .map(|(row, at)| pair(row).map_err(|(field, reason)| bad(format!("row {at}: {field}"), reason)))
        .collect()
}

/// Reads a row. Errors are the wrong field and the reason.
fn pair(row: &Value) -> Result<Pair, (String, String)> {
    let fields = row.as_object().ok_or(("-".to_owned(), "it has to be an object".to_owned()))?;
    let number = |field: &str| match fields.get(field) {
        Some(value) => value.as_f64().ok_or((field.to_owned(), format!("{value} is not a number"))),
        None => Err((field.to_owned(), "it is missing".to_owned())),
    };
    let tokens = number("tokens")?;
    if tokens.fract() != 0.0 || tokens < 1.0 {
        return Err(("tokens".into(), format!("{tokens} is not a whole number of 1 or more")));
    }
    let name = match fields.get("name") {
        None => String::new(),
        Some(name) => name.as_str().ok_or(("name".to_owned(), format!("{name} is not a text")))?.to_owned(),
    };
    let pair = Pair {
        name,
        target_latency_ms: number("target_latency_ms")?,
        drafter_latency_ms: number("drafter_latency_ms")?,
        acceptance: number("acceptance")?,
        target_ttft_ms: number("target_ttft_ms")?,
        drafter_ttft_ms: number("drafter_ttft_ms")?,
        tokens: tokens as usize,
        published_ratio: fields.contains_key("published_ratio").then(|| number("published_ratio")).transpose()?,
    };
    match pair.cell(LOOKAHEADS[0]).validate() {
        Err(Error::BadOption { option, value, allowed }) => {
            let field = match &*option {
                "acceptance" | "tokens" => option.into_owned(),
                _ => format!("{option}_ms"),
            };
            Err((field, format!("{value} is not allowed, only {allowed}")))
        }
        Err(other) => Err(("-".into(), other.to_string())),
        Ok(()) => Ok(pair),
    }
}
