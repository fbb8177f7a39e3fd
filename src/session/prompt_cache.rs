//! Keys and values of recent texts, so that alternating conversations need no new prefill.

use crate::backend::{Backend, Snapshot};
use crate::error::{Error, Result};
use crate::model::LayerSpec;
use std::cmp::Reverse;

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
    /// shares the most tokens with it. Out of memory is no error: it clears the snapshots. Returns the length of a shared
    /// beginning without a recurrent state: other prompts may begin like this, so it is worth a snapshot.
    ///
    /// # Errors
    /// Other device errors.
    pub async fn turn_to(&mut self, engine: &mut dyn Backend, prompt: &[u32]) -> Result<Option<usize>> {
        let done = self.exchange(engine, prompt).await;
        self.unless_full(done)
    }

    /// Clears the snapshots if the device has no memory left.
    fn unless_full<T: Default>(&mut self, done: Result<T>) -> Result<T> {
        match done {
            Err(Error::OutOfGpuMemory { .. }) => {
                self.clear();
                Ok(T::default())
            }
            other => other,
        }
    }

    async fn exchange(&mut self, engine: &mut dyn Backend, prompt: &[u32]) -> Result<Option<usize>> {
        // Its last token is pending.
        let prompt = &prompt[..prompt.len().max(1) - 1];
        let has = |is: fn(&LayerSpec) -> bool| engine.spec().is_some_and(|spec| spec.layers.iter().any(is));
        let (recurrent, has_states) =
            (has(|layer| layer.attention().is_none()), has(|layer| layer.delta_net().is_some()));
        let (cached, shares) = (engine.cached(), engine.cached_of(prompt));
        let here = engine.cut_at(shares);
        let known = self.kept.iter().map(|(_, snapshot)| (shared(snapshot.tokens(), prompt), snapshot.tokens().len()));
        let branch = known.clone().map(|(shared, _)| shared).fold(shares, usize::max);
        // The state in a snapshot is that after all of its tokens.
        let useful =
            known.enumerate().filter(|(_, (shared, len))| *shared >= here + WORTH && (!has_states || shared == len));
        let best = useful.max_by_key(|(_, (shared, len))| (*shared, Reverse(*len)));
        let best = best.map(|(index, (shared, _))| (self.kept.remove(index), shared));
        if cached.len() >= here + WORTH {
            let is_known = self.kept.iter().any(|(_, snapshot)| snapshot.tokens().starts_with(cached));
            if !is_known && engine.snapshot_bytes().is_some_and(|bytes| bytes <= self.budget) {
                // Snapshots of its beginning are no longer needed if it can be cut there.
                self.kept.retain(|(_, snapshot)| recurrent || !cached.starts_with(snapshot.tokens()));
                self.add(engine).await?;
            }
        }
        if let Some(((bytes, snapshot), shared)) = best {
            engine.restore(&snapshot).await?;
            // Much of this snapshot differs from the prompt, or this text cannot be cut there later: it is another branch, so it is kept.
            if (recurrent || snapshot.tokens().len() >= shared + WORTH) && self.make_room(bytes) {
                self.kept.push((bytes, snapshot));
            }
        }
        let left = engine.cut_at(engine.cached_of(&prompt[..branch]));
        Ok((recurrent && self.budget > 0 && left + WORTH <= branch).then_some(branch))
    }

    /// Keeps a snapshot of the cached text, if the budget allows.
    ///
    /// # Errors
    /// Device errors, except that memory is short.
    pub async fn keep(&mut self, engine: &mut dyn Backend) -> Result<()> {
        let done = self.add(engine).await;
        self.unless_full(done)
    }

    async fn add(&mut self, engine: &mut dyn Backend) -> Result<()> {
        if let Some(bytes) = engine.snapshot_bytes()
            && self.make_room(bytes)
        {
            self.kept.push((bytes, engine.snapshot().await?));
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
