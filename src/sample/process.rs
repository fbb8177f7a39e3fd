//! Logits processors of transformers, in their order: biases, repetition penalty, banned n-grams, temperature, top-k, top-p, min-p.
//! OpenAI's two penalties follow the repetition penalty, as in vLLM.

use serde::{Deserialize, Deserializer, Serialize};

/// Settings of all processors. The defaults change nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Processors {
    /// Values added to logits: preferences, bans, a minimum length.
    pub biases: Vec<Bias>,
    /// Factor for tokens that occurred: divides logits from 0 up, multiplies negative ones (CTRL, Keskar et al. 2019).
    pub repetition_penalty: f32,
    /// Value subtracted from the logits of generated tokens (OpenAI).
    pub presence_penalty: f32,
    /// Value subtracted per time that a token was generated.
    pub frequency_penalty: f32,
    /// Length of n-grams that must not repeat; 0: no limit (Paulus et al. 2017).
    pub no_repeat_ngram_size: usize,
    /// Number of leading tokens that were not generated.
    pub prompt_len: usize,
    /// Divisor of the logits.
    pub temperature: f32,
    /// Number of most likely tokens to keep, plus ties with the last one; 0: all.
    pub top_k: usize,
    /// Total probability of the most likely tokens to keep (Holtzman et al. 2019).
    pub top_p: f32,
    /// Minimum probability of tokens to keep, relative to the highest one (Nguyen et al. 2024).
    pub min_p: f32,
}

impl Default for Processors {
    fn default() -> Self {
        Self {
            biases: Vec::new(),
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            no_repeat_ngram_size: 0,
            prompt_len: 0,
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
        }
    }
}

/// Value added to a token's logit if it would complete a sequence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bias {
    /// Tokens that must precede it; empty: no condition.
    pub after: Vec<u32>,
    /// Token whose logit changes.
    pub token: u32,
    /// Value to add; negative infinity bans the token.
    #[serde(deserialize_with = "or_banned")]
    pub bias: f32,
    /// Position (number of tokens before) from which the bias no longer applies.
    pub until: u32,
}

/// Reads null as negative infinity, which JSON lacks.
fn or_banned<'a, D: Deserializer<'a>>(from: D) -> Result<f32, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f32::NEG_INFINITY))
}

impl Bias {
    /// Returns a bias that applies everywhere.
    pub fn always(token: u32, bias: f32) -> Self {
        Self { after: Vec::new(), token, bias, until: u32::MAX }
    }

    /// Returns a bias that bans a token.
    pub fn ban(token: u32) -> Self {
        Self::always(token, f32::NEG_INFINITY)
    }
}

impl Processors {
    /// Returns true if [`Processors::adjust`] changes logits.
    pub fn adjusts(&self) -> bool {
        !self.biases.is_empty() || self.looks_back()
    }

    /// Returns true if more than the text's last tokens affect the logits.
    pub fn looks_back(&self) -> bool {
        self.penalises() || self.no_repeat_ngram_size > 0
    }

    fn penalises(&self) -> bool {
        self.repetition_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }

    /// Returns true if [`Processors::filter`] removes tokens.
    pub fn removes(&self) -> bool {
        self.top_k > 0 || self.top_p < 1.0 || self.min_p > 0.0
    }

    /// Processes the logits after `history` in place. Removed logits become negative infinity; at least one token that is not banned
    /// remains.
    pub fn apply(&self, logits: &mut [f32], history: &[u32]) {
        self.adjust(logits, history);
        self.filter(logits);
    }

    /// Applies biases, then penalties, then the n-gram ban.
    pub fn adjust(&self, logits: &mut [f32], history: &[u32]) {
        for Bias { after, token, bias, until } in &self.biases {
            if let Some(logit) = logits.get_mut(*token as usize)
                && history.ends_with(after)
                && history.len() < *until as usize
            {
                *logit += bias;
            }
        }
        if self.penalises() {
            self.penalise(logits, history);
        }
        self.ban_ngrams(logits, history);
    }

    /// Applies temperature, top-k, top-p and min-p.
    pub fn filter(&self, logits: &mut [f32]) {
        if self.temperature != 1.0 {
            logits.iter_mut().for_each(|logit| *logit /= self.temperature);
        }
        if (1..logits.len()).contains(&self.top_k) {
            let mut sorted = logits.to_vec();
            let (_, last, _) = sorted.select_nth_unstable_by(self.top_k - 1, |a, b| b.total_cmp(a));
            let last = *last;
            remove(logits, |_, logit| logit < last);
        }
        if self.top_p < 1.0 {
            self.keep_nucleus(logits);
        }
        if self.min_p > 0.0 {
            let probabilities = softmax(logits);
            let most = probabilities.iter().fold(0f32, |most, &p| most.max(p));
            remove(logits, |token, _| probabilities[token] < self.min_p * most);
        }
    }

    fn penalise(&self, logits: &mut [f32], history: &[u32]) {
        // 0: not in the text; otherwise 1 + how often the token was generated.
        let mut counts = vec![0u32; logits.len()];
        for (at, &token) in history.iter().enumerate() {
            if let Some(count) = counts.get_mut(token as usize) {
                *count = (*count).max(1) + u32::from(at >= self.prompt_len);
            }
        }
        for (logit, count) in logits.iter_mut().zip(counts) {
            if let Some(count) = count.checked_sub(1) {
                let (penalty, count) = (self.repetition_penalty, count as f32);
                let penalised = if *logit < 0.0 { *logit * penalty } else { *logit / penalty };
                *logit = penalised - self.frequency_penalty * count - self.presence_penalty * count.min(1.0);
            }
        }
    }

    /// Removes tokens that would repeat an n-gram of the text.
    fn ban_ngrams(&self, logits: &mut [f32], history: &[u32]) {
        if self.no_repeat_ngram_size == 0 {
            return;
        }
        for ngram in history.windows(self.no_repeat_ngram_size) {
            if let Some((end, before)) = ngram.split_last()
                && history.ends_with(before)
                && let Some(logit) = logits.get_mut(*end as usize)
            {
                *logit = f32::NEG_INFINITY;
            }
        }
    }

    /// Removes the least likely tokens, in ascending order, while they sum to at most 1 - top_p. Of equal ones the lowest ids remain;
    /// transformers leaves that open.
    fn keep_nucleus(&self, logits: &mut [f32]) {
        let probabilities = softmax(logits);
        let most = f64::from(1.0 - self.top_p);
        // All tokens below this probability sum to at most half of `most`: they are removed, and only the others are sorted.
        let least = (most / 2.0 / logits.len() as f64) as f32;
        let (low, high): (Vec<usize>, Vec<usize>) = (0..logits.len()).partition(|&token| probabilities[token] < least);
        let sum = low.iter().map(|&token| f64::from(probabilities[token])).sum();
        let removed = match removed_before(logits, &probabilities, high, sum, most, UNSURE) {
            Some(high) => [low, high].concat(),
            // The order of addition could decide about a token.
            None => {
                let all = (0..logits.len()).collect();
                removed_before(logits, &probabilities, all, 0.0, most, 0.0).unwrap_or_default()
            }
        };
        removed.into_iter().for_each(|token| logits[token] = f32::NEG_INFINITY);
    }
}

/// Largest relative difference of two sums of the same probabilities in different orders: far more than 2^-52 per term.
const UNSURE: f64 = 1e-8;

/// Returns the least likely of `tokens`, in ascending order, while they and `sum` (removed before) are at most `most`. The last one
/// stays. `None`: a sum is within `unsure * most` of `most`.
fn removed_before(
    logits: &[f32],
    probabilities: &[f32],
    mut tokens: Vec<usize>,
    mut sum: f64,
    most: f64,
    unsure: f64,
) -> Option<Vec<usize>> {
    // Adding 0 turns -0 into 0.
    tokens.sort_unstable_by(|&a, &b| (logits[a] + 0.0).total_cmp(&(logits[b] + 0.0)).then(b.cmp(&a)));
    tokens.pop()?;
    for (at, &token) in tokens.iter().enumerate() {
        sum += f64::from(probabilities[token]);
        if unsure > 0.0 && (sum.is_nan() || (sum - most).abs() <= unsure * most) {
            return None;
        }
        if sum > most {
            tokens.truncate(at);
            break;
        }
    }
    Some(tokens)
}

/// Removes tokens whose bit is not set in `allowed` [vocab / 32 in whole words]. Logits that are not finite stay, so that they are
/// detected.
pub fn mask(logits: &mut [f32], allowed: &[u32]) {
    for (token, logit) in logits.iter_mut().enumerate() {
        let bits = allowed.get(token / 32).copied().unwrap_or_default();
        if (bits >> (token % 32)) & 1 == 0 && logit.is_finite() {
            *logit = f32::MIN;
        }
    }
}

fn remove(logits: &mut [f32], removed: impl Fn(usize, f32) -> bool) {
    for (token, logit) in logits.iter_mut().enumerate() {
        if removed(token, *logit) {
            *logit = f32::NEG_INFINITY;
        }
    }
}

/// Returns the probabilities of logits; negative infinity gives 0.
pub fn softmax(logits: &[f32]) -> Vec<f32> {
    let top = logits.iter().fold(f32::NEG_INFINITY, |top, &logit| top.max(logit));
    let powers: Vec<f64> = logits.iter().map(|&logit| f64::from(logit - top).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| (power / sum) as f32).collect()
}
