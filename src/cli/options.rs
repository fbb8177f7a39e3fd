//! Flags of generation, with Hugging Face's names.

use super::count;
use crate::constraint::ResponseFormat;
use crate::error::Result;
use crate::json;
use crate::options::{DoSample, GenerateOptions};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Flags of generation.
#[derive(clap::Args)]
pub(super) struct GenerateFlags {
    /// Most tokens to generate
    #[arg(long, value_name = "N", value_parser = count, default_value_t = defaults().max_new_tokens)]
    max_new_tokens: usize,
    /// Draft tokens of the first round; 0: no draft model
    #[arg(long, value_name = "N", value_parser = count, default_value_t = defaults().drafting.num_assistant_tokens)]
    num_assistant_tokens: usize,
    /// Schedule of the number of draft tokens: adaptive, constant, heuristic, heuristic_transient
    #[arg(long, value_name = "SCHEDULE", default_value = "adaptive")]
    num_assistant_tokens_schedule: String,
    /// Most draft tokens of a lookup in the text so far. Unless the schedule is adaptive, this also selects lookup as the drafter
    #[arg(long, value_name = "N", value_parser = count)]
    prompt_lookup_num_tokens: Option<usize>,
    /// Most tokens that the lookup matches at the end of the text
    #[arg(long, value_name = "N", value_parser = count, default_value_t = defaults().drafting.max_matching_ngram_size)]
    max_matching_ngram_size: usize,
    /// Match that the lookup uses: leftmost, whole (leftmost, if all requested tokens follow it), most_recent
    #[arg(long, value_name = "RULE", default_value = "leftmost")]
    prompt_lookup_rule: String,
    /// End a draft after a token less likely than this; 0 disables
    #[arg(long, value_name = "P", default_value_t = defaults().drafting.assistant_confidence_threshold)]
    assistant_confidence_threshold: f32,
    /// Expected text, to draft from
    #[arg(long, value_name = "TEXT")]
    prediction: Option<String>,
    /// Drafter: auto, draft_model, lookup, prediction, chain
    #[arg(long, value_name = "WHO", default_value = "auto")]
    drafter: String,
    /// Draft or not: auto, off. The text is the same
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    speculation: String,
    /// Start a round only after the previous round was read and its text decoded, instead of while the device computes. The text is the
    /// same
    #[arg(long)]
    no_overlap: bool,
    /// Sample instead of taking the most likely tokens: true; false; model, as in the model's generation_config.json, which then also
    /// provides defaults of the next five flags; auto: true if --temperature is above 0 or, without --temperature, if --top-k, --top-p,
    /// --min-p or --seed is given
    #[arg(long, value_name = "WHETHER", default_value = "auto", default_missing_value = "true", num_args = 0..=1)]
    #[arg(require_equals = true)]
    do_sample: String,
    /// Divide logits by T; 0 takes the most likely tokens [default: 1]
    #[arg(long, value_name = "T")]
    temperature: Option<f32>,
    /// Keep only the N most likely tokens; 0 disables [default: 0]
    #[arg(long, value_name = "N", value_parser = count)]
    top_k: Option<usize>,
    /// Keep only the most likely tokens whose probabilities sum to P [default: 1]
    #[arg(long, value_name = "P")]
    top_p: Option<f32>,
    /// Keep only tokens with at least P times the highest probability [default: 0]
    #[arg(long, value_name = "P")]
    min_p: Option<f32>,
    /// Divide positive logits of tokens in the text by FACTOR, and multiply negative ones [default: 1]
    #[arg(long, value_name = "FACTOR")]
    repetition_penalty: Option<f32>,
    /// Subtract X from the logits of tokens that were generated, -2 to 2
    #[arg(long, value_name = "X", default_value_t = defaults().sampling.presence_penalty, allow_hyphen_values = true)]
    presence_penalty: f32,
    /// Like --presence-penalty, multiplied by how often the token was generated
    #[arg(long, value_name = "X", default_value_t = defaults().sampling.frequency_penalty, allow_hyphen_values = true)]
    frequency_penalty: f32,
    /// Never repeat an n-gram of N tokens, counting the prompt; 0 disables [default: 0]
    #[arg(long, value_name = "N", value_parser = count)]
    no_repeat_ngram_size: Option<usize>,
    /// Seed of random choices: the same seed gives the same text [default: a new one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Acceptance of draft tokens when sampling: coupled, rejection
    #[arg(long, value_name = "HOW", default_value = "coupled")]
    acceptance: String,
    /// Add BIAS (-100 to 100) to the logit of token ID; may be repeated
    #[arg(long, value_name = "ID=BIAS", value_parser = bias, allow_hyphen_values = true)]
    logit_bias: Vec<(u32, f32)>,
    /// Never generate this sequence of token ids, separated by commas; may be repeated
    #[arg(long, value_name = "IDS", value_parser = ids)]
    bad_words_ids: Vec<Ids>,
    /// Allow no end-of-text token before N tokens; --stop or a complete --json-schema, --regex or --grammar still ends the text
    #[arg(long, value_name = "N", value_parser = count, default_value_t = defaults().min_new_tokens)]
    min_new_tokens: usize,
    /// With --json: report the log-probability of each token, before penalties, temperature and filters
    #[arg(long)]
    logprobs: bool,
    /// Also report the N most likely tokens at each position (max 20)
    #[arg(long, value_name = "N", value_parser = count, default_value_t = defaults().top_logprobs)]
    top_logprobs: usize,
    /// End before this text; may be repeated
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Print special tokens too
    #[arg(long)]
    keep_special_tokens: bool,
    /// Generate JSON that matches this schema
    #[arg(long, value_name = "FILE", value_parser = schema, group = "form")]
    json_schema: Option<Form>,
    /// Generate a JSON object
    #[arg(long, group = "form")]
    json_object: bool,
    /// Generate text that matches this regular expression as a whole
    #[arg(long, value_name = "PATTERN", group = "form")]
    regex: Option<String>,
    /// Generate text that this grammar derives from `start`, in llguidance's variant of Lark
    #[arg(long, value_name = "FILE", value_parser = grammar, group = "form")]
    grammar: Option<Form>,
    /// Chat: JSON list of the functions that the model may call, in the form that its template expects
    #[arg(long, value_name = "FILE", value_parser = objects)]
    tools: Option<Objects>,
    /// Chat: JSON list of documents for the model's template
    #[arg(long, value_name = "FILE", value_parser = objects)]
    documents: Option<Objects>,
    /// Chat: other variables of the model's template, as in {"enable_thinking": false}
    #[arg(long, value_name = "JSON", value_parser = object)]
    chat_template_kwargs: Option<Map<String, Value>>,
    /// Chat: continue the last message, which must be the assistant's
    #[arg(long)]
    continue_final_message: bool,
    /// Chat: do not end the prompt with the start of an answer
    #[arg(long)]
    no_generation_prompt: bool,
}

impl GenerateFlags {
    /// Returns validated options.
    pub fn options(&self) -> Result<GenerateOptions> {
        let options = GenerateOptions::new()
            .max_new_tokens(self.max_new_tokens)
            .num_assistant_tokens(self.num_assistant_tokens)
            .num_assistant_tokens_schedule(self.num_assistant_tokens_schedule.parse()?)
            .prompt_lookup_num_tokens(self.prompt_lookup_num_tokens)
            .max_matching_ngram_size(self.max_matching_ngram_size)
            .prompt_lookup_rule(self.prompt_lookup_rule.parse()?)
            .assistant_confidence_threshold(self.assistant_confidence_threshold)
            .prediction(self.prediction.clone())
            .drafter(self.drafter.parse()?)
            .do_sample(self.do_sample.parse::<DoSample>()?)
            .temperature(self.temperature)
            .top_k(self.top_k)
            .top_p(self.top_p)
            .min_p(self.min_p)
            .repetition_penalty(self.repetition_penalty)
            .presence_penalty(self.presence_penalty)
            .frequency_penalty(self.frequency_penalty)
            .no_repeat_ngram_size(self.no_repeat_ngram_size)
            .seed(self.seed)
            .acceptance(self.acceptance.parse()?)
            .logit_bias(self.logit_bias.iter().copied().collect::<BTreeMap<_, _>>())
            .bad_words_ids(self.bad_words_ids.iter().map(|ids| ids.0.clone()).collect::<Vec<_>>())
            .min_new_tokens(self.min_new_tokens)
            .logprobs(self.logprobs)
            .top_logprobs(self.top_logprobs)
            .stop(self.stop.clone())
            .skip_special_tokens(!self.keep_special_tokens)
            .response_format(self.form())
            .tools(self.tools.clone().unwrap_or_default().0)
            .documents(self.documents.clone().unwrap_or_default().0)
            .chat_template_kwargs(self.chat_template_kwargs.clone().unwrap_or_default())
            .continue_final_message(self.continue_final_message)
            .add_generation_prompt(self.no_generation_prompt.then_some(false))
            .speculation(self.speculation.parse()?)
            .overlap(!self.no_overlap);
        options.validate()?;
        Ok(options)
    }

    fn form(&self) -> Option<ResponseFormat> {
        let form = self.json_schema.as_ref().or(self.grammar.as_ref());
        let form = form.map(|form| form.0.clone()).or(self.regex.as_deref().map(ResponseFormat::regex));
        form.or(self.json_object.then(ResponseFormat::json_object))
    }
}

fn defaults() -> GenerateOptions {
    GenerateOptions::new()
}

/// A list of token ids.
#[derive(Clone)]
struct Ids(Vec<u32>);

fn ids(text: &str) -> Result<Ids, String> {
    let ids = text.split(',').map(|id| id.trim().parse().map_err(|_| format!("{id} is no token id")));
    ids.collect::<Result<_, _>>().map(Ids)
}

/// A form of the text, read from a file.
#[derive(Clone)]
struct Form(ResponseFormat);

fn schema(path: &str) -> Result<Form, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let schema = json::parse(&text).map_err(|error| format!("a JSON schema is wanted: {error}"))?;
    Ok(Form(ResponseFormat::json_schema(schema)))
}

fn grammar(path: &str) -> Result<Form, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    Ok(Form(ResponseFormat::grammar(&text)))
}

/// Objects listed in a JSON file.
#[derive(Clone, Default)]
struct Objects(Vec<Map<String, Value>>);

fn objects(path: &str) -> Result<Objects, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let list = json::parse(&text).and_then(serde_json::from_value);
    list.map(Objects).map_err(|error| format!("a JSON list of objects is wanted: {error}"))
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    json::parse(text).and_then(serde_json::from_value).map_err(|error| format!("a JSON object is wanted: {error}"))
}

fn bias(text: &str) -> Result<(u32, f32), String> {
    let parsed = text.split_once('=').and_then(|(id, bias)| Some((id.trim().parse().ok()?, bias.trim().parse().ok()?)));
    parsed.ok_or_else(|| "allowed: ID=BIAS, for example 17=-2.5".into())
}
