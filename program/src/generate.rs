//! `foretoken generate`: prints the continuation of a prompt as it is generated, with a summary of speed and drafting.

use super::options::GenerateFlags;
use super::print::{Colour, Printer, summary};
use super::writer::ModelsFlags;
use super::{Failure, bad_prompt, print_json};
use foretoken::internals::options::MAX_SEED;
use foretoken::internals::session::Generator;
use foretoken::internals::weights::Source;
use foretoken::{
    DeviceInfo, DoSample, Error, GenerateOptions, Generation, LoadOptions, Message, Prompt, Result, SamplingOptions,
};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, IsTerminal, Read, Write};
use std::ops::ControlFlow;

/// Prompt, models and options.
#[derive(clap::Args)]
pub(super) struct GenerateArgs {
    /// Text to continue; `-` or none: standard input, without its last line break
    prompt: Option<String>,
    #[command(flatten)]
    models: ModelsFlags,
    #[command(flatten)]
    generation: GenerateFlags,
    /// Treat PROMPT as a user's message, for the model's chat template
    #[arg(long)]
    chat: bool,
    /// Treat PROMPT as a whole chat: a JSON list of messages {"role", "content"}
    #[arg(long, conflicts_with = "chat")]
    messages: bool,
    /// System message before PROMPT
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,
    /// Generate N texts, sampled with the seeds N, N + 1, ...; the prompt is read once. With --json, print one object for each
    #[arg(long, value_name = "N", value_parser = super::count, default_value_t = 1)]
    num_return_sequences: usize,
    #[command(flatten)]
    colour: Colour,
}

/// Output of `--json`.
#[derive(Serialize)]
struct GenerateReport<'a> {
    #[serde(flatten)]
    generation: &'a Generation,
    device: &'a DeviceInfo,
    options: UsedOptions<'a>,
}

#[derive(Serialize)]
struct UsedOptions<'a> {
    model: String,
    assistant_model: Option<String>,
    #[serde(flatten)]
    load: &'a LoadOptions,
    #[serde(flatten)]
    generate: &'a GenerateOptions,
    chat: bool,
}

pub(super) async fn run(args: &GenerateArgs, json: bool) -> Result<(), Failure> {
    let (load, mut options) = (args.models.options()?, args.generation.options()?);
    let prompt = args.prompt()?;
    let count = args.num_return_sequences;
    let check_count = |draws: bool| match (count, draws) {
        (1, _) | (2.., true) => Ok(()),
        _ => Err(Error::BadOption {
            option: "num_return_sequences".into(),
            value: count.to_string(),
            allowed: "1, or more if --do-sample or --temperature draw at random: there is only one most likely text"
                .into(),
        }),
    };
    let sampling = &options.sampling;
    check_count(sampling.do_sample == DoSample::Model || sampling.draws(&SamplingOptions::default()))?;
    if let Some(seed) = options.sampling.seed
        && count as u64 - 1 > MAX_SEED.saturating_sub(seed)
    {
        let allowed = format!("seeds that leave {count} up to 2^53 - 1, one for each of num_return_sequences");
        return Err(Error::BadOption { option: "seed".into(), value: seed.to_string(), allowed }.into());
    }
    let mut generator = args.models.load(&load).await?;
    check_count(generator.draws(&options))?;
    let first = options.sampling.seed;
    for text in 0..count as u64 {
        options.sampling.seed = first.map(|first| first + text);
        write(args, json, &mut generator, &load, &prompt, &options).await?;
    }
    Ok(())
}

/// Generates one text.
async fn write(
    args: &GenerateArgs,
    json: bool,
    generator: &mut Generator,
    load: &LoadOptions,
    prompt: &Prompt,
    options: &GenerateOptions,
) -> Result<(), Failure> {
    if json {
        let generation = generator.generate(prompt, options, &mut |_| ControlFlow::Continue(())).await?;
        let model = args.models.name()?;
        let assistant_model = args.models.local.pair.assistant()?.map(|files| files.model_name());
        let options = UsedOptions { model, assistant_model, load, generate: options, chat: args.chat };
        return print_json(&GenerateReport { generation: &generation, device: generator.device(), options });
    }
    let mut printer = Printer::new(&args.colour);
    let generation = generator.generate(prompt, options, &mut |progress| printer.show(progress)).await;
    let origins = printer.finish()?;
    let colour = args.colour.wanted(&io::stderr());
    // The text is printed, so failing to print the summary loses nothing.
    let _ = writeln!(io::stderr(), "{}", summary(&generation?, generator.device(), &origins, colour));
    Ok(())
}

impl GenerateArgs {
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
        if self.messages {
            let Ok(Value::Array(list)) = foretoken::internals::json::parse(&text) else {
                return bad_prompt(&text, "with --messages a JSON list of messages");
            };
            let messages = list.into_iter().map(Message::try_from).collect::<Result<_>>();
            return messages.map(Prompt::Chat);
        }
        if !self.chat {
            return Ok(Prompt::Text(text));
        }
        let system = self.system.iter().map(|text| Message::new("system", text));
        Ok(Prompt::Chat(system.chain([Message::new("user", text)]).collect()))
    }
}
