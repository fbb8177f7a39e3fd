//! What a constraint makes of drafts: where it leaves no choice it drafts itself, and it cuts what others draft.

use crate::constraint::Shared;
use crate::speculate::{Drafter, Origin, Round};
use crate::target::{Draft, MAX_DRAFT};
use crate::text::Tokenizer;
use std::rc::Rc;

/// Tokens before forced ones that decide how these are cut into tokens.
const CONTEXT: usize = 4;

/// A drafter under a constraint.
pub(super) struct UnderConstraint<'a> {
    constraint: Shared,
    tokenizer: Rc<Tokenizer>,
    /// Who drafts where there is a choice.
    next: Box<dyn Drafter + 'a>,
    is_forced: bool,
}

impl<'a> UnderConstraint<'a> {
    pub fn new(constraint: Shared, tokenizer: Rc<Tokenizer>, next: Box<dyn Drafter + 'a>) -> Self {
        Self { constraint, tokenizer, next, is_forced: false }
    }

    /// The leading tokens of a draft that may come. Where that cannot be said, whoever makes the masks says why.
    fn cut(&self, text: &[u32], mut draft: Vec<u32>) -> Vec<u32> {
        draft.truncate(self.constraint.borrow_mut().allowed(text, &draft).unwrap_or(0));
        draft
    }

    /// The tokens that must come, cut as the tokenizer cuts them: the target may choose others for the same characters.
    fn forced(&self, text: &[u32]) -> Vec<u32> {
        let bytes = self.constraint.borrow_mut().forced(text).unwrap_or_default();
        let forced = match std::str::from_utf8(&bytes) {
            Ok(forced) => forced,
            // It ends inside a character.
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        };
        if forced.is_empty() {
            return Vec::new();
        }
        let context = text.get(text.len().saturating_sub(CONTEXT)..).unwrap_or_default();
        let mut tokens = self.tokenizer.encode_behind(context, forced).unwrap_or_default();
        // A space at the end belongs to the word behind it.
        let is_space = |id: &u32| self.tokenizer.token_bytes(*id).is_some_and(|bytes| bytes == b" ");
        tokens.pop_if(|id| is_space(id));
        self.cut(text, tokens)
    }
}

impl Drafter for UnderConstraint<'_> {
    fn draft(&mut self, tokens: &[u32], room: usize) -> Draft {
        let mut forced = self.forced(tokens);
        self.is_forced = !forced.is_empty();
        if self.is_forced {
            forced.truncate(MAX_DRAFT);
            return Draft::Tokens(forced);
        }
        match self.next.draft(tokens, room) {
            Draft::Tokens(draft) => Draft::Tokens(self.cut(tokens, draft)),
            draft => draft,
        }
    }

    fn learn(&mut self, round: &Round) {
        if !self.is_forced {
            self.next.learn(round);
        }
    }

    fn origin(&self) -> Origin {
        if self.is_forced { Origin::Grammar } else { self.next.origin() }
    }
}
