//! The trait `Backend` on the CPU: logits, hidden states, constraints, and copies of the cached text.

use super::engine::CpuBackend;
use super::layer::LayerState;
use super::model::CpuModel;
use crate::backend::{Backend, LocalModel, Snapshot};
use crate::constraint::Shared;
use crate::error::Result;
use crate::gpu::DeviceInfo;
use crate::target::{Drafting, Target};
use async_trait::async_trait;
use std::any::Any;

/// Copies of the layers' states, for target and draft model.
type LayerCopies = [Vec<LayerState>; 2];

#[async_trait(?Send)]
impl Backend for CpuBackend {
    fn device(&self) -> &DeviceInfo {
        self.target.processor().info()
    }

    fn models(&self) -> [Option<LocalModel<'_>>; 2] {
        let draft = self.draft.as_ref().map(|draft| about(draft, self.drafting.num_read()));
        [Some(about(&self.target, self.cached.len())), draft]
    }

    fn drafting(&mut self) -> Option<&mut Drafting> {
        Some(&mut self.drafting)
    }

    /// The constraint applies to the draft model too.
    fn constrain(&mut self, constraint: Option<Shared>) -> Result<()> {
        self.constraint = constraint;
        Ok(())
    }

    #[cfg(not(target_arch = "wasm32"))]
    async fn logits(&mut self, tokens: &[u32], rows: usize) -> Result<Vec<f32>> {
        self.check_room(tokens.len())?;
        let mut all = Vec::new();
        for chunk in tokens.chunks(rows.max(1)) {
            let states = self.rollback.chunk(self.cached.len(), chunk.len());
            let logits = self.target.pass(chunk, self.cached.len(), states, 0..chunk.len(), usize::MAX)?.logits;
            (0..logits.len()).for_each(|row| all.extend_from_slice(logits.row(row)));
            self.cached.extend_from_slice(chunk);
        }
        Ok(all)
    }

    async fn hidden(&mut self, tokens: &[u32], wanted: usize) -> Result<Vec<f32>> {
        self.check_room(tokens.len())?;
        let mut all = Vec::new();
        let unwanted = tokens.len().saturating_sub(wanted);
        for (at, chunk) in tokens.chunks(self.prefill_chunk()).enumerate() {
            self.turn.give().await;
            let first = unwanted.saturating_sub(at * self.prefill_chunk()).min(chunk.len());
            let states = self.rollback.chunk(self.cached.len(), chunk.len());
            let hidden = self.target.pass(chunk, self.cached.len(), states, first..chunk.len(), 1)?.normed;
            (0..hidden.len()).for_each(|row| all.extend_from_slice(hidden.row(row)));
            self.cached.extend_from_slice(chunk);
        }
        Ok(all)
    }

    /// The keys of each KV head, then the values of each.
    async fn read_kv(&mut self, layer: usize) -> Result<Vec<u8>> {
        self.settle().await?;
        let positions = self.cached.len();
        Ok(self.target.layers()[layer].bytes(positions))
    }

    fn write_kv(&mut self, layer: usize, len: usize, bytes: &[u8]) -> bool {
        self.target.layers()[layer].set_bytes(len, bytes)
    }

    async fn copy_kv(&mut self) -> Result<Box<dyn Any>> {
        // A copy has no hidden states of the target.
        self.read_due(self.capacity())?;
        self.settle().await?;
        let copy = |model: &mut CpuModel, positions| {
            model.layers().iter().map(|layer| layer.copy(positions)).collect::<Vec<_>>()
        };
        let target = copy(&mut self.target, self.cached.len());
        let draft = match &mut self.draft {
            Some(draft) if self.drafting.num_read() > 0 => copy(draft, self.drafting.num_read()),
            _ => Vec::new(),
        };
        Ok(Box::new([target, draft]))
    }

    async fn restore_kv(&mut self, snapshot: &Snapshot) -> Result<bool> {
        let Some([target, draft]) = snapshot.kv.downcast_ref::<LayerCopies>() else { return Ok(false) };
        self.target.layers().clone_from(target);
        if let (Some(model), false) = (&mut self.draft, draft.is_empty()) {
            model.layers().clone_from(draft);
        }
        Ok(true)
    }

    fn set_cached(&mut self, tokens: &[u32], draft_cached: usize) {
        self.cached = tokens.to_vec();
        self.rollback.restored(tokens.len());
        self.drafting.set_read(draft_cached);
    }
}

impl CpuBackend {
    /// Saves the recurrent states of the cached text, for a copy. If it was cut where there is a state but none before it, reads it again.
    async fn settle(&mut self) -> Result<()> {
        let len = self.cached.len();
        if !self.rollback.can_settle(len) {
            let text = self.cached.clone();
            self.truncate(0);
            self.prefill(&text).await?;
        }
        if let Some(states) = self.rollback.settle(len) {
            self.target.settle(len, states);
        }
        if let (Some(draft), Some(states)) = (&mut self.draft, self.drafting.settle()) {
            draft.settle(self.drafting.num_read(), states);
        }
        Ok(())
    }
}

/// Describes a model with `cached` tokens in its cache.
fn about(model: &CpuModel, cached: usize) -> LocalModel<'_> {
    LocalModel {
        spec: model.spec(),
        arithmetic: model.arithmetic(),
        memory: model.memory(),
        cached_bytes: model.blueprint().copied_bytes(cached, cached),
    }
}
