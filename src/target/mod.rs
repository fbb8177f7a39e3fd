//! The interface between speculation and a model: verify tokens, then keep some of them.

mod drafting;
mod rollback;

pub use drafting::{DraftPlan, Drafting, GuessPass, HiddenReading, READ_IN_ROUND, ReadBy, Translate};
pub use rollback::{Rollback, StatePass};

use crate::error::{Error, Result};
use crate::sample::Sampling;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::future::poll_fn;
use std::task::Poll;

/// Maximum draft tokens of a round. With the target's own tokens they fit a readback of 256 bytes.
pub const MAX_DRAFT: usize = 31;
/// Name of the draft model in errors.
pub const DRAFT_MODEL: &str = "draft model";

/// Tokens to verify in a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Draft {
    /// These tokens. Empty: a plain round.
    Tokens(Vec<u32>),
    /// This many tokens of the draft model, drafted on the device in the same submission. If the draft model has another tokenizer, the
    /// count is in its own tokens; their translation may have fewer or more.
    Model(usize),
}

impl Draft {
    /// Returns the number of draft tokens.
    pub fn len(&self) -> usize {
        match self {
            Self::Tokens(tokens) => tokens.len(),
            Self::Model(count) => *count,
        }
    }

    /// Returns true if there are no draft tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Limits the number of draft tokens to `most`.
    pub fn cut(self, most: usize) -> Self {
        match self {
            Self::Tokens(mut tokens) => {
                tokens.truncate(most);
                Self::Tokens(tokens)
            }
            Self::Model(count) => Self::Model(count.min(most)),
        }
    }
}

/// Measured or estimated durations of rounds on a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timings {
    /// Seconds of a plain round that is submitted before the previous one is read. `None`: not measured.
    pub plain: Option<f64>,
    /// Time of a target forward over 1, 2, 4, 8 and 16 rows, in plain rounds.
    pub rows: [f64; 5],
    /// True for each of `rows` that was measured; the others are estimates.
    pub timed: [bool; 5],
    /// Time of a draft model step, in plain rounds. Meaningless without a draft model.
    pub step: f64,
    /// `true`: one step drafts all tokens.
    pub at_once: bool,
    /// Extra time of a round that waits for the readback of the previous one, in plain rounds.
    pub waiting: f64,
    /// Result of [`Queue::is_far`].
    pub far: bool,
}

impl Timings {
    /// Returns estimates before any measurement: draft steps take `step`, and 8 rows take 1.5 times as long as one, as on a GPU.
    pub fn guess(step: f64) -> Self {
        let (rows, timed) = ([1.0; 5], [false; 5]);
        let mut timings = Self { plain: None, rows, timed, step, at_once: false, waiting: 0.0, far: false };
        timings.estimate_rows(1.5);
        timings
    }

    /// Estimates all forwards from that over 8 rows.
    fn estimate_rows(&mut self, eight: f64) {
        self.rows = std::array::from_fn(|power| 1.0 + (eight - 1.0) * ((1 << power) - 1) as f64 / 7.0);
    }

    /// Sets the measured time of a forward over `rows` rows, a power of two. 8 rows also estimate the other counts, so set them first.
    pub fn set_rows(&mut self, rows: usize, forward: f64) {
        if rows == 8 {
            self.estimate_rows(forward);
        }
        let power = rows.ilog2() as usize;
        (self.rows[power], self.timed[power]) = (forward, true);
    }
}

/// Log-probabilities of the target at one position, before its logits are processed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Logprobs {
    /// Log-probability of the target's token.
    pub chosen: f32,
    /// Log-probability of the draft token at this position. Meaningless after the last one.
    pub drafted: f32,
    /// The most likely tokens in order, with their log-probabilities.
    pub top: Vec<(u32, f32)>,
}

/// Counters of requests to servers that have the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Traffic {
    /// Requests sent.
    pub num_requests: usize,
    /// Requests that repeat a failed one.
    pub num_retries: usize,
    /// Requests that were aborted because their answer was no longer needed.
    pub num_aborted: usize,
    /// Tokens in answered requests, counted again for each request.
    pub num_prompt_tokens: usize,
    /// Prompt tokens that servers had in their prefix caches, if they report it.
    pub num_cached_tokens: usize,
}

impl Traffic {
    /// Adds other counters.
    pub fn add(&mut self, more: &Self) {
        self.num_requests += more.num_requests;
        self.num_retries += more.num_retries;
        self.num_aborted += more.num_aborted;
        self.num_prompt_tokens += more.num_prompt_tokens;
        self.num_cached_tokens += more.num_cached_tokens;
    }
}

/// Result of a round.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Verified {
    /// The verified draft tokens [k].
    pub draft: Vec<u32>,
    /// The target's token after the pending one and after each draft token [k + 1].
    pub ids: Vec<u32>,
    /// Log-probabilities of `ids`, if requested [k + 1].
    pub logprobs: Vec<Logprobs>,
    /// Seconds for which its submission waited for the device: a draft model with another tokenizer must answer first.
    pub waited: f64,
    /// Requests to servers since the previous round.
    pub traffic: Traffic,
}

impl Verified {
    /// Checks that this answers `draft` or the beginning of it, with one id per row.
    ///
    /// # Errors
    /// [`Error::Internal`] if it does not.
    pub fn check(&self, draft: &Draft) -> Result<()> {
        let Self { draft: verified, ids, logprobs, .. } = self;
        let of_draft = match draft {
            Draft::Tokens(tokens) => tokens.starts_with(verified),
            // A translated draft may be longer.
            Draft::Model(_) => true,
        };
        if of_draft && ids.len() == verified.len() + 1 && (logprobs.is_empty() || logprobs.len() == ids.len()) {
            return Ok(());
        }
        let (count, rows, asked) = (ids.len(), verified.len() + 1, draft.len());
        let other = if of_draft { "" } else { ", not those that it was given" };
        Err(Error::Internal {
            reason: format!("a target answered {asked} draft tokens with {count} ids for {rows} rows{other}"),
        })
    }
}

/// A target model with its KV cache.
#[async_trait(?Send)]
pub trait Target {
    /// Sets how tokens are chosen from now on.
    ///
    /// # Errors
    /// [`Error::BadOption`] for sampling that the target does not support.
    fn sample_by(&mut self, sampling: &Sampling) -> Result<()>;

    /// Returns the tokens whose keys and values are cached.
    fn cached(&self) -> &[u32];

    /// Returns the number of leading tokens of `text` that are cached.
    fn cached_of(&self, text: &[u32]) -> usize {
        self.cached().iter().zip(text).take_while(|(cached, token)| cached == token).count()
    }

    /// Returns the number of leading cached tokens that a draft model's cache also holds.
    fn draft_cached(&self) -> usize {
        0
    }

    /// Returns the maximum number of cached tokens.
    fn capacity(&self) -> usize;

    /// Checks that `more` tokens fit after the cached ones.
    ///
    /// # Errors
    /// [`Error::ContextFull`] if they do not.
    fn check_room(&self, more: usize) -> Result<()> {
        let (need, limit) = (self.cached().len() + more, self.capacity());
        if need > limit { Err(Error::ContextFull { need, limit }) } else { Ok(()) }
    }

    /// Forgets all but the first `len` cached tokens; nothing is copied. Keeps fewer if recurrent state cannot be cut there; see
    /// [`Target::cached`]. The latest rounds can be cut anywhere. Submitted rounds are discarded without waiting for them.
    fn truncate(&mut self, len: usize);

    /// Returns the number of tokens that [`Target::truncate`] would keep.
    fn cut_at(&self, len: usize) -> usize {
        len.min(self.cached().len())
    }

    /// Keeps what `text` shares with the cached tokens. Returns the number of kept tokens.
    fn keep_shared(&mut self, text: &[u32]) -> usize {
        self.truncate(self.cached_of(text));
        self.cached().len()
    }

    /// Forgets all but the first `len` cached tokens. Reads again what [`Target::truncate`] does not keep.
    async fn rewind(&mut self, len: usize) -> Result<()> {
        let text: Vec<u32> = self.cached().iter().take(len).copied().collect();
        self.truncate(len);
        let again = &text[self.cached().len()..];
        if again.is_empty() { Ok(()) } else { self.prefill(again).await }
    }

    /// Returns the maximum number of tokens read at a time. To observe progress, pass at most this many to [`Target::prefill`].
    fn prefill_chunk(&self) -> usize {
        usize::MAX
    }

    /// Reserves room for `more` tokens after the cached ones, so that the cache does not grow with each [`Target::prefill`].
    async fn reserve(&mut self, _more: usize) -> Result<()> {
        Ok(())
    }

    /// Appends `tokens` to the cache. Fails before computing anything if they do not fit. On return the device may still compute the last
    /// chunk, so that it is never idle; all earlier chunks are done.
    async fn prefill(&mut self, tokens: &[u32]) -> Result<()>;

    /// Returns true if a round of this draft needs no compilation. Otherwise starts compiling its kernels, while the device computes other
    /// rounds. Called between rounds, at most once before each.
    async fn ready(&mut self, _draft: &Draft) -> Result<bool> {
        Ok(true)
    }

    /// Lets a draft model read the next chunk of the cached tokens that it missed, as [`Target::prefill`] does. Returns the number of
    /// tokens in the chunk; 0 if the rest fits into a round.
    async fn catch_up(&mut self, _pending: u32) -> Result<usize> {
        Ok(0)
    }

    /// Ends drafts, after their first token, where a drafter knows that the next is accepted less likely than this, if that saves rows.
    fn end_drafts_below(&mut self, _probability: f64) {}

    /// Starts a round: one target forward over the pending token and the draft tokens. A draft model that still needs [`Target::catch_up`]
    /// drafts nothing. An unfinished earlier round is discarded, as by [`Target::truncate`].
    async fn submit(&mut self, pending: u32, draft: &Draft) -> Result<()>;

    /// Waits for the first submitted round and caches all its tokens. Without a round, the result is empty.
    async fn finish(&mut self) -> Result<Verified>;
}

/// Yields once to the other tasks of the thread.
pub async fn yield_now() {
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

/// Runs a whole round: catches up, submits and finishes.
pub async fn run_round(target: &mut dyn Target, pending: u32, draft: &Draft) -> Result<Verified> {
    while matches!(draft, Draft::Model(1..)) && target.catch_up(pending).await? > 0 {}
    // The result does not matter: without compiled kernels, the round uses kernels for other numbers of rows.
    target.ready(draft).await?;
    target.submit(pending, draft).await?;
    target.finish().await
}

/// A target with a queue of rounds: its work while the device computes. A target that computes only in [`Target::finish`] keeps the
/// defaults.
pub trait Queue: Target {
    /// Prepares the next round, as far as it can be predicted; with `repeats`, another one like the current one. Returns true if
    /// [`Queue::repeat`] can submit it now: not if draft tokens of the caller are verified, or if both rounds may not fit.
    fn prepare(&mut self, _repeats: bool) -> bool {
        false
    }

    /// Submits the round prepared by [`Queue::prepare`], with the same number of tokens of the draft model. The device determines where it
    /// begins: at the target's own token after the accepted draft tokens. [`Queue::keep`] must keep exactly these.
    fn repeat(&mut self) {}

    /// Returns true if the device still computes the first submitted round. A browser reports completion only to code that awaits it, so
    /// there the result is always true.
    fn is_computing(&mut self) -> bool {
        false
    }

    /// Returns true if the target is on a server. Rounds then wait for the round trip, which may take as long as many plain rounds, unless
    /// they are submitted ahead. Only plain rounds are.
    fn is_far(&self) -> bool {
        false
    }

    /// Returns true if dropping the future of [`Target::prefill`] or [`Target::finish`] ends its work. [`Target::truncate`] must follow.
    fn ends_when_dropped(&self) -> bool {
        self.is_far()
    }

    /// Works like [`Target::truncate`], except that a round submitted by [`Queue::repeat`] that begins at `len` continues.
    fn keep(&mut self, len: usize) {
        self.truncate(len);
    }
}
