//! A target on a server with a local draft model.

use super::target::{Server, refused};
use crate::error::{Error, Result};
use crate::sample::Sampling;
use crate::target::{Draft, Drafting, Queue, Target, Translate, Verified};
use web_time::Instant;

/// A target on a server and, if there is one, its draft model on a local device.
pub struct ServerBackend<D> {
    server: Server,
    draft: Option<DraftModel<D>>,
    /// Why the draft model is no longer used.
    failed: Option<String>,
    /// Seconds spent on the submitted round's draft.
    waited: f64,
}

/// A draft model on a local device.
struct DraftModel<D> {
    model: D,
    drafting: Drafting,
    /// Probability below which a token ends the draft.
    confidence: f32,
}

impl<D: Target> ServerBackend<D> {
    /// Combines a target with a draft model, which drafts greedily.
    pub fn new(server: Server, draft: Option<D>) -> Self {
        let draft = draft.map(|model| {
            let drafting = Drafting::new(model.prefill_chunk(), model.capacity());
            DraftModel { model, drafting, confidence: 0.0 }
        });
        Self { server, draft, failed: None, waited: 0.0 }
    }

    /// Returns the target.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the draft model.
    pub fn draft(&self) -> Option<&D> {
        self.draft.as_ref().map(|draft| &draft.model)
    }

    /// Returns a warning if the draft model is no longer used.
    pub fn warning(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Sets how the target chooses tokens from now on. `choose` sets it for the draft model.
    pub fn sample_by(
        &mut self,
        sampling: &Sampling,
        choose: impl FnOnce(&mut D, &Sampling) -> Result<()>,
    ) -> Result<()> {
        self.server.sample_by(sampling)?;
        let Some(DraftModel { model, confidence, .. }) = &mut self.draft else { return Ok(()) };
        *confidence = sampling.confidence;
        let logprobs = (*confidence > 0.0).then_some(0);
        choose(model, &Sampling { logprobs, ..Sampling::default() })
    }

    /// Declares that the draft model has another tokenizer.
    pub fn translate_by(&mut self, translate: Box<dyn Translate>) {
        if let Some(draft) = &mut self.draft {
            draft.drafting.translate_by(translate);
        }
    }

    /// Rejects constraints: a server cannot mask tokens.
    pub fn constrain(&self, constrains: bool) -> Result<()> {
        if constrains { Err(refused("response_format", "a form", "none")) } else { Ok(()) }
    }

    /// Drafts within the limits of [`Drafting::plan`]. After an error the draft model is dropped, and the text goes on without it.
    async fn draft_tokens(&mut self, pending: u32, limits: [usize; 2]) -> Vec<u32> {
        let Some(draft) = &mut self.draft else { return Vec::new() };
        match draft.write(self.server.cached(), pending, limits).await {
            Ok(tokens) => tokens,
            Err(error) => {
                self.failed = Some(format!("the text goes on without the draft model ({error})"));
                self.draft = None;
                Vec::new()
            }
        }
    }
}

impl<D: Target> DraftModel<D> {
    /// As [`Target::catch_up`].
    async fn catch_up(&mut self, cached: &[u32], pending: u32) -> Result<usize> {
        let (position, chunk) = self.drafting.missed(cached, pending)?;
        if !chunk.is_empty() {
            self.model.truncate(position);
            Box::pin(self.model.prefill(&chunk)).await?;
            self.drafting.has_read(chunk.len());
        }
        Ok(chunk.len())
    }

    /// Drafts at most `count` tokens after the cached tokens and the pending one, for a target that has room for `room`.
    async fn write(&mut self, cached: &[u32], pending: u32, [count, room]: [usize; 2]) -> Result<Vec<u32>> {
        let Some(plan) = self.drafting.plan(cached, pending, [count, room])? else { return Ok(Vec::new()) };
        self.model.truncate(plan.position - plan.missed());
        let mut fresh = plan.tokens;
        let (mut drafted, mut last) = (Vec::new(), fresh.remove(0));
        for _ in 0..plan.steps {
            let missed = Draft::Tokens(std::mem::take(&mut fresh));
            let verified = Box::pin(self.model.verify(last, &missed)).await?;
            let (Some(&id), likely) = (verified.ids.last(), verified.logprobs.last()) else { break };
            drafted.push(id);
            last = id;
            if likely.is_some_and(|told| told.chosen.exp() < self.confidence) {
                break;
            }
        }
        self.drafting.wrote(plan.position, drafted, room)
    }
}

impl<D: Target> Target for ServerBackend<D> {
    fn cached(&self) -> &[u32] {
        self.server.cached()
    }

    fn draft_cached(&self) -> usize {
        self.draft.as_ref().map_or(0, |draft| draft.drafting.read())
    }

    fn capacity(&self) -> usize {
        self.server.capacity()
    }

    fn truncate(&mut self, len: usize) {
        self.server.truncate(len);
        self.draft.iter_mut().for_each(|draft| draft.drafting.truncate(len));
    }

    async fn prefill(&mut self, tokens: &[u32]) -> Result<()> {
        self.server.prefill(tokens).await
    }

    async fn catch_up(&mut self, pending: u32) -> Result<usize> {
        match &mut self.draft {
            Some(draft) => draft.catch_up(self.server.cached(), pending).await,
            None => Ok(0),
        }
    }

    async fn submit(&mut self, pending: u32, draft: &Draft) -> Result<()> {
        let Draft::Model(count) = draft else { return self.server.submit(pending, draft).await };
        let began = Instant::now();
        // Abort the round in flight before drafting, not after it.
        self.server.truncate(self.server.cached().len());
        let room = self.capacity().saturating_sub(self.cached().len() + 1);
        let drafted = self.draft_tokens(pending, [*count, room]).await;
        self.waited = began.elapsed().as_secs_f64();
        self.server.submit(pending, &Draft::Tokens(drafted)).await
    }

    async fn finish(&mut self) -> Result<Verified> {
        let verified = self.server.finish().await?;
        Ok(Verified { waited: std::mem::take(&mut self.waited), ..verified })
    }
}

impl<D: Target> Queue for ServerBackend<D> {
    fn prepare(&mut self, repeats: bool) -> bool {
        self.server.prepare(repeats)
    }

    fn repeat(&mut self) {
        self.server.repeat();
    }

    fn is_computing(&mut self) -> bool {
        self.server.is_computing()
    }

    fn is_far(&self) -> bool {
        true
    }

    fn keep(&mut self, len: usize) {
        self.server.keep(len);
        self.draft.iter_mut().for_each(|draft| draft.drafting.truncate(len));
    }
}

/// Returns the error for `what`, which a target on a server does not have.
pub fn lacks<T>(what: &str) -> Result<T> {
    let allowed = format!("a model on this device, for {what}");
    Err(Error::BadOption { option: "target_url".into(), value: "a target on a server".into(), allowed })
}
