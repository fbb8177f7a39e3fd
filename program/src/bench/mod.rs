//! `foretoken bench`: measures the claims of this project on the local device.

mod loss;
mod measure;
mod parts;
mod probe;
mod report;
mod shape;
mod tasks;

pub(super) use probe::bandwidth;

use super::files;
use super::load::LocalModels;
use super::prompts::PromptsFlag;
use super::{Failure, print_json};
use clap::value_parser;
use foretoken::internals::backend::{Backend, Device};
use foretoken::internals::gpu::{Gpu, GpuOptions};
use foretoken::internals::session::Session;
use foretoken::internals::weights::Source;
use foretoken::{DeviceChoice, Error, LoadOptions, Result};
use measure::Effort;
use parts::Parts;
use report::BenchReport;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

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
    /// Use random weights of this shape instead of a model; f16 unless --dtype is given, generated on the GPU
    #[arg(long, value_name = "SHAPE", value_parser = shape::NAMES, conflicts_with_all = ["Pair", "prompts"])]
    shape: Option<String>,
    /// Text whose perplexity is measured, for the loss from fewer bits [default: the tale of the checkout]
    #[arg(long, value_name = "FILE", conflicts_with = "shape")]
    text: Option<PathBuf>,
    #[command(flatten)]
    prompts: PromptsFlag,
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
    let parts = Parts::announce(time_limit, args.shape.is_none());
    // All modes write the same texts, so they must not be drafted from those of the mode before.
    let options = args.models.options()?.lookup_memory(0);
    options.validate()?;
    let (device, subject) = args.load(&options).await?;
    let report = measure(args, &options, &device, subject, effort, parts).await?;
    if json {
        return print_json(&report);
    }
    write!(io::stdout(), "{report}")?;
    Ok(())
}

impl BenchArgs {
    async fn load(&self, options: &LoadOptions) -> Result<(Device, Subject)> {
        let (device, mut subject) = match &self.shape {
            Some(_) if options.device == DeviceChoice::Cpu => {
                let allowed = "webgpu, with --shape".into();
                return Err(Error::BadOption { option: "device".into(), value: "cpu".into(), allowed });
            }
            Some(name) => {
                let gpu = Gpu::open(&GpuOptions::default()).await?;
                let engine = shape::engine(&gpu, name, options).await?;
                (Device::Gpu(gpu), Subject::Engine(Box::new(engine)))
            }
            None => {
                let (device, _) = Device::open(options, &GpuOptions::default()).await?;
                let session = self.models.pair.load(device.clone(), options).await?;
                (device, Subject::Session(Box::new(session)))
            }
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
    let (model, assistant_model) = match &args.shape {
        Some(name) => (format!("{name} with random weights"), None),
        None => {
            (args.models.pair.target()?.model_name(), args.models.pair.assistant()?.map(|files| files.model_name()))
        }
    };
    let engine = subject.engine();
    let info = engine.device().clone();
    let (arithmetic, memory) = (engine.arithmetic(), measure::memory(engine));
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
    let (mut tasks, mut phases, mut loss) = Default::default();
    if let Subject::Session(mut session) = subject {
        let limit = parts.begin("tasks");
        (tasks, phases) = tasks::run(&mut session, &prompts, effort, &limit).await?;
        parts.end(limit);
        // Frees its memory for the next part.
        drop(session);
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
        rounds,
        sampling,
        drafts,
        lookup: measure::lookup(),
        memory,
        phases,
        tasks,
        loss,
        cut: std::mem::take(&mut parts.cut),
    })
}
