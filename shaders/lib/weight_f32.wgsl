// Weights stored as f32: 4 in 16 bytes.
const CHUNK4 = 1u;
fn weight4(raw: vec4u, i: u32) -> vec4f {
    return bitcast<vec4f>(raw);
}
