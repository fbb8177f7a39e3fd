//! Speedup on four kinds of task, each with plain decoding and with every drafter.

use super::super::prompts::Exercise;
use super::measure::{Effort, median};
use super::parts::Limit;
use foretoken::internals::session::{Progress, Session};
use foretoken::{Acceptance, DrafterChoice, GenerateOptions, Prompt, Result, Schedule, Speculation, Stats};
use serde::Serialize;
use std::ops::ControlFlow;

/// Tokens of the warm-up: enough that the draft model reads the prompt too.
const WARM_UP: usize = 8;

/// Results of a kind of task in one mode, over all its prompts.
#[derive(Serialize)]
pub(super) struct Task {
    pub kind: String,
    pub mode: &'static str,
    pub tokens: usize,
    pub num_spec_steps: usize,
    pub mean_acceptance_length: f64,
    /// Accepted draft tokens / draft tokens.
    pub draft_acceptance_rate: f64,
    /// Time of plain decoding with the same sampling / time in this mode; prompts are cached.
    pub speedup: f64,
}

/// Times of a round in one mode, over all tasks.
#[derive(Serialize)]
pub(super) struct Phase {
    pub mode: &'static str,
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
#[derive(Default, Clone, Copy)]
struct Sum {
    tokens: usize,
    rounds: usize,
    drafted: usize,
    accepted: usize,
    seconds: f64,
    /// Drafting, verification, emission, all host work, its hidden part.
    phases: [f64; 5],
}

impl Sum {
    /// Adds a text that was generated several times: the counts of the last run, and the median time.
    fn add(&mut self, texts: &[Stats]) {
        let Some(stats) = texts.last() else { return };
        self.tokens += stats.num_emitted_tokens;
        self.rounds += stats.num_spec_steps;
        self.drafted += stats.num_draft_tokens;
        self.accepted += stats.num_accepted_draft_tokens;
        self.seconds += median(texts.iter().map(|stats| stats.times.total).collect());
        let times = &stats.times;
        let phases = [times.draft, times.verify, times.emit, times.host, times.hidden];
        self.phases.iter_mut().zip(phases).for_each(|(sum, phase)| *sum += phase);
    }

    /// Returns seconds per token: rejection sampling may generate a shorter text than plain decoding.
    fn per_token(&self) -> f64 {
        self.seconds / self.tokens as f64
    }
}

/// Runs all tasks in all modes once before any is repeated. Kinds of which no prompt was completed in every mode within the limit are
/// omitted.
pub(super) async fn run(
    session: &mut Session,
    prompts: &[Exercise],
    effort: Effort,
    limit: &Limit,
) -> Result<(Vec<Task>, Vec<Phase>)> {
    let modes = modes(session);
    // Texts of each prompt, by mode.
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
            tasks.push(Task {
                kind: alike[0].0.kind.clone(),
                mode: name,
                tokens: sum.tokens,
                num_spec_steps: sum.rounds,
                mean_acceptance_length: sum.tokens as f64 / sum.rounds as f64,
                draft_acceptance_rate: if sum.drafted == 0 { 0.0 } else { sum.accepted as f64 / sum.drafted as f64 },
                speedup: sums[*plain].per_token() / sum.per_token(),
            });
        }
    }
    let phase = |(mode, sum): (&TaskMode, &Sum)| {
        let [draft_ms, verify_ms, emit_ms, host_ms, hidden] = sum.phases.map(|phase| 1e3 * phase / sum.rounds as f64);
        Phase { mode: mode.name, draft_ms, verify_ms, emit_ms, host_ms, hidden: hidden / host_ms }
    };
    let phases = modes.iter().zip(&totals).filter(|(_, sum)| sum.rounds > 0).map(phase).collect();
    Ok((tasks, phases))
}

/// A way to generate.
struct TaskMode {
    name: &'static str,
    options: GenerateOptions,
    /// Index of the plain mode with the same sampling.
    plain: usize,
}

/// Returns the modes: plain decoding, the same one step after the other, each drafter of the session, and modes that sample at
/// temperature 1.
fn modes(session: &Session) -> Vec<TaskMode> {
    let (off, auto) = (Speculation::Off, Speculation::Auto);
    let has_draft_model = session.engine().draft_memory().is_some();
    // Transient, so that runs do not depend on earlier ones.
    let by_drafter = |drafter| {
        GenerateOptions::new()
            .drafter(drafter)
            .num_assistant_tokens_schedule(Schedule::HeuristicTransient)
            .prompt_lookup_num_tokens(10)
    };
    let mut modes = Vec::new();
    let mut mode = |name, plain, options| modes.push(TaskMode { name, options, plain });
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
