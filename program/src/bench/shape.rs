//! Models of real sizes without a download: a known shape, with random weights generated on the device.

use foretoken::internals::backend::gpu::{GpuBackend, GpuModel, RoundBuffers};
use foretoken::internals::gpu::Gpu;
use foretoken::internals::model::parse_config;
use foretoken::internals::model::{Blueprint, Capacity};
use foretoken::{Error, KvDtype, LoadOptions, Result};
use serde_json::Value;
use std::rc::Rc;

/// Names in `shapes.json`, which holds a `config.json` for each.
pub(super) const NAMES: [&str; 13] = [
    "smollm2-1.7b",
    "smollm2-360m",
    "smollm2-135m",
    "llama-3.2-1b",
    "qwen3-0.6b",
    "gemma-3-270m",
    "lfm2-350m",
    "lfm2-1.2b",
    "lfm2-8b-a1b",
    "qwen3.5-0.8b",
    "qwen3.5-2b",
    "ministral-3-3b",
    "gemma-4-e2b",
];
const DEFAULT_CONTEXT: usize = 4096;

/// Creates an engine of a shape, in f16 or the type in the options, without a draft model.
pub(super) async fn engine(gpu: &Rc<Gpu>, name: &str, options: &LoadOptions) -> Result<GpuBackend> {
    let bad = |reason: String| Error::BadConfig { file: "shapes.json".into(), key: name.into(), reason };
    let shapes: Value = serde_json::from_str(include_str!("shapes.json")).map_err(|error| bad(error.to_string()))?;
    let spec = parse_config(shapes[name].to_string().as_bytes(), None)?;
    let capacity = Capacity {
        max_context: options.context.max_context.unwrap_or(DEFAULT_CONTEXT).min(spec.max_position_embeddings),
        prefill_chunk: options.context.prefill_chunk,
        kv_dtype: options.context.kv_dtype.unwrap_or(KvDtype::F16),
    };
    let vocab = spec.vocab_size;
    let buffers = RoundBuffers::new(gpu, &capacity, vocab)?;
    let blueprint = Blueprint::without_weights(spec, capacity, options.dtype);
    let blueprint = Blueprint { arithmetic: options.arithmetic, ..blueprint };
    let model = GpuModel::load(gpu, &blueprint, None, &buffers, None, &mut |_| ()).await?;
    let mut engine = GpuBackend::new(gpu, buffers, model, None)?;
    engine.check_invariance().await?;
    Ok(engine)
}

#[cfg(test)]
mod tests;
