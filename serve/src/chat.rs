//! `POST /v1/chat/completions`.

use crate::answers::{AnswerFormat, AnswerReader};
use crate::api_error::{ApiError, bad_option};
use crate::choices::ChoiceReader;
use crate::generating::{NewReader, TextRequest, answer};
use crate::models::{LoadedModel, ModelUse};
use crate::reply::ApiResponse;
use crate::request::RequestFields;
use crate::scan::is_space;
use crate::tools::calling;
use foretoken::internals::text::ReasoningFormat;
use foretoken::{Answer, GenerateOptions, Prompt, ResponseFormat, Result};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Tokens at the end of a prompt that are searched for the beginning of a thought.
const END_OF_PROMPT: usize = 8;

/// Answers a chat completion.
pub(crate) async fn complete(
    fields: RequestFields,
    model_id: String,
    using: ModelUse,
    patience: Duration,
) -> Result<ApiResponse, ApiError> {
    let (request, new_reader) = prepare(fields, model_id, &using.model)?;
    let constrains = request.options.response_format.as_ref().is_some_and(ResponseFormat::constrains);
    // A grammar leaves no room for thoughts.
    let may_be_open = using.model.reasoning_format == Some(ReasoningFormat::Think) && !constrains;
    let open = may_be_open.then(|| ends_in_thought(&using.model, &request.prompts[0], &request.options));
    answer(request, open, new_reader, using, patience).await
}

fn prepare(mut fields: RequestFields, model_id: String, model: &LoadedModel) -> Result<(TextRequest, NewReader)> {
    let wanted = fields.take_wanted()?;
    let messages = fields.take("messages").unwrap_or_default();
    if !messages.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_object)) {
        return Err(bad_option("messages", messages, "a list of one { role, content } or more"));
    }
    let prompts = vec![Prompt::from_json(messages)?];
    let choice = fields.take("tool_choice");
    let is_parallel = fields.take_flag("parallel_tool_calls")?.unwrap_or(true);
    let calling = calling(fields.get("tools"), choice.as_ref(), is_parallel, model.tool_format, &model.marks)?;
    if choice.is_some_and(|choice| choice == "none") {
        fields.take("tools");
    }
    let has_thoughts = model.reasoning_format.is_some() && fields.get("skip_special_tokens").is_none();
    let reads_parts = calling.is_some() || has_thoughts;
    if reads_parts {
        // The marks of calls and thoughts may be special tokens.
        fields.set("skip_special_tokens", false);
    }
    if let Some(effort) = fields.take("reasoning_effort") {
        set_effort(&mut fields, effort, model.reasoning_format)?;
    }
    let mut options = fields.into_options(model.context)?;
    options.sampling.as_recommended();
    let (mut tool_format, mut tools, mut most) = (None, Map::new(), usize::MAX);
    if let Some(calling) = calling {
        (tool_format, tools, most) = (Some(calling.format), calling.tools, calling.most);
        options.response_format = calling.response_format.or(options.response_format);
    }
    let format = AnswerFormat { tools, tool_format, reasoning_format: model.reasoning_format, is_open: false, most };
    let new_reader: NewReader = Box::new(move |is_open| match reads_parts {
        true => ChoiceReader::Parts(Box::new(AnswerReader::new(AnswerFormat { is_open, ..format.clone() }))),
        false => ChoiceReader::Content,
    });
    let names = ["chatcmpl", "chat.completion", "chat.completion.chunk"];
    Ok((TextRequest { wanted, prompts, options, names, model_id }, new_reader))
}

/// Sets the variable of the chat template for the effort.
fn set_effort(fields: &mut RequestFields, effort: Value, format: Option<ReasoningFormat>) -> Result<()> {
    let is_level = effort.as_str().is_some_and(|effort| ["low", "medium", "high"].contains(&effort));
    if format != Some(ReasoningFormat::Harmony) || !is_level {
        let has_levels = format == Some(ReasoningFormat::Harmony);
        let allowed = if has_levels { "low or medium or high" } else { "null; see chat_template_kwargs" };
        return Err(bad_option("reasoning_effort", effort, allowed));
    }
    let mut variables = json!({ "reasoning_effort": effort });
    match fields.take("chat_template_kwargs") {
        None => {}
        Some(Value::Object(given)) => variables.as_object_mut().into_iter().for_each(|all| all.extend(given.clone())),
        Some(other) => variables = other,
    }
    fields.set("chat_template_kwargs", variables);
    Ok(())
}

/// Returns whether the chat template begins a thought, in which the answer goes on.
fn ends_in_thought(model: &LoadedModel, prompt: &Prompt, options: &GenerateOptions) -> Answer<bool> {
    let (prompt, options) = (prompt.clone(), options.clone());
    model.engine.call(move |generator| {
        let ids = generator.encode(&prompt, &options)?;
        let end = generator.tokenizer().decode(&ids[ids.len().saturating_sub(END_OF_PROMPT)..], false)?;
        Ok(end.trim_end_matches(is_space).ends_with("<think>"))
    })
}
