//! What speculation sees of a model: verify some tokens, keep some of them.

mod drafting;

pub use drafting::{Drafting, Plan, READ_IN_ROUND, Translate};

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Most draft tokens of one round: with the target's own they fit a readback of 256 bytes.
pub const MAX_DRAFT: usize = 31;
/// What errors call the draft model.
pub const DRAFT_MODEL: &str = "draft model";

/// What to verify in a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Draft {
    /// These tokens; none: a plain step.
    Tokens(Vec<u32>),
    /// As many tokens of the draft model, drafted on the device in the same submission. Where the draft model has another
    /// tokenizer, these are tokens of its own: what they are in tokens of the target may be fewer or more.
    Model(usize),
}

impl Draft {
    /// Draft tokens.
    pub fn len(&self) -> usize {
        match self {
            Self::Tokens(tokens) => tokens.len(),
            Self::Model(count) => *count,
        }
    }

    /// Without draft tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// At most so many of them.
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

/// What rounds take on a device, as far as it was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timings {
    /// Seconds of a plain round that is submitted before the one before it is read; none: not measured.
    pub plain: Option<f64>,
    /// A target forward over 1, 2, 4, 8 and 16 rows, in plain rounds.
    pub rows: [f64; 5],
    /// Whether that was timed; else it is guessed.
    pub timed: bool,
    /// A step of the draft model, in plain rounds. Without a draft model it means nothing.
    pub step: f64,
    /// What a round takes more that waits for the one before it to be read, in plain rounds.
    pub waiting: f64,
    /// As [`Queue::is_far`] says.
    pub far: bool,
}

impl Timings {
    /// Nothing is measured; a draft step is guessed, and that 8 rows take 1.5 times as long as one, as on a GPU.
    pub fn guess(step: f64) -> Self {
        let mut timings = Self { plain: None, rows: [1.0; 5], timed: false, step, waiting: 0.0, far: false };
        timings.set_rows(8, 1.5);
        timings
    }

    /// So many rows (a power of two) take so long. 8 rows tell what other numbers may take, which are measured after them.
    pub fn set_rows(&mut self, rows: usize, forward: f64) {
        if rows == 8 {
            self.rows = std::array::from_fn(|power| 1.0 + (forward - 1.0) * ((1 << power) - 1) as f64 / 7.0);
        }
        self.rows[rows.ilog2() as usize] = forward;
    }
}

/// Log-probabilities of the target in one place, before its logits are processed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Logprobs {
    /// Of its id.
    pub chosen: f32,
    /// Of the draft token in that place; behind the last one it means nothing.
    pub drafted: f32,
    /// The most likely tokens and theirs, in their order.
    pub top: Vec<(u32, f32)>,
}

/// What was asked of servers that have the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Traffic {
    /// Requests sent.
    pub num_requests: usize,
    /// Of these, those that were sent again because one before failed.
    pub num_retries: usize,
    /// Requests that were broken off: nobody wanted their answer any more.
    pub num_aborted: usize,
    /// Tokens in requests that were answered, each time they were sent.
    pub num_prompt_tokens: usize,
    /// Of these, those that servers had in their prefix caches, as far as they tell.
    pub num_cached_tokens: usize,
}

impl Traffic {
    /// With more of it.
    pub fn add(&mut self, more: &Self) {
        self.num_requests += more.num_requests;
        self.num_retries += more.num_retries;
        self.num_aborted += more.num_aborted;
        self.num_prompt_tokens += more.num_prompt_tokens;
        self.num_cached_tokens += more.num_cached_tokens;
    }
}

/// What a round gave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Verified {
    /// The draft tokens that were verified [k].
    pub draft: Vec<u32>,
    /// The target's token after the pending one and after each draft token [k + 1].
    pub ids: Vec<u32>,
    /// Of each of these, where they are asked for [k + 1].
    pub logprobs: Vec<Logprobs>,
    /// Seconds of its submission in which the device was waited for: a draft model with another tokenizer answers first.
    pub waited: f64,
    /// What was asked of servers since the round before.
    pub traffic: Traffic,
}

impl Verified {
    /// Whether this is an answer to `draft`: to that or to the beginning of it, with an id for each row.
    ///
    /// # Errors
    /// [`Error::Internal`] where it is none.
    pub fn check(&self, draft: &Draft) -> Result<()> {
        let Self { draft: verified, ids, logprobs, .. } = self;
        let of_draft = match draft {
            Draft::Tokens(tokens) => tokens.starts_with(verified),
            // A translation may be longer.
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
#[allow(async_fn_in_trait, reason = "sessions run on one thread: in a browser nothing of WebGPU is Send")]
pub trait Target {
    /// Tokens whose keys and values are cached.
    fn cached(&self) -> &[u32];

    /// How many tokens at the beginning of a text are cached.
    fn cached_of(&self, text: &[u32]) -> usize {
        self.cached().iter().zip(text).take_while(|(cached, token)| cached == token).count()
    }

    /// Leading cached tokens that a draft model's cache holds too.
    fn draft_cached(&self) -> usize {
        0
    }

    /// Most tokens that the cache holds.
    fn capacity(&self) -> usize;

    /// Forgets all but the first `len` cached tokens; nothing is copied. Submitted rounds are given up: nobody waits for
    /// them, and nothing remains of them.
    fn truncate(&mut self, len: usize);

    /// Most tokens that it reads at a time. Who wants to hear how far it is gives [`Target::prefill`] no more.
    fn prefill_chunk(&self) -> usize {
        usize::MAX
    }

    /// Makes room for `more` tokens after the cached ones at once, so that the cache does not grow with each [`Target::prefill`].
    ///
    /// # Errors
    /// [`crate::Error::ContextFull`], and what the device reports.
    async fn reserve(&mut self, _more: usize) -> Result<()> {
        Ok(())
    }

    /// Caches `tokens` behind the cached ones; fails before it computes anything when they do not fit. The device may still
    /// compute the last chunk of them, so that it always has something to do; the chunk before is done.
    async fn prefill(&mut self, tokens: &[u32]) -> Result<()>;

    /// Whether a round of this draft would wait for nothing but the device. Where kernels are not compiled yet, that begins now, and
    /// goes on while the device computes other rounds. Called between rounds, at most once before each.
    ///
    /// # Errors
    /// What the device reports.
    async fn ready(&mut self, _draft: &Draft) -> Result<bool> {
        Ok(true)
    }

    /// Lets a draft model that is far behind read the next chunk of what it missed of the cached tokens, as
    /// [`Target::prefill`] does. Returns how many tokens that were; 0 where it can read the rest in a round.
    ///
    /// # Errors
    /// What the device reports.
    async fn catch_up(&mut self, _pending: u32) -> Result<usize> {
        Ok(0)
    }

    /// Starts a round: one target forward over the pending token and the draft tokens. A draft model that has yet to
    /// [`Target::catch_up`] drafts nothing. A round before it that was not finished is given up, as by
    /// [`Target::truncate`].
    ///
    /// # Errors
    /// [`crate::Error::ContextFull`], and what the device reports.
    async fn submit(&mut self, pending: u32, draft: &Draft) -> Result<()>;

    /// Waits for the first submitted round and caches its tokens, all of them. Without a round, nothing was verified.
    ///
    /// # Errors
    /// [`crate::Error::NonFiniteLogits`], and what the device reports.
    async fn finish(&mut self) -> Result<Verified>;

    /// All at once.
    ///
    /// # Errors
    /// As [`Target::catch_up`], [`Target::submit`] and [`Target::finish`].
    async fn verify(&mut self, pending: u32, draft: &Draft) -> Result<Verified> {
        while matches!(draft, Draft::Model(1..)) && self.catch_up(pending).await? > 0 {}
        // A round that is asked for is done, if need be by kernels for other numbers of rows.
        self.ready(draft).await?;
        self.submit(pending, draft).await?;
        self.finish().await
    }
}

/// A target whose rounds wait in a queue: what it can do while the device computes. One that computes a round when that is waited for
/// has nothing to add.
pub trait Queue: Target {
    /// While the device computes a round: gets ready for the next one, as far as that can be guessed. With `repeats` that is
    /// another one like it, and what comes back is whether [`Queue::repeat`] can submit it now: not where tokens are
    /// verified that the caller knew, nor where there might not be room for both.
    fn prepare(&mut self, _repeats: bool) -> bool {
        false
    }

    /// Starts the round for which [`Queue::prepare`] got ready, behind the submitted one: with as many tokens of the draft
    /// model, or none. The device finds out by itself where it begins: its pending token is the target's own token behind
    /// the draft tokens that the target agreed with, and [`Queue::keep`] must keep just these.
    fn repeat(&mut self) {}

    /// Whether the device still computes the first submitted round. A browser tells that only to those who wait: there it always
    /// does.
    fn is_computing(&mut self) -> bool {
        false
    }

    /// Whether the target is on a server: the way there, which may take many plain rounds, is waited for by each round that is not
    /// submitted ahead, and those are plain ones.
    fn is_far(&self) -> bool {
        false
    }

    /// As [`Target::truncate`], but a round that was submitted by [`Queue::repeat`] and begins there goes on.
    fn keep(&mut self, len: usize) {
        self.truncate(len);
    }
}
