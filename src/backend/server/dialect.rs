//! Request and response bodies of the server engines, as JSON only.

use serde_json::{Value, json};

/// The API of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// vLLM's token API (`--enable-scale-out`, or a server for tokens only). It reads the prefix cache.
    Vllm,
    /// vLLM's completions API with a prompt of tokens. Each verification reads the whole text.
    Completions,
    /// SGLang's own API.
    Sglang,
}

/// Answer of a server about a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAnswer {
    /// The most likely token after each of the last tokens.
    pub ids: Vec<u32>,
    /// Leading tokens that came from the prefix cache, if the server reports them.
    pub cached: Option<usize>,
}

impl Dialect {
    /// Returns the name for users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM",
            Self::Completions => "vLLM (completions)",
            Self::Sglang => "SGLang",
        }
    }

    /// Returns the path of requests, relative to the server's address.
    pub fn path(self) -> &'static str {
        match self {
            Self::Vllm => "/inference/v1/generate",
            Self::Completions => "/v1/completions",
            Self::Sglang => "/generate",
        }
    }

    /// Builds a request for the most likely token after each of the last `rows` tokens of a text. `reads_cache` matters only for
    /// [`Self::Vllm`]: its results for cached positions are meaningless.
    pub fn verification(self, model: &str, text: &[u32], rows: usize, reads_cache: bool) -> Value {
        let mut body = self.generation(model, text, 1);
        match self {
            _ if rows < 2 => {}
            Self::Vllm => {
                body["sampling_params"]["prompt_logprobs"] = 1.into();
                body["sampling_params"]["skip_reading_prefix_cache"] = (!reads_cache).into();
            }
            Self::Completions => body["prompt_logprobs"] = 1.into(),
            Self::Sglang => {
                body["return_logprob"] = true.into();
                body["top_logprobs_num"] = 1.into();
                body["logprob_start_len"] = (text.len() - rows).into();
            }
        }
        body
    }

    /// Builds a request for up to `most` tokens after a text, streamed one by one.
    pub fn continuation(self, model: &str, text: &[u32], most: usize) -> Value {
        let mut body = self.generation(model, text, most);
        body["stream"] = true.into();
        body
    }

    /// Builds a request for the most likely tokens after a text. Servers may apply defaults of the model; none changes greedy output.
    pub fn generation(self, model: &str, text: &[u32], most: usize) -> Value {
        match self {
            Self::Vllm => json!({
                "model": model,
                "token_ids": text,
                "sampling_params": { "max_tokens": most, "temperature": 0, "detokenize": false },
            }),
            Self::Completions => json!({
                "model": model,
                "prompt": text,
                "max_tokens": most,
                "temperature": 0,
                "repetition_penalty": 1,
                "presence_penalty": 0,
                "frequency_penalty": 0,
                "return_token_ids": true,
            }),
            Self::Sglang => json!({
                "input_ids": text,
                "sampling_params": { "max_new_tokens": most, "temperature": 0, "repetition_penalty": 1 },
            }),
        }
    }

    /// Reads the answer to [`Self::verification`] of a text of `length` tokens. Errors are messages for users.
    pub fn parse_answer(self, body: &[u8], length: usize, rows: usize) -> Result<ServerAnswer, String> {
        let answer: Value = serde_json::from_slice(body).map_err(|_| "the answer is not JSON")?;
        let (last, places, cached, read) = match self {
            Self::Vllm | Self::Completions => {
                let (choice, usage) = (&answer["choices"][0], &answer["usage"]);
                let places = if self == Self::Vllm { &answer["prompt_logprobs"] } else { &choice["prompt_logprobs"] };
                let cached = &usage["prompt_tokens_details"]["cached_tokens"];
                (&choice["token_ids"], places, cached, &usage["prompt_tokens"])
            }
            Self::Sglang => {
                let about = &answer["meta_info"];
                let cached = &about["cached_tokens"];
                (&answer["output_ids"], &about["input_top_logprobs"], cached, &about["prompt_tokens"])
            }
        };
        if let Some(read) = read.as_u64().filter(|read| *read != length as u64) {
            return Err(format!("it read {read} tokens, but {length} were sent"));
        }
        let cached = cached.as_u64().map(|cached| cached as usize);
        // For cached positions vLLM returns arbitrary memory contents. The caller checks `cached`.
        let means_nothing = self == Self::Vllm && cached.is_some_and(|cached| cached > length - rows);
        let mut ids = Vec::new();
        if rows > 1 {
            let places = places.as_array().ok_or("it says nothing of the prompt's tokens")?;
            let expected = if self == Self::Sglang { rows } else { length };
            if places.len() != expected {
                return Err(format!("it answered for {} positions instead of {expected}", places.len()));
            }
            // The entry of a position describes the token at it, so it is the prediction after the previous token.
            for place in &places[expected + 1 - rows..] {
                let id = self.most_likely(place).or(means_nothing.then_some(0));
                ids.push(id.ok_or("it does not return the most likely token of a position")?);
            }
        }
        match last.as_array().map(Vec::as_slice) {
            Some([last]) => ids.push(token(last).ok_or("its token is none")?),
            other => return Err(format!("it wrote {} tokens, but 1 was asked for", other.map_or(0, <[_]>::len))),
        }
        Ok(ServerAnswer { ids, cached })
    }

    /// Reads the answer to [`Self::generation`]: 1 to `most` tokens. Errors are messages for users.
    pub fn written(self, body: &[u8], most: usize) -> Result<Vec<u32>, String> {
        let answer: Value = serde_json::from_slice(body).map_err(|_| "the answer is not JSON")?;
        let ids = if self == Self::Sglang { &answer["output_ids"] } else { &answer["choices"][0]["token_ids"] };
        let ids: Option<Vec<u32>> = ids.as_array().and_then(|ids| ids.iter().map(token).collect());
        ids.filter(|ids| (1..=most).contains(&ids.len())).ok_or_else(|| "it wrote something else than asked for".into())
    }

    /// Returns the most likely token of a prompt position.
    fn most_likely(self, place: &Value) -> Option<u32> {
        match self {
            Self::Sglang => token(&place[0][1]),
            _ => place.as_object()?.iter().find(|(_, told)| told["rank"] == 1)?.0.parse().ok(),
        }
    }

    /// Returns the new tokens of an event of a [`Self::continuation`] of which `seen` tokens were read. `None`: the stream has ended.
    /// Errors are the server's message.
    pub fn fresh(self, event: &str, seen: usize) -> Result<Option<Vec<u32>>, String> {
        if event == "[DONE]" {
            return Ok(None);
        }
        let event: Value = serde_json::from_str(event).map_err(|_| "an event is no JSON")?;
        if !event["error"].is_null() {
            return Err(words(&event));
        }
        let ids = if self == Self::Sglang { &event["output_ids"] } else { &event["choices"][0]["token_ids"] };
        let Some(ids) = ids.as_array() else { return Ok(Some(Vec::new())) };
        let ids: Option<Vec<u32>> = ids.iter().map(token).collect();
        let mut ids = ids.ok_or("a token is none")?;
        // SGLang sends all tokens with each event or only new ones, depending on how it was started.
        if self == Self::Sglang && event["meta_info"]["completion_tokens"] == ids.len() {
            ids.drain(..seen.min(ids.len()));
        }
        Ok(Some(ids))
    }
}

fn token(value: &Value) -> Option<u32> {
    value.as_u64()?.try_into().ok()
}

/// Returns the error message in a server's answer, at most 300 characters.
pub(super) fn words(answer: &Value) -> String {
    let error = [&answer["error"]["message"], &answer["error"], &answer["message"], &answer["detail"]];
    let words = error.iter().find_map(|words| words.as_str()).unwrap_or("no reason is given");
    words.chars().map(|char| if char.is_control() { ' ' } else { char }).take(300).collect()
}
