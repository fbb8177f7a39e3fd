//! `foretoken chat`: a conversation. Each turn passes the whole conversation to the model; most of it is still cached.

mod commands;

use self::commands::{Line, parse};
use super::lines::Lines;
use super::options::{GenerateFlags, LongChatFlags};
use super::print::{Colour, Printer, table};
use super::writer::ModelsFlags;
use super::{Failure, print_json};
use foretoken::internals::session::{Generator, Progress};
use foretoken::internals::weights::Source;
use foretoken::{Error, FinishReason, GenerateOptions, Generation, Message, Prompt, Result};
use foretoken_measure::name_device;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Commands of a chat, for `--help` and `/help`.
pub(super) const COMMANDS: &str = "\
Commands:
  /reset        forget the turns; the system message stays
  /stats        what the last answer took
  /system TEXT  another system message from now on; without TEXT: none
  /help         this list
  /exit         end, as Ctrl-D does
Every other line is a message; one that begins with / needs a space before it. Ctrl-C breaks an answer off; what there
is of it stays in the chat. Of piped input, too, each line is a command or a message; there an error ends the chat.";

/// Shown at the start of a chat with the tales pair.
const TALES: &str = "\
This small model tells tales and does three things well: Tell this again: TEXT, Put \"NEW\" for \"OLD\": TEXT and
Continue the tale: TEXT; best as the first request, so /reset between them. For a conversation give --model the folder
of an instruct model.";

/// Models and options of a chat.
#[derive(clap::Args)]
pub(super) struct ChatArgs {
    #[command(flatten)]
    models: ModelsFlags,
    #[command(flatten)]
    generation: GenerateFlags,
    /// Start with this system message
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    #[command(flatten)]
    long_chats: LongChatFlags,
    #[command(flatten)]
    colour: Colour,
}

pub(super) async fn run(args: &ChatArgs, json: bool) -> Result<(), Failure> {
    let load = args.models.options()?;
    let mut options = args.long_chats.set(args.generation.options()?)?;
    options.sampling.as_recommended();
    let generator = args.models.load(&load).await?;
    let mut chat = ChatLoop {
        generator,
        options,
        system: args.system.clone(),
        turns: Vec::new(),
        last: None,
        broken_off: Arc::default(),
        colour: &args.colour,
        json,
    };
    // Fails before the first input if the model has no template, or if its template refuses a system message.
    chat.generator.encode(&chat.prompt([Message::new("user", "Hello")]), &chat.options)?;
    let mut lines = Lines::open()?;
    if lines.typed() {
        chat.greet(args)?;
        chat.listen();
    }
    while let Some(line) = lines.read_line()? {
        match chat.take(&line).await {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => break,
            Err(failure) => {
                if let Failure::Engine(Error::ContextFull { .. }) = failure {
                    note("[/reset forgets the turns; with --context shift the oldest go by themselves]");
                }
                match failure {
                    // A user at the terminal can continue.
                    Failure::Engine(_) if lines.typed() => failure.report(json),
                    _ => return Err(failure),
                };
            }
        }
    }
    Ok(())
}

/// Prints a line to stderr; stdout is for the answers.
fn note(text: &str) {
    // Nothing can be reported if this fails.
    let _ = writeln!(io::stderr(), "{text}");
}

/// A conversation.
struct ChatLoop<'a> {
    generator: Box<Generator>,
    options: GenerateOptions,
    system: Option<String>,
    /// User, assistant, user, assistant.
    turns: Vec<Message>,
    last: Option<Generation>,
    broken_off: Arc<AtomicBool>,
    colour: &'a Colour,
    json: bool,
}

impl ChatLoop<'_> {
    fn greet(&self, args: &ChatArgs) -> Result<()> {
        let pair = &args.models.local.pair;
        let draft = pair.assistant()?.map_or(String::new(), |files| format!(", drafted by {}", files.model_name()));
        let device = name_device(self.generator.device());
        note(&format!("{}{draft}, on {device}", args.models.name()?));
        if pair.model.is_none() {
            note(TALES);
        }
        note("/help lists the commands, Ctrl-D ends.");
        Ok(())
    }

    /// Lets Ctrl-C stop an answer. A second Ctrl-C ends the program, in case the device hangs.
    fn listen(&self) {
        let broken_off = self.broken_off.clone();
        // If this fails, Ctrl-C ends the program, as without a handler.
        let _ = ctrlc::set_handler(move || {
            if broken_off.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        });
    }

    fn prompt(&self, more: impl IntoIterator<Item = Message>) -> Prompt {
        let system = self.system.iter().map(|text| Message::new("system", text));
        Prompt::Chat(system.chain(self.turns.iter().cloned()).chain(more).collect())
    }

    /// Handles a line. Breaks at the end of the chat.
    async fn take(&mut self, line: &str) -> Result<ControlFlow<()>, Failure> {
        match parse(line)? {
            Line::Nothing => {}
            Line::Message(text) => self.answer(text).await?,
            Line::Reset => {
                self.turns.clear();
                note("[the turns are forgotten]");
            }
            Line::System(text) => {
                self.system = Some(text.to_owned()).filter(|text| !text.is_empty());
                note(if text.is_empty() { "[no system message]" } else { "[another system message from now on]" });
            }
            Line::Stats => note(&self.last.as_ref().map_or("there is no answer yet".into(), table)),
            Line::Help => note(COMMANDS),
            Line::Exit => return Ok(ControlFlow::Break(())),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Answers a message. If that fails, the chat does not change.
    async fn answer(&mut self, text: &str) -> Result<(), Failure> {
        let question = Message::new("user", text);
        let prompt = self.prompt([question.clone()]);
        self.broken_off.store(false, Ordering::Relaxed);
        let mut printer = (!self.json).then(|| Printer::new(self.colour));
        let mut show = |progress: Progress<'_>| {
            let shown = printer.as_mut().map_or(ControlFlow::Continue(()), |printer| printer.show(progress));
            if self.broken_off.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { shown }
        };
        let generation = self.generator.generate(&prompt, &self.options, &mut show).await;
        if let Some(printer) = printer {
            printer.finish()?;
        }
        let generation = generation?;
        let dropped = generation.stats.num_dropped_messages;
        // Otherwise they would be dropped in every turn.
        self.turns.drain(..dropped);
        self.turns.extend([question, Message::new("assistant", &generation.text)]);
        if self.json {
            print_json(&generation)?;
        } else {
            if dropped > 0 {
                note(&format!("[the context is full: the {dropped} oldest messages were dropped]"));
            }
            if generation.finish_reason == FinishReason::Length {
                let most = self.options.max_new_tokens;
                let full = generation.token_ids.len() < most;
                note(&if full {
                    "[cut: the context is full]".into()
                } else {
                    format!("[cut: --max-new-tokens {most}]")
                });
            }
        }
        self.last = Some(generation);
        Ok(())
    }
}
