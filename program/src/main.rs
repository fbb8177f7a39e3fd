//! The command-line program: commands and errors. Results go to stdout, everything else to stderr.

#![forbid(unsafe_code)]

mod bar;
mod bench;
mod cache;
mod chat;
mod files;
mod generate;
mod inspect;
mod lines;
mod load;
mod measure;
mod models;
mod options;
mod print;
mod prompts;
mod reading;
mod score;
mod serve;
mod simulate;
mod speed;
mod writer;

use clap::error::{ContextKind, ErrorKind};
use clap::{Parser, Subcommand};
use foretoken::Error;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::ExitCode;

const HUB: &str = "\
Models of the Hub are kept in its cache, ~/.cache/huggingface/hub, or where HF_HOME or HF_HUB_CACHE say. HF_TOKEN, or what
`hf auth login` stored, opens private and gated ones; HF_HUB_OFFLINE=1 uses the cache alone; HF_ENDPOINT names another Hub.";

const EXITS: &str = "Exit codes: 0 done, 1 it failed, 2 the command line is wrong. An error is one line on stderr, \
    or with --json one object {\"error\": {code, message, detail}} on stdout.";

/// Language models on your own GPU, made fast by lossless speculative decoding
#[derive(Parser)]
#[command(name = "foretoken", version, after_help = EXITS)]
struct Cli {
    #[command(subcommand)]
    command: ProgramCommand,
    /// Print only JSON to stdout: one object per result (answer, text, embedding, model)
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum ProgramCommand {
    /// Continue a prompt
    #[command(after_help = format!("{HUB}\n\n{EXITS}"), allow_negative_numbers = true)]
    Generate(Box<generate::GenerateArgs>),
    /// Chat with a model
    #[command(after_help = format!("{}\n\n{HUB}\n\n{EXITS}", chat::COMMANDS), allow_negative_numbers = true)]
    Chat(Box<chat::ChatArgs>),
    /// Print the embeddings of texts, one JSON list each
    #[command(after_help = format!("{HUB}\n\n{EXITS}"))]
    Embed(score::Embed),
    /// Print how likely continuations of a prompt are: log-probability, number of tokens, and text
    #[command(after_help = format!("{HUB}\n\n{EXITS}"))]
    Score(score::ScoreArgs),
    /// Serve models with OpenAI's API
    #[command(after_help = format!("{HUB}\n\n{EXITS}"))]
    Serve(Box<serve::ServeArgs>),
    /// Show a model's architecture, kernel calls, memory and estimated speed
    #[command(after_help = format!("{HUB}\n\n{EXITS}"), allow_negative_numbers = true)]
    Inspect(inspect::InspectArgs),
    /// List the downloaded models of the Hub: size, type, whether each runs on this machine, and its estimated speed
    #[command(after_help = format!("{HUB}\n\n{EXITS}"))]
    Models(models::ModelsArgs),
    /// Measure the device, the model and its speculation
    #[command(after_help = bench::METHOD, allow_negative_numbers = true)]
    Bench(bench::BenchArgs),
    /// Measure latencies and acceptance of a target and a draft model, for `simulate table`
    #[command(after_help = format!("{}\n\n{HUB}\n\n{EXITS}", measure::METHOD), allow_negative_numbers = true)]
    Measure(measure::MeasureArgs),
    /// Store a model's matrices in another type
    #[command(after_help = EXITS)]
    Quantize(foretoken_quantize::QuantizeArgs),
    /// Simulate speculation and distributed speculation from latencies, without a model
    #[command(after_help = EXITS)]
    Simulate(simulate::SimulateArgs),
}

fn main() -> ExitCode {
    let Cli { command, json } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(refused) => return refuse(&refused),
    };
    let done = pollster::block_on(async {
        match command {
            ProgramCommand::Generate(args) => generate::run(&args, json).await,
            ProgramCommand::Chat(args) => chat::run(&args, json).await,
            ProgramCommand::Embed(args) => args.run_command(json).await,
            ProgramCommand::Score(args) => args.run_command(json).await,
            ProgramCommand::Serve(args) => args.run_command(json),
            ProgramCommand::Inspect(args) => inspect::run(&args, json).await,
            ProgramCommand::Models(args) => models::run(&args, json).await,
            ProgramCommand::Bench(args) => bench::run(&args, json).await,
            ProgramCommand::Measure(args) => measure::run(&args, json).await,
            ProgramCommand::Quantize(args) => Ok(foretoken_quantize::quantize(&args).await?),
            ProgramCommand::Simulate(args) => simulate::run(&args, json),
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}

/// Reason why a command ended early.
enum Failure {
    /// Error of the engine.
    Engine(Error),
    /// Error while writing the output.
    Output(io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl Failure {
    fn report(self, json: bool) -> ExitCode {
        match self {
            Self::Engine(error) => {
                let exit = if matches!(error, Error::BadOption { .. }) { 2 } else { 1 };
                let message = error.to_string();
                let message = match &error {
                    Error::BadOption { option, .. } => message.replacen(&**option, &flag(option), 1),
                    Error::OutOfGpuMemory { .. } | Error::ContextFull { .. } => ["max_context", "prefill_chunk"]
                        .iter()
                        .fold(message, |message, option| message.replace(option, &flag(option))),
                    _ => message,
                };
                tell(json, exit, &error.to_json(), &message)
            }
            // The reader of the output closed it, as in `foretoken generate | head`.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Self::Output(error) => tell(false, 1, &Value::Null, &format!("standard output cannot be written: {error}")),
        }
    }
}

/// Returns the name of an option on the command line.
fn flag(option: &str) -> String {
    match option {
        "prompt" => "PROMPT".into(),
        "output" => "OUTPUT".into(),
        // Commands in a chat have no flag.
        "command" => "command".into(),
        "response_format" => "--json-schema, --regex or --grammar".into(),
        // Files are part of the models' names.
        "file" => "--model".into(),
        "assistant_file" => "--assistant-model".into(),
        variable if variable.starts_with("HF_") => variable.into(),
        _ => format!("--{}", option.replace('_', "-")),
    }
}

/// Returns an option's name in the API: `kv_dtype` for `--kv-dtype <TYPE>`.
fn option(flag: &str) -> String {
    let name = flag.trim_start_matches('-').split(' ').next();
    name.unwrap_or_default().replace('-', "_")
}

fn count(text: &str) -> Result<usize, &'static str> {
    text.parse().map_err(|_| "it has to be a whole number, 0 or more")
}

/// Prints help or version, or the error in the command line.
fn refuse(refused: &clap::Error) -> ExitCode {
    // The arguments did not parse, so this flag is searched for by hand.
    let json = std::env::args_os().take_while(|arg| arg != "--").any(|arg| arg == "--json");
    let no_command = refused.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if !refused.use_stderr() || no_command && !json {
        // Nothing can be reported if this fails.
        let _ = refused.print();
        return ExitCode::from(refused.exit_code() as u8);
    }
    let text = if no_command { "no command is given".into() } else { refused.to_string() };
    let says = text.strip_prefix("error: ").unwrap_or(&text).split("\n\n").map(one_line);
    let says: Vec<_> = says.filter(|says| !says.starts_with("Usage:") && !says.starts_with("For more")).collect();
    let message = format!("{}; see --help", says.join("; "));
    let context = |kind| refused.get(kind).map(ToString::to_string);
    let detail = json!({
        "option": context(ContextKind::InvalidArg).map(|arg| option(&arg)),
        "value": context(ContextKind::InvalidValue),
        "allowed": context(ContextKind::ValidValue),
    });
    tell(json, 2, &json!({ "code": "bad-option", "message": message, "detail": detail }), &message)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn tell(json: bool, exit: u8, error: &Value, message: &str) -> ExitCode {
    // Nothing can be reported if this fails.
    let _ = match json {
        true => writeln!(io::stdout(), "{}", json!({ "error": error })),
        false => writeln!(io::stderr(), "error: {}", message.lines().map(str::trim).collect::<Vec<_>>().join(" ")),
    };
    ExitCode::from(exit)
}

fn bad_prompt<T>(value: &str, allowed: &str) -> Result<T, Error> {
    Err(Error::BadOption { option: "prompt".into(), value: value.into(), allowed: allowed.into() })
}

/// Prints an object as one line.
fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}
