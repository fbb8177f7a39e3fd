//! Models of real sizes without a download: a known shape with random weights, generated on the GPU or while the CPU loads them.

mod random;

use self::random::RandomFile;
use foretoken::internals::backend::cpu::{CpuBackend, CpuModel};
use foretoken::internals::backend::gpu::{GpuBackend, GpuModel, RoundBuffers};
use foretoken::internals::backend::{Backend, Device};
use foretoken::internals::gpu::Gpu;
use foretoken::internals::model::{Blueprint, Capacity, ModelSpec, parse_config};
use foretoken::internals::weights::Weights;
use foretoken::{Error, KvDtype, LoadOptions, Result, WeightDtype};
use serde_json::Value;
use std::rc::Rc;

/// Names of the shapes that [`load_shape`] loads. `shapes.json` holds a `config.json` for each.
pub const SHAPES: [&str; 13] = [
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

/// Loads random weights of a shape, in f16 or the type in the options, without a draft model. On the CPU, `on_progress(done, total)` is
/// called as bytes of weights are loaded.
///
/// # Errors
/// `bad-config` for an unknown shape; errors of the device.
pub async fn load_shape(
    device: &Device,
    name: &str,
    options: &LoadOptions,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Result<Box<dyn Backend>> {
    let bad = |reason: String| Error::BadConfig { file: "shapes.json".into(), key: name.into(), reason };
    let shapes: Value = serde_json::from_str(include_str!("shapes.json")).map_err(|error| bad(error.to_string()))?;
    let spec = parse_config(shapes[name].to_string().as_bytes(), None)?;
    let capacity = Capacity {
        max_context: options.context.max_context.unwrap_or(DEFAULT_CONTEXT).min(spec.max_position_embeddings),
        prefill_chunk: options.context.prefill_chunk,
        kv_dtype: options.context.kv_dtype.unwrap_or(KvDtype::F16),
    };
    Ok(match device {
        Device::Gpu(gpu) => Box::new(on_gpu(gpu, spec, capacity, options).await?),
        Device::Cpu(processor) => {
            let file = RandomFile::new(name, &spec, options.dtype);
            let (weights, _) = Weights::open_gguf(Box::new(file), random::FILE).await?;
            // The file has the types of the options.
            let blueprint = Blueprint::new(spec, &weights, capacity, WeightDtype::Auto)?;
            let blueprint = Blueprint { arithmetic: options.arithmetic, ..blueprint };
            let (all, mut done) = (blueprint.memory().weights, 0);
            let mut loaded = |bytes| {
                done += bytes;
                on_progress(done, all);
            };
            let model = CpuModel::load(processor, &blueprint, &weights, None, &mut loaded).await?;
            Box::new(CpuBackend::new(model, None))
        }
    })
}

async fn on_gpu(gpu: &Rc<Gpu>, spec: ModelSpec, capacity: Capacity, options: &LoadOptions) -> Result<GpuBackend> {
    let buffers = RoundBuffers::new(gpu, &capacity, spec.vocab_size)?;
    let blueprint = Blueprint::without_weights(spec, capacity, options.dtype);
    let blueprint = Blueprint { arithmetic: options.arithmetic, ..blueprint };
    let model = GpuModel::load(gpu, &blueprint, None, &buffers, None, &mut |_| ()).await?;
    let mut engine = GpuBackend::new(gpu, buffers, model, None)?;
    engine.check_invariance().await?;
    Ok(engine)
}

#[cfg(test)]
mod tests;
