//! `foretoken models`: lists the downloaded models of the Hub, whether each runs on this machine, and how fast it can be, using only
//! headers.

use super::cache::{self, Cached};
use super::options::DeviceFlags;
use super::speed::{Machine, Rate, SpeedEstimate};
use super::{Failure, print_json};
use foretoken::internals::hub::Settings;
use foretoken::internals::load::ModelFiles;
use foretoken::internals::model::Architecture;
use foretoken::internals::weights::Folder;
use foretoken::{Error, LoadOptions, Result};
use foretoken_measure::{Bytes, name_device};
use serde::Serialize;
use std::io::{self, Write};

/// Maximum characters of a reason in the table.
const REASON: usize = 100;

/// Device that would run the models.
#[derive(clap::Args)]
pub(super) struct ModelsArgs {
    #[command(flatten)]
    device: DeviceFlags,
}

/// A downloaded model.
#[derive(Serialize)]
struct ModelEntry {
    /// Name, as `--model` takes it.
    model: String,
    /// Bytes of its files.
    size: u64,
    architecture: Option<Architecture>,
    /// Storage type of most of its weights.
    dtype: Option<&'static str>,
    /// Name of the device.
    device: Option<String>,
    /// Reason why it does not run here; `None`: it runs.
    unfit: Option<String>,
    #[serde(flatten)]
    estimate: Option<SpeedEstimate>,
}

pub(super) async fn run(args: &ModelsArgs, json: bool) -> Result<(), Failure> {
    let options = args.device.set(LoadOptions::new())?;
    options.validate()?;
    let folder = Settings::from_env().cache;
    let found = cache::list(&folder)?;
    if found.is_empty() {
        // With --json, no model is no object.
        writeln!(
            io::stderr(),
            "no model is in {}: `foretoken chat --model OWNER/NAME` downloads one",
            folder.display()
        )?;
        return Ok(());
    }
    let mut machine = Machine::open(&options).await;
    let mut entries = Vec::new();
    for cached in found {
        entries.push(ModelEntry::new(cached, &options, &mut machine).await);
    }
    entries.sort_by_cached_key(|entry| (entry.unfit.is_some(), entry.model.to_lowercase()));
    if json {
        return entries.iter().try_for_each(print_json);
    }
    print(&entries, &machine)?;
    Ok(())
}

impl ModelEntry {
    async fn new(cached: Cached, options: &LoadOptions, machine: &mut Machine) -> Self {
        let device = machine.info().map(name_device);
        let Cached { id: model, size, path, is_interrupted } = cached;
        let mut entry = Self { model, size, architecture: None, dtype: None, device, unfit: None, estimate: None };
        let read = match &path {
            Ok(path) => match Folder::open(path) {
                Ok(source) => {
                    // Errors name the folder, also for a GGUF file in it.
                    let folder = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
                    let place = format!("{}/", folder.unwrap_or(path).display());
                    entry.read_headers(source, options, machine).await.map_err(|error| short(&error, &place))
                }
                Err(error) => Err(error.to_string()),
            },
            Err(reason) => Err(reason.clone()),
        };
        let advice = "the download was interrupted, and the next load completes it";
        entry.unfit = match read {
            Ok(unfit) => unfit,
            Err(reason) if is_interrupted => Some(format!("{advice}: {reason}")),
            Err(reason) => Some(reason),
        };
        entry
    }

    /// Reads the headers. Returns the reason why the model does not run.
    async fn read_headers(
        &mut self,
        source: Folder,
        options: &LoadOptions,
        machine: &mut Machine,
    ) -> Result<Option<String>> {
        let files = ModelFiles::open(Box::new(source), options).await?;
        let inspection = files.inspect(machine.info().cloned()).await?;
        self.architecture = Some(inspection.architecture);
        let dtypes = inspection.tensors.dtypes;
        self.dtype = dtypes.iter().max_by_key(|(_, share)| share.bytes).map(|(dtype, _)| *dtype);
        files.tokenizer().await?;
        if inspection.device.is_none() {
            return Ok(machine.reason.clone());
        }
        if inspection.unfit.is_none() {
            self.estimate = machine.estimate(&files.blueprint).await;
        }
        Ok(inspection.unfit)
    }
}

/// Returns the reason of an error without what the list says already: the path, and for a file of a model, its folder.
fn short(error: &Error, place: &str) -> String {
    match error {
        Error::NotFound { reason, .. } => reason.clone(),
        Error::UnsupportedArchitecture { architecture, .. } => {
            format!("the architecture {architecture} is not supported")
        }
        other => other.to_string().replace(place, ""),
    }
}

/// Returns the words at the beginning of a reason that fit the table.
fn begin(reason: &str) -> String {
    let Some((end, _)) = reason.char_indices().nth(REASON) else { return reason.to_owned() };
    let fitting = &reason[..end];
    format!("{} ...", fitting.rsplit_once(' ').map_or(fitting, |(words, _)| words))
}

/// Prints the models as a table.
fn print(entries: &[ModelEntry], machine: &Machine) -> io::Result<()> {
    let titles = ["MODEL", "SIZE", "ARCHITECTURE", "TYPE", "TOKENS/S"].map(str::to_owned);
    let row = |entry: &ModelEntry| {
        let ModelEntry { model, size, architecture, dtype, unfit, estimate, .. } = entry;
        let architecture = architecture.map_or("-".into(), |name| format!("{name:?}").to_lowercase());
        let speed = match (unfit, estimate) {
            (Some(reason), _) => format!("does not run: {}", begin(reason)),
            (None, Some(estimate)) => Rate(estimate.estimated_tokens_per_second).to_string(),
            (None, None) => "-".into(),
        };
        [model.clone(), Bytes(*size).to_string(), architecture, dtype.unwrap_or("-").into(), speed]
    };
    let rows: Vec<_> = std::iter::once(titles).chain(entries.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(width);
    let mut out = io::stdout().lock();
    for [model, size, architecture, dtype, speed] in &rows {
        let [a, b, c, d] = widths;
        writeln!(out, "{model:<a$}  {size:>b$}  {architecture:<c$}  {dtype:<d$}  {speed}")?;
    }
    match (machine.info(), machine.gb_per_s()) {
        (Some(info), Some(gb_per_s)) => writeln!(
            out,
            "\ntokens/s: at most about this many without drafts, on {} at {gb_per_s:.1} GB/s",
            name_device(info)
        ),
        _ => Ok(()),
    }
}
