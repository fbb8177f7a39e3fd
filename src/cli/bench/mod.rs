//! `foretoken bench`: the claims of this project, measured on the device at hand.

mod measure;
mod overlap;
mod report;
mod shape;
mod tasks;

use super::load::{Pair, Room};
use super::{Failure, print_json};
use crate::decode::Engine;
use crate::error::{Error, Result};
use crate::session::Session;
use crate::weights::Source;
use indicatif::ProgressBar;
use measure::Effort;
use report::Report;
use std::io::{self, Write};
use std::time::Duration;

/// Fewest positions that the shorter of the measured contexts needs.
const LEAST_CONTEXT: usize = 64;

/// How it measures, for `--help`.
pub(super) const METHOD: &str = "Times are wall clock, from recording to a blocking readback: what a user waits for, \
    driver included. Each is the median of several, after a warm-up. Software adapters are good for counts and ratios \
    only.";

/// What to measure, and how long.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pair: Pair,
    #[command(flatten)]
    room: Room,
    /// Instead of a model: random f16 weights of this shape, made on the device
    #[arg(long, value_name = "SHAPE", value_parser = shape::NAMES, conflicts_with = "Pair")]
    shape: Option<String>,
    /// Measure less often
    #[arg(long)]
    quick: bool,
}

/// What is measured.
enum Subject {
    /// A model pair that can write.
    Session(Box<Session>),
    /// A shape, which cannot.
    Engine(Box<Engine>),
}

impl Subject {
    fn engine(&mut self) -> &mut Engine {
        match self {
            Self::Session(session) => &mut session.engine,
            Self::Engine(engine) => engine,
        }
    }
}

pub(super) async fn run(args: &Args, json: bool) -> Result<(), Failure> {
    let effort = if args.quick { Effort::QUICK } else { Effort::FULL };
    let mut subject = args.load().await?;
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(Duration::from_millis(100));
    let report = measure(args, &mut subject, effort, &spinner).await;
    spinner.finish_and_clear();
    let report = report?;
    if json {
        return print_json(&report);
    }
    write!(io::stdout(), "{report}")?;
    Ok(())
}

impl Args {
    async fn load(&self) -> Result<Subject> {
        let options = self.room.options()?;
        let mut subject = match &self.shape {
            Some(name) => Subject::Engine(Box::new(shape::engine(name, &options).await?)),
            None => Subject::Session(Box::new(self.pair.load(&options).await?)),
        };
        let max_context = subject.engine().target().capacity().max_context;
        if max_context < LEAST_CONTEXT {
            let (value, allowed) = (max_context.to_string(), format!("{LEAST_CONTEXT} or more for a bench"));
            return Err(Error::BadOption { option: "max_context".into(), value, allowed });
        }
        Ok(subject)
    }
}

async fn measure(args: &Args, subject: &mut Subject, effort: Effort, spinner: &ProgressBar) -> Result<Report> {
    let (model, assistant_model) = match &args.shape {
        Some(name) => (format!("{name} with random weights"), None),
        None => (args.pair.target()?.name(), args.pair.assistant()?.map(|files| files.name())),
    };
    let engine = subject.engine();
    let device = engine.gpu().info().clone();
    let memory = measure::memory(engine);
    spinner.set_message("probe");
    let probe_gb_per_s = measure::probe(engine.gpu(), effort).await?;
    spinner.set_message("prefill");
    let prefill = measure::prefill(engine, effort).await?;
    spinner.set_message("verify");
    let verify = measure::verify(engine, effort).await?;
    spinner.set_message("decode");
    let decode = measure::decode(engine, effort, probe_gb_per_s).await?;
    let rounds = measure::rounds(engine).await?;
    let (mut overlap, mut tasks, mut phases) = Default::default();
    if let Subject::Session(session) = subject {
        let exercises = tasks::exercises()?;
        spinner.set_message("overlap");
        overlap = overlap::run(session, &exercises, effort).await?;
        spinner.set_message("tasks");
        (tasks, phases) = tasks::run(session, &exercises, effort).await?;
    }
    Ok(Report {
        device,
        model,
        assistant_model,
        probe_gb_per_s,
        decode,
        verify,
        prefill,
        rounds,
        lookup: measure::lookup(),
        memory,
        overlap,
        phases,
        tasks,
    })
}
