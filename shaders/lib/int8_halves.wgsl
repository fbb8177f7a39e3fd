// Chunks of 32 codes whose halves have scales of their own.
struct Weight { low: vec4u, high: vec4u, by: vec4f }
struct X { low: vec4u, high: vec4u, by: vec4f }

fn weight(raw: Raw) -> Weight {
    return Weight(codes16(raw.codes, 0u), codes16(raw.codes, 4u), raw.scales);
}
fn load_x(row: u32, at: u32) -> X {
    let first = row + at / 8u * 3u;
    return X(x[first], x[first + 1u], x4(first + 2u));
}
fn add_product(sum: f32, w: Weight, x: X) -> f32 {
    let low = fma(w.by.x, f32(dot16(w.low, x.low)) * x.by.x, fma(w.by.z, x.by.y, sum));
    return fma(w.by.y, f32(dot16(w.high, x.high)) * x.by.x, fma(w.by.w, x.by.z, low));
}
