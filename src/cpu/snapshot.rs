//! What is cached of a text, apart from the cache: to go on with it after others.

use super::Engine;
use super::attention::Cache;
use super::model::Model;
use crate::error::Result;
use crate::target::Target;

/// What is cached of a text, copied.
pub struct Snapshot {
    tokens: Vec<u32>,
    draft_cached: usize,
    target: Vec<Cache>,
    draft: Vec<Cache>,
}

impl Snapshot {
    /// The tokens whose keys and values it has.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }
}

impl Engine {
    /// Bytes of a snapshot of what is cached now.
    pub fn snapshot_bytes(&self) -> u64 {
        let draft = self.draft.as_ref().map_or(0, |draft| draft.blueprint().kv_bytes(self.drafting.read()));
        self.target.blueprint().kv_bytes(self.cached.len()) + draft
    }

    /// What is cached now. Of a draft model with another tokenizer nothing is kept.
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

    /// The keys and values of a layer, of what is cached: of each KV head the keys, then of each the values.
    pub fn read_kv(&mut self, layer: usize) -> Vec<u8> {
        let positions = self.cached.len();
        let cache = &mut self.target.caches()[layer];
        cache.truncate(positions);
        cache.to_bytes()
    }

    /// Caches tokens whose keys and values [`Engine::read_kv`] gave, one layer after the other, and nothing else. False where they are
    /// not as large as those of this model.
    ///
    /// # Errors
    /// [`crate::Error::ContextFull`], and what `read` reports; then nothing is cached.
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

    /// Caches what a snapshot of this engine has, and nothing else.
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
