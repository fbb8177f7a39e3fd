//! Keys and values of recent texts, so that alternating conversations need no new prefill.

use crate::backend::{Backend, Snapshot};
use crate::error::{Error, Result};

/// Tokens that a snapshot must save from prefill to be worth a copy.
const WORTH: usize = 16;

/// Snapshots of texts that are no longer in the engine's cache.
pub(crate) struct PromptCache {
    /// Maximum bytes of all snapshots.
    budget: u64,
    /// Snapshots with their sizes in bytes; the latest last.
    kept: Vec<(u64, Snapshot)>,
}

impl PromptCache {
    /// Makes an empty cache for at most `budget` bytes on the device.
    pub fn new(budget: u64) -> Self {
        Self { budget, kept: Vec::new() }
    }

    /// Removes all snapshots, because the device was replaced.
    pub fn clear(&mut self) {
        self.kept.clear();
    }

    /// Prepares the engine for a prompt: saves the cached text that the prompt would discard, and restores the snapshot that
    /// shares the most tokens with it. Out of memory is no error: it clears the snapshots.
    ///
    /// # Errors
    /// Other device errors.
    pub async fn turn_to(&mut self, engine: &mut dyn Backend, prompt: &[u32]) -> Result<()> {
        match self.exchange(engine, prompt).await {
            Err(Error::OutOfGpuMemory { .. }) => {
                self.clear();
                Ok(())
            }
            other => other,
        }
    }

    async fn exchange(&mut self, engine: &mut dyn Backend, prompt: &[u32]) -> Result<()> {
        let cached = engine.cached();
        let here = engine.cached_of(prompt);
        let known = self.kept.iter().map(|(_, snapshot)| shared(snapshot.tokens(), prompt));
        let best = known.enumerate().max_by_key(|(_, shared)| *shared).filter(|(_, shared)| *shared >= here + WORTH);
        let best = best.map(|(index, shared)| (self.kept.remove(index), shared));
        if cached.len() >= here + WORTH {
            let is_known = self.kept.iter().any(|(_, snapshot)| snapshot.tokens().starts_with(cached));
            if let Some(bytes) = engine.snapshot_bytes()
                && !is_known
                && bytes <= self.budget
            {
                // Snapshots of its beginning are no longer needed.
                self.kept.retain(|(_, snapshot)| !cached.starts_with(snapshot.tokens()));
                self.make_room(bytes);
                self.kept.push((bytes, engine.snapshot().await?));
            }
        }
        if let Some(((bytes, snapshot), shared)) = best {
            engine.restore(&snapshot).await?;
            // Much of this snapshot differs from the prompt: it is another branch of a conversation, so it is kept.
            if snapshot.tokens().len() >= shared + WORTH && self.make_room(bytes) {
                self.kept.push((bytes, snapshot));
            }
        }
        Ok(())
    }

    /// Removes the oldest snapshots until `bytes` more fit. Returns false if they can never fit.
    fn make_room(&mut self, bytes: u64) -> bool {
        while !self.kept.is_empty() && self.kept.iter().map(|(bytes, _)| bytes).sum::<u64>() + bytes > self.budget {
            self.kept.remove(0);
        }
        bytes <= self.budget
    }
}

/// Returns the number of leading tokens that two texts share.
fn shared(one: &[u32], other: &[u32]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}
