//! An instance of a model with its copy of the text: the model runs over what is new in it.

use super::Instance;
use crate::error::{Error, Result};
use crate::remote::Later;
use crate::sample::Sampling;
use crate::speculate::dsi::Feed;
use crate::target::{Draft, Traffic};
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::task::Poll;

/// Lets those go first who share the thread.
pub(super) async fn yield_now() {
    let mut passed = false;
    poll_fn(|context| {
        if std::mem::replace(&mut passed, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What came of a forward.
#[derive(Default)]
pub struct Read {
    /// The model's token after each of the last tokens.
    pub ids: Vec<u32>,
    /// Tokens that were cached before.
    pub reused: usize,
    /// What was asked of a server.
    pub traffic: Traffic,
}

/// An instance and its copy of the text.
pub struct Worker<T> {
    build: Rebuild<T>,
    instance: Option<T>,
    text: Vec<u32>,
    sampling: Sampling,
    /// It computed something since it was built: a device that is lost again before that would be lost for ever.
    proven: bool,
}

/// Makes another instance.
pub type Rebuild<T> = Box<dyn Fn() -> Later<'static, Result<T>>>;

impl<T: Instance> Worker<T> {
    /// `build` makes another instance in place of one whose device was lost.
    pub fn new(instance: T, build: Rebuild<T>) -> Self {
        Self { build, instance: Some(instance), text: Vec::new(), sampling: Sampling::default(), proven: true }
    }

    /// Another text. An instance that was given up gets another chance.
    ///
    /// # Errors
    /// What building and preparing an instance reports.
    pub async fn begin(&mut self, sampling: Sampling) -> Result<()> {
        self.text.clear();
        self.sampling = sampling;
        match &mut self.instance {
            Some(instance) => instance.sample_by(&self.sampling),
            None => self.rebuild().await,
        }
    }

    /// Sets the model up again, with nothing cached.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub async fn rebuild(&mut self) -> Result<()> {
        // First, so that there are never two at a time.
        self.instance = None;
        self.proven = false;
        let instance = self.instance.insert((self.build)().await?);
        instance.sample_by(&self.sampling)
    }

    /// The instance, where there is one.
    pub fn instance(&self) -> Option<&T> {
        self.instance.as_ref()
    }

    /// Whether a forward can be broken off: dropped before it is done.
    pub fn breaks_off(&self) -> bool {
        self.instance.as_ref().is_some_and(T::breaks_off)
    }

    /// Forgets a forward that was broken off.
    pub fn break_off(&mut self) {
        if let Some(instance) = &mut self.instance {
            instance.truncate(instance.cached().len());
        }
    }

    /// Until the next text begins.
    pub fn give_up(&mut self) {
        self.instance = None;
    }

    /// Whether there is no instance.
    pub fn is_gone(&self) -> bool {
        self.instance.is_none()
    }

    /// Whether it makes sense to build it again after an error.
    pub fn can_return(&self, error: &Error) -> bool {
        self.proven && matches!(error, Error::DeviceLost { .. })
    }

    /// Brings the copy of the text up to date. Tasks that are not carried out do that too: later ones build on it.
    pub fn feed(&mut self, feed: Feed) {
        self.text.truncate(feed.keep);
        self.text.extend(feed.tokens);
    }

    /// The model's token after each of the last `rows` tokens of the text. What was not cached goes through the model in the
    /// same forward, as far as one forward holds it; what is before that, chunk by chunk:
    /// `prefilled` hears how many tokens were read, and none come back where it breaks.
    ///
    /// # Errors
    /// What the instance reports.
    pub async fn read(
        &mut self,
        rows: usize,
        prefilled: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Option<Read>> {
        let gone = || Error::DeviceLost { reason: "it could not be set up again".into() };
        let instance = self.instance.as_mut().ok_or_else(gone)?;
        let known = &self.text[..self.text.len().saturating_sub(rows)];
        let reused = instance.cached_of(known);
        instance.truncate(reused);
        let missed = &self.text[reused..];
        let (head, last) = missed.split_at(missed.len().saturating_sub(instance.forward_rows(rows)));
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
        let verified = instance.verify(pending, &draft).await?;
        verified.check(&draft)?;
        self.proven = true;
        // A forward may hold fewer tokens than were given to it.
        let ids = verified.ids.get(last.len().saturating_sub(rows)..).unwrap_or_default();
        Ok(Some(Read { ids: ids.to_vec(), reused, traffic: verified.traffic }))
    }

    /// The model's own next token, which becomes part of the text; none where its context is full, or where `prefilled`
    /// breaks, as in [`Self::read`].
    ///
    /// # Errors
    /// What the instance reports.
    pub async fn step(&mut self, prefilled: &mut dyn FnMut(usize) -> ControlFlow<()>) -> Result<Option<u32>> {
        if self.instance.as_ref().is_some_and(|instance| self.text.len() > instance.capacity()) {
            return Ok(None);
        }
        let next = self.read(1, prefilled).await?.and_then(|read| read.ids.first().copied());
        self.text.extend(next);
        Ok(next)
    }
}
