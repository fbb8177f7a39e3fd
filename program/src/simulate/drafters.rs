//! `foretoken simulate drafters`: several drafters that continue one text in branches.

use crate::{Failure, count, print_json};
use foretoken::{Error, Result};
use foretoken_simulate::offline::{SimulatedDrafter, dsi_of};
use foretoken_simulate::{Cell, Draws, Latency, bound};
use serde::Serialize;
use std::io::{self, Write};

/// Explanation, for `--help`.
pub(super) const ABOUT: &str = "Every drafter continues every branch of the draft, and every server of the target verifies one. The \
    bound is proposition 1 of the paper for drafters that are independent of each other: a token takes as long as the fastest drafter \
    that has it, or a forward of the target if none has it.";

#[derive(clap::Args)]
pub(super) struct DraftersArgs {
    /// Latency and acceptance of a drafter; several times, for several drafters [default: 0.01,0.4 and 0.15,0.75]
    #[arg(long, value_name = "T,P", value_parser = drafter)]
    drafter: Vec<(f64, f64)>,
    /// Tasks that each drafter can do at the same time
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 1)]
    instances: usize,
    /// Time of a forward of the target, in any unit
    #[arg(long, value_name = "T", default_value_t = 1.0)]
    target_latency: f64,
    /// Target servers
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 7)]
    sp_degree: usize,
    /// Draft tokens of a verify task
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 1)]
    lookahead: usize,
    /// Draft tokens that an idle target waits for
    #[arg(long, value_name = "N", default_value_t = 0)]
    patience: usize,
    /// Tokens to generate
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 50)]
    tokens: usize,
    /// Texts to average over
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 200)]
    repeats: usize,
    /// Seed of the random draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn drafter(text: &str) -> Result<(f64, f64), String> {
    let parts = text.split_once(',').map(|(latency, acceptance)| (latency.trim().parse(), acceptance.trim().parse()));
    match parts {
        Some((Ok(latency), Ok(acceptance))) if latency > 0.0 && (0.0..=1.0).contains(&acceptance) => {
            Ok((latency, acceptance))
        }
        _ => Err("give a latency above 0 and an acceptance from 0 to 1, such as 0.15,0.75".into()),
    }
}

#[derive(Serialize)]
struct DraftersReport {
    /// Latency and acceptance of each drafter.
    drafters: Vec<(f64, f64)>,
    /// Mean latency of a text.
    latency: f64,
    /// Proposition 1.
    bound: f64,
}

impl DraftersArgs {
    /// Simulates distributed speculation with these drafters. `first`: place of the first one among all, for its draws.
    fn simulate(&self, drafters: &[(f64, f64)], first: usize) -> Result<DraftersReport> {
        let cell = |(latency, acceptance)| Cell {
            target: Latency::even(self.target_latency),
            drafter: Latency::even(latency),
            acceptance,
            lookahead: self.lookahead,
            sp_degree: self.sp_degree,
            tokens: self.tokens,
        };
        let mut draws = Vec::new();
        for (&drafter, seed) in drafters.iter().zip(self.seed.wrapping_add(first as u64)..) {
            cell(drafter).validate()?;
            draws.push(Draws::new(self.tokens, self.repeats, seed)?.agreements(drafter.1).collect::<Vec<_>>());
        }
        let mut sum = 0.0;
        for text in 0..self.repeats {
            let mut drafting = Vec::new();
            for (&(latency, _), draws) in drafters.iter().zip(&draws) {
                let (latency, agreements) = (Latency::even(latency), &draws[text]);
                drafting.push(SimulatedDrafter { latency, instances: self.instances, agreements });
            }
            sum += dsi_of(&cell(drafters[0]), self.patience, &drafting, &mut ())?;
        }
        let mut fastest_first = drafters.to_vec();
        fastest_first.sort_by(|a, b| a.0.total_cmp(&b.0));
        let bound = bound(self.target_latency, &fastest_first, self.tokens);
        Ok(DraftersReport { drafters: drafters.to_vec(), latency: sum / self.repeats as f64, bound })
    }
}

pub(super) fn run(args: &DraftersArgs, json: bool) -> Result<(), Failure> {
    let all = if args.drafter.is_empty() { vec![(0.01, 0.4), (0.15, 0.75)] } else { args.drafter.clone() };
    if args.instances > 1000 {
        let (value, allowed) = (args.instances.to_string(), "1 to 1000".into());
        return Err(Error::BadOption { option: "instances".into(), value, allowed }.into());
    }
    let mut reports = Vec::new();
    for (at, drafter) in all.iter().enumerate() {
        reports.push(args.simulate(&[*drafter], at)?);
    }
    if all.len() > 1 {
        reports.push(args.simulate(&all, 0)?);
    }
    if json {
        return print_json(&reports);
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{:<40}{:>12}{:>10}{:>10}", "drafters (latency, acceptance)", "latency", "speed-up", "bound")?;
    for DraftersReport { drafters, latency, bound } in reports {
        let names: Vec<String> =
            drafters.iter().map(|(latency, acceptance)| format!("{latency}, {acceptance}")).collect();
        let speed_up = args.target_latency * args.tokens as f64 / latency;
        writeln!(out, "{:<40}{latency:>12.3}{speed_up:>9.2}x{bound:>10.3}", names.join(" + "))?;
    }
    Ok(())
}
