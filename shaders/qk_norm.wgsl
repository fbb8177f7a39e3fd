const THREADS = 64u;

struct QkNormDims {
    eps: f32,
    across: u32,  // 1: all heads of q, or of k, are normalised together
    after: u32,   // 1: gains apply after rotation, which does not change the norm
    values: u32,  // 1: v is normalised too, without gains
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: QkNormDims;
@group(0) @binding(2) var<storage, read> qkv: array<f32>;   // (rows, (heads + 2 kv_heads) head_dim)
@group(0) @binding(3) var<storage, read> gain: array<f32>;  // (heads + kv_heads, head_dim)
@group(0) @binding(4) var<storage, read> bias: array<f32>;  // like a row of qkv

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    if (step.rows == 0u) {
        return;
    }
    let head = id.x;
    let row = id.y;
    let is_cached = head >= heads.heads;
    let start = row * (heads.heads + 2u * heads.kv_heads) * heads.head_dim;
    let base = start + head * heads.head_dim;
    // First element and number of elements that are normalised together.
    let all = select(vec2u(0u, heads.heads), vec2u(heads.heads, heads.kv_heads), is_cached);
    let together = select(vec2u(head, 1u), all, dims.across == 1u) * heads.head_dim;
    var sum = 0.0;
    for (var i = thread; i < together.y; i += THREADS) {
        let v = qkv[start + together.x + i] + bias[together.x + i];
        sum = fma(v, v, sum);
    }
    let scale = 1.0 / sqrt(sum_threads(sum, heads.one, thread) / f32(together.y) + dims.eps);
    for (var i = thread * 2u; i < heads.head_dim; i += THREADS * 2u) {
        let at = head * heads.head_dim + i;
        var pair = vec2f(qkv[base + i] + bias[at], qkv[base + i + 1u] + bias[at + 1u]);
        if (head < heads.heads + heads.kv_heads) {
            let gains = vec2f(gain[at], gain[at + 1u]);
            let before = select(gains, vec2f(1.0), dims.after == 1u);
            pair = rotate(head, step.position + row, i, pair * scale * before);
            pair *= select(vec2f(1.0), gains, dims.after == 1u);
        } else if (dims.values == 1u) {
            pair *= scale;
        }
        if (is_cached) {
            kv_store(kv_index(head - heads.heads, step.position + row, i), pair);
        } else {
            y[row * heads.q_stride + at] = pair.x;
            y[row * heads.q_stride + at + 1u] = pair.y;
        }
    }
}
