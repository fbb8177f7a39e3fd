//! Saving and restoring of cached keys and values, layer by layer, for another session.

use super::{Executor, Generator, Prompt, Single};
use crate::backend::Backend;
use crate::error::Result;
use crate::options::GenerateOptions;

impl<E: Executor + ?Sized> Generator<E> {
    /// Passes the cached keys and values of a prompt to `write`, layer by layer. Returns the tokens that they belong to: none if
    /// no token of the prompt is cached, or if there are several targets.
    ///
    /// # Errors
    /// As [`Generator::encode`]; errors of `write` and the device.
    pub async fn save(
        &mut self,
        prompt: &Prompt,
        options: &GenerateOptions,
        write: &mut impl AsyncFnMut(usize, Vec<u8>) -> Result<()>,
    ) -> Result<Vec<u32>> {
        let Ok(Single { engine, prompt_cache, .. }) = self.executor.single() else { return Ok(Vec::new()) };
        let engine = &mut **engine;
        let prompt = self.prompts.encode(prompt, options)?;
        prompt_cache.turn_to(engine, &prompt).await?;
        let known = engine.keep_shared(&prompt);
        for layer in 0..if known > 0 { layers(engine) } else { 0 } {
            let bytes = engine.read_kv(layer).await?;
            write(layer, bytes).await?;
        }
        // A server manages its own cache.
        Ok(if layers(engine) > 0 { engine.cached().to_vec() } else { Vec::new() })
    }

    /// Caches the output of [`Generator::save`], from this or another session; `read` returns the bytes of a layer. To check it,
    /// recomputes the last token. If the bits differ (another model, device or version saved them), returns false and caches
    /// nothing. A draft model reads the text when it is first needed.
    ///
    /// # Errors
    /// Errors of `read` and the device; then nothing is cached.
    pub async fn restore(
        &mut self,
        tokens: &[u32],
        read: &mut impl AsyncFnMut(usize) -> Result<Vec<u8>>,
    ) -> Result<bool> {
        let Ok(Single { engine, prompt_cache, .. }) = self.executor.single() else { return Ok(false) };
        let engine = &mut **engine;
        let vocab = self.prompts.spec.vocab_size as u32;
        let is_text = !tokens.is_empty() && tokens.len() <= engine.capacity() && tokens.iter().all(|id| *id < vocab);
        if !is_text || layers(engine) == 0 {
            return Ok(false);
        }
        prompt_cache.turn_to(engine, tokens).await?;
        let restored = async {
            engine.truncate(0);
            engine.reserve(tokens.len()).await?;
            for layer in 0..layers(engine) {
                if !engine.write_kv(layer, tokens.len(), &read(layer).await?) {
                    return Ok(false);
                }
            }
            engine.set_cached(tokens, 0);
            // What the last layer keeps of the last token depends on all positions and layers before.
            let top = layers(engine) - 1;
            let saved = engine.read_kv(top).await?;
            engine.truncate(tokens.len() - 1);
            engine.prefill(&tokens[engine.cached().len()..]).await?;
            Ok(engine.read_kv(top).await? == saved)
        };
        let restored = restored.await;
        if !matches!(restored, Ok(true)) {
            engine.truncate(0);
        }
        restored
    }
}

fn layers(engine: &dyn Backend) -> usize {
    engine.spec().map_or(0, |spec| spec.layers.len())
}
