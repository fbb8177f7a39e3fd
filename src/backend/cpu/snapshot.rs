//! Snapshots of the cached text, to continue it after other texts.

use super::attention::Cache;
use super::engine::CpuBackend;
use super::model::Model;
use crate::error::Result;
use crate::target::Target;

/// Copy of the cached keys and values, with their tokens.
pub struct Snapshot {
    tokens: Vec<u32>,
    draft_cached: usize,
    target: Vec<Cache>,
    draft: Vec<Cache>,
}

impl Snapshot {
    /// Returns the tokens of the copied keys and values.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }
}

impl CpuBackend {
    /// Returns the bytes of a snapshot of the cached text.
    pub fn snapshot_bytes(&self) -> u64 {
        let draft = self.draft.as_ref().map_or(0, |draft| draft.blueprint().kv_bytes(self.drafting.read()));
        self.target.blueprint().kv_bytes(self.cached.len()) + draft
    }

    /// Copies the cached keys and values, except those of a draft model with another tokenizer.
    pub fn snapshot(&mut self) -> Snapshot {
        self.truncate(self.cached.len());
        let copy =
            |model: &mut Model, positions| model.caches().iter().map(|cache| cache.copy(positions)).collect::<Vec<_>>();
        let target = copy(&mut self.target, self.cached.len());
        let draft = match &mut self.draft {
            Some(draft) if self.drafting.read() > 0 => copy(draft, self.drafting.read()),
            _ => Vec::new(),
        };
        Snapshot { tokens: self.cached.clone(), draft_cached: self.drafting.read(), target, draft }
    }

    /// Returns a layer's cached keys of each KV head, then the values of each.
    pub fn read_kv(&mut self, layer: usize) -> Vec<u8> {
        let positions = self.cached.len();
        let cache = &mut self.target.caches()[layer];
        cache.truncate(positions);
        cache.to_bytes()
    }

    /// Replaces the cache with `tokens`. `read` returns the keys and values of a layer, as from [`CpuBackend::read_kv`]. Returns false if their
    /// size does not fit.
    ///
    /// # Errors
    /// [`crate::Error::ContextFull`], and errors of `read`; the cache is then empty.
    pub async fn write_kv(
        &mut self,
        tokens: &[u32],
        read: &mut impl AsyncFnMut(usize) -> Result<Vec<u8>>,
    ) -> Result<bool> {
        self.truncate(0);
        self.room(tokens.len())?;
        for (layer, cache) in self.target.caches().iter_mut().enumerate() {
            if !cache.set_bytes(tokens.len(), &read(layer).await?) {
                return Ok(false);
            }
        }
        self.cached.extend_from_slice(tokens);
        Ok(true)
    }

    /// Replaces the cache with a snapshot of this engine.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.truncate(0);
        self.target.caches().clone_from(&snapshot.target);
        if let (Some(draft), false) = (&mut self.draft, snapshot.draft.is_empty()) {
            draft.caches().clone_from(&snapshot.draft);
        }
        self.cached.extend_from_slice(&snapshot.tokens);
        self.drafting.set_read(snapshot.draft_cached);
    }
}
