//! `POST /v1/completions`.

use crate::api_error::{ApiError, bad_option};
use crate::choices::ChoiceReader;
use crate::generating::{TextRequest, answer};
use crate::models::ModelUse;
use crate::reply::ApiResponse;
use crate::request::RequestFields;
use foretoken::{Prompt, Result};
use serde_json::Value;
use std::time::Duration;

/// Tokens without `max_tokens`, as in OpenAI's API.
const MAX_TOKENS: usize = 16;
/// Maximum number of prompts or inputs in a request.
pub(crate) const MAX_PROMPTS: usize = 2048;

/// Answers a completion.
pub(crate) async fn complete(
    fields: RequestFields,
    model_id: String,
    using: ModelUse,
    patience: Duration,
) -> Result<ApiResponse, ApiError> {
    let request = prepare(fields, model_id)?;
    answer(request, None, Box::new(|_| ChoiceReader::Text(0)), using, patience).await
}

fn prepare(mut fields: RequestFields, model_id: String) -> Result<TextRequest> {
    let wanted = fields.take_wanted()?;
    let prompts = texts("prompt", fields.take("prompt").unwrap_or_default())?;
    if prompts.len() * wanted.n > MAX_PROMPTS {
        return Err(bad_option("n", wanted.n, format!("at most {MAX_PROMPTS} texts in one request")));
    }
    // In this endpoint the field is the number of alternatives.
    if let Some(count) = fields.get("logprobs").and_then(Value::as_u64) {
        fields.set("logprobs", true);
        fields.set("top_logprobs", count);
    }
    let options = fields.into_options(MAX_TOKENS)?;
    Ok(TextRequest { wanted, prompts, options, names: ["cmpl", "text_completion", "text_completion"], model_id })
}

/// Reads one text or list of token ids, or a list of them.
pub(crate) fn texts(name: &'static str, given: Value) -> Result<Vec<Prompt>> {
    let list = match given {
        Value::Array(list) if !list.first().is_some_and(Value::is_number) => list,
        one => vec![one],
    };
    let is_text = |text: &Value| {
        text.is_string() || text.as_array().is_some_and(|ids| !ids.is_empty() && ids.iter().all(Value::is_u64))
    };
    if list.is_empty() || list.len() > MAX_PROMPTS || !list.iter().all(is_text) {
        let value =
            if list.len() > MAX_PROMPTS { format!("{} texts", list.len()) } else { Value::from(list).to_string() };
        return Err(bad_option(name, value, format!("a text, token ids, or a list of up to {MAX_PROMPTS} of them")));
    }
    list.into_iter().map(Prompt::from_json).collect()
}
