@group(0) @binding(5) var<storage, read> table: array<vec2f>;             // (positions, rotary / 2): cos, sin; once more for q if it grows
@group(0) @binding(6) var<storage, read_write> y: array<f32>;             // (rows, q_stride): q
@group(0) @binding(8) var<uniform> heads: HeadDims;

fn rotate(head: u32, position: u32, i: u32, pair: vec2f) -> vec2f {
    if (head >= heads.heads + heads.kv_heads || i >= heads.rotary) {
        return pair;
    }
    let turn = table[select(0u, heads.q_table, head < heads.heads) + (position + heads.ahead) * (heads.rotary / 2u) + i / 2u];
    return vec2f(fma(pair.x, turn.x, -(pair.y * turn.y)), fma(pair.x, turn.y, pair.y * turn.x));
}
