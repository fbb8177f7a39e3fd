//! A target on a server with a local draft model.

use super::target::{ServerTarget, refused};
use crate::backend::{Backend, LocalModel};
use crate::constraint::Shared;
use crate::error::{Error, Result};
use crate::gpu::DeviceInfo;
use crate::sample::Sampling;
use crate::target::{Draft, Drafting, Queue, Rollback, Target, Verified, run_round};
use async_trait::async_trait;
use web_time::Instant;

/// A target on a server and, if there is one, its draft model on a local device.
pub struct ServerBackend {
    server: ServerTarget,
    draft: Option<LocalDraft>,
    /// Why the draft model is no longer used.
    failed: Option<String>,
    /// Seconds spent on the submitted round's draft.
    waited: f64,
}

/// A draft model on a local device.
struct LocalDraft {
    model: Box<dyn Backend>,
    drafting: Drafting,
    /// Probability below which a token ends the draft.
    confidence: f32,
}

impl ServerBackend {
    /// Combines a target with a draft model, which drafts greedily.
    pub fn new(server: ServerTarget, draft: Option<Box<dyn Backend>>) -> Self {
        let draft = draft.map(|model| {
            let drafting = Drafting::new(model.prefill_chunk(), model.capacity(), Rollback::default());
            LocalDraft { model, drafting, confidence: 0.0 }
        });
        Self { server, draft, failed: None, waited: 0.0 }
    }

    /// Drafts as [`Drafting::draft_tokens`] does. After an error the draft model is dropped, and the text goes on without it.
    async fn draft_tokens(&mut self, pending: u32, limits: [usize; 2]) -> Vec<u32> {
        let Some(LocalDraft { model, drafting, confidence }) = &mut self.draft else { return Vec::new() };
        let step = async |position, tokens: &[u32], _| {
            model.rewind(position).await?;
            let known = Draft::Tokens(tokens[1..].to_vec());
            let verified = run_round(&mut **model, tokens[0], &known).await?;
            verified.check(&known)?;
            let Verified { ids, logprobs, .. } = verified;
            let confident = logprobs.last().is_none_or(|last| last.chosen.exp() >= *confidence);
            Ok((ids[ids.len() - 1], confident))
        };
        let drafted = drafting.draft_tokens(self.server.cached(), pending, limits, step).await;
        drafted.unwrap_or_else(|error| {
            self.failed = Some(format!("the text goes on without the draft model ({error})"));
            self.draft = None;
            Vec::new()
        })
    }
}

#[async_trait(?Send)]
impl Backend for ServerBackend {
    fn device(&self) -> &DeviceInfo {
        self.server.info()
    }

    fn models(&self) -> [Option<LocalModel<'_>>; 2] {
        let [draft, _] = self.draft.as_ref().map(|draft| draft.model.models()).unwrap_or_default();
        [None, draft]
    }

    fn drafting(&mut self) -> Option<&mut Drafting> {
        self.draft.as_mut().map(|draft| &mut draft.drafting)
    }

    /// A server cannot mask tokens.
    fn constrain(&mut self, constraint: Option<Shared>) -> Result<()> {
        if constraint.is_some() { Err(refused("response_format", "a form", "none")) } else { Ok(()) }
    }

    /// Set if the draft model is no longer used.
    fn warning(&self) -> Option<&str> {
        self.failed.as_deref()
    }
}

#[async_trait(?Send)]
impl Target for ServerBackend {
    fn sample_by(&mut self, sampling: &Sampling) -> Result<()> {
        self.server.sample_by(sampling)?;
        let Some(LocalDraft { model, confidence, .. }) = &mut self.draft else { return Ok(()) };
        *confidence = sampling.confidence;
        let logprobs = (*confidence > 0.0).then_some(0);
        model.sample_by(&Sampling { logprobs, ..Sampling::default() })
    }

    fn cached(&self) -> &[u32] {
        self.server.cached()
    }

    fn draft_cached(&self) -> usize {
        self.draft.as_ref().map_or(0, |draft| draft.drafting.num_read())
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
        let Some(LocalDraft { model, drafting, .. }) = &mut self.draft else { return Ok(0) };
        let read = async |position, chunk: &[u32], _| {
            model.rewind(position).await?;
            model.prefill(chunk).await
        };
        drafting.catch_up(self.server.cached(), pending, read).await
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

impl Queue for ServerBackend {
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
