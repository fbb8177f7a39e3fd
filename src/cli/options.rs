//! The flags of a generation: the options, under Hugging Face's names.

use super::count;
use crate::constraint::ResponseFormat;
use crate::error::Result;
use crate::json;
use crate::options::{DoSample, GenerateOptions};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// How to generate.
#[derive(clap::Args)]
pub(super) struct GenerateFlags {
    /// Most tokens to generate
    #[arg(long, value_name = "N", value_parser = count, default_value_t = defaults().max_new_tokens)]
    max_new_tokens: usize,
    /// Draft tokens that a round begins with; 0: no draft model
    #[arg(long, value_name = "N", value_parser = count, default_value_t = defaults().drafting.num_assistant_tokens)]
    num_assistant_tokens: usize,
    /// How that number changes from round to round: adaptive, constant, heuristic, heuristic_transient
    #[arg(long, value_name = "SCHEDULE", default_value = "adaptive")]
    num_assistant_tokens_schedule: String,
    /// Most tokens that the lookup in the text so far drafts at a time; unless the schedule is adaptive, it also makes the
    /// lookup the drafter
    #[arg(long, value_name = "N", value_parser = count)]
    prompt_lookup_num_tokens: Option<usize>,
    /// How many of the last tokens that lookup compares at most
    #[arg(long, value_name = "N", value_parser = count, default_value_t = defaults().drafting.max_matching_ngram_size)]
    max_matching_ngram_size: usize,
    /// Which of several matches that lookup takes: leftmost, whole (if all tokens asked for follow), most_recent
    #[arg(long, value_name = "RULE", default_value = "leftmost")]
    prompt_lookup_rule: String,
    /// A draft ends behind a token less likely than this; 0: never
    #[arg(long, value_name = "P", default_value_t = defaults().drafting.assistant_confidence_threshold)]
    assistant_confidence_threshold: f32,
    /// The text that is expected, to draft from
    #[arg(long, value_name = "TEXT")]
    prediction: Option<String>,
    /// Who drafts: auto, draft_model, lookup, prediction, chain
    #[arg(long, value_name = "WHO", default_value = "auto")]
    drafter: String,
    /// Whether to draft at all: auto, off. The text is the same
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    speculation: String,
    /// Begin a round only when the one before was read and its text decoded, instead of while the device computes. The text
    /// is the same
    #[arg(long)]
    no_overlap: bool,
    /// Draw tokens at random instead of taking the most likely ones: true; false; model, as the model's generation_config.json
    /// says, which then also sets what the next five flags leave out; auto: true if --temperature is above 0 or, without
    /// --temperature, if --top-k, --top-p, --min-p or --seed is given
    #[arg(long, value_name = "WHETHER", default_value = "auto", default_missing_value = "true", num_args = 0..=1)]
    #[arg(require_equals = true)]
    do_sample: String,
    /// Logits are divided by it; 0 takes the most likely tokens [default: 1]
    #[arg(long, value_name = "T")]
    temperature: Option<f32>,
    /// So many most likely tokens remain; 0: all [default: 0]
    #[arg(long, value_name = "N", value_parser = count)]
    top_k: Option<usize>,
    /// The most likely tokens that sum up to this probability remain [default: 1]
    #[arg(long, value_name = "P")]
    top_p: Option<f32>,
    /// Tokens remain that have at least this times the highest probability [default: 0]
    #[arg(long, value_name = "P")]
    min_p: Option<f32>,
    /// Logits of tokens that the text has are divided by it where positive, else multiplied [default: 1]
    #[arg(long, value_name = "FACTOR")]
    repetition_penalty: Option<f32>,
    /// Subtracted from the logits of tokens that were generated, -2 to 2
    #[arg(long, value_name = "X", default_value_t = defaults().sampling.presence_penalty, allow_hyphen_values = true)]
    presence_penalty: f32,
    /// The same, as many times as they were
    #[arg(long, value_name = "X", default_value_t = defaults().sampling.frequency_penalty, allow_hyphen_values = true)]
    frequency_penalty: f32,
    /// Runs of so many tokens do not come twice, those of the prompt included; 0: they may [default: 0]
    #[arg(long, value_name = "N", value_parser = count)]
    no_repeat_ngram_size: Option<usize>,
    /// Key of the random choices: the same seed, the same text [default: another one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How draft tokens are accepted when drawing at random: coupled, rejection
    #[arg(long, value_name = "HOW", default_value = "coupled")]
    acceptance: String,
    /// Add BIAS (-100 to 100) to the logit of token ID; may be repeated
    #[arg(long, value_name = "ID=BIAS", value_parser = bias, allow_hyphen_values = true)]
    logit_bias: Vec<(u32, f32)>,
    /// Token ids, comma between them, that may not come one after the other; may be repeated
    #[arg(long, value_name = "IDS", value_parser = ids)]
    bad_words_ids: Vec<Ids>,
    /// No end-of-text token before this many tokens; a --stop text, or a complete form, ends the text all the same
    #[arg(long, value_name = "N", value_parser = count, default_value_t = defaults().min_new_tokens)]
    min_new_tokens: usize,
    /// With --json: tell how likely each token was, before penalties, temperature and filters
    #[arg(long)]
    logprobs: bool,
    /// Of how many of the most likely tokens in its place besides, at most 20
    #[arg(long, value_name = "N", value_parser = count, default_value_t = defaults().top_logprobs)]
    top_logprobs: usize,
    /// End before this text; may be repeated
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Write special tokens too
    #[arg(long)]
    keep_special_tokens: bool,
    /// Write JSON that this schema describes
    #[arg(long, value_name = "FILE", value_parser = schema, group = "form")]
    json_schema: Option<Form>,
    /// Write a JSON object
    #[arg(long, group = "form")]
    json_object: bool,
    /// Write what this regular expression matches as a whole
    #[arg(long, value_name = "PATTERN", group = "form")]
    regex: Option<String>,
    /// Write what this grammar derives from `start`, in llguidance's variant of Lark
    #[arg(long, value_name = "FILE", value_parser = grammar, group = "form")]
    grammar: Option<Form>,
    /// Of a chat: a JSON list of the functions that the model may call, as its template wants them described
    #[arg(long, value_name = "FILE", value_parser = objects)]
    tools: Option<Objects>,
    /// Of a chat: a JSON list of the documents that it is about
    #[arg(long, value_name = "FILE", value_parser = objects)]
    documents: Option<Objects>,
    /// Of a chat: other variables of the model's template, as in {"enable_thinking": false}
    #[arg(long, value_name = "JSON", value_parser = object)]
    chat_template_kwargs: Option<Map<String, Value>>,
    /// Of a chat: its last message, the assistant's, is the beginning of the answer
    #[arg(long)]
    continue_final_message: bool,
    /// Of a chat: the prompt does not say that an answer begins
    #[arg(long)]
    no_generation_prompt: bool,
}

impl GenerateFlags {
    /// As the library wants them, validated.
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

/// Which form the text is to have, by a file.
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

/// What a JSON file lists.
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
