//! Log-probabilities and most likely tokens of unprocessed logits.

/// Returns the logarithm of the sum of exponentials of logits [vocab]: log-probability = logit - this value.
pub fn log_sum_exp(logits: &[f32]) -> f32 {
    let top = logits.iter().fold(f32::NEG_INFINITY, |top, &logit| top.max(logit));
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - top).exp()).sum();
    top + sum.ln() as f32
}

/// Returns the ids of the `count` largest of logits [vocab], largest first; of equal ones the lowest id first.
pub fn most_likely(logits: &[f32], count: usize) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    let order = |a: &u32, b: &u32| {
        // Adding 0 turns -0 into 0.
        let logit = |id: &u32| logits[*id as usize] + 0.0;
        logit(b).total_cmp(&logit(a)).then(a.cmp(b))
    };
    if count < ids.len() {
        ids.select_nth_unstable_by(count, order);
        ids.truncate(count);
    }
    ids.sort_unstable_by(order);
    ids
}
