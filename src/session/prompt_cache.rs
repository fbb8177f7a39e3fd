//! Keys and values of the latest texts, so that conversations which take turns are not read again.

use crate::device::{Engine, Snapshot};
use crate::error::{Error, Result};
use crate::target::Target;

/// Tokens from which on it is worth a copy not to read them again.
const WORTH: usize = 16;

/// What was cached of texts that are no longer.
pub(crate) struct PromptCache {
    /// Bytes that all of it may take.
    budget: u64,
    /// With their bytes; the latest last.
    kept: Vec<(u64, Snapshot)>,
}

impl PromptCache {
    /// With room for so many bytes, on the device.
    pub fn new(budget: u64) -> Self {
        Self { budget, kept: Vec::new() }
    }

    /// Forgets everything: the device is another one.
    pub fn clear(&mut self) {
        self.kept.clear();
    }

    /// A prompt comes: keeps what it makes the engine forget, and brings back what is known of it. Memory that the device does not
    /// have costs what was kept.
    ///
    /// # Errors
    /// What the device reports otherwise.
    pub async fn turn_to(&mut self, engine: &mut Engine, prompt: &[u32]) -> Result<()> {
        match self.exchange(engine, prompt).await {
            Err(Error::OutOfGpuMemory { .. }) => {
                self.clear();
                Ok(())
            }
            other => other,
        }
    }

    async fn exchange(&mut self, engine: &mut Engine, prompt: &[u32]) -> Result<()> {
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
                // Its beginning needs no copy of its own.
                self.kept.retain(|(_, snapshot)| !cached.starts_with(snapshot.tokens()));
                self.make_room(bytes);
                self.kept.push((bytes, engine.snapshot().await?));
            }
        }
        if let Some(((bytes, snapshot), shared)) = best {
            engine.restore(&snapshot).await?;
            // The prompt leaves it where there is more behind: another branch of a conversation.
            if snapshot.tokens().len() >= shared + WORTH && self.make_room(bytes) {
                self.kept.push((bytes, snapshot));
            }
        }
        Ok(())
    }

    /// Forgets the oldest texts until there is room; false where there can be none.
    fn make_room(&mut self, bytes: u64) -> bool {
        while !self.kept.is_empty() && self.kept.iter().map(|(bytes, _)| bytes).sum::<u64>() + bytes > self.budget {
            self.kept.remove(0);
        }
        bytes <= self.budget
    }
}

/// Leading tokens that two texts share.
fn shared(one: &[u32], other: &[u32]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}
