//! `foretoken measure`: latencies and acceptance of a pair of models, as a row of `simulate table` (Timor et al. 2024, arXiv 2405.14105,
//! appendix F).

use super::load::{LocalModels, load};
use super::prompts::PromptsFlag;
use super::{Failure, print_json};
use clap::value_parser;
use foretoken::internals::session::{Progress, Session};
use foretoken::internals::weights::Source;
use foretoken::{DrafterChoice, Error, GenerateOptions, Prompt, Result, Schedule, Speculation, Stats};
use foretoken_measure::{Exercise, Spread, name_device};
use serde_json::json;
use std::io::{self, Write};
use std::ops::ControlFlow;

/// Method of measurement, for `--help`.
pub(super) const METHOD: &str = "Each model continues the prompts alone: time to the first token (TTFT) and per later token (TPOT), mean \
    and standard deviation. Then the pair generates longer texts. Acceptance is 1 - 1 / (1 + n), for n accepted tokens per rejection. \
    simulate table --pairs reads what --json prints.";

/// Tokens of a text whose times are measured.
const TIMED_TOKENS: usize = 20;
/// Tokens of a text in which accepted tokens are counted.
const COUNTED_TOKENS: usize = 256;
/// Draft tokens of a round while accepted tokens are counted.
const LOOKAHEAD: usize = 8;
/// Tokens of the simulated text, as in the paper.
const SIMULATED_TOKENS: usize = 50;

#[derive(clap::Args)]
pub(super) struct MeasureArgs {
    #[command(flatten)]
    models: LocalModels,
    #[command(flatten)]
    prompts: PromptsFlag,
    /// Texts of each measurement; if there are fewer prompts, they are repeated
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=10_000), default_value_t = 50)]
    texts: u32,
}

pub(super) async fn run(args: &MeasureArgs, json: bool) -> Result<(), Failure> {
    let prompts = args.prompts.read_file()?;
    let pair = &args.models.pair;
    let assistant = pair.assistant()?.ok_or_else(|| Error::BadOption {
        option: "assistant_model".into(),
        value: "none".into(),
        allowed: "a draft model".into(),
    })?;
    let names = [pair.target()?.model_name(), assistant.model_name()];
    let texts: Vec<_> = prompts.iter().cycle().take(args.texts as usize).collect();
    // One after the other, so that each model has the device for itself.
    let (device, options) = args.models.open().await?;
    let alone = async |model| times(&mut load(device.clone(), model, None, &options).await?, &texts).await;
    let drafter = alone(assistant).await?;
    let target = alone(pair.target()?).await?;
    let mut session = pair.load(device.clone(), &options).await?;
    let [accepted, rejected] = matches(&mut session, &texts).await?;
    let acceptance = accepted as f64 / (accepted + rejected).max(1) as f64;
    let device = session.engine().device();
    if json {
        let [[target_ttft, target_tpot], [drafter_ttft, drafter_tpot]] = [target, drafter];
        return print_json(&json!([{
            "name": names.join(" / "),
            "target_latency_ms": target_tpot.mean,
            "drafter_latency_ms": drafter_tpot.mean,
            "acceptance": acceptance,
            "target_ttft_ms": target_ttft.mean,
            "drafter_ttft_ms": drafter_ttft.mean,
            "tokens": SIMULATED_TOKENS,
            "device": device,
            "target": { "ttft_ms": target_ttft, "tpot_ms": target_tpot },
            "drafter": { "ttft_ms": drafter_ttft, "tpot_ms": drafter_tpot },
            "accepted": accepted,
            "rejected": rejected,
        }]));
    }
    let mut out = io::stdout().lock();
    writeln!(out, "device      {}", name_device(device))?;
    writeln!(out, "{:<12}{:>18}{:>18}", "", "TTFT ms", "TPOT ms")?;
    for (model, times, name) in [("target", target, &names[0]), ("draft model", drafter, &names[1])] {
        let [ttft, tpot] = times;
        writeln!(out, "{model:<12}{ttft:>18.2}{tpot:>18.2}  {name}")?;
    }
    writeln!(out, "acceptance  {acceptance:.3}: {accepted} draft tokens accepted, {rejected} rejected")?;
    Ok(())
}

/// Generates a text of which nothing is cached.
async fn write(session: &mut Session, prompt: &Exercise, options: &GenerateOptions) -> Result<Stats> {
    session.engine_mut().truncate(0);
    let prompt = Prompt::Text(prompt.prompt.clone());
    let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
    Ok(session.generate(&prompt, options, &mut go_on).await?.stats)
}

/// Measures time to the first token and per later token, in milliseconds, after a text for warming up.
async fn times(session: &mut Session, texts: &[&Exercise]) -> Result<[Spread; 2]> {
    let options = GenerateOptions::new()
        .max_new_tokens(TIMED_TOKENS)
        .min_new_tokens(TIMED_TOKENS)
        .do_sample(false)
        .speculation(Speculation::Off);
    write(session, texts[0], &options).await?;
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for text in texts {
        let stats = write(session, text, &options).await?;
        let (times, tokens) = (&stats.times, stats.num_emitted_tokens);
        first.push(1e3 * times.first_token);
        later.push(1e3 * (times.total - times.first_token) / tokens.saturating_sub(1).max(1) as f64);
    }
    Ok([&first, &later].map(|values| Spread::of_values(values)))
}

/// Counts accepted tokens, and rounds with a rejected token. The end of a text may cut the last round, so it does not count.
async fn matches(session: &mut Session, texts: &[&Exercise]) -> Result<[usize; 2]> {
    let options = GenerateOptions::new()
        .max_new_tokens(COUNTED_TOKENS)
        .do_sample(false)
        .drafter(DrafterChoice::DraftModel)
        .num_assistant_tokens_schedule(Schedule::Constant)
        .num_assistant_tokens(LOOKAHEAD);
    let [mut accepted, mut rejected] = [0; 2];
    for text in texts {
        let stats = write(session, text, &options).await?;
        let rounds: Vec<_> = stats.per_step_drafted.iter().zip(&stats.per_step_accepted).collect();
        for (drafted, kept) in rounds.iter().rev().skip(1) {
            accepted += **kept;
            rejected += usize::from(kept < drafted);
        }
    }
    Ok([accepted, rejected])
}
