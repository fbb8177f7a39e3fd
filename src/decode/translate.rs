//! A draft model with another tokenizer: it reads and writes tokens of its own, and someone translates.

use super::engine::Engine;
use super::flight::DIRECT;
use super::round::{BEFORE, DRAFTS, PENDING};
use super::sampler::{NOT_DRAFTED, check_finite};
use crate::error::Result;
use crate::target::{DRAFT_MODEL, MAX_DRAFT, Target};
use web_time::Instant;

/// What the draft model proposes.
#[derive(Default)]
pub(super) struct Translated {
    /// Tokens of the target.
    pub draft: Vec<u32>,
    /// As [`crate::target::Verified::waited`].
    pub waited: f64,
}

impl Engine {
    /// Drafts `steps` tokens of the draft model's own behind the cached tokens and the pending one: one submission and one
    /// readback.
    pub(super) async fn draft_translated(&mut self, pending: u32, steps: usize) -> Result<Translated> {
        let (Some(model), Some(translation)) = (&self.draft, &mut self.translation) else {
            return Ok(Translated::default());
        };
        let (text, reused) = translation.text(&self.cached, pending)?;
        let Some((&last, head)) = text.split_last() else { return Ok(Translated::default()) };
        let missed = &head[reused..];
        let steps = steps.min(MAX_DRAFT).min(model.capacity().max_context.saturating_sub(head.len()));
        if steps == 0 || missed.len() > BEFORE {
            return Ok(Translated::default());
        }
        let tokens = [missed, &[last]].concat();
        self.make_draft_room(head.len() + steps).await?;
        let Some(model) = &self.draft else { return Ok(Translated::default()) };
        self.gpu.write(&self.buffers.tokens, 4 * (PENDING - missed.len()) as u64, bytemuck::cast_slice(&tokens));
        let mut recorder = self.gpu.record();
        self.set_draft_step(model, missed.len(), head.len());
        let at = head.len();
        self.record_draft(&mut recorder, model, missed.len(), at..=at, steps);
        let bytes = 4 * steps as u64;
        let readback = &mut self.readbacks[DIRECT];
        let submitted = recorder.submit(Some((&self.buffers.tokens, 4 * DRAFTS as u64, bytes, readback)));
        let began = Instant::now();
        let mut drafted = readback.read(&self.gpu, bytes, submitted).await?;
        let waited = began.elapsed().as_secs_f64();

        drafted.truncate(drafted.iter().position(|&id| id == NOT_DRAFTED).unwrap_or(steps));
        check_finite(DRAFT_MODEL, &drafted, head.len())?;
        let room = self.capacity().saturating_sub(self.cached.len() + 1);
        let Some(translation) = &mut self.translation else { return Ok(Translated::default()) };
        let mut draft = translation.take(text, drafted)?;
        // Its tokens may be longer than the target's: then more come back than were asked for.
        draft.truncate(room);
        Ok(Translated { draft, waited })
    }
}
