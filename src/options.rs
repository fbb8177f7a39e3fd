//! Options of loading and generating, under Hugging Face's names, validated once.

mod load;
mod read;
mod sampling;

use crate::constraint::ResponseFormat;
use crate::error::Result;
pub use load::{Arithmetic, ArithmeticChoice, DeviceChoice, KvDtype, LoadOptions, WeightDtype};
pub(crate) use read::Given;
use read::{bad, read};
pub use sampling::{DoSample, SamplingDefaults, SamplingValues};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// How to continue a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerateOptions {
    /// Most tokens to generate.
    pub max_new_tokens: usize,
    /// Tokens of the draft model that a round begins with; 0: no draft model. The adaptive schedule finds the number itself.
    pub num_assistant_tokens: usize,
    /// How that number changes from round to round.
    pub num_assistant_tokens_schedule: Schedule,
    /// Most tokens that the lookup in the text so far drafts at a time. With a schedule other than the adaptive one and the
    /// drafter `auto`, it also makes the lookup the drafter.
    pub prompt_lookup_num_tokens: Option<usize>,
    /// Longest n-gram that the lookup tries first.
    pub max_matching_ngram_size: usize,
    /// Which of several matches the lookup takes.
    pub prompt_lookup_rule: LookupRule,
    /// A draft ends behind a token that the draft model finds less likely than this; 0: never.
    pub assistant_confidence_threshold: f32,
    /// The text that is expected, to draft from.
    pub prediction: Option<String>,
    /// Who drafts.
    pub drafter: DrafterChoice,
    /// Whether to draw tokens at random; if not, the most likely one is taken.
    pub do_sample: DoSample,
    /// Logits are divided by it. None, here and in the next four: what the model's files say where `do_sample` asks for it, else
    /// what changes nothing.
    pub temperature: Option<f32>,
    /// So many most likely tokens remain; 0: all.
    pub top_k: Option<usize>,
    /// The most likely tokens whose probabilities sum up to this remain.
    pub top_p: Option<f32>,
    /// Tokens remain that have at least this times the highest probability.
    pub min_p: Option<f32>,
    /// Logits of tokens that the text has are divided by it where positive, else multiplied.
    pub repetition_penalty: Option<f32>,
    /// Subtracted from the logits of tokens that were generated; below 0 they become likelier. The prompt does not count.
    pub presence_penalty: f32,
    /// The same, as many times as they were generated.
    pub frequency_penalty: f32,
    /// N-grams of this length do not come twice, those of the prompt included; 0: they may. None: what the model's files say
    /// where `do_sample` asks for it.
    pub no_repeat_ngram_size: Option<usize>,
    /// Key of the random choices: the same seed gives the same text. None: another one each time, told in the statistics.
    pub seed: Option<u64>,
    /// How draft tokens are accepted when tokens are drawn at random.
    pub acceptance: Acceptance,
    /// Added to the logits of tokens, by id.
    pub logit_bias: BTreeMap<u32, f32>,
    /// Token sequences that may not come.
    pub bad_words_ids: Vec<Vec<u32>>,
    /// No end of text before so many tokens.
    pub min_new_tokens: usize,
    /// Whether log-probabilities of the tokens are told: those of the model itself, before penalties, temperature and filters.
    pub logprobs: bool,
    /// Of how many of the most likely tokens in each place besides.
    pub top_logprobs: usize,
    /// Texts that end the generation; they are not part of the result.
    pub stop: Vec<String>,
    /// Whether the text leaves special tokens out. The one that ends it is never in it.
    pub skip_special_tokens: bool,
    /// Which form the text is to have: only tokens that it allows are chosen, and the text ends where nothing can follow. A text that
    /// is cut by [`GenerateOptions::max_new_tokens`] is the beginning of one.
    pub response_format: Option<ResponseFormat>,
    /// What to do with a chat that is longer than the context.
    pub context: ContextPolicy,
    /// Of a chat: the functions that the model may call, described as its template wants it.
    pub tools: Vec<Map<String, Value>>,
    /// Of a chat: texts that the model is to answer from.
    pub documents: Vec<Map<String, Value>>,
    /// Of a chat: other variables of its template, such as `enable_thinking` or `date_string`.
    pub chat_template_kwargs: Map<String, Value>,
    /// Of a chat: whether the last message, the assistant's, is the beginning of the answer.
    pub continue_final_message: bool,
    /// Of a chat: whether the prompt ends where an answer begins. None: unless the last message is continued.
    pub add_generation_prompt: Option<bool>,
    /// Whether to draft at all.
    pub speculation: Speculation,
    /// Whether host work of a round is done while the device computes another; the text is the same.
    pub overlap: bool,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self {
            max_new_tokens: 256,
            num_assistant_tokens: 5,
            num_assistant_tokens_schedule: Schedule::Adaptive,
            prompt_lookup_num_tokens: None,
            max_matching_ngram_size: 2,
            prompt_lookup_rule: LookupRule::Leftmost,
            assistant_confidence_threshold: 0.0,
            prediction: None,
            drafter: DrafterChoice::Auto,
            do_sample: DoSample::No,
            temperature: None,
            top_k: None,
            top_p: None,
            min_p: None,
            repetition_penalty: None,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            no_repeat_ngram_size: None,
            seed: None,
            acceptance: Acceptance::Coupled,
            logit_bias: BTreeMap::new(),
            bad_words_ids: Vec::new(),
            min_new_tokens: 0,
            logprobs: false,
            top_logprobs: 0,
            stop: Vec::new(),
            skip_special_tokens: true,
            response_format: None,
            context: ContextPolicy::Error,
            tools: Vec::new(),
            documents: Vec::new(),
            chat_template_kwargs: Map::new(),
            continue_final_message: false,
            add_generation_prompt: None,
            speculation: Speculation::Auto,
            overlap: true,
        }
    }
}

/// How the number of draft tokens changes from round to round: by measurement, or by the rules of transformers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Drafter and number are what is expected to be fastest, by what was measured; none, where nothing helps.
    Adaptive,
    /// It does not.
    Constant,
    /// All accepted: 2 more. Else 1 fewer, at least 1. Kept from call to call.
    Heuristic,
    /// The same, from the start again with every call.
    HeuristicTransient,
}

/// Who drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrafterChoice {
    /// With the schedule `adaptive`, whoever is fastest. Else the prediction if there is one, the lookup if
    /// `prompt_lookup_num_tokens` is given, or the draft model.
    Auto,
    /// The draft model.
    DraftModel,
    /// What followed the last tokens earlier in the text.
    Lookup,
    /// The text that the caller expects.
    Prediction,
    /// The prediction, else the lookup, and the draft model where both find nothing.
    Chain,
}

/// How draft tokens are accepted when tokens are drawn at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acceptance {
    /// Where the target, with the same noise, draws the same token: the text depends on the seed alone.
    Coupled,
    /// Rejection sampling (Leviathan et al. 2023; Chen et al. 2023): accepts a little more often; the text follows the
    /// target's distribution, but depends on who drafted.
    Rejection,
}

/// What to do with a chat that is longer than the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextPolicy {
    /// An error that says so.
    Error,
    /// The oldest turns after the system message are dropped, until the chat and an answer of `max_new_tokens` (or of a
    /// quarter of the context) fit. The last turn stays: too long by itself, it is an error. So are a text and token ids,
    /// which have no turns.
    Shift,
}

/// Which of several matches a prompt lookup takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LookupRule {
    /// The first one, as transformers does.
    Leftmost,
    /// The first one, if all the tokens that are asked for follow it: the original (Saxena 2023).
    Whole,
    /// The last one.
    MostRecent,
}

/// Which of a text's hidden states make its embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// Those of all tokens: their mean.
    Mean,
    /// That of the last token.
    Last,
}

/// Whether to draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speculation {
    /// With whom [`GenerateOptions::drafter`] says.
    Auto,
    /// Never: one token per target forward.
    Off,
}

impl GenerateOptions {
    /// The first option given that means something for a chat only.
    pub(crate) fn of_a_chat(&self) -> Option<&'static str> {
        let given = [
            ("tools", !self.tools.is_empty()),
            ("documents", !self.documents.is_empty()),
            ("chat_template_kwargs", !self.chat_template_kwargs.is_empty()),
            ("continue_final_message", self.continue_final_message),
            ("add_generation_prompt", self.add_generation_prompt.is_some()),
        ];
        given.into_iter().find_map(|(name, given)| given.then_some(name))
    }

    /// The defaults, with what an object names in their place; null leaves the default.
    ///
    /// # Errors
    /// [`Error::BadOption`] for an unknown name, or a value of another type.
    pub fn read<'de>(from: impl Deserializer<'de>) -> Result<Self> {
        read(from)
    }

    /// # Errors
    /// [`Error::BadOption`] with the allowed range.
    pub fn validate(&self) -> Result<()> {
        if self.max_new_tokens == 0 {
            return bad("max_new_tokens", 0, "1 or more");
        }
        if self.prompt_lookup_num_tokens == Some(0) {
            return bad("prompt_lookup_num_tokens", 0, "1 or more; leave it out for no lookup");
        }
        if !(1..=64).contains(&self.max_matching_ngram_size) {
            return bad("max_matching_ngram_size", self.max_matching_ngram_size, "1 to 64");
        }
        if self.stop.iter().any(String::is_empty) {
            return bad("stop", "an empty text", "texts of one character or more");
        }
        self.merged(&SamplingDefaults::default()).validate()?;
        if !(0.0..=1.0).contains(&self.assistant_confidence_threshold) {
            return bad("assistant_confidence_threshold", self.assistant_confidence_threshold, "0 to 1");
        }
        if self.top_logprobs > MAX_TOP_LOGPROBS {
            return bad("top_logprobs", self.top_logprobs, "0 to 20");
        }
        if self.top_logprobs > 0 && !self.logprobs {
            return bad("top_logprobs", self.top_logprobs, "0, unless logprobs is true");
        }
        if self.min_new_tokens > self.max_new_tokens {
            return bad("min_new_tokens", self.min_new_tokens, "0 to max_new_tokens");
        }
        if self.seed.is_some_and(|seed| seed > MAX_SEED) {
            return bad("seed", self.seed.unwrap_or_default(), "whole numbers from 0 to 2^53 - 1");
        }
        if let Some((token, bias)) = self.logit_bias.iter().find(|(_, bias)| !(-100.0..=100.0).contains(*bias)) {
            return bad("logit_bias", format!("{bias} for token {token}"), "-100 to 100");
        }
        if self.bad_words_ids.iter().any(Vec::is_empty) {
            return bad("bad_words_ids", "an empty sequence", "sequences of one token or more");
        }
        if self.drafter == DrafterChoice::Prediction && self.prediction.is_none() {
            return bad("drafter", "prediction", "draft_model, lookup or chain where no prediction is given");
        }
        Ok(())
    }
}

/// Most tokens of which log-probabilities are told in one place, besides the chosen one; as in OpenAI's API and in vLLM.
pub const MAX_TOP_LOGPROBS: usize = 20;
/// The largest seed: JavaScript knows larger numbers only roughly.
const MAX_SEED: u64 = (1 << 53) - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use serde_json::json;

    #[test]
    fn values_replace_defaults_by_name() {
        let options = GenerateOptions::read(json!({
            "max_new_tokens": 7,
            "num_assistant_tokens_schedule": "constant",
            "stop": ["."],
            "logit_bias": { "300": -5 },
            "speculation": null,
        }));
        let expected = GenerateOptions {
            max_new_tokens: 7,
            num_assistant_tokens_schedule: Schedule::Constant,
            stop: vec![".".into()],
            logit_bias: [(300, -5.0)].into(),
            ..GenerateOptions::default()
        };
        assert_eq!(options, Ok(expected));
        assert_eq!(LoadOptions::read(json!({ "kv_dtype": "f16" })).unwrap().kv_dtype, Some(KvDtype::F16));
    }

    #[track_caller]
    fn assert_bad(read: Result<GenerateOptions>, option: &str, value: &str, allowed: &str) {
        match read {
            Err(Error::BadOption { option: named, value: found, allowed: says }) => {
                assert_eq!((&*named, found.as_str()), (option, value));
                assert!(says.starts_with(allowed), "{says}");
            }
            other => panic!("{option}: {other:?}"),
        }
    }

    #[test]
    fn unknown_names_and_other_types_are_refused() {
        for (given, option, value, allowed) in [
            (
                json!({ "max_new_token": 7 }),
                "options",
                "max_new_token",
                "max_new_tokens, num_assistant_tokens, num_assistant_tokens_schedule, ",
            ),
            (json!({ "max_new_tokens": -1 }), "max_new_tokens", "-1", "a whole number from 0 on"),
            (json!({ "max_new_tokens": "7" }), "max_new_tokens", "\"7\"", "a whole number from 0 on"),
            (json!({ "stop": "." }), "stop", "\".\"", "a list"),
            (json!({ "seed": 1.5 }), "seed", "1.5", "a whole number from 0 on"),
            (json!({ "temperature": "hot" }), "temperature", "\"hot\"", "a number"),
            (json!({ "do_sample": 1 }), "do_sample", "1", "true, false or model"),
            (json!({ "logit_bias": [1] }), "logit_bias", "[1]", "an object"),
            (json!({ "logit_bias": { "a": 1 } }), "logit_bias", "{\"a\":1}", "numbers by token id"),
            (json!({ "tools": [5] }), "tools", "[5]", "an object"),
            (json!({ "chat_template_kwargs": "x" }), "chat_template_kwargs", "\"x\"", "an object"),
            (json!({ "speculation": "on" }), "speculation", "\"on\"", "auto or off"),
            (json!({ "drafter": 5 }), "drafter", "5", "one of its names"),
        ] {
            assert_bad(GenerateOptions::read(given), option, value, allowed);
        }
        assert!(
            matches!(GenerateOptions::read(json!([])), Err(Error::BadOption { option, .. }) if option == "options")
        );
    }

    #[test]
    fn what_json_cannot_say_is_refused_by_name() {
        use serde::de::value::{Error as Words, MapDeserializer};
        let read = |name: &'static str, value: f64| {
            GenerateOptions::read(MapDeserializer::<_, Words>::new([(name, value)].into_iter()))
        };
        assert_eq!(read("temperature", 0.5).unwrap().temperature, Some(0.5));
        assert_bad(read("temperature", f64::NAN), "temperature", "floating point `NaN`", "a finite number");
        assert_bad(read("max_new_tokens", f64::INFINITY), "max_new_tokens", "floating point `inf`", "a finite number");
        let nested = (0..1000).fold(json!(1), |inner, _| json!([inner]));
        assert_bad(
            GenerateOptions::read(json!({ "stop": nested })),
            "stop",
            "deep nesting",
            "what JSON can say, nested at most 64 deep",
        );
    }

    #[test]
    fn values_outside_their_range_are_refused_by_name() {
        let bad = |options: GenerateOptions| match options.validate() {
            Err(Error::BadOption { option, .. }) => option.into_owned(),
            other => panic!("{options:?}: {other:?}"),
        };
        let with = |change: &dyn Fn(&mut GenerateOptions)| {
            let mut options = GenerateOptions::default();
            change(&mut options);
            bad(options)
        };
        for value in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert_eq!(with(&|options| options.temperature = Some(value)), "temperature");
            assert_eq!(with(&|options| options.top_p = Some(value)), "top_p");
            assert_eq!(with(&|options| options.repetition_penalty = Some(value)), "repetition_penalty");
        }
        assert_eq!(with(&|options| options.top_p = Some(1.01)), "top_p");
        assert_eq!(with(&|options| options.min_p = Some(-0.1)), "min_p");
        assert_eq!(with(&|options| options.assistant_confidence_threshold = 2.0), "assistant_confidence_threshold");
        assert_eq!(with(&|options| options.min_new_tokens = 257), "min_new_tokens");
        assert_eq!(with(&|options| options.seed = Some(1 << 53)), "seed");
        assert_eq!(with(&|options| options.logit_bias = [(3, 101.0)].into()), "logit_bias");
        assert_eq!(with(&|options| options.bad_words_ids = vec![vec![]]), "bad_words_ids");
        assert_eq!(with(&|options| options.drafter = DrafterChoice::Prediction), "drafter");
        assert_eq!(GenerateOptions::default().validate(), Ok(()));
    }
}
