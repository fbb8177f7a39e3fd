//! Embeddings of texts, and log-probabilities of given continuations.

use super::{Executor, Generator, Prompt, Single};
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::options::{GenerateOptions, Pooling};
use crate::sample::Sampling;
use crate::target::{Draft, MAX_DRAFT, run_round};
use serde::Serialize;

/// Likelihood of a continuation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Score {
    /// Sum of the log-probabilities of its tokens, each given the prompt and the tokens before it.
    pub logprob: f64,
    /// Number of tokens in the continuation.
    pub num_tokens: usize,
}

/// Embedding of a text.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Embedding {
    /// One number per dimension of a hidden state.
    pub embedding: Vec<f32>,
    /// Tokens of the text.
    pub num_tokens: usize,
}

impl<E: Executor + ?Sized> Generator<E> {
    /// Returns the embedding of a text: its pooled hidden states after the final norm, divided by their L2 norm if `normalize`.
    /// Conversations stay cached; the text does not.
    ///
    /// # Errors
    /// As [`Generator::encode`], [`Error::ContextFull`], [`Error::BadOption`] if there are several targets, and device errors.
    /// The generator stays usable.
    pub async fn embed(&mut self, text: &Prompt, pooling: Pooling, normalize: bool) -> Result<Embedding> {
        let single = self.executor.single()?;
        let tokens = self.prompts.encode(text, &GenerateOptions::new())?;
        let wanted = if pooling == Pooling::Last { 1 } else { tokens.len() };
        let hidden =
            single.read_with(&[], async |engine: &mut dyn Backend| hidden(engine, &tokens, wanted).await).await?;
        let width = hidden.len() / wanted;
        if let Some(at) = hidden.iter().position(|x| !x.is_finite()) {
            let position = tokens.len() - wanted + at / width;
            return Err(Error::NonFiniteLogits { model: "target".into(), position });
        }
        let mut sums = vec![0f64; width];
        for row in hidden.chunks_exact(width) {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
        }
        let scale = match normalize {
            true => sums.iter().map(|sum| sum * sum).sum::<f64>().sqrt().max(f64::MIN_POSITIVE),
            false => wanted as f64,
        };
        let embedding = sums.iter().map(|sum| (sum / scale) as f32).collect();
        Ok(Embedding { embedding, num_tokens: tokens.len() })
    }

    /// Returns the likelihood of each continuation of a prompt, from unprocessed logits. The prompt is read once and stays
    /// cached. A continuation is tokenized as if it followed the prompt, or separately if a token would span the boundary.
    pub async fn score(&mut self, prompt: &Prompt, continuations: &[Prompt]) -> Result<Vec<Score>> {
        let single = self.executor.single()?;
        let head = self.prompts.encode(prompt, &GenerateOptions::new())?;
        let mut scores = Vec::new();
        for continuation in continuations {
            let tokens = self.prompts.continuation(&head, continuation)?;
            let logprob =
                single.read_with(&head, async |engine: &mut dyn Backend| score(engine, &head, &tokens).await).await?;
            scores.push(Score { logprob, num_tokens: tokens.len() });
        }
        Ok(scores)
    }
}

impl Single {
    /// Runs `read` on the engine, reusing what is cached of `prompt`. If the device is lost, runs it once more on a new one.
    async fn read_with<T>(&mut self, prompt: &[u32], read: impl AsyncFn(&mut dyn Backend) -> Result<T>) -> Result<T> {
        let attempt = async |single: &mut Self| {
            single.prompt_cache.turn_to(&mut *single.engine, prompt).await?;
            read(&mut *single.engine).await
        };
        let mut done = attempt(self).await;
        if let (Err(Error::DeviceLost { .. }), Some(gpu)) = (&done, self.engine.gpu().cloned()) {
            self.rebuild(&gpu).await?;
            done = attempt(self).await;
        }
        if let Err(Error::OutOfGpuMemory { .. } | Error::Internal { .. }) = done {
            // If this fails too, the next call reports it.
            let _ = self.engine.reset();
        }
        done
    }
}

/// Returns the last `wanted` hidden states of a text [wanted, hidden], flattened.
async fn hidden(engine: &mut dyn Backend, tokens: &[u32], wanted: usize) -> Result<Vec<f32>> {
    engine.truncate(0);
    let hidden = engine.hidden(tokens, wanted).await;
    // The text is no conversation that may continue.
    engine.truncate(0);
    hidden
}

/// Returns the log-likelihood of `tokens` after a non-empty prompt. The prompt, except its last token, stays cached.
async fn score(engine: &mut dyn Backend, prompt: &[u32], tokens: &[u32]) -> Result<f64> {
    let Some((&last, head)) = prompt.split_last() else { return Ok(0.0) };
    engine.constrain(None)?;
    engine.sample_by(&Sampling { logprobs: Some(0), ..Sampling::default() })?;
    let reused = engine.keep_shared(head);
    engine.prefill(&head[reused..]).await?;
    let (mut pending, mut sum) = (last, 0.0);
    for chunk in tokens.chunks(MAX_DRAFT) {
        let (position, draft) = (engine.cached().len(), Draft::Tokens(chunk.to_vec()));
        let verified = run_round(engine, pending, &draft).await?;
        verified.check(&draft)?;
        sum += verified.logprobs.iter().take(chunk.len()).map(|row| f64::from(row.drafted)).sum::<f64>();
        // The last token of the chunk is the next pending token.
        engine.truncate(position + chunk.len());
        pending = chunk[chunk.len() - 1];
    }
    engine.truncate(head.len());
    Ok(sum)
}
