//! Token choice, row by row, as in the kernels `adjust`, `filter`, `sample` and `reject`.

use super::{Draw, Sampling, accepts, draw, exponential, recovered, softmax, stream, uniform};

/// Returns the target's token after `history`; processes its logits [vocab] in place. `None`: a logit is not finite. Rejection sampling
/// returns an accepted draft token. `proposed`: the draft token and the processed logits that it was drawn from (`None`: it was certain).
pub fn choose(
    logits: &mut [f32],
    sampling: &Sampling,
    history: &[u32],
    proposed: Option<(u32, Option<&[f32]>)>,
) -> Option<u32> {
    process(logits, sampling, history)?;
    let (seed, position) = (sampling.seed, history.len() as u32);
    if sampling.draw != Draw::Rejection {
        return Some(pick(logits, sampling.draw, seed, stream::TARGET, position));
    }
    let p = softmax(logits);
    let mut from = p.clone();
    if let Some((id, drawn_from)) = proposed {
        let q = match drawn_from {
            Some(logits) => {
                let mut q = softmax(logits);
                // The draft model's vocabulary may be smaller.
                q.resize(p.len(), 0.0);
                q
            }
            None => (0..p.len()).map(|token| if token == id as usize { 1.0 } else { 0.0 }).collect(),
        };
        // A token outside the target's vocabulary has probability 0.
        let of = |all: &[f32]| all.get(id as usize).copied().unwrap_or(0.0);
        if accepts(of(&p), of(&q), uniform(seed, stream::ACCEPTANCE, position)) {
            return Some(id);
        }
        from = recovered(&p, &q);
    }
    let mut best = (0.0, 0);
    for (token, p) in from.into_iter().enumerate().filter(|(_, p)| *p > 0.0) {
        let score = p / exponential(seed, stream::TARGET, position, token as u32);
        if score > best.0 {
            best = (score, token as u32);
        }
    }
    Some(best.1)
}

/// Returns the draft model's token after `history`, and true if it is at least as likely as [`Sampling::confidence`]. Processes the
/// logits [vocab] in place. `None`: a logit is not finite.
pub fn choose_draft(logits: &mut [f32], sampling: &Sampling, history: &[u32]) -> Option<(u32, bool)> {
    process(logits, sampling, history)?;
    let stream = if sampling.draw == Draw::Rejection { stream::DRAFT } else { stream::TARGET };
    let id = pick(logits, sampling.draw, sampling.seed, stream, history.len() as u32);
    let chosen = *logits.get(id as usize)?;
    let sum = || logits.iter().map(|logit| (logit - chosen).min(80.0).exp()).sum::<f32>();
    Some((id, sampling.confidence <= 0.0 || sampling.confidence * sum() <= 1.0))
}

/// Processes logits; `None`: a logit is not finite.
fn process(logits: &mut [f32], sampling: &Sampling, history: &[u32]) -> Option<()> {
    if !logits.iter().all(|logit| logit.is_finite()) {
        return None;
    }
    sampling.processors.adjust(logits, history);
    // Filters never remove the largest logit, so greedy choice skips them.
    if sampling.draw != Draw::Greedy {
        sampling.processors.filter(logits);
    }
    Some(())
}

fn pick(logits: &[f32], by: Draw, seed: u64, stream: u32, position: u32) -> u32 {
    if by != Draw::Greedy {
        return draw(logits, seed, stream, position);
    }
    let best = |best: (usize, f32), (id, &logit): (usize, &f32)| if logit > best.1 { (id, logit) } else { best };
    logits.iter().enumerate().fold((0, f32::NEG_INFINITY), best).0 as u32
}
