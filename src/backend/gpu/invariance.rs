//! Checks on the user's device that a row's result does not depend on its batch, as speculation requires. Excludes kernels that
//! fail.

use super::engine::GpuBackend;
use super::memory::BLOCK;
use super::shape::Ahead;
use super::variants::Variants;
use crate::error::Result;
use crate::target::{Draft, StatePass, Target};

impl GpuBackend {
    /// Compiles and compares the kernels for prefill. On CPUs, where compiling is slow and uses the cores that compute, also
    /// prepares a kernel for 4 rows, which then serves all rounds. Leaves the cache empty.
    pub async fn check_invariance(&mut self) -> Result<Variants> {
        self.truncate(0);
        let chunk = self.target.chunk().min(self.capacity());
        for rows in [chunk, if self.gpu.is_processor() { 4.min(self.capacity()) } else { 1 }] {
            self.target.compile(rows);
            // If there is room, the last rows see two blocks of positions.
            let last = (BLOCK + rows / 2).min(self.capacity());
            self.compare(rows, last.saturating_sub(rows)).await?;
        }
        Ok(self.target.variants())
    }

    /// Compares the variant for `rows` rows, if it is not ready, with the one for a single row, by the bits of a token's logits.
    /// Shader compilers may reorder sums; a variant that differs is never used. A few layers with every kernel, and a part of the head, suffice.
    /// Overwrites the cache from `position` on.
    pub(super) async fn compare(&mut self, rows: usize, position: usize) -> Result<()> {
        let mut variants = self.target.variants();
        let vocab = self.target.spec().vocab_size;
        while let Some(variant) = variants.missing(rows) {
            let tokens: Vec<u32> = (0..rows).map(|i| (i * 37 % vocab) as u32).collect();
            let mut tried = variants;
            tried.learn(variant, false);
            self.target.use_variants(tried);
            // The state before the rows is not that of a text.
            let (last, [slot, save_slot]) = (position + rows - 1, self.rollback.spare());
            let states = StatePass { slot, base: position, save_slot, save_at: Some(last) };
            let together = self.probe(&tokens, position, states).await;
            self.target.use_variants(variants);
            // It attends to the positions that were just cached, and begins with the state before it.
            let alone = self.probe(&tokens[rows - 1..], last, states.next_of_draft()).await?;
            self.target.learn(variant, together? != alone);
            variants = self.target.variants();
            self.ahead = Ahead::default();
        }
        Ok(())
    }

    /// Implements [`Target::ready`].
    pub(super) async fn get_ready(&mut self, draft: &Draft) -> Result<bool> {
        let (position, rows) = (self.cached.len(), draft.len() + 1);
        if position + rows > self.capacity() {
            return Ok(false);
        }
        if self.gpu.is_processor() {
            return Ok(true);
        }
        if let (Some(model), Draft::Model(_)) = (&self.draft, draft)
            // The draft model may have to read a token before the pending one: two rows. Until then a larger variant serves.
            && let Some(variant) = model.variants().missing(2)
            && model.compile_beside(2)
        {
            model.learn(variant, false);
        }
        if self.target.variants().missing(rows).is_some() && self.target.compile_beside(rows) {
            self.make_room(rows).await?;
            self.compare(rows, position).await?;
        }
        let variants = self.target.variants();
        Ok(variants.missing(rows).is_none() || variants.serves(rows))
    }
}
