@group(0) @binding(0) var<storage, read_write> step: Step;
@group(0) @binding(1) var<uniform> dims: SampleDims;
@group(0) @binding(2) var<storage, read> logits: array<vec4f>;      // (rows, stride / 4)
@group(0) @binding(3) var<storage, read_write> round: array<u32>;   // token ids of the round
@group(0) @binding(4) var<uniform> sampling: SamplingBlock;
@group(0) @binding(5) var<storage, read_write> bests: array<Best>;  // (rows, segments)

fn logit_of(row: u32, id: u32) -> f32 {
    let at = row * dims.stride + min(id, dims.vocab - 1u);
    return scored(logits[at / 4u][at % 4u]);
}

fn consider(so_far: Best, four: vec4f, first: u32, position: u32) -> Best {
    var best = so_far;
    for (var i = 0u; i < 4u; i++) {
        let id = first + i;
        if (id < dims.vocab && best.token != NOT_FINITE) {
            let score = scored(four[i]) + noise(position, id);
            if (!is_finite(four[i])) {
                best.token = NOT_FINITE;
            } else if (score > best.score || best.token == dims.vocab) {
                best.score = score;
                best.token = id;
            }
        }
    }
    return best;
}

fn top_of(v: vec4f) -> f32 {
    return max(max(scored(v.x), scored(v.y)), max(scored(v.z), scored(v.w)));
}

fn weights(v: vec4f, top: f32) -> f32 {
    return (exp(scored(v.x) - top) + exp(scored(v.y) - top)) + (exp(scored(v.z) - top) + exp(scored(v.w) - top));
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) grid: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = step.draft_row + id.y;
    let drafting = step.rows > 0u;
    let position = position_after(id.y);
    let a = four_logits(row, first_id(id.x, thread, 0u));
    let b = four_logits(row, first_id(id.x, thread, 1u));
    let c = four_logits(row, first_id(id.x, thread, 2u));
    let d = four_logits(row, first_id(id.x, thread, 3u));
    var best = Best(REMOVED, dims.vocab, REMOVED, 0.0);
    if (drafting) {
        best = consider(best, a, first_id(id.x, thread, 0u), position);
        best = consider(best, b, first_id(id.x, thread, 1u), position);
        best = consider(best, c, first_id(id.x, thread, 2u), position);
        best = consider(best, d, first_id(id.x, thread, 3u), position);
    }
    let token = best_of_threads(best.score, best.token, thread);
    let score = best_score;
    if (asks_for_confidence()) {
        best.top = max_threads(max(max(top_of(a), top_of(b)), max(top_of(c), top_of(d))), thread);
        let all = (weights(a, best.top) + weights(b, best.top)) + (weights(c, best.top) + weights(d, best.top));
        best.sum = sum_threads(all, 1.0, thread);
    }
    if (thread == 0u) {
        best = Best(score, token, best.top, best.sum);
        if (grid.x == 1u) {
            finish(id.y, drafting, best, logit_of(row, token));
        } else {
            bests[id.y * grid.x + id.x] = best;
        }
    }
}
