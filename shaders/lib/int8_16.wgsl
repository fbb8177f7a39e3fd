struct Weight { codes: vec4u, by: vec2f }
struct X { codes: vec4u, sum: f32, scale: f32 }

// Subtracts 128, because the dot product takes signed codes.
fn weight(raw: Raw) -> Weight {
    return Weight(raw.codes ^ vec4u(0x80808080u), vec2f(raw.scales.x, fma(128.0, raw.scales.x, raw.scales.y)));
}
fn load_x(row: u32, chunk: u32) -> X {
    let first = row + chunk / 2u * 3u;
    let half = chunk % 2u;
    let by = x[first + 2u];
    return X(x[first + half], f32(bitcast<i32>(select(by.y, by.z, half == 1u))), bitcast<f32>(by.x));
}
fn add_product(sum: f32, w: Weight, x: X) -> f32 {
    let product = w.by.x * f32(dot16(0, w.codes, x.codes));
    if (CENTER == 128.0) {
        // The offset cancels.
        return fma(x.scale, product, sum);
    }
    return fma(x.scale, fma(w.by.y, x.sum, product), sum);
}
