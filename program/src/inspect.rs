//! `foretoken inspect`: shows a model's architecture, kernel calls and memory, if it fits the device, and how fast it can be there, using
//! only headers.

use super::files::tales;
use super::options::{CapacityFlags, DeviceFlags};
use super::reading::{mtp_layer, reading};
use super::speed::{Machine, SpeedEstimate};
use super::{Failure, print_json};
use foretoken::LoadOptions;
use foretoken::internals::files::{self, Place};
use foretoken::internals::load::{DtypeShare, Inspection, ModelFiles};
use foretoken::internals::model::ModelSpec;
use foretoken::internals::weights::{Folder, Source};
use foretoken_measure::Bytes;
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};

/// Model and its capacity.
#[derive(clap::Args)]
pub(super) struct InspectArgs {
    /// Model: owner/name[@revision][:file] on the Hub (only headers are downloaded), or a folder [default: in a checkout, the tales model]
    #[arg(value_name = "MODEL", id = "name", conflicts_with = "model")]
    name: Option<String>,
    /// Same as the argument MODEL
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    #[command(flatten)]
    capacity: CapacityFlags,
    #[command(flatten)]
    device: DeviceFlags,
}

/// Result of an inspection.
#[derive(Serialize)]
struct InspectReport {
    #[serde(flatten)]
    inspection: Inspection,
    spec: ModelSpec,
    /// MTP layer of the checkpoint.
    mtp: Option<ModelSpec>,
    unsplit: Vec<Unsplit>,
    dispatches_per_layer: usize,
    /// Estimated speed; `None`: the model does not fit, there is no device, or its bandwidth cannot be measured.
    #[serde(flatten)]
    estimate: Option<SpeedEstimate>,
    /// Reason why there is no device, or why `auto` chose the CPU.
    device_error: Option<String>,
    plan: Vec<String>,
}

/// A buffer that must fit into a binding.
#[derive(Serialize)]
struct Unsplit {
    what: &'static str,
    bytes: u64,
}

pub(super) async fn run(args: &InspectArgs, json: bool) -> Result<(), Failure> {
    let options = args.device.set(args.capacity.options()?)?;
    options.validate()?;
    let report = match args.name.as_deref().or(args.model.as_deref()) {
        None => InspectReport::new(tales()?, &options).await?,
        Some(name) => match files::locate("model", name)? {
            Place::Here(path) => InspectReport::new(Folder::open(path)?, &options).await?,
            Place::Hub(id) => {
                let source = files::hub()?.open(&id).map_err(|error| files::neither(error, &id))?;
                InspectReport::new(source, &options.file(id.file)).await?
            }
        },
    };
    if json {
        return print_json(&report);
    }
    write!(io::stdout(), "{report}")?;
    Ok(())
}

impl InspectReport {
    async fn new(source: impl Source + 'static, options: &LoadOptions) -> foretoken::Result<Self> {
        let files = ModelFiles::open(Box::new(source), options).await?;
        let mut machine = Machine::open(options).await;
        let inspection = files.inspect(machine.info().cloned()).await?;
        let estimate = match inspection.unfit {
            None => machine.estimate(&files.blueprint).await,
            Some(_) => None,
        };
        let mtp = files.blueprint.spec.mtp(|tensor| files.checkpoint.weights().contains(tensor));
        let blueprint = files.blueprint;
        Ok(Self {
            inspection,
            unsplit: blueprint.unsplit().map(|(what, bytes)| Unsplit { what, bytes }).into(),
            dispatches_per_layer: blueprint.plan.dispatches_per_layer(),
            estimate,
            device_error: machine.reason,
            mtp,
            plan: blueprint.plan.to_string().lines().map(str::to_owned).collect(),
            spec: blueprint.spec,
        })
    }
}

impl fmt::Display for InspectReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inspection { model, download_bytes, tensors, capacity, memory, total, device, unfit, .. } =
            &self.inspection;
        let spec = &self.spec;
        writeln!(f, "model       {model}")?;
        writeln!(
            f,
            "spec        {:?}: {} layers, hidden {}, {} tokens, {} positions",
            spec.architecture,
            spec.layers.len(),
            spec.hidden_size,
            spec.vocab_size,
            spec.max_position_embeddings
        )?;
        let drafting = self.mtp.iter().flat_map(mtp_layer);
        for (title, line) in reading(spec).into_iter().chain(drafting) {
            writeln!(f, "{title:<11} {line}")?;
        }
        writeln!(f, "files       {}", Bytes(*download_bytes))?;
        for (dtype, DtypeShare { count, bytes }) in &tensors.dtypes {
            writeln!(f, "tensors     {count} in {dtype}, {}", Bytes(*bytes))?;
        }
        writeln!(
            f,
            "memory      {}: weights {}, KV cache {} ({} positions), scratch {}",
            Bytes(*total),
            Bytes(memory.weights),
            Bytes(memory.kv),
            capacity.max_context,
            Bytes(memory.scratch)
        )?;
        match device {
            Some(device) => writeln!(f, "device      {}, {}, {}", device.name, device.backend, device.driver)?,
            None => writeln!(f, "device      {}", self.device_error.as_deref().unwrap_or("none"))?,
        }
        if let (Some(_), Some(reason)) = (device, &self.device_error) {
            writeln!(f, "            {reason}")?;
        }
        // The CPU has no limit.
        let gpu = device.as_ref().filter(|device| device.backend != "Cpu");
        let limit = gpu.map(|gpu| gpu.max_binding_size.min(gpu.max_buffer_size));
        let limit = |bytes| match limit {
            Some(limit) if bytes > limit => format!(", TOO LARGE: a binding holds {}", Bytes(limit)),
            Some(limit) => format!(" of the {} that a binding holds", Bytes(limit)),
            None => String::new(),
        };
        for Unsplit { what, bytes } in &self.unsplit {
            writeln!(f, "            {what}: {}{}", Bytes(*bytes), limit(*bytes))?;
        }
        match unfit {
            Some(reason) => writeln!(f, "            does not fit: {reason}")?,
            None if device.is_some() => writeln!(f, "            it fits the limits of the device")?,
            None => {}
        }
        if let Some(estimate) = &self.estimate {
            writeln!(f, "speed       {estimate}")?;
        }
        writeln!(f, "dispatches  at most {} per layer", self.dispatches_per_layer)?;
        writeln!(f, "plan")?;
        self.plan.iter().try_for_each(|step| writeln!(f, "  {step}"))
    }
}
