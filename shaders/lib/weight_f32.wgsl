// Weights as f32: 4 in 16 bytes.
fn weight4(raw: Raw, i: u32) -> vec4f {
    return bitcast<vec4f>(raw);
}
