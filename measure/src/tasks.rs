//! Speedup on kinds of task, each with plain decoding and with every drafter, and speed of the draft model alone.

use super::backend::{Effort, median};
use super::exercise::Exercise;
use super::parts::Limit;
use super::spread::Spread;
use foretoken::internals::session::{Progress, Session};
use foretoken::{Acceptance, DrafterChoice, GenerateOptions, Prompt, Result, Schedule, Speculation, Stats};
use serde::Serialize;
use std::fmt::{self, Display};
use std::ops::ControlFlow;

/// Tokens of the warm-up: enough that the draft model reads the prompt too.
const WARM_UP: usize = 8;

/// Results of a kind of task in one mode, over all its prompts.
#[derive(Serialize)]
pub(super) struct Task {
    pub kind: String,
    pub mode: String,
    #[serde(flatten)]
    pub gain: Gain,
}

/// Results of a mode over some prompts, compared with plain decoding.
#[derive(Serialize)]
pub(super) struct Gain {
    pub tokens: usize,
    pub num_spec_steps: usize,
    /// Tokens per forward pass of the target: 1 in plain decoding.
    pub mean_acceptance_length: f64,
    /// Accepted draft tokens / draft tokens; 0 without drafts.
    pub draft_acceptance_rate: f64,
    /// Speed over the prompts.
    pub tokens_per_second: Spread,
    /// Time of plain decoding with the same sampling / time in this mode; prompts are cached.
    pub speedup: f64,
}

impl Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tokens, num_spec_steps: rounds, mean_acceptance_length: length, draft_acceptance_rate: rate, ..
        } = self;
        let Self { tokens_per_second: speed, speedup, .. } = self;
        write!(f, "{tokens:>6} {rounds:>7} {length:>7.2} {rate:>7.2} {speedup:>8.2} {speed:>17}")
    }
}

/// Speed of the draft model without a target, on a kind of task.
#[derive(Serialize)]
pub(super) struct DraftAlone {
    pub kind: String,
    pub tokens: usize,
    /// Speed over the prompts.
    pub tokens_per_second: Spread,
}

/// Times of a round in one mode, over all tasks.
#[derive(Serialize)]
pub(super) struct Phase {
    pub mode: String,
    /// Drafting on the CPU.
    pub draft_ms: f64,
    /// The submission, including the draft model's steps.
    pub verify_ms: f64,
    pub emit_ms: f64,
    pub host_ms: f64,
    /// Share of host work that overlapped with the device.
    pub hidden: f64,
}

/// Totals of a mode over some prompts.
#[derive(Default, Clone)]
pub(super) struct Sum {
    pub tokens: usize,
    pub rounds: usize,
    drafted: usize,
    accepted: usize,
    seconds: f64,
    /// Tokens per second of each prompt.
    pub speeds: Vec<f64>,
    /// Drafting, verification, emission, all host work, its hidden part.
    phases: [f64; 5],
}

impl Sum {
    /// Adds a text that was generated several times: the counts of the last run, and the median time.
    pub fn add(&mut self, texts: &[Stats]) {
        let Some(stats) = texts.last() else { return };
        let seconds = median(texts.iter().map(|stats| stats.times.total).collect());
        self.tokens += stats.num_emitted_tokens;
        self.rounds += stats.num_spec_steps;
        self.drafted += stats.num_draft_tokens;
        self.accepted += stats.num_accepted_draft_tokens;
        self.seconds += seconds;
        self.speeds.push(stats.num_emitted_tokens as f64 / seconds);
        let times = &stats.times;
        let phases = [times.draft, times.verify, times.emit, times.host, times.hidden];
        self.phases.iter_mut().zip(phases).for_each(|(sum, phase)| *sum += phase);
    }

    /// Compares it with plain decoding of the same prompts.
    pub fn gain(&self, plain: &Self) -> Gain {
        Gain {
            tokens: self.tokens,
            num_spec_steps: self.rounds,
            mean_acceptance_length: self.tokens as f64 / self.rounds as f64,
            draft_acceptance_rate: self.accepted as f64 / self.drafted.max(1) as f64,
            tokens_per_second: Spread::of_values(&self.speeds),
            speedup: plain.per_token() / self.per_token(),
        }
    }

    /// Returns seconds per token: rejection sampling may generate a shorter text than plain decoding.
    fn per_token(&self) -> f64 {
        self.seconds / self.tokens as f64
    }
}

/// Texts of a prompt, by mode: one for each repeat.
type WrittenPrompt<'a> = (&'a Exercise, Vec<Vec<Stats>>);

/// Generates all prompts in all modes once before any is repeated. Prompts that were not completed in every mode within the limit are
/// omitted.
pub(super) async fn generate_all<'a>(
    session: &mut Session,
    prompts: &'a [Exercise],
    modes: &[TaskMode],
    effort: Effort,
    limit: &Limit,
) -> Result<Vec<WrittenPrompt<'a>>> {
    let exercises = prompts.chunk_by(|a, b| a.kind == b.kind).flat_map(|alike| alike.iter().take(effort.prompts));
    let mut written: Vec<_> = exercises.map(|exercise| (exercise, vec![Vec::new(); modes.len()])).collect();
    'passes: for _ in 0..effort.texts {
        for (exercise, texts) in &mut written {
            for (TaskMode { options, .. }, texts) in modes.iter().zip(texts) {
                let max_new_tokens = exercise.max_new_tokens.min(effort.tokens);
                let options = options.clone().max_new_tokens(max_new_tokens);
                let prompt = Prompt::Text(exercise.prompt.clone());
                warm_up(session, &prompt, &options, limit).await?;
                let Some(stats) = write(session, &prompt, &options, limit).await? else { break 'passes };
                texts.push(stats);
            }
        }
    }
    written.retain(|(_, modes)| modes.iter().all(|texts| !texts.is_empty()));
    Ok(written)
}

/// Measures all modes on each kind of task. Kinds without a completed prompt are omitted.
pub(super) async fn run(
    session: &mut Session,
    prompts: &[Exercise],
    modes: &[TaskMode],
    effort: Effort,
    limit: &Limit,
) -> Result<(Vec<Task>, Vec<Phase>)> {
    let written = generate_all(session, prompts, modes, effort, limit).await?;
    let mut tasks = Vec::new();
    let mut totals = vec![Sum::default(); modes.len()];
    for alike in written.chunk_by(|(a, _), (b, _)| a.kind == b.kind) {
        let mut sums = vec![Sum::default(); modes.len()];
        for (_, texts) in alike {
            for ((sum, total), texts) in sums.iter_mut().zip(&mut totals).zip(texts) {
                sum.add(texts);
                total.add(texts);
            }
        }
        for (TaskMode { name, plain, .. }, sum) in modes.iter().zip(&sums) {
            let gain = sum.gain(&sums[*plain]);
            tasks.push(Task { kind: alike[0].0.kind.clone(), mode: name.clone(), gain });
        }
    }
    let phase = |(mode, sum): (&TaskMode, &Sum)| {
        let [draft_ms, verify_ms, emit_ms, host_ms, hidden] = sum.phases.map(|phase| 1e3 * phase / sum.rounds as f64);
        Phase { mode: mode.name.clone(), draft_ms, verify_ms, emit_ms, host_ms, hidden: hidden / host_ms }
    };
    let phases = modes.iter().zip(&totals).filter(|(_, sum)| sum.rounds > 0).map(phase).collect();
    Ok((tasks, phases))
}

/// Measures plain decoding of a draft model that was loaded alone.
pub(super) async fn alone(
    session: &mut Session,
    prompts: &[Exercise],
    effort: Effort,
    limit: &Limit,
) -> Result<Vec<DraftAlone>> {
    let options = GenerateOptions::new().speculation(Speculation::Off).do_sample(false);
    let modes = [TaskMode { name: "plain".into(), options, plain: 0 }];
    let written = generate_all(session, prompts, &modes, effort, limit).await?;
    let kinds = written.chunk_by(|(a, _), (b, _)| a.kind == b.kind).map(|alike| {
        let mut sum = Sum::default();
        alike.iter().flat_map(|(_, modes)| modes).for_each(|texts| sum.add(texts));
        let tokens_per_second = Spread::of_values(&sum.speeds);
        DraftAlone { kind: alike[0].0.kind.clone(), tokens: sum.tokens, tokens_per_second }
    });
    Ok(kinds.collect())
}

/// A way to generate.
#[derive(Clone)]
pub(super) struct TaskMode {
    pub name: String,
    pub options: GenerateOptions,
    /// Index of the plain mode with the same sampling.
    pub plain: usize,
}

impl TaskMode {
    /// Returns the mode with another seed.
    pub fn with_seed(&self, seed: u64) -> Self {
        Self { options: self.options.clone().seed(seed), ..self.clone() }
    }
}

/// Returns options for a drafter and the rule of the paper about assisted generation. Each text starts with the same number of draft
/// tokens, so that runs do not depend on earlier ones.
pub(super) fn by_drafter(drafter: DrafterChoice) -> GenerateOptions {
    GenerateOptions::new()
        .drafter(drafter)
        .num_assistant_tokens_schedule(Schedule::HeuristicTransient)
        .prompt_lookup_num_tokens(10)
}

/// Returns the modes: plain decoding, the same one step after the other, each drafter of the session, and modes that sample at
/// temperature 1.
pub(super) fn modes(session: &Session) -> Vec<TaskMode> {
    let (off, auto) = (Speculation::Off, Speculation::Auto);
    let has_draft_model = session.engine().draft_memory().is_some();
    let mut modes = Vec::new();
    let mut mode = |name: &str, plain, options| modes.push(TaskMode { name: name.into(), options, plain });
    mode("plain", 0, by_drafter(DrafterChoice::Lookup).speculation(off));
    mode("sequential", 0, by_drafter(DrafterChoice::Lookup).speculation(off).overlap(false));
    if has_draft_model {
        mode("draft_model", 0, by_drafter(DrafterChoice::DraftModel));
    }
    mode("lookup", 0, by_drafter(DrafterChoice::Lookup));
    mode("chain", 0, by_drafter(DrafterChoice::Chain));
    mode("adaptive", 0, GenerateOptions::new());
    let plain = if has_draft_model { 6 } else { 5 };
    for (name, speculation, acceptance) in [
        ("sampled", off, Acceptance::Coupled),
        ("coupled", auto, Acceptance::Coupled),
        ("rejection", auto, Acceptance::Rejection),
    ] {
        let options = by_drafter(if has_draft_model { DrafterChoice::DraftModel } else { DrafterChoice::Lookup });
        mode(name, plain, options.do_sample(true).seed(1).speculation(speculation).acceptance(acceptance));
    }
    modes
}

/// Returns plain decoding, each drafter of the session with 1 to 8 draft tokens, and the adaptive schedule.
pub(super) fn fixed_modes(session: &Session) -> Vec<TaskMode> {
    let mode = |name: String, options| TaskMode { name, options, plain: 0 };
    let mut modes = vec![mode("plain".into(), GenerateOptions::new().speculation(Speculation::Off))];
    for tokens in 1..=8 {
        let fixed = |drafter| {
            let options = by_drafter(drafter).num_assistant_tokens_schedule(Schedule::Constant);
            options.num_assistant_tokens(tokens).prompt_lookup_num_tokens(tokens)
        };
        if session.engine().draft_memory().is_some() {
            modes.push(mode(format!("draft {tokens}"), fixed(DrafterChoice::DraftModel)));
        }
        modes.push(mode(format!("lookup {tokens}"), fixed(DrafterChoice::Lookup)));
    }
    modes.push(mode("adaptive".into(), GenerateOptions::new()));
    modes
}

/// Generates the first tokens of a text, so that its prompt is cached.
async fn warm_up(session: &mut Session, prompt: &Prompt, options: &GenerateOptions, limit: &Limit) -> Result<()> {
    let options = options.clone().max_new_tokens(options.max_new_tokens.min(WARM_UP));
    write(session, prompt, &options, limit).await.map(drop)
}

/// Generates a text; `None` if the limit was reached.
async fn write(
    session: &mut Session,
    prompt: &Prompt,
    options: &GenerateOptions,
    limit: &Limit,
) -> Result<Option<Stats>> {
    if limit.over() {
        return Ok(None);
    }
    let mut cut = false;
    let mut go_on = |_: Progress<'_>| {
        cut = limit.over();
        if cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let stats = session.generate(prompt, options, &mut go_on).await?.stats;
    Ok((!cut).then_some(stats))
}
