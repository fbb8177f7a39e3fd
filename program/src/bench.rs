//! `foretoken bench`: measures the claims of this project on the local device.

use super::bar::Bar;
use super::files;
use super::load::{LocalModels, load};
use super::prompts::PromptsFlag;
use super::simulate::draw;
use super::{Failure, print_json};
use clap::value_parser;
use foretoken::internals::backend::{Backend, Device};
use foretoken::internals::gpu::GpuOptions;
use foretoken::internals::session::Session;
use foretoken::internals::weights::Source;
use foretoken::{Error, LoadOptions, Result};
use foretoken_measure::{Bench, BenchReport, Effort, ModelNames, PartList, SHAPES, Sweep, check_context, load_shape};
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Most temperatures of a list.
const MOST: usize = 32;

/// Method of measurement, for `--help`.
pub(super) const METHOD: &str = "Times are wall clock, driver included, and medians. A part ends when its share of the time \
    is over. Software adapters are good for counts and ratios only.";

/// Subject and duration of the measurements.
#[derive(clap::Args)]
pub(super) struct BenchArgs {
    #[command(flatten)]
    models: LocalModels,
    /// Use random weights of this shape instead of a model; f16 unless --dtype is given
    #[arg(long, value_name = "SHAPE", value_parser = SHAPES, conflicts_with_all = ["Pair", "prompts"])]
    shape: Option<String>,
    /// Text whose perplexity is measured, for the loss from fewer bits [default: the tale of the checkout]
    #[arg(long, value_name = "FILE", conflicts_with = "shape")]
    text: Option<PathBuf>,
    #[command(flatten)]
    prompts: PromptsFlag,
    #[command(flatten)]
    sweep: TemperaturesFlags,
    /// Compare the adaptive schedule with each fixed number of draft tokens, 1 to 8, of each drafter
    #[arg(long, conflicts_with_all = ["shape", "temperatures"])]
    fixed: bool,
    /// Repeat measurements less often
    #[arg(long)]
    quick: bool,
    /// Most time for all parts together, without loading [default: 250, with --quick 60]
    #[arg(long, value_name = "SECONDS", value_parser = value_parser!(u32).range(..=86_400))]
    time_limit: Option<u32>,
}

/// Flags of the sweep.
#[derive(clap::Args)]
pub(super) struct TemperaturesFlags {
    /// Measure only the gain of drafts over plain sampling, at each of these temperatures; 0 is greedy
    #[arg(long, value_name = "T,T,...", value_delimiter = ',', value_parser = temperature, conflicts_with_all = ["shape", "text"])]
    pub temperatures: Vec<f32>,
    /// Draw the gain by temperature in this SVG file
    #[arg(long, value_name = "FILE", requires = "temperatures")]
    pub out: Option<PathBuf>,
}

fn temperature(text: &str) -> Result<f32, &'static str> {
    let is_allowed = |value: &f32| *value == 0.0 || (1e-3..=100.0).contains(value);
    text.trim().parse().ok().filter(is_allowed).ok_or("each temperature has to be 0, or a number from 0.001 to 100")
}

impl TemperaturesFlags {
    /// Refuses lists that are too long or repeat a temperature.
    pub fn check(&self) -> Result<()> {
        let list = &self.temperatures;
        let refuse = |allowed: String| {
            let value = list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            Err(Error::BadOption { option: "temperatures".into(), value, allowed })
        };
        if list.len() > MOST {
            return refuse(format!("at most {MOST} temperatures"));
        }
        let mut repeats = list.iter().enumerate().map(|(index, value)| list[..index].contains(value));
        if repeats.any(|repeats| repeats) { refuse("each temperature once".into()) } else { Ok(()) }
    }
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
    let bench = Bench::announce(effort, time_limit, args.part_list());
    let (device, subject) = args.load(&options).await?;
    match subject {
        Subject::Session(session) if !args.sweep.temperatures.is_empty() => {
            let sweep = sweep(args, *session, &bench).await?;
            if let Some(out) = &args.sweep.out {
                draw::write(out, &sweep.picture())?;
                draw::report_file(out)?;
            }
            show(&sweep, json)
        }
        subject => show(&measure(args, &options, &device, subject, &bench).await?, json),
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
    fn names(&self) -> Result<ModelNames> {
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
            Some(name) => {
                let bar = Bar::loading();
                Subject::Engine(load_shape(&device, name, options, &mut |done, all| bar.show(done, all)).await?)
            }
            None => Subject::Session(Box::new(self.models.pair.load(device.clone(), options).await?)),
        };
        check_context(subject.engine())?;
        Ok((device, subject))
    }
}

async fn measure(
    args: &BenchArgs,
    options: &LoadOptions,
    device: &Device,
    mut subject: Subject,
    bench: &Bench,
) -> Result<BenchReport> {
    // Read first: an error after all other parts would lose them.
    let text = match &args.text {
        Some(file) => Some(files::text(file)?),
        None => files::tale(),
    };
    let prompts = args.prompts.read_file()?;
    let mut report = bench.measure_backend(subject.engine(), args.names()?).await?;
    if let Subject::Session(mut session) = subject {
        bench.measure_tasks(&mut session, &prompts, args.fixed, &mut report).await?;
        // Frees its memory for the next part.
        drop(session);
        let pair = &args.models.pair;
        if let Some(files) = pair.assistant()? {
            let alone = load(device.clone(), files, None, options);
            bench.measure_draft_model(alone, &prompts, &mut report).await;
        }
        bench.measure_loss(device, || pair.target(), text.as_deref(), options, &mut report).await?;
    }
    Ok(report)
}

async fn sweep(args: &BenchArgs, mut session: Session, bench: &Bench) -> Result<Sweep> {
    let prompts = args.prompts.read_file()?;
    bench.measure_temperatures(&mut session, &prompts, &args.sweep.temperatures, args.names()?).await
}
