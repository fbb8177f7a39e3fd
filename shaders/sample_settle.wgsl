const THREADS = 64u;

@group(0) @binding(0) var<storage, read_write> step: Step;
@group(0) @binding(1) var<uniform> dims: SampleDims;
@group(0) @binding(2) var<storage, read> logits: array<f32>;       // (rows, stride)
@group(0) @binding(3) var<storage, read_write> round: array<u32>;  // token ids of the round
@group(0) @binding(4) var<uniform> sampling: SamplingBlock;
@group(0) @binding(5) var<storage, read> bests: array<Best>;       // (rows, segments)

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let row = step.draft_row + id.x;
    let drafting = step.rows > 0u;
    let count = segment_count();
    var best = Best(REMOVED, dims.vocab, REMOVED, 0.0);
    for (var i = thread; i < count; i += THREADS) {
        let other = bests[id.x * count + i];
        best.top = max(best.top, other.top);
        let is_better = best.token == dims.vocab || other.score > best.score;
        if (other.token == NOT_FINITE || (is_better && other.token < dims.vocab && best.token != NOT_FINITE)) {
            best.score = other.score;
            best.token = other.token;
        }
    }
    let token = best_of_threads(best.score, best.token, thread);
    if (asks_for_confidence()) {
        best.top = max_threads(best.top, thread);
        for (var i = thread; i < count; i += THREADS) {
            let other = bests[id.x * count + i];
            best.sum += other.sum * exp(other.top - best.top);
        }
        best.sum = sum_threads(best.sum, 1.0, thread);
    }
    if (thread == 0u) {
        let logit = scored(logits[row * dims.stride + min(token, dims.vocab - 1u)]);
        finish(id.x, drafting, Best(best.score, token, best.top, best.sum), logit);
    }
}
