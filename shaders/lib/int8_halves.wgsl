struct Weight { low: vec4u, high: vec4u, by: vec4f }
struct X { low: vec4u, high: vec4u, starts: vec2i, sums: vec2f, scale: f32 }

fn weight(raw: Raw) -> Weight {
    return Weight(low_codes(raw.codes), high_codes(raw.codes), raw.scales);
}
fn load_x(row: u32, chunk: u32) -> X {
    let first = row + chunk * 3u;
    let by = x[first + 2u];
    let starts = vec2i(start_low(by), start_high(by));
    return X(x[first], x[first + 1u], starts, vec2f(bitcast<vec2i>(by.yz)), bitcast<f32>(by.x));
}
fn add_product(sum: f32, w: Weight, x: X) -> f32 {
    let low = w.by.x * f32(dot16(x.starts.x, w.low, x.low));
    let product = fma(w.by.y, f32(dot16(x.starts.y, w.high, x.high) >> HIGH_SHIFT), low);
    if (CENTER > 0.0) {
        // The offsets cancel.
        return fma(x.scale, product, sum);
    }
    return fma(x.scale, fma(w.by.w, x.sums.y, fma(w.by.z, x.sums.x, product)), sum);
}
