fn word(bits: u32) -> u32 {
    let pair = bitcast<vec2u>((vec2f(f32(bits & 0xffffu), f32(bits >> 16u)) / 65536.0 - 0.5) * 0.1);
    return (pair.x >> 16u) | (pair.y & 0xffff0000u);
}
