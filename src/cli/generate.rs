//! `foretoken generate`: a prompt's continuation, printed as it comes, and a summary of how it came.

use super::load::{Pair, Room};
use super::{Failure, count, print_json};
use crate::error::{Error, Result};
use crate::gpu::DeviceInfo;
use crate::options::{GenerateOptions, LoadOptions, Speculation};
use crate::session::{Generation, Prompt, Session, Token};
use crate::speculate::Origin;
use crate::text::Message;
use crate::weights::Source;
use clap::ColorChoice;
use clap::builder::styling::{AnsiColor, Style};
use serde::Serialize;
use std::io::{self, IsTerminal, Read, StdoutLock, Write};
use std::ops::ControlFlow;

/// The options, under Hugging Face's names.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The text to continue; `-` or none: standard input, without its last line break
    prompt: Option<String>,
    #[command(flatten)]
    pair: Pair,
    #[command(flatten)]
    room: Room,
    /// Most tokens to generate
    #[arg(long, value_name = "N", value_parser = count, default_value_t = defaults().max_new_tokens)]
    max_new_tokens: usize,
    /// Draft tokens that a round begins with; 0: no draft model
    #[arg(long, value_name = "N", value_parser = count, default_value_t = defaults().num_assistant_tokens)]
    num_assistant_tokens: usize,
    /// How that number changes from round to round: constant, heuristic, heuristic_transient
    #[arg(long, value_name = "SCHEDULE", default_value = "heuristic")]
    num_assistant_tokens_schedule: String,
    /// Draft with what followed the last tokens earlier in the text, so many at a time, instead of the draft model
    #[arg(long, value_name = "N", value_parser = count)]
    prompt_lookup_num_tokens: Option<usize>,
    /// How many of the last tokens that lookup compares at most
    #[arg(long, value_name = "N", value_parser = count, default_value_t = defaults().max_matching_ngram_size)]
    max_matching_ngram_size: usize,
    /// Which of several matches that lookup takes: leftmost, whole (if all tokens asked for follow), most_recent
    #[arg(long, value_name = "RULE", default_value = "leftmost")]
    prompt_lookup_rule: String,
    /// Whether to draft at all: auto, off. The text is the same
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    speculation: String,
    /// End before this text; may be repeated
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// PROMPT is a user's message, for the model's chat template
    #[arg(long)]
    chat: bool,
    /// A system message that goes before it
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,
    /// Colour the tokens by who proposed them; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

fn defaults() -> GenerateOptions {
    GenerateOptions::default()
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    generation: &'a Generation,
    device: &'a DeviceInfo,
    options: Used<'a>,
}

#[derive(Serialize)]
struct Used<'a> {
    model: String,
    assistant_model: Option<String>,
    #[serde(flatten)]
    load: &'a LoadOptions,
    #[serde(flatten)]
    generate: &'a GenerateOptions,
    chat: bool,
}

pub(super) async fn run(args: &Args, json: bool) -> Result<(), Failure> {
    let (load, options) = (args.room.options()?, args.options()?);
    let prompt = args.prompt()?;
    let mut session = args.pair.load(&load).await?;
    if json {
        let generation = session.generate(&prompt, &options, &mut |_| ControlFlow::Continue(())).await?;
        let model = args.pair.target()?.name();
        let assistant_model = args.pair.assistant()?.map(|files| files.name());
        let options = Used { model, assistant_model, load: &load, generate: &options, chat: args.chat };
        return print_json(&Report { generation: &generation, device: session.engine().gpu().info(), options });
    }
    let mut printer = Printer::new(wants_colour(args.color, io::stdout().is_terminal()));
    let generation = session.generate(&prompt, &options, &mut |token| printer.token(token)).await;
    printer.finish()?;
    let colour = wants_colour(args.color, io::stderr().is_terminal());
    // The text is out, so nothing is lost when no one reads this.
    let _ = writeln!(io::stderr(), "{}", summary(&generation?, drafter(&session, &options), &session, colour));
    Ok(())
}

impl Args {
    fn options(&self) -> Result<GenerateOptions> {
        let options = GenerateOptions {
            max_new_tokens: self.max_new_tokens,
            num_assistant_tokens: self.num_assistant_tokens,
            num_assistant_tokens_schedule: self.num_assistant_tokens_schedule.parse()?,
            prompt_lookup_num_tokens: self.prompt_lookup_num_tokens,
            max_matching_ngram_size: self.max_matching_ngram_size,
            prompt_lookup_rule: self.prompt_lookup_rule.parse()?,
            stop: self.stop.clone(),
            speculation: self.speculation.parse()?,
        };
        options.validate()?;
        Ok(options)
    }

    fn prompt(&self) -> Result<Prompt> {
        let text = match self.prompt.as_deref() {
            Some(text) if text != "-" => text.to_owned(),
            None if io::stdin().is_terminal() => return bad_prompt("no prompt", "a text, or - for standard input"),
            _ => {
                let mut text = String::new();
                if let Err(error) = io::stdin().lock().read_to_string(&mut text) {
                    return bad_prompt(&format!("standard input ({error})"), "text in UTF-8");
                }
                let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
                line.map(str::to_owned).unwrap_or(text)
            }
        };
        if !self.chat {
            return Ok(Prompt::Text(text));
        }
        let message = |role: &str, content: String| Message { role: role.into(), content };
        let system = self.system.clone().map(|content| message("system", content));
        Ok(Prompt::Chat(system.into_iter().chain([message("user", text)]).collect()))
    }
}

fn bad_prompt<T>(value: &str, allowed: &str) -> Result<T> {
    Err(Error::BadOption { option: "prompt".into(), value: value.into(), allowed: allowed.into() })
}

fn wants_colour(choice: ColorChoice, terminal: bool) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    }
}

fn style(origin: Origin, colour: bool) -> Style {
    match origin {
        Origin::DraftModel if colour => AnsiColor::Green.on_default(),
        Origin::Lookup if colour => AnsiColor::Cyan.on_default(),
        _ => Style::new(),
    }
}

/// Text to stdout, token by token.
struct Printer {
    out: StdoutLock<'static>,
    colour: bool,
    began: bool,
    failed: Option<io::Error>,
}

impl Printer {
    fn new(colour: bool) -> Self {
        Self { out: io::stdout().lock(), colour, began: false, failed: None }
    }

    /// Breaks the generation off when stdout is closed.
    fn token(&mut self, token: &Token) -> ControlFlow<()> {
        self.began = true;
        let style = style(token.origin, self.colour);
        match write!(self.out, "{style}{}{style:#}", token.text).and_then(|()| self.out.flush()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn finish(mut self) -> io::Result<()> {
        match self.failed {
            Some(error) => Err(error),
            None if self.began => writeln!(self.out),
            None => Ok(()),
        }
    }
}

/// Who drafts, as [`Session::generate`] decides it.
fn drafter(session: &Session, options: &GenerateOptions) -> Option<Origin> {
    match (options.speculation, options.prompt_lookup_num_tokens, session.engine().draft()) {
        (Speculation::Auto, Some(_), _) => Some(Origin::Lookup),
        (Speculation::Auto, None, Some(_)) if options.num_assistant_tokens > 0 => Some(Origin::DraftModel),
        _ => None,
    }
}

fn summary(generation: &Generation, drafter: Option<Origin>, session: &Session, colour: bool) -> String {
    let stats = &generation.stats;
    // After a single round there is no later one to measure.
    let speed = match stats.times.tokens_per_second {
        0.0 => stats.num_emitted_tokens as f64 / stats.times.total,
        speed => speed,
    };
    let drafting = match drafter {
        None => "no speculation".into(),
        Some(origin) => {
            let name = if origin == Origin::Lookup { "prompt lookup" } else { "draft model" };
            let style = style(origin, colour);
            let legend = if colour { " (its tokens in this colour)" } else { "" };
            format!(
                "mean acceptance length {:.2}, draft acceptance rate {:.2}; drafter: {style}{name}{legend}{style:#}",
                stats.mean_acceptance_length, stats.draft_acceptance_rate
            )
        }
    };
    let device = session.engine().gpu().info();
    let (tokens, rounds) = (stats.num_emitted_tokens, stats.num_spec_steps);
    format!("{tokens} tokens, {speed:.1} tokens/s, {rounds} rounds; {drafting}; {}, {}", device.name, device.backend)
}
