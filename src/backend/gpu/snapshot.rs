//! Snapshots of the cached text, to continue it after other texts.

use super::engine::GpuBackend;
use crate::error::Result;
use crate::gpu::Buffer;
use crate::target::Target;

/// GPU copy of the cached keys and values, with their tokens.
pub struct Snapshot {
    tokens: Vec<u32>,
    draft_cached: usize,
    target: Vec<Buffer>,
    draft: Vec<Buffer>,
}

impl Snapshot {
    /// Returns the tokens of the copied keys and values.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }
}

impl GpuBackend {
    /// Returns the bytes of a snapshot of the cached text.
    pub fn snapshot_bytes(&self) -> u64 {
        let draft = self.draft.as_ref().map_or(0, |draft| draft.kv_bytes(self.drafting.read()));
        self.target.kv_bytes(self.cached.len()) + draft
    }

    /// Copies the cached keys and values, except those of a draft model with another tokenizer.
    pub async fn snapshot(&mut self) -> Result<Snapshot> {
        self.truncate(self.cached.len());
        let target = self.target.copy_kv(self.cached.len()).await?;
        let draft = match &self.draft {
            Some(draft) if self.drafting.read() > 0 => draft.copy_kv(self.drafting.read()).await?,
            _ => Vec::new(),
        };
        Ok(Snapshot { tokens: self.cached.clone(), draft_cached: self.drafting.read(), target, draft })
    }

    /// Returns a layer's cached keys and values, in the buffer's layout.
    pub async fn read_kv(&mut self, layer: usize) -> Result<Vec<u8>> {
        let bytes = self.target.kv_bytes(self.cached.len()) / self.target.kv().len() as u64;
        let words = self.gpu.read(&self.target.kv()[layer], 0, bytes).await?;
        Ok(bytemuck::cast_slice(&words).to_vec())
    }

    /// Replaces the cache with `tokens`. `read` returns the keys and values of a layer, as from [`GpuBackend::read_kv`]. Returns false
    /// if their size does not fit.
    ///
    /// # Errors
    /// [`crate::Error::OutOfGpuMemory`] and errors of `read`; the cache is then empty.
    pub async fn write_kv(
        &mut self,
        tokens: &[u32],
        read: &mut impl AsyncFnMut(usize) -> Result<Vec<u8>>,
    ) -> Result<bool> {
        self.truncate(0);
        self.make_room(tokens.len()).await?;
        let layers = self.target.kv();
        let expected = self.target.kv_bytes(tokens.len()) / layers.len() as u64;
        for (layer, buffer) in layers.iter().enumerate() {
            let bytes = read(layer).await?;
            if bytes.len() as u64 != expected {
                return Ok(false);
            }
            self.gpu.write(buffer, 0, &bytes);
        }
        self.cached.extend_from_slice(tokens);
        Ok(true)
    }

    /// Replaces the cache with a snapshot of this engine.
    ///
    /// # Errors
    /// [`crate::Error::OutOfGpuMemory`]; the cache is then empty.
    pub async fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.truncate(0);
        self.make_room(snapshot.tokens.len()).await?;
        self.make_draft_room(snapshot.draft_cached).await?;
        self.target.restore_kv(&snapshot.target);
        self.draft.iter().for_each(|draft| draft.restore_kv(&snapshot.draft));
        self.cached.extend_from_slice(&snapshot.tokens);
        self.drafting.set_read(snapshot.draft_cached);
        Ok(())
    }
}
