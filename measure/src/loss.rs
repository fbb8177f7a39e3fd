//! Loss from fewer bits: perplexity of a text, with weights and cache in several types.

use super::backend::Effort;
use super::parts::Limit;
use foretoken::internals::backend::{Backend, Device};
use foretoken::internals::sample::softmax;
use foretoken::internals::session::Session;
use foretoken::internals::weights::Folder;
use foretoken::{Arithmetic, KvDtype, LoadOptions, Result, WeightDtype};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Tokens read at a time, independent of those before them.
const WINDOW: usize = 512;
/// Types of weights, arithmetic, and types of the cache. The first entry is the baseline of the others.
const TYPES: [(WeightDtype, Arithmetic, KvDtype); 6] = [
    (WeightDtype::Auto, Arithmetic::F32, KvDtype::F32),
    (WeightDtype::Auto, Arithmetic::F32, KvDtype::F16),
    (WeightDtype::Q8, Arithmetic::F32, KvDtype::F32),
    (WeightDtype::Q8, Arithmetic::Int8, KvDtype::F32),
    (WeightDtype::Q4, Arithmetic::F32, KvDtype::F32),
    (WeightDtype::Q4, Arithmetic::Int8, KvDtype::F32),
];

/// Result of one entry of `TYPES`.
#[derive(Serialize)]
pub(super) struct Loss {
    /// Type of the weights; `auto`: as stored.
    pub dtype: WeightDtype,
    pub arithmetic: Arithmetic,
    pub kv_dtype: KvDtype,
    /// Predicted tokens.
    pub tokens: usize,
    pub perplexity: f64,
    /// Nats per token in excess of the baseline.
    pub loss: f64,
}

/// Loads the model with each of the types, alone on the device, and reads the text, or the part that time allows for all types. When the
/// time is over, the remaining types are omitted.
pub(super) async fn run(
    device: &Device,
    open: impl Fn() -> Result<Folder>,
    text: &str,
    options: &LoadOptions,
    effort: Effort,
    limit: &Limit,
) -> Result<Vec<Loss>> {
    let mut all: Vec<Loss> = Vec::new();
    let mut latest = Duration::ZERO;
    for (dtype, arithmetic, kv_dtype) in TYPES {
        if !limit.leaves(latest) {
            break;
        }
        let began = Instant::now();
        let options = options.clone().dtype(dtype).arithmetic(arithmetic.into()).kv_dtype(kv_dtype);
        let mut session = Session::load(device.clone(), Box::new(open()?), None, &options, &mut |_, _| ()).await?;
        let mut text = session.tokenizer().encode(text, true)?;
        text.truncate(effort.tale);
        let engine = session.engine_mut();
        let left = (TYPES.len() - all.len() - 1) as u32;
        let nats = match all.first() {
            None => surprises(engine, &text, || limit.leaves(began.elapsed() * left)).await?,
            Some(first) => surprises(engine, &text[..=first.tokens], || true).await?,
        };
        if nats.is_empty() {
            break;
        }
        let (tokens, mean) = (nats.len(), nats.iter().sum::<f64>() / nats.len() as f64);
        let perplexity = mean.exp();
        let loss = all.first().map_or(0.0, |first| mean - first.perplexity.ln());
        all.push(Loss { dtype, arithmetic, kv_dtype, tokens, perplexity, loss });
        latest = began.elapsed();
    }
    Ok(all)
}

/// Returns the surprise of each token but the first, `-ln p` in nats, until the time is over.
async fn surprises(engine: &mut dyn Backend, text: &[u32], has_time: impl Fn() -> bool) -> Result<Vec<f64>> {
    let (window, chunk) = (WINDOW.min(engine.capacity()), engine.prefill_chunk());
    let mut nats = Vec::new();
    let nexts = text.get(1..).unwrap_or_default();
    for (read, next) in text.chunks(chunk.min(window)).zip(nexts.chunks(chunk.min(window))) {
        if engine.cached().len() + read.len() > window {
            engine.truncate(0);
        }
        let logits = engine.logits(read, chunk).await?;
        let rows = logits.chunks_exact(logits.len() / read.len()).zip(next);
        nats.extend(rows.map(|(row, token)| -f64::from(softmax(row)[*token as usize]).ln()));
        if !has_time() {
            break;
        }
    }
    Ok(nats)
}
