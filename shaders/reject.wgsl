// Rejection sampling (Leviathan et al. 2023, Chen et al. 2023): a draft token x counts with probability
// min(1, p(x) / q(x)), else a draw from max(p - q, 0) takes its place; behind the draft, a draw from p. One workgroup
// per row. A row with a logit that is not finite gives NOT_FINITE.
const THREADS = 256u;
const ACCEPTANCE = 2u;  // the stream of its noise

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: SampleDims;
@group(0) @binding(2) var<storage, read> logits: array<f32>;        // (rows, stride), the target's
@group(0) @binding(3) var<storage, read_write> round: array<u32>;   // token ids of the round
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

fn q_of(row: u32, id: u32) -> f32 {
    // The draft model's vocabulary may be smaller than the target's.
    if (id >= dims.draft_vocab) {
        return 0.0;
    }
    return probability(draft_cuts[row], draft_logits[row * dims.draft_stride + id], id);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let row = id.x;
    let x = round[dims.drafts + row];
    let drafted = row + 1u < step.rows && x < dims.vocab;
    let position = position_after(row);

    // Of the draws from max(p - q, 0) and from p, the second serves only where the first has nothing left.
    var rest = 0.0;
    var rest_id = dims.vocab;
    var whole = 0.0;
    var whole_id = dims.vocab;
    let count = token_count(row);
    for (var i = thread; i < count; i += THREADS) {
        let token = token_at(row, i);
        if (token >= GONE) {
            continue;
        }
        let wait = exponential(random(dims.stream, position, token));
        let at = p_of(row, token);
        var drawn = f32(token == x);
        if (dims.draft_stride > 0u && drafted) {
            drawn = q_of(row, token);
        }
        let left = at - select(0.0, drawn, drafted);
        if (left / wait > rest) {
            rest = left / wait;
            rest_id = token;
        }
        if (at / wait > whole) {
            whole = at / wait;
            whole_id = token;
        }
    }
    rest_id = best_of_threads(rest, rest_id, thread);
    whole_id = best_of_threads(whole, whole_id, thread);
    if (thread > 0u) {
        return;
    }
    var token = select(rest_id, whole_id, rest_id == dims.vocab);
    if (drafted) {
        var q_x = 1.0;
        if (dims.draft_stride > 0u) {
            q_x = q_of(row, x);
        }
        let chance = f32(random(ACCEPTANCE, position, 0u).x >> 8u) / 16777216.0;
        if (chance * q_x < p_of(row, x)) {
            token = x;
        }
    }
    if (cuts[row].sum < 0.0) {
        token = NOT_FINITE;
    }
    round[step.out + row] = token;
}
