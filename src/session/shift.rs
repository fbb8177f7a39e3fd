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
fn most(context: usize, max_new_tokens: usize) -> usize {
    context.saturating_sub(max_new_tokens.min(context / 4).max(1))
}

/// Returns the length to shorten a prompt of `whole` tokens to, if `most` tokens fit. The cut is a multiple of `most / 2`, so the
/// next turns drop the same messages and find the rest in the cache.
fn goal(whole: usize, most: usize) -> usize {
    whole - (whole - most).next_multiple_of((most / 2).max(1))
}

/// Drops the fewest oldest turns that leave at most `most` tokens. Returns the tokens and the number of dropped messages; `None`
/// if there is only one turn.
///
/// A turn is a user's message and its answers, so user and assistant still alternate, as some templates require. The leading
/// system messages and the last turn are kept. The last turn alone may still be too long.
fn shift(
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

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(messages: &[(&str, &str)]) -> Vec<Message> {
        messages.iter().map(|(role, content)| Message::new(*role, *content)).collect()
    }

    /// Returns the kept text and the number of dropped messages, with one token per character.
    fn kept(messages: &[(&str, &str)], most: usize) -> Option<(String, usize)> {
        let text = |ids: Vec<u32>| ids.into_iter().filter_map(char::from_u32).collect();
        let letters = |kept: Vec<Message>| {
            Ok(kept.iter().flat_map(|message| message.content().chars().map(u32::from)).collect::<Vec<_>>())
        };
        shift(&chat(messages), most, letters).unwrap().map(|(ids, dropped)| (text(ids), dropped))
    }

    #[test]
    fn the_oldest_turns_go_and_no_more_than_needed() {
        let turns = [("user", "aa"), ("assistant", "bb"), ("user", "cc"), ("assistant", "dd"), ("user", "ee")];
        let system = [&[("system", "ss")], &turns[..]].concat();
        for (most, without, with) in
            [(9, ("ccddee", 2), ("ssccddee", 2)), (6, ("ccddee", 2), ("ssee", 4)), (1, ("ee", 4), ("ssee", 4))]
        {
            assert_eq!(kept(&turns, most), Some((without.0.into(), without.1)), "{most}");
            assert_eq!(kept(&system, most), Some((with.0.into(), with.1)), "{most} with a system message");
        }
        let long: Vec<_> = (0..101).map(|at| (["user", "assistant"][at % 2], "x")).collect();
        for most in 1..101 {
            let (text, dropped) = kept(&long, most).unwrap();
            // The last message alone, or with whole pairs before it.
            assert_eq!((text.len(), dropped % 2), (most - (most + 1) % 2, 0), "{most}");
        }
    }

    #[test]
    fn one_turn_is_never_dropped() {
        assert_eq!(kept(&[], 1), None);
        assert_eq!(kept(&[("user", "aa")], 1), None);
        assert_eq!(kept(&[("system", "ss"), ("user", "aa")], 1), None);
        assert_eq!(kept(&[("system", "ss"), ("assistant", "aa"), ("user", "bb")], 1), Some(("ssbb".into(), 1)));
        assert_eq!(kept(&[("user", "aa"), ("user", "bb"), ("tool", "cc")], 1), Some(("bbcc".into(), 1)));
    }

    #[test]
    fn an_answer_of_any_length_has_room() {
        assert_eq!([most(1024, 100), most(1024, 256), most(1024, 100_000)], [924, 768, 768]);
        assert_eq!([most(2, 5), most(3, 1), most(8, 8)], [1, 2, 6]);
        // A server may report such a context.
        assert_eq!([most(0, 8), most(1, 8)], [0, 0]);
    }

    #[test]
    fn a_chat_that_grows_loses_half_of_the_room_at_a_time() {
        let goals = |most| (most + 1..=most + 6).map(|whole| goal(whole, most)).collect::<Vec<_>>();
        assert_eq!(goals(8), [5, 6, 7, 8, 5, 6]);
        assert_eq!(goals(1), [1; 6]);
        assert_eq!(goals(0), [0; 6]);
    }
}
