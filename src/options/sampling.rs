//! Options that choose tokens: given, recommended by the model's files, or the defaults.

use super::GenerateOptions;
use super::choice::choice;
use super::declare::{Options, options};
use super::value::bad;
use crate::error::{Error, Result};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

options! {
    /// Choice of tokens.
    pub struct SamplingOptions set by GenerateOptions.sampling {
        /// Sample tokens at random, or take the most likely one.
        do_sample: DoSample = DoSample::Auto,
        /// Divisor of the logits: lower values make the text more predictable. 0: take the most likely token.
        temperature: Option<f32> [1e-3..=100.0, "0, unless do_sample is true or model"] = None => "1",
        /// Keep only the N most likely tokens; 0: all.
        top_k: Option<usize> = None => "0",
        /// Keep only the most likely tokens whose probabilities sum to this; 1: all.
        top_p: Option<f32> [f32::MIN_POSITIVE..=1.0] = None => "1",
        /// Keep only tokens with at least this fraction of the highest probability; 0: all.
        min_p: Option<f32> [0.0..=1.0] = None => "0",
        /// Penalty for tokens of the prompt and the text: divides positive logits, multiplies negative ones.
        repetition_penalty: Option<f32> [0.01..=100.0, "1: none"] = None => "1",
        /// Value subtracted from the logits of generated tokens; negative values make them more likely. The prompt does not
        /// count.
        presence_penalty: f32 [-2.0..=2.0, "0: none"] = 0.0,
        /// Like `presence_penalty`, multiplied by how often the token was generated.
        frequency_penalty: f32 [-2.0..=2.0, "0: none"] = 0.0,
        /// Never repeat an n-gram of N tokens, counting the prompt; 0: no limit.
        no_repeat_ngram_size: Option<usize> = None => "0",
        /// Values added to the logits of tokens, by token id.
        logit_bias: BTreeMap<u32, f32> [-100.0..=100.0] = BTreeMap::new(),
        /// Sequences of token ids that must not be generated.
        bad_words_ids: Vec<Vec<u32>> = Vec::new(),
        /// Seed of the random choices: the same seed gives the same text.
        seed: Option<u64> [0..=MAX_SEED] = None => "a new seed each time, returned in the statistics",
    }
}

/// Largest seed, because JavaScript rounds larger numbers.
pub const MAX_SEED: u64 = (1 << 53) - 1;

choice! {
    /// Choice between sampling and the most likely token. In JSON, `true` and `false` are booleans.
    pub enum DoSample for "do_sample" {
        /// Sample if `temperature` is above 0; or, without a `temperature`, if `top_k`, `top_p`, `min_p` or `seed` is given.
        Auto = "auto",
        /// Sample.
        Yes = "true",
        /// Take the most likely token.
        No = "false",
        /// As in the model's `generation_config.json`, which also gives the values that the options omit.
        Model = "model",
    }
}

impl From<bool> for DoSample {
    fn from(drawn: bool) -> Self {
        if drawn { Self::Yes } else { Self::No }
    }
}

/// Values used for a text. Without sampling, the sampling values have no effect.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
#[allow(missing_docs, reason = "as in SamplingOptions")]
pub struct SamplingValues {
    pub do_sample: bool,
    pub temperature: f32,
    pub top_k: usize,
    pub top_p: f32,
    pub min_p: f32,
    pub repetition_penalty: f32,
    pub presence_penalty: f32,
    pub frequency_penalty: f32,
    pub no_repeat_ngram_size: usize,
}

impl Default for SamplingValues {
    /// Always takes the most likely token.
    fn default() -> Self {
        Self {
            do_sample: false,
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            no_repeat_ngram_size: 0,
        }
    }
}

impl SamplingOptions {
    /// Returns the recommendations of a model, from the bytes of `generation_config.json`.
    #[doc(hidden)]
    pub fn recommended(generation_config: &[u8]) -> Result<Self> {
        let bad = |key: &str, reason: String| Error::BadConfig {
            file: "generation_config.json".into(),
            key: key.into(),
            reason,
        };
        let config: Value = serde_json::from_slice(generation_config).map_err(|error| bad("-", error.to_string()))?;
        let given = |key: &str| config.get(key).filter(|value| !value.is_null());
        let number = |key: &str| match given(key).map(|value| (value, value.as_f64())) {
            None => Ok(None),
            Some((_, Some(number))) => Ok(Some(number as f32)),
            Some((value, None)) => Err(bad(key, format!("{value} is no number"))),
        };
        let do_sample = match given("do_sample") {
            Some(Value::Bool(drawn)) => (*drawn).into(),
            None => DoSample::No,
            Some(value) => return Err(bad("do_sample", format!("{value} is neither true nor false"))),
        };
        let count = |key: &str| match number(key)? {
            // vLLM's notation for all tokens.
            Some(-1.0) => Ok(Some(0)),
            Some(count) if count < 0.0 || count.fract() != 0.0 => {
                Err(bad(key, format!("{count} is no whole number from 0 on")))
            }
            count => Ok(count.map(|count| count as usize)),
        };
        Ok(Self {
            do_sample,
            temperature: number("temperature")?,
            top_k: count("top_k")?,
            top_p: number("top_p")?,
            min_p: number("min_p")?,
            repetition_penalty: number("repetition_penalty")?,
            no_repeat_ngram_size: count("no_repeat_ngram_size")?,
            ..Self::default()
        })
    }

    pub(super) fn validate(&self) -> Result<()> {
        self.merged(&Self::default()).check()?;
        if self.bad_words_ids.iter().any(Vec::is_empty) {
            return bad("bad_words_ids", "an empty sequence", "sequences of one token or more");
        }
        Ok(())
    }

    /// Lets the model's files choose how tokens are drawn, unless an option does. Many small models repeat themselves if they always take the
    /// likeliest token.
    #[doc(hidden)]
    pub fn as_recommended(&mut self) {
        if self.do_sample == DoSample::Auto && self.temperature.is_none() && !self.is_random() {
            self.do_sample = DoSample::Model;
        }
    }

    fn is_random(&self) -> bool {
        self.top_k.is_some() || self.top_p.is_some() || self.min_p.is_some() || self.seed.is_some()
    }

    /// Returns true if tokens are drawn at random; `model` holds the recommendations of the model's files.
    #[doc(hidden)]
    pub fn draws(&self, model: &Self) -> bool {
        match self.do_sample {
            DoSample::Yes => true,
            DoSample::No => false,
            DoSample::Model => model.do_sample == DoSample::Yes,
            DoSample::Auto => self.temperature.map_or_else(|| self.is_random(), |temperature| temperature != 0.0),
        }
    }

    /// Returns the values to use: those of the options, then, if `do_sample` is [`DoSample::Model`], those of the model's files.
    ///
    /// # Errors
    /// [`Error::BadOption`] for a value out of range.
    #[doc(hidden)]
    pub fn values(&self, model: &Self) -> Result<SamplingValues> {
        let nothing = Self::default();
        let model = if self.do_sample == DoSample::Model { model } else { &nothing };
        let do_sample = self.draws(model);
        let mut merged = self.merged(model);
        if !do_sample {
            (merged.temperature, merged.top_k, merged.top_p, merged.min_p) = (None, None, None, None);
        }
        merged.check()?;
        let plain = SamplingValues::default();
        Ok(SamplingValues {
            do_sample,
            temperature: merged.temperature.unwrap_or(plain.temperature),
            top_k: merged.top_k.unwrap_or(plain.top_k),
            top_p: merged.top_p.unwrap_or(plain.top_p),
            min_p: merged.min_p.unwrap_or(plain.min_p),
            repetition_penalty: merged.repetition_penalty.unwrap_or(plain.repetition_penalty),
            presence_penalty: merged.presence_penalty,
            frequency_penalty: merged.frequency_penalty,
            no_repeat_ngram_size: merged.no_repeat_ngram_size.unwrap_or(plain.no_repeat_ngram_size),
        })
    }

    /// Returns the options, completed by the recommendations, as if tokens were sampled. A temperature of 0 that only selects the
    /// most likely token is left out.
    fn merged(&self, model: &Self) -> Self {
        let may_be_0 = [DoSample::Auto, DoSample::No].contains(&self.do_sample);
        let temperature = self.temperature.filter(|temperature| *temperature != 0.0 || !may_be_0);
        Self {
            temperature: temperature.or(model.temperature),
            top_k: self.top_k.or(model.top_k),
            top_p: self.top_p.or(model.top_p),
            min_p: self.min_p.or(model.min_p),
            repetition_penalty: self.repetition_penalty.or(model.repetition_penalty),
            no_repeat_ngram_size: self.no_repeat_ngram_size.or(model.no_repeat_ngram_size),
            ..self.clone()
        }
    }
}
