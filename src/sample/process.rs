//! The processors of transformers, in their order: bans and biases, repetition penalty, temperature, top-k, top-p, min-p.

/// What is done to the logits before a token is drawn. The defaults do nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Processors {
    /// Logits of tokens that occurred are divided by it where positive, else multiplied (CTRL, Keskar et al. 2019).
    pub repetition_penalty: f32,
    /// Added to the logits of tokens.
    pub logit_bias: Vec<(u32, f32)>,
    /// Logits are divided by it.
    pub temperature: f32,
    /// So many most likely tokens remain, and those that tie with the last of them; 0: all.
    pub top_k: usize,
    /// The most likely tokens whose probabilities sum up to this remain (Holtzman et al. 2019).
    pub top_p: f32,
    /// Tokens remain that have at least this times the highest probability (Nguyen et al. 2024).
    pub min_p: f32,
}

impl Default for Processors {
    fn default() -> Self {
        let logit_bias = Vec::new();
        Self { repetition_penalty: 1.0, logit_bias, temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0 }
    }
}

impl Processors {
    /// Processes the logits of one position in place. `history` are the tokens before it, `banned` those that may not
    /// come. What is removed becomes negative infinity; at least one token remains.
    pub fn apply(&self, logits: &mut [f32], history: &[u32], banned: &[u32]) {
        self.penalise(logits, history);
        for &(token, bias) in &self.logit_bias {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit += bias;
            }
        }
        for &token in banned {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit = f32::NEG_INFINITY;
            }
        }
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
        if self.repetition_penalty == 1.0 {
            return;
        }
        let mut seen: Vec<u32> = history.to_vec();
        seen.sort_unstable();
        seen.dedup();
        for token in seen {
            if let Some(logit) = logits.get_mut(token as usize) {
                let penalty = self.repetition_penalty;
                *logit = if *logit < 0.0 { *logit * penalty } else { *logit / penalty };
            }
        }
    }

    /// Removes the least likely tokens, from the lowest up, as long as they sum up to at most 1 - top_p. Of equal ones the
    /// lowest ids remain; transformers leaves that open.
    fn keep_nucleus(&self, logits: &mut [f32]) {
        let probabilities = softmax(logits);
        let mut order: Vec<usize> = (0..logits.len()).collect();
        // Adding 0 makes one of the two zeros.
        order.sort_by(|&a, &b| (logits[a] + 0.0).total_cmp(&(logits[b] + 0.0)).then(b.cmp(&a)));
        let mut sum = 0f64;
        for &token in &order[..order.len() - 1] {
            sum += f64::from(probabilities[token]);
            if sum > f64::from(1.0 - self.top_p) {
                break;
            }
            logits[token] = f32::NEG_INFINITY;
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

/// The probabilities of logits. Those of negative infinity are 0.
pub fn softmax(logits: &[f32]) -> Vec<f32> {
    let top = logits.iter().fold(f32::NEG_INFINITY, |top, &logit| top.max(logit));
    let powers: Vec<f64> = logits.iter().map(|&logit| f64::from(logit - top).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| (power / sum) as f32).collect()
}
