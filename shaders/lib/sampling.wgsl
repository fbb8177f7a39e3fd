struct SampleDims {
    vocab: u32,         // ids that may be chosen
    stride: u32,        // elements per row of logits
    drafts: u32,        // index in `round` of the first draft token
    advance: u32,       // ADVANCES (drafting), and perhaps one of the other flags; 0: no pass follows
    stream: u32,        // noise stream: 0 the target's, 1 the draft model's own
    draft_stride: u32,  // elements per row of the draft model's logits; 0: the draft tokens are certain
    draft_vocab: u32,   // ids that the draft model may choose
    logprobs: u32,      // index in `round` of the first row's log-probabilities
    lead: u32,          // positions between a row and the token before its result, modulo 2^32
}

const ADVANCES = 1u;  // the next pass reads the sampled token
const DECIDES = 2u;   // and decides itself whether the draft goes on
const STAYS = 4u;     // and has the same position

// Logit of a removed token. Shaders need no infinities.
const REMOVED = -3.4028234e38;
const LOWEST = -1e38;
fn is_removed(logit: f32) -> bool {
    return logit < LOWEST;
}

// Logits per workgroup if several workgroups process a row.
const SEGMENT = 4096u;
fn segment_count() -> u32 {
    return (dims.vocab + SEGMENT - 1u) / SEGMENT;
}

// Divides by the temperature.
fn scaled(logit: f32) -> f32 {
    return select(logit / sampling.temperature, REMOVED, is_removed(logit));
}

fn rank(logit: f32) -> u32 {
    let bits = bitcast<u32>(select(logit, 0.0, logit == 0.0));
    return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
}

// Range of the remaining tokens of a row.
struct Cut {
    top: f32,      // the largest scaled logit
    sum: f32,      // of exp(scaled logit - top) over remaining tokens; negative if a logit is not finite
    floor: u32,    // rank below which none remains
    last_id: u32,  // last id that remains among those of rank `floor`
    count: u32,    // ids in the row's list
}

fn remains(cut: Cut, logit: f32, id: u32) -> bool {
    let at = rank(logit);
    let is_low = at < cut.floor || (at == cut.floor && id > cut.last_id);
    return !(is_low || is_removed(logit) || exp(logit - cut.top) < sampling.min_p);
}

// Flag of ids in a list that do not remain.
const GONE = 0x80000000u;

fn is_finite(logit: f32) -> bool {
    return (bitcast<u32>(logit) & 0x7f800000u) != 0x7f800000u;
}

fn position_after(row: u32) -> u32 {
    let drafted = select(0u, step.draft_row, (dims.advance & STAYS) != 0u);
    return drafted + step.position + dims.lead + step.logit_row + row + 1u;
}
