//! Overlapped rounds against sequential ones: how much host work the device's time hides, and what that brings.

use super::measure::{Effort, median};
use super::tasks::{Exercise, LOOKUP_TOKENS, WARM_UP};
use crate::error::Result;
use crate::options::{DrafterChoice, GenerateOptions, Schedule, Speculation};
use crate::session::{Prompt, Session};
use crate::speculate::Stats;
use serde::Serialize;
use std::ops::ControlFlow;

/// Texts written in both ways, per prompt, for each of [`Effort::texts`].
const PAIRS: usize = 2;
/// Most tokens of each.
const TOKENS: usize = 48;

/// One way to draft: medians over texts; host work in the text with the least of it, because whatever else the machine does
/// adds to it.
#[derive(Serialize)]
pub(super) struct Overlap {
    pub mode: &'static str,
    /// Texts written in both ways.
    pub pairs: usize,
    /// Overlapped rounds.
    pub rounds: usize,
    /// A round, sequentially.
    pub round_ms: f64,
    /// Host work of a round, sequentially.
    pub sequential_host_ms: f64,
    /// Host work of a round, overlapped.
    pub host_ms: f64,
    /// The part of it that was hidden.
    pub hidden: f64,
    /// Rounds whose commands were ready / rounds.
    pub prepared: f64,
    /// Rounds that were submitted before the one before was read / rounds.
    pub ahead: f64,
    pub sequential_tokens_per_second: f64,
    pub tokens_per_second: f64,
    /// Median over the pairs of the time sequentially / overlapped; the two take turns.
    pub speedup: f64,
}

/// Plain decoding, the draft model at a constant lookahead, the lookup, all of them by the adaptive schedule.
pub(super) async fn run(session: &mut Session, exercises: &[Exercise], effort: Effort) -> Result<Vec<Overlap>> {
    let (auto, constant) = (Speculation::Auto, Schedule::Constant);
    let mut modes = vec![
        ("plain", DrafterChoice::Auto, Speculation::Off, constant),
        ("lookup", DrafterChoice::Lookup, auto, constant),
        ("adaptive", DrafterChoice::Auto, auto, Schedule::Adaptive),
    ];
    if session.engine().draft().is_some() {
        modes.insert(1, ("draft_model", DrafterChoice::DraftModel, auto, constant));
    }
    let mut all = Vec::new();
    for (mode, drafter, speculation, num_assistant_tokens_schedule) in modes {
        let options = GenerateOptions {
            max_new_tokens: effort.tokens.min(TOKENS),
            num_assistant_tokens_schedule,
            prompt_lookup_num_tokens: Some(LOOKUP_TOKENS),
            drafter,
            speculation,
            ..GenerateOptions::default()
        };
        all.push(measure(session, mode, &options, exercises, effort).await?);
    }
    Ok(all)
}

async fn measure(
    session: &mut Session,
    mode: &'static str,
    options: &GenerateOptions,
    exercises: &[Exercise],
    effort: Effort,
) -> Result<Overlap> {
    let (mut speedups, mut prepared, mut ahead) = (Vec::new(), 0, 0);
    // Sequential, overlapped.
    let mut texts: [Vec<Stats>; 2] = Default::default();
    for exercise in exercises {
        let prompt = Prompt::Text(exercise.prompt.clone());
        write(session, &prompt, &GenerateOptions { max_new_tokens: WARM_UP, ..options.clone() }).await?;
        for pair in 0..PAIRS * effort.texts {
            let mut seconds = [0.0; 2];
            for turn in 0..2 {
                let overlap = (pair + turn) % 2 == 1;
                let before = session.engine().gpu().counters();
                let stats = write(session, &prompt, &GenerateOptions { overlap, ..options.clone() }).await?;
                if overlap {
                    let did = session.engine().gpu().counters().since(&before);
                    prepared += did.prepared;
                    ahead += did.ahead;
                }
                seconds[usize::from(overlap)] = stats.times.total;
                texts[usize::from(overlap)].push(stats);
            }
            speedups.push(seconds[0] / seconds[1]);
        }
    }
    let [sequential, overlapped] = texts;
    let rounds = overlapped.iter().map(|stats| stats.num_spec_steps).sum();
    let least = |texts: &[Stats]| texts.iter().map(Host::of).min_by(|a, b| a.ms.total_cmp(&b.ms)).unwrap_or_default();
    let host = least(&overlapped);
    let median_of = |texts: &[Stats], what: fn(&Stats) -> f64| median(texts.iter().map(what).collect());
    Ok(Overlap {
        mode,
        pairs: speedups.len(),
        rounds,
        round_ms: median_of(&sequential, |stats| 1e3 * stats.times.total / stats.num_spec_steps as f64),
        sequential_host_ms: least(&sequential).ms,
        host_ms: host.ms,
        hidden: host.hidden,
        prepared: prepared as f64 / rounds as f64,
        ahead: ahead as f64 / rounds as f64,
        sequential_tokens_per_second: median_of(&sequential, speed),
        tokens_per_second: median_of(&overlapped, speed),
        speedup: median(speedups),
    })
}

/// Host work of a text.
#[derive(Default)]
struct Host {
    /// Milliseconds of a round.
    ms: f64,
    hidden: f64,
}

impl Host {
    fn of(stats: &Stats) -> Self {
        let times = &stats.times;
        Self { ms: 1e3 * times.host / stats.num_spec_steps as f64, hidden: times.hidden / times.host }
    }
}

fn speed(stats: &Stats) -> f64 {
    stats.num_emitted_tokens as f64 / stats.times.total
}

async fn write(session: &mut Session, prompt: &Prompt, options: &GenerateOptions) -> Result<Stats> {
    Ok(session.generate(prompt, options, &mut |_| ControlFlow::Continue(())).await?.stats)
}
