struct Weight { low: vec4u, high: vec4u, by: vec2f }
struct X { low: vec4u, high: vec4u, start: i32, sum: f32, scale: f32 }

fn weight(raw: Raw) -> Weight {
    return Weight(low_codes(raw.codes), high_codes(raw.codes), raw.scales);
}
fn load_x(row: u32, chunk: u32) -> X {
    let first = row + chunk * 3u;
    let by = x[first + 2u];
    let start = start_high(by) + (start_low(by) << HIGH_SHIFT);
    return X(x[first], x[first + 1u], start, bitcast<f32>(by.w), bitcast<f32>(by.x));
}
fn add_product(sum: f32, w: Weight, x: X) -> f32 {
    let high = dot16(x.start, w.high, x.high) >> HIGH_SHIFT;
    let product = w.by.x * f32(dot16(high, w.low, x.low));
    if (CENTER > 0.0) {
        // The offset cancels.
        return fma(x.scale, product, sum);
    }
    return fma(x.scale, fma(w.by.y, x.sum, product), sum);
}
