//! Choices of an answer, whole and in pieces.

use crate::answers::AnswerReader;
use foretoken::{FinishReason, Generation, Stats, Token, TokenLogprob};
use serde_json::{Map, Value, json};

/// Reader of one choice.
pub(crate) enum ChoiceReader {
    /// A chat's answer, with thoughts and calls.
    Parts(Box<AnswerReader>),
    /// A chat's answer as the model wrote it.
    Content,
    /// Text of a completion, with the number of characters so far.
    Text(usize),
}

impl ChoiceReader {
    /// Returns the first piece of a choice, before its text; `None`: there is none.
    pub fn begin(&self, index: usize) -> Option<Value> {
        let delta = json!({ "role": "assistant", "content": "" });
        (!matches!(self, Self::Text(_))).then(|| piece(index, delta, Value::Null, Value::Null))
    }

    /// Returns the pieces of a choice that a token adds.
    pub fn push(&mut self, index: usize, token: &Token) -> Vec<Value> {
        let logprobs = token.logprobs.as_slice();
        if let Self::Text(characters) = self {
            let logprobs = completion_logprobs(logprobs, *characters);
            *characters += token.text.chars().count();
            if token.text.is_empty() && logprobs.is_null() {
                return Vec::new();
            }
            return vec![json!({ "index": index, "text": token.text, "logprobs": logprobs, "finish_reason": null })];
        }
        let mut logprobs = chat_logprobs(logprobs);
        let mut deltas = self.deltas(&token.text, false);
        if deltas.is_empty() && !logprobs.is_null() {
            deltas.push(json!({}));
        }
        deltas.into_iter().map(|delta| piece(index, delta, logprobs.take(), Value::Null)).collect()
    }

    /// Returns the last pieces of a choice.
    pub fn finish(&mut self, index: usize, reason: FinishReason) -> Vec<Value> {
        if let Self::Text(_) = self {
            return vec![json!({ "index": index, "text": "", "logprobs": null, "finish_reason": reason })];
        }
        let mut pieces: Vec<_> =
            self.deltas("", true).into_iter().map(|delta| piece(index, delta, Value::Null, Value::Null)).collect();
        pieces.push(piece(index, json!({}), Value::Null, self.reason(reason)));
        pieces
    }

    /// Returns a whole choice.
    pub fn whole(&mut self, index: usize, generation: &Generation) -> Value {
        let reason = generation.finish_reason;
        if let Self::Text(_) = self {
            let logprobs = completion_logprobs(&generation.logprobs, 0);
            return json!({ "index": index, "text": generation.text, "logprobs": logprobs, "finish_reason": reason });
        }
        let deltas = self.deltas(&generation.text, true);
        let joined = |key: &str| deltas.iter().filter_map(|delta| delta[key].as_str()).collect::<String>();
        let (content, reasoning) = (joined("content"), joined("reasoning_content"));
        let calls = self.calls();
        let mut message = Map::new();
        message.insert("role".into(), "assistant".into());
        let has_content = !content.is_empty() || calls.is_empty();
        message.insert("content".into(), if has_content { content.into() } else { Value::Null });
        if !reasoning.is_empty() {
            message.insert("reasoning_content".into(), reasoning.into());
        }
        if !calls.is_empty() {
            message.insert("tool_calls".into(), calls.into());
        }
        message.insert("refusal".into(), Value::Null);
        let logprobs = chat_logprobs(&generation.logprobs);
        json!({ "index": index, "message": message, "logprobs": logprobs, "finish_reason": self.reason(reason) })
    }

    fn deltas(&mut self, text: &str, is_whole: bool) -> Vec<Value> {
        match self {
            Self::Parts(reader) => reader.push(text, is_whole),
            _ if text.is_empty() => Vec::new(),
            _ => vec![json!({ "content": text })],
        }
    }

    fn calls(&self) -> &[Value] {
        if let Self::Parts(reader) = self { &reader.calls } else { &[] }
    }

    fn reason(&self, reason: FinishReason) -> Value {
        match reason {
            FinishReason::Stop if !self.calls().is_empty() => "tool_calls".into(),
            reason => json!(reason),
        }
    }
}

fn piece(index: usize, delta: Value, logprobs: Value, reason: Value) -> Value {
    json!({ "index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason })
}

/// Returns log-probabilities as in chat completions; null if there are none.
fn chat_logprobs(all: &[TokenLogprob]) -> Value {
    let one = |each: &TokenLogprob| json!({ "token": each.token, "logprob": each.logprob, "bytes": each.bytes });
    let with_top = |each: &TokenLogprob| {
        let mut value = one(each);
        value["top_logprobs"] = each.top_logprobs.iter().map(one).collect();
        value
    };
    if all.is_empty() {
        return Value::Null;
    }
    json!({ "content": all.iter().map(with_top).collect::<Vec<_>>(), "refusal": null })
}

/// Returns log-probabilities as in completions; null if there are none. `offset`: characters before the first token.
fn completion_logprobs(all: &[TokenLogprob], offset: usize) -> Value {
    if all.is_empty() {
        return Value::Null;
    }
    let mut at = offset;
    let mut offsets = Vec::new();
    for each in all {
        offsets.push(at);
        at += each.token.chars().count();
    }
    let top = |each: &TokenLogprob| {
        let top = each.top_logprobs.iter().map(|top| (top.token.clone(), json!(top.logprob)));
        Value::Object(top.collect())
    };
    json!({
        "tokens": all.iter().map(|each| each.token.as_str()).collect::<Vec<_>>(),
        "token_logprobs": all.iter().map(|each| each.logprob).collect::<Vec<_>>(),
        "top_logprobs": all.iter().map(top).collect::<Vec<_>>(),
        "text_offset": offsets,
    })
}

/// Returns the tokens that an answer took. `choices`: number of choices for each prompt.
pub(crate) fn usage(all: &[Stats], choices: usize) -> Value {
    let prompts = || all.iter().step_by(choices);
    let prompt_tokens: usize = prompts().map(|stats| stats.num_prompt_tokens).sum();
    let cached_tokens: usize = prompts().map(|stats| stats.num_cached_tokens).sum();
    let completion_tokens: usize = all.iter().map(|stats| stats.num_emitted_tokens).sum();
    let accepted: usize = all.iter().map(|stats| stats.num_accepted_draft_tokens).sum();
    let drafted: usize = all.iter().map(|stats| stats.num_draft_tokens).sum();
    json!({
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": { "cached_tokens": cached_tokens },
        "completion_tokens_details": {
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": drafted - accepted,
        },
    })
}
