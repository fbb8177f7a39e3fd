//! A target on a server, and a draft model here.

use super::server::{Server, refused};
use crate::error::{Error, Result};
use crate::sample::Sampling;
use crate::target::{Draft, MAX_DRAFT, Queue, Target, Translate, Translation, Verified, missed};
use web_time::Instant;

/// A target on a server and, where there is one, its draft model on a device.
pub struct Engine<D> {
    server: Server,
    drafting: Option<Drafting<D>>,
    /// Why there is no draft model any more.
    failed: Option<String>,
    /// Seconds that the submitted round's draft took.
    waited: f64,
}

/// A draft model.
struct Drafting<D> {
    model: D,
    /// Where it has another tokenizer.
    translation: Option<Translation>,
    /// A draft ends behind a token that is less likely than this.
    confidence: f32,
}

impl<D: Target> Engine<D> {
    /// The draft model chooses greedily.
    pub fn new(server: Server, draft: Option<D>) -> Self {
        let drafting = draft.map(|model| Drafting { model, translation: None, confidence: 0.0 });
        Self { server, drafting, failed: None, waited: 0.0 }
    }

    /// The target.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The draft model.
    pub fn draft(&self) -> Option<&D> {
        self.drafting.as_ref().map(|drafting| &drafting.model)
    }

    /// Why the draft model is not used any more, in words.
    pub fn warning(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// From now on the target chooses its tokens like this; `choose` tells the draft model how to.
    ///
    /// # Errors
    /// As [`Server::sample_by`]; what `choose` reports.
    pub fn sample_by(
        &mut self,
        sampling: &Sampling,
        choose: impl FnOnce(&mut D, &Sampling) -> Result<()>,
    ) -> Result<()> {
        self.server.sample_by(sampling)?;
        let Some(Drafting { model, confidence, .. }) = &mut self.drafting else { return Ok(()) };
        *confidence = sampling.confidence;
        let logprobs = (*confidence > 0.0).then_some(0);
        choose(model, &Sampling { logprobs, ..Sampling::default() })
    }

    /// From now on the draft model is one with another tokenizer.
    pub fn translate_by(&mut self, translate: Box<dyn Translate>) {
        if let Some(drafting) = &mut self.drafting {
            drafting.translation = Some(Translation { by: translate, cached: Vec::new() });
        }
    }

    /// Only what a server can do: any token may come.
    ///
    /// # Errors
    /// [`Error::BadOption`] otherwise.
    pub fn constrain(&self, constrains: bool) -> Result<()> {
        if constrains { Err(refused("response_format", "a form", "none")) } else { Ok(()) }
    }

    /// As many tokens of the draft model, in tokens of the target. One that fails drafts no more: it only guesses.
    async fn draft_tokens(&mut self, pending: u32, count: usize) -> Vec<u32> {
        let Some(drafting) = &mut self.drafting else { return Vec::new() };
        match drafting.draft(self.server.cached(), pending, count).await {
            Ok(tokens) => tokens,
            Err(error) => {
                self.failed = Some(format!("the text goes on without the draft model ({error})"));
                self.drafting = None;
                Vec::new()
            }
        }
    }
}

impl<D: Target> Drafting<D> {
    /// Reads the next chunk of what it missed of the cached tokens, but for as many tokens as one forward reads.
    async fn catch_up(&mut self, cached: &[u32], pending: u32) -> Result<usize> {
        let Self { model, translation, .. } = self;
        let limits = [model.prefill_chunk(), MAX_DRAFT, model.capacity()];
        let (read, chunk) = missed(translation, (cached, model.cached_of(cached)), pending, limits)?;
        let count = chunk.len();
        if count > 0 {
            model.truncate(read);
            Box::pin(model.prefill(&chunk)).await?;
            translation.iter_mut().for_each(|translation| translation.cached.extend(&chunk));
        }
        Ok(count)
    }

    /// Drafts after the cached tokens and the pending one.
    async fn draft(&mut self, cached: &[u32], pending: u32, count: usize) -> Result<Vec<u32>> {
        let (text, read) = match &mut self.translation {
            Some(translation) => translation.text(cached, pending)?,
            None => ([cached, &[pending]].concat(), self.model.cached_of(cached)),
        };
        let Some(head) = text.len().checked_sub(1) else { return Ok(text) };
        self.model.truncate(read);
        // What it missed it reads with its first step; where that is too much, it has yet to catch up.
        if head - read > MAX_DRAFT {
            return Ok(Vec::new());
        }
        let mut own = text.clone();
        for _ in 0..count {
            let fresh = self.model.cached().len();
            if own.len() > self.model.capacity() {
                break;
            }
            let draft = Draft::Tokens(own[fresh + 1..].to_vec());
            let verified = Box::pin(self.model.verify(own[fresh], &draft)).await?;
            let (Some(id), likely) = (verified.ids.last(), verified.logprobs.last()) else { break };
            own.push(*id);
            if likely.is_some_and(|told| told.chosen.exp() < self.confidence) {
                break;
            }
        }
        let drafted = own.split_off(text.len());
        match &mut self.translation {
            Some(translation) => translation.take(text, drafted),
            None => Ok(drafted),
        }
    }
}

impl<D: Target> Target for Engine<D> {
    fn cached(&self) -> &[u32] {
        self.server.cached()
    }

    fn draft_cached(&self) -> usize {
        match &self.drafting {
            Some(Drafting { model, translation: None, .. }) => model.cached_of(self.cached()),
            _ => 0,
        }
    }

    fn capacity(&self) -> usize {
        self.server.capacity()
    }

    fn truncate(&mut self, len: usize) {
        self.server.truncate(len);
    }

    async fn prefill(&mut self, tokens: &[u32]) -> Result<()> {
        self.server.prefill(tokens).await
    }

    async fn catch_up(&mut self, pending: u32) -> Result<usize> {
        match &mut self.drafting {
            Some(drafting) => drafting.catch_up(self.server.cached(), pending).await,
            None => Ok(0),
        }
    }

    async fn submit(&mut self, pending: u32, draft: &Draft) -> Result<()> {
        let began = Instant::now();
        let drafted = match draft {
            Draft::Tokens(_) => return self.server.submit(pending, draft).await,
            Draft::Model(count) => {
                // What is under way is given up before it, not behind it.
                self.server.truncate(self.server.cached().len());
                self.draft_tokens(pending, *count).await
            }
        };
        self.waited = began.elapsed().as_secs_f64();
        let room = self.capacity().saturating_sub(self.cached().len() + 1);
        self.server.submit(pending, &Draft::Tokens(drafted).cut(room)).await
    }

    async fn finish(&mut self) -> Result<Verified> {
        let verified = self.server.finish().await?;
        Ok(Verified { waited: std::mem::take(&mut self.waited), ..verified })
    }
}

impl<D: Target> Queue for Engine<D> {
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
    }
}

/// What a server has nothing of.
///
/// # Errors
/// Always.
pub fn lacks<T>(what: &str) -> Result<T> {
    let allowed = format!("a model on this device, for {what}");
    Err(Error::BadOption { option: "target_url".into(), value: "a target on a server".into(), allowed })
}
