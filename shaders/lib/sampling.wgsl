// How tokens are chosen: one block for target and draft model, and the sampler's view of a pass.
struct SamplingBlock {
    seed_low: u32,
    seed_high: u32,
    temperature: f32,
    top_k: u32,               // 0: all
    top_p: f32,               // 1: all
    min_p: f32,               // 0: all
    repetition_penalty: f32,  // 1: none
    confidence: f32,          // drafting ends behind a token less likely than this; 0: never
}

struct SampleDims {
    vocab: u32,         // ids that may be chosen
    stride: u32,        // elements per row of logits
    drafts: u32,        // index in `round` of the first draft token
    advance: u32,       // 1: the next pass reads the sampled token (drafting)
    stream: u32,        // which noise: 0 the target's, 1 the draft model's own
    draft_stride: u32,  // elements per row of the draft model's logits; 0: the draft tokens are certain
}

// What stands for a removed token's logit: shaders need not know infinities.
const REMOVED = -3.4028234e38;
fn is_removed(logit: f32) -> bool {
    return logit < -1e38;
}

fn is_finite(logit: f32) -> bool {
    return (bitcast<u32>(logit) & 0x7f800000u) != 0x7f800000u;
}

// KV position of the token that a row decides.
fn position_after(row: u32) -> u32 {
    return step.position + step.logit_row + row + 1u;
}
