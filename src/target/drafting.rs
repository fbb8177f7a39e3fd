//! The state of a draft model, equal on every device: the text that it has read, the tokens that it reads next, and its draft limit.

use super::{MAX_DRAFT, Rollback, StatePass};
use crate::error::Result;

/// Tokens that a draft model reads in a round before it drafts, in addition to the pending one.
pub const READ_IN_ROUND: usize = 15;

/// A translation between the tokens of a target and a draft model with another tokenizer. Like any draft it is a guess: a bad one costs
/// speed, never correctness.
pub trait Translate {
    /// Returns the draft model's tokens for a text of target tokens; empty if the text ends inside a character. If the text extends the
    /// previous one, only the new part is translated.
    fn for_draft(&mut self, text: &[u32]) -> Result<Vec<u32>>;

    /// Returns the target's tokens for the draft model's continuation of the text last passed to [`Translate::for_draft`].
    fn for_target(&self, drafted: &[u32]) -> Result<Vec<u32>>;
}

/// The part of a target's text that a draft model has read. The device keeps the model and its cache.
pub struct Drafting {
    /// Maximum tokens that the draft model reads at a time.
    chunk: usize,
    /// Positions of its context.
    context: usize,
    /// Lengths to which its cache can be cut.
    rollback: Rollback,
    /// Hidden states of the target that it reads; `None`: it reads tokens alone.
    hidden: Option<HiddenReading>,
    /// Pass in which it guesses several tokens; `None`: a pass guesses one.
    at_once: Option<GuessPass>,
    /// Tokens of its text that it has read. Unused with another tokenizer.
    read: usize,
    /// Text in its own tokens, if it has another tokenizer.
    translation: Option<Translation>,
}

/// Hidden states of a target that a draft model reads.
#[derive(Debug, Clone, Copy)]
pub struct HiddenReading {
    /// Latest positions whose hidden states the target keeps.
    pub kept: usize,
    /// Way in which it reads them.
    pub by: ReadBy,
}

/// Ways to read hidden states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadBy {
    /// Each with the token after it, to predict the token after that. So the draft model's text begins with the second token.
    Pairs,
    /// In passes of their own, before those that guess.
    Context,
    /// Like `Pairs`, but only the latest, in passes that all have its position: the draft model keeps nothing of the text.
    Latest,
}

/// Pass in which a draft model guesses several tokens.
#[derive(Debug, Clone, Copy)]
pub struct GuessPass {
    /// Most tokens.
    pub most: usize,
    /// `true`: each pass has the rows of as many.
    pub is_block: bool,
    /// Rows that guess nothing.
    pub skipped: usize,
}

/// The text in the tokens of a draft model with another tokenizer.
struct Translation {
    by: Box<dyn Translate>,
    /// All tokens, including the pending one.
    text: Vec<u32>,
    /// Leading tokens of the text that the draft model has read.
    read: usize,
}

/// A draft to be written by a draft model, in its own tokens.
#[derive(Debug, PartialEq, Eq)]
pub struct DraftPlan {
    /// Tokens to read first: the missed tokens, then the pending one.
    pub tokens: Vec<u32>,
    /// Position of the pending token.
    pub position: usize,
    /// Maximum tokens to write; at least 1.
    pub steps: usize,
    /// States of the first pass.
    pub states: StatePass,
}

impl DraftPlan {
    /// Returns the number of tokens before the pending one.
    pub fn missed(&self) -> usize {
        self.tokens.len() - 1
    }
}

impl Drafting {
    /// Creates the state of a draft model that has read nothing, reads at most `chunk` tokens at a time and has `context` positions. It has
    /// the target's tokenizer, unless [`Drafting::translate_by`] is called.
    pub fn new(chunk: usize, context: usize, rollback: Rollback) -> Self {
        Self { chunk, context, rollback, hidden: None, at_once: None, read: 0, translation: None }
    }

    /// Declares that the draft model reads hidden states of the target.
    pub fn read_hidden(&mut self, hidden: HiddenReading) {
        self.hidden = Some(hidden);
    }

    /// Declares that the draft model guesses several tokens in a pass.
    pub fn guess_at_once(&mut self, pass: GuessPass) {
        self.at_once = Some(pass);
    }

    fn reads_by(&self, by: ReadBy) -> bool {
        self.hidden.is_some_and(|hidden| hidden.by == by)
    }

    /// Returns true if the draft model reads hidden states alone, in passes before those that guess.
    pub fn reads_context(&self) -> bool {
        self.reads_by(ReadBy::Context)
    }

    /// Returns the positions between a token in the target's text and in that of the draft model.
    pub fn lead(&self) -> usize {
        usize::from(self.hidden.is_some() && !self.reads_context())
    }

    /// Returns the rows of a draft of `steps` tokens, from the pending token's on, over all passes.
    pub fn rows(&self, steps: usize) -> usize {
        self.at_once.map_or(steps, |pass| pass.skipped + if pass.is_block { pass.most } else { steps })
    }

    /// Returns the passes of a draft of `steps` tokens that follows `missed` tokens: the first position of each, as tokens after the pending
    /// one or before it, and its rows.
    pub fn passes(&self, missed: usize, steps: usize) -> Vec<(isize, usize)> {
        if self.reads_context() {
            return vec![(0, self.rows(steps))];
        }
        if self.reads_by(ReadBy::Latest) {
            return vec![(0, 1); steps];
        }
        let first = if self.at_once.is_some() { self.rows(steps) } else { 1 };
        let later = if self.at_once.is_some() { 1 } else { steps };
        let passes = [(-(missed as isize), missed + first)].into_iter();
        passes.chain((1..later).map(|step| (step as isize, 1))).collect()
    }

    /// Returns the most tokens before the pending one that it reads in a round.
    fn most_missed(&self) -> usize {
        // After a round, hidden states of all its rows may be new.
        if self.reads_context() { MAX_DRAFT + 1 } else { READ_IN_ROUND }
    }

    /// Returns the position and tokens of the next chunk to read before the target computes `rows` rows, which would replace the hidden
    /// states that it needs.
    pub fn due(&self, cached: &[u32], rows: usize) -> Option<(usize, Vec<u32>)> {
        let (kept, lead) = (self.hidden.filter(|hidden| hidden.by != ReadBy::Latest)?.kept, self.lead());
        let unread = cached.get(lead..)?.get(self.read..).filter(|unread| unread.len() + lead + rows > kept)?;
        Some((self.read, unread.chunks(self.chunk).next()?.to_vec()))
    }

    /// Returns the tokens before the pending one that a draft of `steps` steps reads if its round is submitted ahead. One is the last of
    /// the draft before.
    pub fn missed_ahead(&self, steps: usize) -> usize {
        match (self.hidden, self.at_once) {
            _ if self.reads_context() => steps + 1,
            _ if self.reads_by(ReadBy::Latest) => 0,
            (None, None) => 1,
            // It guessed the other tokens, or their hidden states.
            _ => steps.min(READ_IN_ROUND),
        }
    }

    /// Declares that the draft model has another tokenizer.
    pub fn translate_by(&mut self, by: Box<dyn Translate>) {
        self.translation = Some(Translation { by, text: Vec::new(), read: 0 });
    }

    /// Returns true if the draft model has another tokenizer.
    pub fn is_translated(&self) -> bool {
        self.translation.is_some()
    }

    /// Returns the leading cached tokens of the target that the draft model has read; 0 with another tokenizer.
    pub fn num_read(&self) -> usize {
        self.read
    }

    /// Forgets everything after the target's first `len` cached tokens. A translation is instead compared with the next text.
    pub fn truncate(&mut self, len: usize) {
        self.read = self.rollback.cut(self.read, len.saturating_sub(self.lead()));
    }

    /// Records that the draft model's cache was filled with the first `read` cached tokens.
    pub fn set_read(&mut self, read: usize) {
        self.rollback.restored(read);
        self.read = read;
    }

    /// Forgets everything that the draft model has read.
    pub fn forget(&mut self) {
        self.truncate(0);
        self.translation.iter_mut().for_each(|translation| translation.read = 0);
    }

    /// Returns the tokens before the pending one, the pending one, and how many of the former the draft model has read, all in its own
    /// tokens. `None`: the text ends inside a character, and the read tokens are kept; or there is no hidden state yet.
    fn text<'a>(&'a mut self, cached: &'a [u32], pending: u32) -> Result<Option<(&'a [u32], u32, usize)>> {
        let (lead, keeps_nothing) = (self.lead(), self.reads_by(ReadBy::Latest));
        let Some(Translation { by, text, read }) = &mut self.translation else {
            let text = cached.get(lead..);
            return Ok(text.map(|text| (text, pending, if keeps_nothing { text.len() } else { self.read })));
        };
        let new = by.for_draft(&[cached, &[pending]].concat())?;
        let Some((_, head)) = new.split_last() else { return Ok(None) };
        // The last token is computed even if it was read, because the draft begins after it.
        let shared = head.iter().zip(text.iter().take(*read)).take_while(|(new, known)| new == known).count();
        *read = self.rollback.cut(*read, shared);
        *text = new;
        Ok(text.split_last().map(|(&last, head)| (head, last, *read)))
    }

    /// Returns the position and tokens of the next chunk that the draft model must read. The chunk is empty if the rest fits into a round,
    /// or if its context has no room for a draft anyway.
    pub fn missed(&mut self, cached: &[u32], pending: u32) -> Result<(usize, Vec<u32>)> {
        let (chunk, context, most) = (self.chunk, self.context, self.most_missed());
        let Some((head, _, read)) = self.text(cached, pending)? else { return Ok((0, Vec::new())) };
        let missed = head.len().saturating_sub(read + most);
        let count = if head.len() >= context { 0 } else { missed.min(chunk) };
        Ok((read, head[read..][..count].to_vec()))
    }

    /// Begins to read the first `count` tokens of [`Drafting::missed`], from `position` on.
    pub fn chunk(&mut self, position: usize, count: usize) -> StatePass {
        match &mut self.translation {
            None => self.read += count,
            Some(translation) => translation.read += count,
        }
        self.rollback.chunk(position, count)
    }

    /// Begins a draft of a repeated round, at a position that only the device knows. Returns the slot of its state.
    pub fn repeat(&mut self) -> Option<usize> {
        self.rollback.repeat()
    }

    /// Saves the draft model's state for a copy, as [`Rollback::settle`]. Forgets everything if that is not possible.
    pub fn settle(&mut self) -> Option<StatePass> {
        if !self.rollback.can_settle(self.read) {
            self.truncate(0);
        }
        self.rollback.settle(self.read)
    }

    /// Implements [`super::Target::catch_up`]. `read(position, chunk, states)` lets the draft model read a chunk that replaces its tokens
    /// from `position` on.
    pub async fn catch_up(
        &mut self,
        cached: &[u32],
        pending: u32,
        read: impl AsyncFnOnce(usize, &[u32], StatePass) -> Result<()>,
    ) -> Result<usize> {
        let (position, chunk) = self.missed(cached, pending)?;
        if !chunk.is_empty() {
            let states = self.chunk(position, chunk.len());
            read(position, &chunk, states).await?;
        }
        Ok(chunk.len())
    }

    /// Drafts at most `count` tokens after the pending one, for a target with room for `room` more. `step(position, tokens, states)` lets
    /// the draft model read `tokens` at `position`, and returns its next token and whether the draft continues after it.
    pub async fn draft_tokens(
        &mut self,
        cached: &[u32],
        pending: u32,
        [count, room]: [usize; 2],
        mut step: impl AsyncFnMut(usize, &[u32], StatePass) -> Result<(u32, bool)>,
    ) -> Result<Vec<u32>> {
        let Some(plan) = self.plan(cached, pending, [count, room])? else { return Ok(Vec::new()) };
        let (missed, mut states) = (plan.missed(), plan.states);
        let (mut from, mut fresh, mut drafted) = (plan.position - missed, plan.tokens, Vec::new());
        for _ in 0..plan.steps {
            let (id, continues) = step(from, &fresh, states).await?;
            from += fresh.len();
            fresh = vec![id];
            states = states.next_of_draft();
            drafted.push(id);
            if !continues {
                break;
            }
        }
        self.wrote([plan.position, missed], plan.states.saved(), drafted, room)
    }

    /// Does the same with one pass: `guess(position, tokens, states, count)` lets the draft model read `tokens` at `position`, and returns its
    /// next `count` tokens and whether the draft continues after each.
    pub async fn guess_tokens(
        &mut self,
        cached: &[u32],
        pending: u32,
        [count, room]: [usize; 2],
        guess: impl AsyncFnOnce(usize, &[u32], StatePass, usize) -> Result<Vec<(u32, bool)>>,
    ) -> Result<Vec<u32>> {
        let Some(plan) = self.plan(cached, pending, [count, room])? else { return Ok(Vec::new()) };
        let missed = plan.missed();
        let guesses = guess(plan.position - missed, &plan.tokens, plan.states, plan.steps).await?;
        let end = guesses.iter().position(|(_, continues)| !continues).map_or(guesses.len(), |at| at + 1);
        let drafted = guesses[..end].iter().map(|(id, _)| *id).collect();
        self.wrote([plan.position, missed], plan.states.saved(), drafted, room)
    }

    /// Plans a draft of at most `count` tokens after the pending one, for a target with room for `room` more. `None`: a context is full,
    /// the draft model must first read missed tokens, or the text ends inside a character.
    pub fn plan(&mut self, cached: &[u32], pending: u32, [count, room]: [usize; 2]) -> Result<Option<DraftPlan>> {
        // The number of target tokens in a translation is not known yet.
        let most = if self.is_translated() && room > 0 { MAX_DRAFT } else { room };
        let (context, at_once, most_missed) = (self.context, self.at_once, self.most_missed());
        let pass_rows = self.chunk.max(MAX_DRAFT + 1);
        let reads_before = self.reads_context();
        let Some((head, last, read)) = self.text(cached, pending)? else { return Ok(None) };
        let (position, missed) = (head.len(), &head[read..]);
        let left = context.saturating_sub(position);
        let mut steps = count.min(most).min(left);
        if let Some(pass) = at_once {
            // In one pass with the missed tokens.
            let rows = pass_rows.saturating_sub(if reads_before { 0 } else { missed.len() });
            let guesses = rows.min(left).saturating_sub(pass.skipped);
            steps = if pass.is_block && pass.most > guesses { 0 } else { steps.min(pass.most).min(guesses) };
        }
        let possible = steps > 0 && missed.len() <= most_missed;
        if !possible {
            return Ok(None);
        }
        let tokens = [missed, &[last]].concat();
        let states = self.rollback.round(position + 1 - tokens.len());
        Ok(Some(DraftPlan { tokens, position, steps, states }))
    }

    /// Records that the draft model wrote `drafted` after the pending token at `position`, having read `missed` tokens before it and, in a
    /// slot if one is given, saved its state before them. Returns the draft in target tokens; a translation is cut to `room` tokens.
    pub fn wrote(
        &mut self,
        [position, missed]: [usize; 2],
        saved: Option<usize>,
        drafted: Vec<u32>,
        room: usize,
    ) -> Result<Vec<u32>> {
        if drafted.is_empty() {
            return Ok(drafted);
        }
        if self.reads_by(ReadBy::Latest) {
            return Ok(drafted);
        }
        // It has read all but the last token that it wrote, unless it guessed the others, or their hidden states.
        let read = match (self.hidden, self.at_once) {
            (None, None) => position + drafted.len(),
            _ => position + usize::from(!self.reads_context()),
        };
        self.rollback.computed(saved, position - missed, missed + drafted.len());
        let Some(Translation { by, text, read: read_own }) = &mut self.translation else {
            self.read = read;
            return Ok(drafted);
        };
        let mut draft = by.for_target(&drafted)?;
        text.extend(drafted);
        *read_own = read;
        // A translation may have more tokens than the draft.
        draft.truncate(room);
        Ok(draft)
    }
}
