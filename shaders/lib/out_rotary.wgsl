// Epilogue of the fused q, k, v projection: add the bias, rotate q and k, append k and v to the cache.
@group(0) @binding(4) var<storage, read> bias: array<f32>;
fn store_pair(row: u32, out: u32, a: f32, b: f32) {
    let pair = vec2f(a + bias[out], b + bias[out + 1u]);
    let q_width = heads.heads * heads.head_dim;
    let k_width = heads.kv_heads * heads.head_dim;
    if (out < q_width) {
        place_q(row, out, pair);
    } else if (out < q_width + k_width) {
        place_k(row, out - q_width, pair);
    } else {
        place_v(row, out - q_width - k_width, pair);
    }
}
