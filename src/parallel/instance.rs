//! An instance of a model with its copy of the text: the model reads the new part.

use crate::backend::server::Later;
use crate::error::{Error, Result};
use crate::sample::Sampling;
use crate::target::{Draft, MAX_DRAFT, Queue, Traffic, run_round, yield_now};
use foretoken_dsi::Feed;
use std::ops::ControlFlow;

/// Result of a forward.
#[derive(Default)]
pub struct Read {
    /// The model's token after each of the last tokens: one id per row.
    pub ids: Vec<u32>,
    /// Tokens that were already cached.
    pub reused: usize,
    /// Requests to a server.
    pub traffic: Traffic,
}

/// An instance with its copy of the text.
pub struct ModelInstance {
    build: Rebuild,
    instance: Option<Box<dyn Queue>>,
    text: Vec<u32>,
    sampling: Sampling,
    /// `true`: it has computed something since it was built. A device that is lost before that is not set up again.
    proven: bool,
}

/// A function that builds another instance.
pub type Rebuild = Box<dyn Fn() -> Later<'static, Result<Box<dyn Queue>>>>;

impl ModelInstance {
    /// Wraps an instance. `build` replaces it if its device is lost.
    pub fn new(instance: Box<dyn Queue>, build: Rebuild) -> Self {
        Self { build, instance: Some(instance), text: Vec::new(), sampling: Sampling::default(), proven: true }
    }

    /// Starts another text. An instance that was given up is built again.
    ///
    /// # Errors
    /// Errors of building and preparing an instance.
    pub async fn begin(&mut self, sampling: Sampling) -> Result<()> {
        self.text.clear();
        self.sampling = sampling;
        match &mut self.instance {
            Some(instance) => instance.sample_by(&self.sampling),
            None => self.rebuild().await,
        }
    }

    /// Builds the instance again, with an empty cache.
    pub async fn rebuild(&mut self) -> Result<()> {
        // Drop the old instance first, so that there are never two at a time.
        self.instance = None;
        self.proven = false;
        let instance = self.instance.insert((self.build)().await?);
        instance.sample_by(&self.sampling)
    }

    /// Returns true if a forward can be aborted by dropping its future.
    pub fn breaks_off(&self) -> bool {
        self.instance.as_ref().is_some_and(|instance| instance.ends_when_dropped())
    }

    /// Discards an aborted forward.
    pub fn break_off(&mut self) {
        if let Some(instance) = &mut self.instance {
            instance.truncate(instance.cached().len());
        }
    }

    /// Drops the instance until the next text begins.
    pub fn give_up(&mut self) {
        self.instance = None;
    }

    /// Returns true if there is no instance.
    pub fn is_gone(&self) -> bool {
        self.instance.is_none()
    }

    /// Returns true if it can be built again after this error.
    pub fn can_return(&self, error: &Error) -> bool {
        self.proven && matches!(error, Error::DeviceLost { .. })
    }

    /// Updates the copy of the text. Skipped tasks need this too, because later tasks build on it.
    pub fn feed(&mut self, feed: Feed) {
        self.text.truncate(feed.keep);
        self.text.extend(feed.tokens);
    }

    /// Returns the model's token after each of the last `rows` tokens of the text. The same forward reads as many uncached tokens as fit.
    /// Earlier uncached tokens are read in chunks first: `prefilled` is called with the number of cached tokens. If it breaks, the result
    /// is `None`.
    ///
    /// # Errors
    /// Errors of the instance.
    pub async fn read_text(
        &mut self,
        rows: usize,
        prefilled: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Option<Read>> {
        let gone = || Error::DeviceLost { reason: "it could not be set up again".into() };
        let instance = self.instance.as_mut().ok_or_else(gone)?;
        let known = &self.text[..self.text.len().saturating_sub(rows)];
        let reused = instance.keep_shared(known);
        let missed = &self.text[reused..];
        // A server reads the earlier text anyway, at no cost if it is in its prefix cache.
        let most = if instance.is_far() { rows } else { MAX_DRAFT + 1 };
        let (head, last) = missed.split_at(missed.len().saturating_sub(most));
        let Some((&pending, draft)) = last.split_first() else { return Ok(Some(Read::default())) };
        for chunk in head.chunks(instance.prefill_chunk().max(1)) {
            let done = instance.cached().len();
            instance.prefill(chunk).await?;
            if done > reused {
                yield_now().await;
                if prefilled(done).is_break() {
                    return Ok(None);
                }
            }
        }
        let draft = Draft::Tokens(draft.to_vec());
        let verified = run_round(&mut **instance, pending, &draft).await?;
        verified.check(&draft)?;
        self.proven = true;
        // A target may process fewer tokens than it was given.
        let ids = verified.ids.get(last.len().saturating_sub(rows)..).unwrap_or_default();
        Ok(Some(Read { ids: ids.to_vec(), reused, traffic: verified.traffic }))
    }

    /// Returns the model's own next token and appends it to the text. `None`: the context is full, or `prefilled` breaks, as in
    /// [`Self::read_text`].
    ///
    /// # Errors
    /// Errors of the instance.
    pub async fn step(&mut self, prefilled: &mut dyn FnMut(usize) -> ControlFlow<()>) -> Result<Option<u32>> {
        if self.instance.as_ref().is_some_and(|instance| self.text.len() > instance.capacity()) {
            return Ok(None);
        }
        let next = self.read_text(1, prefilled).await?.and_then(|read| read.ids.first().copied());
        self.text.extend(next);
        Ok(next)
    }
}
