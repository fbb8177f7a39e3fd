// Chunks of 32 codes with one scale.
struct Weight { low: vec4u, high: vec4u, by: vec2f }
struct X { low: vec4u, high: vec4u, by: vec2f }

fn weight(raw: Raw) -> Weight {
    return Weight(codes16(raw.codes, 0u), codes16(raw.codes, 4u), raw.scales);
}
fn load_x(row: u32, at: u32) -> X {
    let first = row + at / 8u * 3u;
    return X(x[first], x[first + 1u], x4(first + 2u).xw);
}
fn add_product(sum: f32, w: Weight, x: X) -> f32 {
    let product = f32(dot16(w.low, x.low) + dot16(w.high, x.high)) * x.by.x;
    return fma(w.by.x, product, fma(w.by.y, x.by.y, sum));
}
