//! Output of generated text on stdout, and summaries of a generation.

use super::bar::Bar;
use clap::ColorChoice;
use clap::builder::styling::{AnsiColor, Style};
use foretoken::internals::session::Progress;
use foretoken::{Arithmetic, DeviceInfo, Distributed, FinishReason, Generation, Origin, Stats, Token};
use foretoken_measure::name_device;
use std::io::{self, IsTerminal, StdoutLock, Write};
use std::ops::ControlFlow;

/// Colour option.
#[derive(clap::Args)]
pub(super) struct Colour {
    /// Colour tokens by their source; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

impl Colour {
    /// Returns true if output to `out` should be coloured.
    pub fn wanted(&self, out: &impl IsTerminal) -> bool {
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => out.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }
}

fn style(origin: Origin, colour: bool) -> Style {
    match origin {
        Origin::Lookup if colour => AnsiColor::Cyan.on_default(),
        Origin::Suffix if colour => AnsiColor::Blue.on_default(),
        Origin::Prediction if colour => AnsiColor::Magenta.on_default(),
        Origin::Grammar if colour => AnsiColor::Yellow.on_default(),
        Origin::Target => Style::new(),
        // The drafters on the device.
        _ if colour => AnsiColor::Green.on_default(),
        _ => Style::new(),
    }
}

/// Printer of generated tokens on stdout and of prefill progress on stderr.
pub(super) struct Printer {
    out: StdoutLock<'static>,
    colour: bool,
    bar: Option<Bar>,
    /// Drafters with accepted tokens.
    pub origins: Origins,
    began: bool,
    failed: Option<io::Error>,
}

impl Printer {
    pub fn new(colour: &Colour) -> Self {
        let out = io::stdout().lock();
        let (colour, bar) = (colour.wanted(&out), Some(Bar::new("reading the prompt {bar:30} {pos} of {len} tokens")));
        Self { out, colour, bar, origins: Origins::default(), began: false, failed: None }
    }

    /// Shows progress. Stops the generation if stdout is closed.
    pub fn show(&mut self, progress: Progress<'_>) -> ControlFlow<()> {
        match progress {
            Progress::Prefill { done, of } => {
                self.bar.iter().for_each(|bar| bar.show(done as u64, of as u64));
                ControlFlow::Continue(())
            }
            Progress::Token(token) => self.token(token),
            Progress::Waiting => ControlFlow::Continue(()),
        }
    }

    fn token(&mut self, token: &Token) -> ControlFlow<()> {
        self.began = true;
        self.bar = None;
        self.origins.add(token.origin);
        let style = style(token.origin, self.colour);
        match write!(self.out, "{style}{}{style:#}", token.text).and_then(|()| self.out.flush()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// Ends the current line, if any.
    pub fn finish(mut self) -> io::Result<Origins> {
        match self.failed {
            Some(error) => return Err(error),
            None if self.began => writeln!(self.out)?,
            None => {}
        }
        Ok(self.origins)
    }
}

/// Drafters with accepted tokens, by first occurrence.
#[derive(Default)]
pub(super) struct Origins(Vec<Origin>);

impl Origins {
    /// Adds the source of a token.
    pub fn add(&mut self, origin: Origin) {
        if origin != Origin::Target && !self.0.contains(&origin) {
            self.0.push(origin);
        }
    }
}

/// Returns one line each on speed, drafting and, if used, the choice of the adaptive schedule.
pub(super) fn summary(generation: &Generation, device: &DeviceInfo, origins: &Origins, colour: bool) -> String {
    let stats = &generation.stats;
    let (tokens, total, speed) = (stats.num_emitted_tokens, stats.times.total, speed(stats));
    let device = name_device(device);
    let mut lines = vec![format!("speed     {tokens} tokens in {total:.2} s, {speed:.1} tokens/s, on {device}")];
    let (rounds, drafted, accepted) = (stats.num_spec_steps, stats.num_draft_tokens, stats.num_accepted_draft_tokens);
    let names = origins.0.iter().map(|&origin| {
        let style = style(origin, colour);
        format!("{style}{}{style:#}", origin.name())
    });
    let by = match names.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        names => format!(" from {names}{}", if colour { " (in these colours)" } else { "" }),
    };
    lines.push(format!("drafting  {rounds} rounds: {drafted} tokens drafted, {accepted} accepted{by}"));
    lines.extend(stats.speculating.iter().map(|state| format!("schedule  {}", state.reason)));
    lines.extend(stats.warnings.iter().map(|warning| format!("warning   {warning}")));
    lines.join("\n")
}

/// Returns tokens per second.
fn speed(stats: &Stats) -> f64 {
    // After a single round there is no later round to measure.
    match stats.times.tokens_per_second {
        0.0 => stats.num_emitted_tokens as f64 / stats.times.total,
        speed => speed,
    }
}

/// Returns a table about a generation.
pub(super) fn table(generation: &Generation) -> String {
    let Generation { stats, finish_reason, .. } = generation;
    let cached_draft = match stats.num_cached_draft_tokens {
        0 => String::new(),
        count => format!(", {count} of them by the draft model too"),
    };
    let mut rows = vec![
        (
            "tokens",
            format!(
                "{}, {:.1} per second; the first after {:.2} s, all after {:.2} s",
                stats.num_emitted_tokens,
                speed(stats),
                stats.times.first_token,
                stats.times.total
            ),
        ),
        (
            "rounds",
            format!(
                "{}, mean acceptance length {:.2}; {} of {} draft tokens accepted, rate {:.2}",
                stats.num_spec_steps,
                stats.mean_acceptance_length,
                stats.num_accepted_draft_tokens,
                stats.num_draft_tokens,
                stats.draft_acceptance_rate
            ),
        ),
        (
            "prompt",
            format!("{} tokens; {} were cached{cached_draft}", stats.num_prompt_tokens, stats.num_cached_tokens),
        ),
    ];
    if stats.num_dropped_messages > 0 {
        rows.push(("dropped", format!("{} messages", stats.num_dropped_messages)));
    }
    rows.extend(stats.distributed.iter().map(|distributed| {
        let Distributed { sp_degree, lookahead, num_verify_tasks, num_cancelled_tasks, .. } = distributed;
        let tasks = format!("{num_verify_tasks} verify tasks of up to {lookahead} draft tokens");
        ("targets", format!("{sp_degree}; {tasks}, {num_cancelled_tasks} tasks cancelled, drafting included"))
    }));
    rows.extend(stats.speculating.iter().map(|state| ("drafting", state.reason.clone())));
    if stats.arithmetic == Arithmetic::Int8 {
        rows.push(("products", "of quantised weights are computed with integers (arithmetic int8)".into()));
    }
    rows.extend(stats.seed.map(|seed| ("seed", seed.to_string())));
    let ended = match finish_reason {
        FinishReason::Stop => "the model or a stop text ended it",
        FinishReason::Length => "no room for more: max_new_tokens, or the context is full",
        _ => "broken off",
    };
    rows.push(("ended", ended.into()));
    rows.extend(stats.warnings.iter().map(|warning| ("warning", warning.clone())));
    rows.iter().map(|(name, value)| format!("{name:<8} {value}")).collect::<Vec<_>>().join("\n")
}
