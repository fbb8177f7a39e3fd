//! `foretoken bench`: measures the claims of this project on the local device.

mod lines;
mod loss;
mod measure;
mod parts;
mod probe;
mod report;
mod shape;
mod tasks;
mod temperatures;

pub(super) use probe::bandwidth;

use super::files;
use super::load::{LocalModels, load};
use super::prompts::PromptsFlag;
use super::simulate::draw;
use super::{Failure, print_json};
use clap::value_parser;
use foretoken::internals::backend::{Backend, Device};
use foretoken::internals::gpu::GpuOptions;
use foretoken::internals::model::Plan;
use foretoken::internals::session::Session;
use foretoken::internals::weights::Source;
use foretoken::{Error, LoadOptions, Result};
use measure::Effort;
use parts::{PartList, Parts};
use report::BenchReport;
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;
use temperatures::{Sweep, TemperaturesFlags};

/// Fewest positions that the shorter of the measured contexts needs.
const LEAST_CONTEXT: usize = 64;

/// Method of measurement, for `--help`.
pub(super) const METHOD: &str = "Times are wall clock, driver included, and medians. A part ends when its share of the time \
    is over. Software adapters are good for counts and ratios only.";

/// Subject and duration of the measurements.
#[derive(clap::Args)]
pub(super) struct BenchArgs {
    #[command(flatten)]
    models: LocalModels,
    /// Use random weights of this shape instead of a model; f16 unless --dtype is given
    #[arg(long, value_name = "SHAPE", value_parser = shape::NAMES, conflicts_with_all = ["Pair", "prompts"])]
    shape: Option<String>,
    /// Text whose perplexity is measured, for the loss from fewer bits [default: the tale of the checkout]
    #[arg(long, value_name = "FILE", conflicts_with = "shape")]
    text: Option<PathBuf>,
    #[command(flatten)]
    prompts: PromptsFlag,
    #[command(flatten)]
    sweep: TemperaturesFlags,
    /// Repeat measurements less often
    #[arg(long)]
    quick: bool,
    /// Most time for all parts together, without loading [default: 250, with --quick 60]
    #[arg(long, value_name = "SECONDS", value_parser = value_parser!(u32).range(..=86_400))]
    time_limit: Option<u32>,
}

/// Subject of the measurements.
enum Subject {
    /// A model pair, which can generate.
    Session(Box<Session>),
    /// A shape, which cannot generate.
    Engine(Box<dyn Backend>),
}

impl Subject {
    fn engine(&mut self) -> &mut dyn Backend {
        match self {
            Self::Session(session) => session.engine_mut(),
            Self::Engine(engine) => &mut **engine,
        }
    }
}

pub(super) async fn run(args: &BenchArgs, json: bool) -> Result<(), Failure> {
    let (effort, time_limit) = if args.quick { (Effort::QUICK, 60) } else { (Effort::FULL, 250) };
    let time_limit = Duration::from_secs(args.time_limit.unwrap_or(time_limit).into());
    args.sweep.check()?;
    // All modes write the same texts, so they must not be drafted from those of the mode before.
    let options = args.models.options()?.lookup_memory(0);
    options.validate()?;
    args.sweep.out.as_deref().map_or(Ok(()), draw::check)?;
    let parts = Parts::announce(time_limit, args.part_list());
    let (device, subject) = args.load(&options).await?;
    match subject {
        Subject::Session(session) if !args.sweep.temperatures.is_empty() => {
            let sweep = sweep(args, *session, effort, parts).await?;
            if let Some(out) = &args.sweep.out {
                draw::write(out, &sweep.picture())?;
                draw::told(out)?;
            }
            show(&sweep, json)
        }
        subject => show(&measure(args, &options, &device, subject, effort, parts).await?, json),
    }
}

fn show(report: &(impl Serialize + Display), json: bool) -> Result<(), Failure> {
    if json {
        return print_json(report);
    }
    write!(io::stdout(), "{report}")?;
    Ok(())
}

impl BenchArgs {
    fn part_list(&self) -> PartList {
        match &self.shape {
            Some(_) => PartList::Shape,
            None if !self.sweep.temperatures.is_empty() => PartList::Sweep,
            None if self.models.pair.has_assistant() => PartList::Pair,
            None => PartList::Model,
        }
    }

    /// Returns the names of target and draft model.
    fn names(&self) -> Result<(String, Option<String>)> {
        Ok(match &self.shape {
            Some(name) => (format!("{name} with random weights"), None),
            None => {
                let pair = &self.models.pair;
                (pair.target()?.model_name(), pair.assistant()?.map(|files| files.model_name()))
            }
        })
    }

    async fn load(&self, options: &LoadOptions) -> Result<(Device, Subject)> {
        let (device, _) = Device::open(options, &GpuOptions::default()).await?;
        let mut subject = match &self.shape {
            Some(name) => Subject::Engine(shape::engine(&device, name, options).await?),
            None => Subject::Session(Box::new(self.models.pair.load(device.clone(), options).await?)),
        };
        let max_context = subject.engine().capacity();
        if max_context < LEAST_CONTEXT {
            let (value, allowed) = (max_context.to_string(), format!("{LEAST_CONTEXT} or more for a bench"));
            return Err(Error::BadOption { option: "max_context".into(), value, allowed });
        }
        Ok((device, subject))
    }
}

async fn measure(
    args: &BenchArgs,
    options: &LoadOptions,
    device: &Device,
    mut subject: Subject,
    effort: Effort,
    mut parts: Parts,
) -> Result<BenchReport> {
    // Read first: an error after all other parts would lose them.
    let text = match &args.text {
        Some(file) => Some(files::text(file)?),
        None => files::tale(),
    };
    let prompts = args.prompts.read_file()?;
    let (model, assistant_model) = args.names()?;
    let engine = subject.engine();
    let info = engine.device().clone();
    let (arithmetic, memory) = (engine.arithmetic(), measure::memory(engine));
    let dispatches_per_layer = engine.spec().map_or(0, |spec| Plan::new(spec).dispatches_per_layer());
    let limit = parts.begin("probe");
    let probe_gb_per_s = probe::run(engine.gpu(), effort, &limit).await?;
    parts.end(limit);
    let limit = parts.begin("prefill");
    let prefill = measure::prefill(engine, effort, &limit).await?;
    parts.end(limit);
    let limit = parts.begin("verify");
    let verify = measure::verify(engine, prefill.tokens, effort, &limit).await?;
    parts.end(limit);
    let limit = parts.begin("decode");
    let decode = measure::decode(engine, effort, probe_gb_per_s, &limit).await?;
    let rounds = measure::rounds(engine).await?;
    let drafts = measure::drafts(engine, effort, &limit).await?;
    let sampling = measure::sampling(engine, effort, &limit).await?;
    parts.end(limit);
    let (mut tasks, mut phases, mut draft_alone, mut loss) = Default::default();
    if let Subject::Session(mut session) = subject {
        let limit = parts.begin("tasks");
        (tasks, phases) = tasks::run(&mut session, &prompts, effort, &limit).await?;
        parts.end(limit);
        // Frees its memory for the next part.
        drop(session);
        if let Some(files) = args.models.pair.assistant()? {
            let limit = parts.begin("draft model");
            let measured = async {
                let mut alone = load(device.clone(), files, None, options).await?;
                tasks::alone(&mut alone, &prompts, effort, &limit).await
            };
            match measured.await {
                Ok(found) => draft_alone = found,
                // Drafters that read their target's hidden states do not generate.
                Err(error) => eprintln!("warning: the draft model is not measured alone: {error}"),
            }
            parts.end(limit);
        }
        let limit = parts.begin("loss");
        match text {
            Some(text) => {
                loss = loss::run(device, || args.models.pair.target(), &text, options, effort, &limit).await?
            }
            None => eprintln!("warning: only a checkout has a text for the loss: name one with --text"),
        }
        parts.end(limit);
    }
    Ok(BenchReport {
        device: info,
        arithmetic,
        model,
        assistant_model,
        probe_gb_per_s,
        decode,
        verify,
        prefill,
        dispatches_per_layer,
        rounds,
        sampling,
        drafts,
        lookup: measure::lookup(),
        memory,
        phases,
        tasks,
        draft_alone,
        loss,
        cut: std::mem::take(&mut parts.cut),
    })
}

async fn sweep(args: &BenchArgs, mut session: Session, effort: Effort, mut parts: Parts) -> Result<Sweep> {
    let prompts = args.prompts.read_file()?;
    let (model, assistant_model) = args.names()?;
    let limit = parts.begin("temperatures");
    let found = temperatures::run(&mut session, &prompts, &args.sweep.temperatures, effort, &limit).await?;
    parts.end(limit);
    let (texts, temperatures) = found;
    let engine = session.engine();
    let (device, arithmetic) = (engine.device().clone(), engine.arithmetic());
    Ok(Sweep { device, arithmetic, model, assistant_model, texts, temperatures, cut: std::mem::take(&mut parts.cut) })
}
