//! Drops the oldest turns of a chat that is longer than the context.

use super::{Prompt, Prompts};
use crate::error::Result;
use crate::options::{ContextPolicy, GenerateOptions};
use crate::text::Message;

impl Prompts {
    /// Returns the tokens of a prompt, and how many of its messages were dropped to make room for them and an answer.
    pub fn fit(&self, prompt: &Prompt, options: &GenerateOptions) -> Result<(Vec<u32>, usize)> {
        let whole = self.encode(prompt, options)?;
        let most = most(self.context, options.max_new_tokens);
        match prompt {
            Prompt::Chat(messages) if options.chat.context == ContextPolicy::Shift && whole.len() > most => {
                let goal = goal(whole.len(), most);
                let shifted = shift(messages, goal, |kept| self.encode(&Prompt::Chat(kept), options))?;
                Ok(shifted.unwrap_or((whole, 0)))
            }
            _ => Ok((whole, 0)),
        }
    }
}

/// Returns the largest prompt length that leaves room for an answer, in tokens. At most a quarter of the context is reserved:
/// most answers need no more, and reserving more would drop more turns.
pub fn most(context: usize, max_new_tokens: usize) -> usize {
    context.saturating_sub(max_new_tokens.min(context / 4).max(1))
}

/// Returns the length to shorten a prompt of `whole` tokens to, if `most` tokens fit. The cut is a multiple of `most / 2`, so the
/// next turns drop the same messages and find the rest in the cache.
pub fn goal(whole: usize, most: usize) -> usize {
    whole - (whole - most).next_multiple_of((most / 2).max(1))
}

/// Drops the fewest oldest turns that leave at most `most` tokens. Returns the tokens and the number of dropped messages; `None`
/// if there is only one turn.
///
/// A turn is a user's message and its answers, so user and assistant still alternate, as some templates require. The leading
/// system messages and the last turn are kept. The last turn alone may still be too long.
pub fn shift(
    messages: &[Message],
    most: usize,
    encode: impl Fn(Vec<Message>) -> Result<Vec<u32>>,
) -> Result<Option<(Vec<u32>, usize)>> {
    let system = messages.iter().take_while(|message| message.role() == "system").count();
    let starts: Vec<usize> = (system + 1..messages.len()).filter(|&at| messages[at].role() == "user").collect();
    let from = |start: usize| encode([&messages[..system], &messages[start..]].concat());
    // Binary search, because encoding a long chat takes time.
    let (mut low, mut high) = (0, starts.len().saturating_sub(1));
    while low < high {
        let middle = (low + high) / 2;
        match from(starts[middle])?.len() <= most {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    starts.get(low).map(|&start| Ok((from(start)?, start - system))).transpose()
}
