const THREADS = 128u;

@group(0) @binding(0) var<storage, read_write> step: Step;
@group(0) @binding(1) var<uniform> dims: SampleDims;
@group(0) @binding(2) var<storage, read> logits: array<f32>;       // (rows, stride)
@group(0) @binding(3) var<storage, read_write> round: array<u32>;  // token ids of the round
@group(0) @binding(4) var<uniform> sampling: SamplingBlock;
@group(0) @binding(5) var<storage, read> cuts: array<Cut>;         // (rows)
@group(0) @binding(6) var<storage, read> list: array<u32>;         // (rows, stride)

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let row = step.draft_row + id.x;
    let base = row * dims.stride;
    let drafting = step.rows > 0u;
    let position = position_after(id.x);
    let cut = cuts[row];
    var best = Best(REMOVED, dims.vocab, cut.top, cut.sum);
    let count = select(0u, cut.count, drafting);
    for (var i = thread; i < count; i += THREADS) {
        let token = list[base + i];
        if (token < GONE) {
            let score = scored(logits[base + token]) + noise(position, token);
            if (best.token == dims.vocab || score > best.score || (score == best.score && token < best.token)) {
                best.score = score;
                best.token = token;
            }
        }
    }
    best.token = best_of_threads(best.score, best.token, thread);
    if (thread == 0u) {
        if (drafting && cut.sum < 0.0) {
            best.token = NOT_FINITE;
        }
        finish(id.x, drafting, best, scored(logits[base + min(best.token, dims.vocab - 1u)]));
    }
}
