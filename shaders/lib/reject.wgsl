// Best tokens of both draws. The second is used only if the first has no candidate.
struct Draws {
    rest: f32,       // of max(p - q, 0), by exponential noise
    rest_id: u32,
    whole: f32,      // of p
    whole_id: u32,
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: SampleDims;
@group(0) @binding(2) var<storage, read> logits: array<f32>;        // (rows, stride), of the target
@group(0) @binding(4) var<uniform> sampling: SamplingBlock;
@group(0) @binding(5) var<storage, read> draft_logits: array<f32>;  // (draft tokens, draft_stride)
@group(0) @binding(6) var<storage, read> cuts: array<Cut>;          // (rows)
@group(0) @binding(7) var<storage, read> draft_cuts: array<Cut>;    // (draft tokens)

fn probability(cut: Cut, raw: f32, id: u32) -> f32 {
    let logit = scaled(raw);
    return select(0.0, exp(logit - cut.top) / cut.sum, remains(cut, logit, id));
}

fn p_of(row: u32, id: u32) -> f32 {
    return probability(cuts[row], logits[row * dims.stride + id], id);
}

fn q_of(row: u32, id: u32, x: u32) -> f32 {
    if (dims.draft_stride == 0u) {
        return f32(id == x);
    }
    // The draft model's vocabulary may be smaller than the target's.
    if (id >= dims.draft_vocab) {
        return 0.0;
    }
    return probability(draft_cuts[row], draft_logits[row * dims.draft_stride + id], id);
}

fn is_drafted(row: u32, x: u32) -> bool {
    return row + 1u < step.rows && x < dims.vocab;
}

fn best_draws(mine: Draws, thread: u32) -> Draws {
    var best = mine;
    best.rest_id = best_of_threads(mine.rest, mine.rest_id, thread);
    best.rest = best_score;
    best.whole_id = best_of_threads(mine.whole, mine.whole_id, thread);
    best.whole = best_score;
    return best;
}
