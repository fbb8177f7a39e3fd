//! The state of a draft model, the same on every device: how much of the target's text it has read, what it reads next, and how many
//! tokens it may write.

use super::MAX_DRAFT;
use crate::error::Result;

/// Tokens that a draft model reads in a round before it drafts, in addition to the pending one.
pub const READ_IN_ROUND: usize = 15;

/// Translates between the tokens of a target and those of a draft model with another tokenizer. A translation is a guess like
/// any draft: a bad one costs speed, never exactness.
pub trait Translate {
    /// The draft model's tokens for a text of target tokens; none while it cannot tell, as inside a character. A text that
    /// goes on after an earlier one costs what is new.
    ///
    /// # Errors
    /// [`crate::Error::BadTokenizer`].
    fn for_draft(&mut self, text: &[u32]) -> Result<Vec<u32>>;

    /// The target's tokens for what the draft model wrote after the text that [`Translate::for_draft`] was given last.
    ///
    /// # Errors
    /// [`crate::Error::BadTokenizer`].
    fn for_target(&self, drafted: &[u32]) -> Result<Vec<u32>>;
}

/// The part of a target's text that a draft model has read. The device keeps the model and its cache.
pub struct Drafting {
    /// Most tokens that the draft model reads at a time.
    chunk: usize,
    /// Positions of its context.
    context: usize,
    /// Leading cached tokens of the target that it has read, if it has the target's tokenizer.
    read: usize,
    /// The text in tokens of its own, if it has another tokenizer.
    translation: Option<Translation>,
}

/// The text as a draft model with another tokenizer has it.
struct Translation {
    by: Box<dyn Translate>,
    /// All of its tokens, the pending one included.
    text: Vec<u32>,
    /// Leading tokens of the text that the draft model has read.
    read: usize,
}

/// A draft that a draft model is to write, in its own tokens.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// The tokens that it reads first: those that it missed, then the pending one.
    pub tokens: Vec<u32>,
    /// The position of the pending token.
    pub position: usize,
    /// Most tokens that it writes; at least 1.
    pub steps: usize,
}

impl Plan {
    /// The number of tokens before the pending one.
    pub fn missed(&self) -> usize {
        self.tokens.len() - 1
    }
}

impl Drafting {
    /// A draft model that has read nothing yet, reads at most `chunk` tokens at a time and holds `context` positions. It has the target's tokenizer until [`Drafting::translate_by`].
    pub fn new(chunk: usize, context: usize) -> Self {
        Self { chunk, context, read: 0, translation: None }
    }

    /// Declares that the draft model has another tokenizer.
    pub fn translate_by(&mut self, by: Box<dyn Translate>) {
        self.translation = Some(Translation { by, text: Vec::new(), read: 0 });
    }

    /// Returns true if the draft model has another tokenizer.
    pub fn is_translated(&self) -> bool {
        self.translation.is_some()
    }

    /// Leading cached tokens of the target that the draft model has read; 0 if it has another tokenizer.
    pub fn read(&self) -> usize {
        self.read
    }

    /// Forgets what comes after the target's first `len` cached tokens. A translation is compared with the next text instead.
    pub fn truncate(&mut self, len: usize) {
        self.read = self.read.min(len);
    }

    /// Records that the draft model's cache was filled with the first `read` cached tokens.
    pub fn set_read(&mut self, read: usize) {
        self.read = read;
    }

    /// Forgets all that the draft model has read.
    pub fn forget(&mut self) {
        self.read = 0;
        self.translation.iter_mut().for_each(|translation| translation.read = 0);
    }

    /// The tokens before the pending one, the pending one, and how many of those before it the draft model has read, all in its own
    /// tokens. None where its text ends inside a character: then it keeps what it has read.
    fn text<'a>(&'a mut self, cached: &'a [u32], pending: u32) -> Result<Option<(&'a [u32], u32, usize)>> {
        let Some(Translation { by, text, read }) = &mut self.translation else {
            return Ok(Some((cached, pending, self.read)));
        };
        let new = by.for_draft(&[cached, &[pending]].concat())?;
        let Some((_, head)) = new.split_last() else { return Ok(None) };
        // The last token is computed even if it was read: the draft begins with what follows it.
        *read = head.iter().zip(text.iter().take(*read)).take_while(|(new, known)| new == known).count();
        *text = new;
        Ok(text.split_last().map(|(&last, head)| (head, last, *read)))
    }

    /// The next chunk that the draft model reads of what it missed, and the position of its first token. Empty where it can read the
    /// rest in a round, and where its context has no room for a draft anyway.
    ///
    /// # Errors
    /// [`crate::Error::BadTokenizer`].
    pub fn missed(&mut self, cached: &[u32], pending: u32) -> Result<(usize, Vec<u32>)> {
        let (chunk, context) = (self.chunk, self.context);
        let Some((head, _, read)) = self.text(cached, pending)? else { return Ok((0, Vec::new())) };
        let missed = head.len().saturating_sub(read + READ_IN_ROUND);
        let count = if head.len() >= context { 0 } else { missed.min(chunk) };
        Ok((read, head[read..][..count].to_vec()))
    }

    /// Records that the draft model has read the first `count` tokens that [`Drafting::missed`] gave.
    pub fn has_read(&mut self, count: usize) {
        match &mut self.translation {
            None => self.read += count,
            Some(translation) => translation.read += count,
        }
    }

    /// Plans a draft of at most `count` tokens after the cached tokens and the pending one, for a target that has room for `room` more.
    /// Returns none if a context is full, if the draft model must first read what it missed, and if the text ends inside a character.
    ///
    /// # Errors
    /// [`crate::Error::BadTokenizer`].
    pub fn plan(&mut self, cached: &[u32], pending: u32, [count, room]: [usize; 2]) -> Result<Option<Plan>> {
        // How many tokens of the target a translation comes to is not known before.
        let most = if self.is_translated() && room > 0 { MAX_DRAFT } else { room };
        let context = self.context;
        let Some((head, last, read)) = self.text(cached, pending)? else { return Ok(None) };
        let (position, missed) = (head.len(), &head[read..]);
        let steps = count.min(most).min(context.saturating_sub(position));
        let possible = steps > 0 && missed.len() <= READ_IN_ROUND;
        Ok(possible.then(|| Plan { tokens: [missed, &[last]].concat(), position, steps }))
    }

    /// Records that the draft model wrote `drafted` after the pending token at `position`. Returns the draft in tokens of the target, at
    /// most `room` of them if it is a translation; without one, [`Drafting::plan`] kept to the room.
    ///
    /// # Errors
    /// [`crate::Error::BadTokenizer`].
    pub fn wrote(&mut self, position: usize, drafted: Vec<u32>, room: usize) -> Result<Vec<u32>> {
        if drafted.is_empty() {
            return Ok(drafted);
        }
        // It has read all but its own last token.
        let read = position + drafted.len();
        let Some(Translation { by, text, read: read_own }) = &mut self.translation else {
            self.read = read;
            return Ok(drafted);
        };
        let mut draft = by.for_target(&drafted)?;
        text.extend(drafted);
        *read_own = read;
        // Its tokens may be longer than the target's: then more come back than were asked for.
        draft.truncate(room);
        Ok(draft)
    }
}
