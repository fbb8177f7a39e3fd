//! The trait `Backend` on a GPU: logits, hidden states, constraints, and copies of the cached text.

use super::engine::GpuBackend;
use super::forward::GpuModel;
use super::memory::{stride, whole_blocks};
use super::shape::DIRECT;
use crate::backend::{Backend, LocalModel, Snapshot};
use crate::constraint::Shared;
use crate::error::Result;
use crate::gpu::{Buffer, DeviceInfo};
use crate::model::adjacent;
use crate::target::{Drafting, Target, Translate};
use async_trait::async_trait;
use std::any::Any;

/// Copies of a buffer per layer, for target and draft model.
type BufferCopies = [Vec<Buffer>; 2];

#[async_trait(?Send)]
impl Backend for GpuBackend {
    fn device(&self) -> &DeviceInfo {
        self.gpu.info()
    }

    fn models(&self) -> [Option<LocalModel<'_>>; 2] {
        let draft = self.draft.as_ref().map(|draft| about(draft, self.drafting.num_read()));
        [Some(about(&self.target, self.cached.len())), draft]
    }

    fn drafting(&mut self) -> Option<&mut Drafting> {
        Some(&mut self.drafting)
    }

    fn on_gpu(&self) -> Option<&GpuBackend> {
        Some(self)
    }

    fn warning(&self) -> Option<&str> {
        self.target.variants().warning()
    }

    /// Also recreates readbacks and sampler.
    fn reset(&mut self) -> Result<()> {
        self.truncate(0);
        self.drafting.forget();
        self.renew_readback(DIRECT)?;
        self.renew_readback(1 - DIRECT)?;
        self.set_sampler(self.sampler.recipe())
    }

    /// Rounds of such a draft model take two submissions and two readbacks.
    fn translate_by(&mut self, translate: Box<dyn Translate>) -> Result<()> {
        let mut recipe = self.sampler.recipe();
        recipe.translated = true;
        self.set_sampler(recipe)?;
        self.drafting.translate_by(translate);
        Ok(())
    }

    /// With a constraint, the forward pass and the choice of tokens are separate submissions, and no round is submitted ahead.
    fn constrain(&mut self, constraint: Option<Shared>) -> Result<()> {
        let mut recipe = self.sampler.recipe();
        recipe.masked = constraint.is_some();
        self.constraint = constraint;
        if self.sampler.recipe() != recipe {
            self.set_sampler(recipe)?;
        }
        Ok(())
    }

    #[cfg(not(target_arch = "wasm32"))]
    async fn logits(&mut self, tokens: &[u32], rows: usize) -> Result<Vec<f32>> {
        use super::memory::logits_stride;
        use crate::target::MAX_DRAFT;
        self.make_room(tokens.len()).await?;
        let vocab = self.target.spec().vocab_size;
        let stride = logits_stride(vocab);
        let mut all = Vec::with_capacity(tokens.len() * vocab);
        for chunk in tokens.chunks(rows.clamp(1, self.target.max_rows())) {
            let position = self.cached.len();
            self.target.compile(chunk.len());
            self.compare(chunk.len(), position).await?;
            let states = self.rollback.chunk(position, chunk.len());
            self.submit_chunk(&self.target, chunk, position, states);
            for first in (0..chunk.len()).step_by(MAX_DRAFT + 1) {
                let rows = (chunk.len() - first).min(MAX_DRAFT + 1);
                self.submit_head(position, first, rows);
                let words = self.gpu.read_buffer(self.target.logits(), 0, 4 * (rows * stride) as u64).await?;
                let whole = words.chunks_exact(stride).flat_map(|row| &row[..vocab]);
                all.extend(whole.map(|word| f32::from_bits(*word)));
            }
            self.cached.extend_from_slice(chunk);
        }
        Ok(all)
    }

    async fn hidden(&mut self, tokens: &[u32], wanted: usize) -> Result<Vec<f32>> {
        self.make_room(tokens.len()).await?;
        let width = self.target.spec().hidden_size;
        let mut all = Vec::with_capacity(wanted * width);
        let unwanted = tokens.len().saturating_sub(wanted);
        for (at, chunk) in tokens.chunks(self.target.chunk()).enumerate() {
            let first = unwanted.saturating_sub(at * self.target.chunk()).min(chunk.len());
            let states = self.rollback.chunk(self.cached.len(), chunk.len());
            let submitted = self.submit_chunk(&self.target, chunk, self.cached.len(), states);
            self.cached.extend_from_slice(chunk);
            self.keep_up(submitted).await?;
            if first == chunk.len() {
                continue;
            }
            let mut recorder = self.gpu.record();
            self.target.record_final_norm(&mut recorder, chunk.len());
            recorder.submit(None);
            let bytes = 4 * (chunk.len() * stride(width)) as u64;
            let words = self.target.normed().read_words(&self.gpu, bytes).await?;
            let rows = words.chunks_exact(stride(width)).skip(first).flat_map(|row| &row[..width]);
            all.extend(rows.map(|word| f32::from_bits(*word)));
        }
        Ok(all)
    }

    async fn read_kv(&mut self, layer: usize) -> Result<Vec<u8>> {
        self.settle().await?;
        let mut bytes = Vec::new();
        for part in &self.target.copied(self.cached.len())[layer] {
            let words = self.gpu.read_buffer(&self.target.layers()[layer], part.start, part.end - part.start).await?;
            bytes.extend_from_slice(bytemuck::cast_slice(&words));
        }
        Ok(bytes)
    }

    fn write_kv(&mut self, layer: usize, len: usize, bytes: &[u8]) -> bool {
        let parts = &self.target.copied(len)[layer];
        let places = adjacent(parts);
        let fits = places.last().is_some_and(|place| place.end == bytes.len() as u64);
        for (part, place) in parts.iter().zip(places).filter(|_| fits) {
            let bytes = &bytes[place.start as usize..place.end as usize];
            self.gpu.write_buffer(&self.target.layers()[layer], part.start, bytes);
        }
        fits
    }

    async fn copy_kv(&mut self) -> Result<Box<dyn Any>> {
        // A copy has no hidden states of the target.
        self.read_due(self.capacity()).await?;
        self.settle().await?;
        let target = self.target.copy_kv(self.cached.len()).await?;
        let draft = match &self.draft {
            Some(draft) if self.drafting.num_read() > 0 => draft.copy_kv(self.drafting.num_read()).await?,
            _ => Vec::new(),
        };
        Ok(Box::new([target, draft]))
    }

    async fn restore_kv(&mut self, snapshot: &Snapshot) -> Result<bool> {
        let Some([target, draft]) = snapshot.kv.downcast_ref::<BufferCopies>() else { return Ok(false) };
        self.make_room(snapshot.tokens.len()).await?;
        self.make_draft_room(snapshot.draft_cached).await?;
        self.target.restore_kv(target, snapshot.tokens.len());
        self.draft.iter().for_each(|model| model.restore_kv(draft, snapshot.draft_cached));
        Ok(true)
    }

    fn set_cached(&mut self, tokens: &[u32], draft_cached: usize) {
        self.cached = tokens.to_vec();
        self.rollback.restored(tokens.len());
        self.drafting.set_read(draft_cached);
    }
}

impl GpuBackend {
    /// Saves the recurrent states of the cached text, for a copy. If it was cut where there is a state but none before it, reads it again.
    async fn settle(&mut self) -> Result<()> {
        if !self.rollback.can_settle(self.cached.len()) {
            let text = self.cached.clone();
            self.truncate(0);
            self.prefill(&text).await?;
        }
        if let Some(states) = self.rollback.settle(self.cached.len()) {
            self.target.settle(self.cached.len(), states);
        }
        if let (Some(draft), Some(states)) = (&self.draft, self.drafting.settle()) {
            draft.settle(self.drafting.num_read(), states);
        }
        Ok(())
    }
}

/// Describes a model with `cached` tokens in its cache.
fn about(model: &GpuModel, cached: usize) -> LocalModel<'_> {
    LocalModel {
        spec: model.spec(),
        arithmetic: model.arithmetic(),
        memory: model.memory(),
        cached_bytes: model.blueprint().copied_bytes(cached, whole_blocks(cached)),
    }
}
