// The token with the largest logit of each row (the lowest id where several tie), and the step for the next pass.
// A row with a logit that is not finite gives NOT_FINITE.
const THREADS = 256u;
const NOT_FINITE = 0xffffffffu;

struct SampleDims {
    vocab: u32,    // ids that may be chosen
    stride: u32,   // elements per row of logits
    advance: u32,  // 1: the next pass reads the sampled token (drafting)
}

@group(0) @binding(0) var<storage, read_write> step: Step;
@group(0) @binding(1) var<uniform> dims: SampleDims;
@group(0) @binding(2) var<storage, read> logits: array<f32>;       // (rows, stride)
@group(0) @binding(3) var<storage, read_write> round: array<u32>;  // token ids of the round

var<workgroup> best: array<f32, THREADS>;
var<workgroup> best_id: array<u32, THREADS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    var top = -3.4028234e38;
    var top_id = dims.vocab;
    for (var i = thread; i < dims.vocab; i += THREADS) {
        let logit = logits[id.x * dims.stride + i];
        if ((bitcast<u32>(logit) & 0x7f800000u) == 0x7f800000u) {
            top_id = NOT_FINITE;
            break;
        }
        if (logit > top || top_id == dims.vocab) {
            top = logit;
            top_id = i;
        }
    }
    best[thread] = top;
    best_id[thread] = top_id;
    workgroupBarrier();
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        if (thread < half) {
            let a = best_id[thread];
            let b = best_id[thread + half];
            let other = best[thread + half];
            let wins = b < dims.vocab && (a == dims.vocab || other > best[thread] || (other == best[thread] && b < a));
            if (a != NOT_FINITE && (b == NOT_FINITE || wins)) {
                best[thread] = other;
                best_id[thread] = b;
            }
        }
        workgroupBarrier();
    }
    if (thread == 0u) {
        round[step.out + id.x] = best_id[0];
        if (dims.advance == 1u) {
            step.position += step.rows;
            step.token = step.out;
            step.rows = 1u;
            step.logit_row = 0u;
            step.out += 1u;
        }
    }
}
