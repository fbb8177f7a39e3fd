const THREADS = 256u;

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: SampleDims;
@group(0) @binding(2) var<storage, read_write> logits: array<f32>;  // (rows, stride)
@group(0) @binding(3) var<storage, read> allowed: array<u32>;       // (rows, vocab / 32 in whole words): one bit per id
@group(0) @binding(4) var<uniform> sampling: SamplingBlock;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let words = (dims.vocab + 31u) / 32u;
    for (var i = thread; i < SEGMENT; i += THREADS) {
        let token = id.x * SEGMENT + i;
        if (token < dims.vocab) {
            let at = id.y * dims.stride + token;
            let bits = allowed[id.y * words + token / 32u];
            if (((bits >> (token % 32u)) & 1u) == 0u && is_finite(logits[at])) {
                logits[at] = REMOVED;
            }
        }
    }
}
