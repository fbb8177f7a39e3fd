// The token of each row: the largest logit plus noise (the lowest id where several tie), and the step for the next pass.
// A row with a logit that is not finite gives NOT_FINITE; behind the end of a draft there is NOT_DRAFTED.
const THREADS = 256u;
const NOT_DRAFTED = 0xfffffffeu;

@group(0) @binding(0) var<storage, read_write> step: Step;
@group(0) @binding(1) var<uniform> dims: SampleDims;
@group(0) @binding(2) var<storage, read> logits: array<f32>;       // (rows, stride)
@group(0) @binding(3) var<storage, read_write> round: array<u32>;  // token ids of the round
@group(0) @binding(4) var<uniform> sampling: SamplingBlock;

// Whether the token is as likely as a draft token must be. All threads call it.
fn is_confident(base: u32, count: u32, token: u32, thread: u32) -> bool {
    let chosen = logits[base + min(token, dims.vocab - 1u)];
    var sum = 0.0;
    for (var i = thread; i < count; i += THREADS) {
        sum += exp(min(logits[base + i] - chosen, 80.0));
    }
    return sampling.confidence * sum_threads(sum, 1.0, thread) <= 1.0;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let drafting = step.rows > 0u;
    let count = select(0u, dims.vocab, drafting);
    let base = (step.draft_row + id.x) * dims.stride;
    let position = position_after(id.x);
    var top = -3.4028234e38;
    var top_id = dims.vocab;
    for (var i = thread; i < count; i += THREADS) {
        let logit = logits[base + i];
        if (!is_finite(logit)) {
            top_id = NOT_FINITE;
            break;
        }
        let score = logit + noise(position, i);
        if (score > top || top_id == dims.vocab) {
            top = score;
            top_id = i;
        }
    }
    let token = best_of_threads(top, top_id, thread);
    var confident = true;
    if (dims.advance == 1u && sampling.confidence > 0.0) {
        confident = is_confident(base, count, token, thread);
    }
    if (thread == 0u) {
        round[step.out + id.x] = select(NOT_DRAFTED, token, drafting);
        if (dims.advance == 1u) {
            step.position += step.rows;
            step.token = step.out;
            step.rows = select(0u, 1u, drafting && confident);
            step.logit_row = 0u;
            step.out += 1u;
            step.draft_row += 1u;
        }
    }
}
