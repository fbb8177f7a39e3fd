//! `foretoken inspect`: what a model is, what it does, and whether it fits the device; from its headers alone.

use super::load::{Room, open_gpu, target};
use super::reading::reading;
use super::{Failure, print_json};
use crate::decode::{Capacity, Memory};
use crate::gpu::DeviceInfo;
use crate::load::Checkpoint;
use crate::model::ModelSpec;
use crate::weights::Source;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

/// Which model, and how much room it would get.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Folder of the model: config.json and the headers of its safetensors [default: in a checkout, the tales model]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    #[command(flatten)]
    room: Room,
}

/// What there is to know before anything is loaded.
#[derive(Serialize)]
struct Report {
    model: String,
    spec: ModelSpec,
    tensors: Tensors,
    capacity: Capacity,
    memory: Memory,
    total: u64,
    unsplit: Vec<Unsplit>,
    dispatches_per_layer: usize,
    device: Option<DeviceInfo>,
    /// Why there is no device.
    device_error: Option<String>,
    plan: Vec<String>,
}

#[derive(Serialize)]
struct Tensors {
    count: usize,
    bytes: u64,
    dtypes: BTreeMap<&'static str, Share>,
}

#[derive(Default, Serialize)]
struct Share {
    count: usize,
    bytes: u64,
}

/// A buffer that has to fit a binding.
#[derive(Serialize)]
struct Unsplit {
    what: &'static str,
    bytes: u64,
}

pub(super) async fn run(args: &Args, json: bool) -> Result<(), Failure> {
    let report = Report::new(args).await?;
    if json {
        return print_json(&report);
    }
    write!(io::stdout(), "{report}")?;
    Ok(())
}

impl Report {
    async fn new(args: &Args) -> crate::Result<Self> {
        let Checkpoint { blueprint, weights, .. } =
            Checkpoint::open(target(args.model.as_deref())?, &args.room.options()?).await?;
        let mut dtypes = BTreeMap::<_, Share>::new();
        for (_, tensor) in weights.iter() {
            let share = dtypes.entry(tensor.dtype.name()).or_default();
            share.count += 1;
            share.bytes += tensor.range.end - tensor.range.start;
        }
        let (count, bytes) =
            dtypes.values().fold((0, 0), |(count, bytes), share| (count + share.count, bytes + share.bytes));
        let gpu = open_gpu().await;
        let memory = blueprint.memory();
        Ok(Self {
            model: weights.source().name(),
            tensors: Tensors { count, bytes, dtypes },
            capacity: blueprint.capacity,
            memory,
            total: memory.total(),
            unsplit: blueprint.unsplit().map(|(what, bytes)| Unsplit { what, bytes }).into(),
            dispatches_per_layer: blueprint.plan.dispatches_per_layer(),
            device: gpu.as_ref().ok().map(|gpu| gpu.info().clone()),
            device_error: gpu.err().map(|error| error.to_string()),
            plan: blueprint.plan.to_string().lines().map(str::to_owned).collect(),
            spec: blueprint.spec,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spec, capacity, memory, .. } = self;
        writeln!(f, "model       {}", self.model)?;
        writeln!(
            f,
            "spec        {:?}: {} layers, hidden {}, {} heads of {}, {} KV heads, MLP {}, {} tokens, {} positions",
            spec.architecture,
            spec.layers.len(),
            spec.hidden_size,
            spec.num_attention_heads,
            spec.head_dim,
            spec.num_key_value_heads,
            spec.intermediate_size,
            spec.vocab_size,
            spec.max_position_embeddings
        )?;
        for (title, line) in reading(spec) {
            writeln!(f, "{title:<12}{line}")?;
        }
        for (dtype, Share { count, bytes }) in &self.tensors.dtypes {
            writeln!(f, "tensors     {count} in {dtype}, {}", Bytes(*bytes))?;
        }
        writeln!(
            f,
            "memory      {}: weights {}, KV cache {} ({} positions), scratch {}",
            Bytes(self.total),
            Bytes(memory.weights),
            Bytes(memory.kv),
            capacity.max_context,
            Bytes(memory.scratch)
        )?;
        match &self.device {
            Some(device) => writeln!(f, "device      {}, {}, {}", device.name, device.backend, device.driver)?,
            None => writeln!(f, "device      {}", self.device_error.as_deref().unwrap_or("none"))?,
        }
        let limit = self.device.as_ref().map(|device| device.max_binding_size.min(device.max_buffer_size));
        let limit = |bytes| match limit {
            Some(limit) if bytes > limit => format!(", TOO LARGE: a binding holds {}", Bytes(limit)),
            Some(limit) => format!(" of the {} that a binding holds", Bytes(limit)),
            None => String::new(),
        };
        for Unsplit { what, bytes } in &self.unsplit {
            writeln!(f, "            {what}: {}{}", Bytes(*bytes), limit(*bytes))?;
        }
        writeln!(f, "dispatches  {} per layer", self.dispatches_per_layer)?;
        writeln!(f, "plan")?;
        self.plan.iter().try_for_each(|step| writeln!(f, "  {step}"))
    }
}

/// Bytes for people.
pub(super) struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{size} B"),
            1_000..1_000_000 => write!(f, "{:.1} kB", size / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} MB", size / 1e6),
            _ => write!(f, "{:.2} GB", size / 1e9),
        }
    }
}
