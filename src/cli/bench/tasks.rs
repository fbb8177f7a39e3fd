//! Speculation at work: four kinds of task, each written plainly and with every drafter there is.

use super::measure::{Effort, median};
use crate::error::{Error, Result};
use crate::options::{Acceptance, DrafterChoice, GenerateOptions, Schedule, Speculation};
use crate::session::{Prompt, Session};
use crate::speculate::Stats;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// Tokens that a lookup proposes at a time.
pub(super) const LOOKUP_TOKENS: usize = 10;
/// Of the modes that draw tokens.
const SEED: u64 = 1;
/// Tokens of the warm-up, enough for the draft model to read the prompt too.
pub(super) const WARM_UP: usize = 8;

/// A kind of task in one mode, all its prompts together.
#[derive(Serialize)]
pub(super) struct Task {
    pub kind: String,
    pub mode: &'static str,
    pub tokens: usize,
    pub num_spec_steps: usize,
    pub mean_acceptance_length: f64,
    /// Accepted draft tokens / draft tokens.
    pub draft_acceptance_rate: f64,
    /// Time of plain decoding in the same way of sampling / time in this mode, prompts being cached.
    pub speedup: f64,
}

/// Where the time of a round goes in one mode, in milliseconds, all tasks together.
#[derive(Serialize)]
pub(super) struct Phase {
    pub mode: &'static str,
    /// On the CPU.
    pub draft_ms: f64,
    /// The submission: the draft model's steps are part of it.
    pub verify_ms: f64,
    pub emit_ms: f64,
}

/// A prompt of a kind of task.
#[derive(Deserialize)]
pub(super) struct Exercise {
    kind: String,
    pub prompt: String,
    max_new_tokens: usize,
}

/// What a mode took for some prompts.
#[derive(Default, Clone, Copy)]
struct Sum {
    tokens: usize,
    rounds: usize,
    drafted: usize,
    accepted: usize,
    seconds: f64,
    draft: f64,
    verify: f64,
    emit: f64,
}

impl Sum {
    fn add(&mut self, stats: &Stats, seconds: f64) {
        self.tokens += stats.num_emitted_tokens;
        self.rounds += stats.num_spec_steps;
        self.drafted += stats.num_draft_tokens;
        self.accepted += stats.num_accepted_draft_tokens;
        self.seconds += seconds;
        self.draft += stats.times.draft;
        self.verify += stats.times.verify;
        self.emit += stats.times.emit;
    }

    /// Rejection sampling writes another text than plain decoding, perhaps a shorter one.
    fn per_token(&self) -> f64 {
        self.seconds / self.tokens as f64
    }
}

/// The prompts of all tasks, by kind.
pub(super) fn exercises() -> Result<Vec<Exercise>> {
    serde_json::from_str(include_str!("prompts.json")).map_err(|error| Error::BadConfig {
        file: "prompts.json".into(),
        key: "-".into(),
        reason: error.to_string(),
    })
}

/// All tasks in all modes.
pub(super) async fn run(
    session: &mut Session,
    exercises: &[Exercise],
    effort: Effort,
) -> Result<(Vec<Task>, Vec<Phase>)> {
    let modes = modes(session);
    let mut tasks = Vec::new();
    let mut totals = vec![Sum::default(); modes.len()];
    for alike in exercises.chunk_by(|a, b| a.kind == b.kind) {
        let mut sums = vec![Sum::default(); modes.len()];
        for exercise in alike.iter().take(effort.prompts) {
            for (index, Mode { options, .. }) in modes.iter().enumerate() {
                let options =
                    GenerateOptions { max_new_tokens: exercise.max_new_tokens.min(effort.tokens), ..options.clone() };
                let (stats, seconds) = write(session, &exercise.prompt, &options, effort).await?;
                sums[index].add(&stats, seconds);
                totals[index].add(&stats, seconds);
            }
        }
        for (Mode { name, plain, .. }, sum) in modes.iter().zip(&sums) {
            tasks.push(Task {
                kind: alike[0].kind.clone(),
                mode: name,
                tokens: sum.tokens,
                num_spec_steps: sum.rounds,
                mean_acceptance_length: sum.tokens as f64 / sum.rounds as f64,
                draft_acceptance_rate: if sum.drafted == 0 { 0.0 } else { sum.accepted as f64 / sum.drafted as f64 },
                speedup: sums[*plain].per_token() / sum.per_token(),
            });
        }
    }
    let phase = |(mode, sum): (&Mode, &Sum)| {
        let per_round = |seconds: f64| 1e3 * seconds / sum.rounds as f64;
        Phase {
            mode: mode.name,
            draft_ms: per_round(sum.draft),
            verify_ms: per_round(sum.verify),
            emit_ms: per_round(sum.emit),
        }
    };
    Ok((tasks, modes.iter().zip(&totals).map(phase).collect()))
}

/// A way to write.
struct Mode {
    name: &'static str,
    options: GenerateOptions,
    /// The mode that writes plainly in the same way of sampling.
    plain: usize,
}

/// Plain first, then every drafter that the session has; the same with tokens drawn at temperature 1.
fn modes(session: &Session) -> Vec<Mode> {
    let (off, auto) = (Speculation::Off, Speculation::Auto);
    let has_draft_model = session.engine().draft().is_some();
    // Transient, so that no run depends on the one before.
    let by_drafter = |drafter| GenerateOptions {
        drafter,
        num_assistant_tokens_schedule: Schedule::HeuristicTransient,
        prompt_lookup_num_tokens: Some(LOOKUP_TOKENS),
        ..GenerateOptions::default()
    };
    let mut modes = Vec::new();
    let mut mode = |name, plain, options| modes.push(Mode { name, options, plain });
    mode("plain", 0, GenerateOptions { speculation: off, ..by_drafter(DrafterChoice::Lookup) });
    if has_draft_model {
        mode("draft_model", 0, by_drafter(DrafterChoice::DraftModel));
    }
    mode("lookup", 0, by_drafter(DrafterChoice::Lookup));
    mode("chain", 0, by_drafter(DrafterChoice::Chain));
    mode("adaptive", 0, GenerateOptions::default());
    let plain = if has_draft_model { 5 } else { 4 };
    for (name, speculation, acceptance) in [
        ("sampled", off, Acceptance::Coupled),
        ("coupled", auto, Acceptance::Coupled),
        ("rejection", auto, Acceptance::Rejection),
    ] {
        let options = by_drafter(if has_draft_model { DrafterChoice::DraftModel } else { DrafterChoice::Lookup });
        mode(name, plain, GenerateOptions { do_sample: true, seed: Some(SEED), speculation, acceptance, ..options });
    }
    modes
}

/// One text, several times, with the prompt cached. Seconds are the median's.
async fn write(session: &mut Session, prompt: &str, options: &GenerateOptions, effort: Effort) -> Result<(Stats, f64)> {
    let prompt = Prompt::Text(prompt.into());
    let warm_up = GenerateOptions { max_new_tokens: options.max_new_tokens.min(WARM_UP), ..options.clone() };
    session.generate(&prompt, &warm_up, &mut |_| ControlFlow::Continue(())).await?;
    let (mut seconds, mut stats) = (Vec::new(), Stats::default());
    for _ in 0..effort.texts {
        stats = session.generate(&prompt, options, &mut |_| ControlFlow::Continue(())).await?.stats;
        seconds.push(stats.times.total);
    }
    Ok((stats, median(seconds)))
}
