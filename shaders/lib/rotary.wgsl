// Rotary position embedding of a pair, and where q, k and v go. The loader puts the two elements that rotate
// together next to each other, in q and k alike, so that a pair needs nothing else.
@group(0) @binding(5) var<storage, read> table: array<vec2f>;             // (positions, rotary / 2): cos, sin
@group(0) @binding(6) var<storage, read_write> y: array<f32>;             // (rows, q_stride): q
@group(0) @binding(8) var<uniform> heads: HeadDims;

fn rotate(position: u32, i: u32, pair: vec2f) -> vec2f {
    if (i >= heads.rotary) {
        return pair;
    }
    let turn = table[position * (heads.rotary / 2u) + i / 2u];
    return vec2f(fma(pair.x, turn.x, -(pair.y * turn.y)), fma(pair.x, turn.y, pair.y * turn.x));
}

fn place_q(row: u32, out: u32, pair: vec2f) {
    let turned = rotate(step.position + row, out % heads.head_dim, pair);
    y[row * heads.q_stride + out] = turned.x;
    y[row * heads.q_stride + out + 1u] = turned.y;
}

fn place_k(row: u32, out: u32, pair: vec2f) {
    let position = step.position + row;
    let i = out % heads.head_dim;
    kv_store(k_index(out / heads.head_dim, position, i), rotate(position, i, pair));
}

fn place_v(row: u32, out: u32, pair: vec2f) {
    kv_store(v_index(out / heads.head_dim, step.position + row, out % heads.head_dim), pair);
}
