// Weights stored as f16: 8 in 16 bytes.
const CHUNK4 = 2u;
fn weight4(raw: vec4u, i: u32) -> vec4f {
    let pair = select(raw.xy, raw.zw, i == 1u);
    return widen(vec4u(pair.x & 0xffffu, pair.x >> 16u, pair.y & 0xffffu, pair.y >> 16u));
}
