// Rejection sampling (Leviathan et al. 2023, Chen et al. 2023): a draft token x counts with probability
// min(1, p(x) / q(x)), else a draw from max(p - q, 0) takes its place; behind the draft, a draw from p. One workgroup
// per row; logits are filtered. A row with a logit that is not finite gives NOT_FINITE.
const THREADS = 256u;
const TARGET = 0u;
const DRAFT = 1u;
const ACCEPTANCE = 2u;  // the stream of its noise

struct Softmax {
    top: f32,
    sum: f32,
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: SampleDims;
@group(0) @binding(2) var<storage, read> logits: array<f32>;        // (rows, stride), the target's
@group(0) @binding(3) var<storage, read_write> round: array<u32>;   // token ids of the round
@group(0) @binding(4) var<uniform> sampling: SamplingBlock;
@group(0) @binding(5) var<storage, read> draft_logits: array<f32>;  // (draft tokens, draft_stride)

fn logit_of(model: u32, row: u32, i: u32) -> f32 {
    if (model == DRAFT) {
        // Its vocabulary may be smaller than the target's.
        if (i >= dims.draft_stride) {
            return REMOVED;
        }
        return draft_logits[row * dims.draft_stride + i];
    }
    return logits[row * dims.stride + i];
}

fn softmax(model: u32, row: u32, thread: u32) -> Softmax {
    var most = REMOVED;
    for (var i = thread; i < dims.vocab; i += THREADS) {
        most = max(most, logit_of(model, row, i));
    }
    let top = max_threads(most, thread);
    var sum = 0.0;
    for (var i = thread; i < dims.vocab; i += THREADS) {
        sum += exp(logit_of(model, row, i) - top);
    }
    return Softmax(top, sum_threads(sum, 1.0, thread));
}

fn probability(model: u32, row: u32, i: u32, whole: Softmax) -> f32 {
    return exp(logit_of(model, row, i) - whole.top) / whole.sum;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let row = id.x;
    let x = round[dims.drafts + row];
    let drafted = row + 1u < step.rows && x < dims.vocab;
    let position = position_after(row);
    let p = softmax(TARGET, row, thread);
    var q = Softmax();
    if (dims.draft_stride > 0u) {
        q = softmax(DRAFT, row, thread);
    }

    // Of the draws from max(p - q, 0) and from p, the second serves only where the first has nothing left.
    var rest = 0.0;
    var rest_id = dims.vocab;
    var whole = 0.0;
    var whole_id = dims.vocab;
    for (var i = thread; i < dims.vocab; i += THREADS) {
        if (!is_finite(logit_of(TARGET, row, i))) {
            whole_id = NOT_FINITE;
            break;
        }
        let wait = exponential(random(dims.stream, position, i));
        let at = probability(TARGET, row, i, p);
        var drawn = f32(i == x);
        if (dims.draft_stride > 0u) {
            drawn = probability(DRAFT, row, i, q);
        }
        let left = at - select(0.0, drawn, drafted);
        if (left / wait > rest) {
            rest = left / wait;
            rest_id = i;
        }
        if (at / wait > whole) {
            whole = at / wait;
            whole_id = i;
        }
    }
    rest_id = best_of_threads(rest, rest_id, thread);
    whole_id = best_of_threads(whole, whole_id, thread);
    if (thread > 0u) {
        return;
    }
    var token = select(rest_id, whole_id, rest_id == dims.vocab || whole_id == NOT_FINITE);
    if (drafted && whole_id != NOT_FINITE) {
        var q_x = 1.0;
        if (dims.draft_stride > 0u) {
            q_x = probability(DRAFT, row, x, q);
        }
        let chance = f32(random(ACCEPTANCE, position, 0u).x >> 8u) / 16777216.0;
        if (chance * q_x < probability(TARGET, row, x, p)) {
            token = x;
        }
    }
    round[step.out + row] = token;
}
