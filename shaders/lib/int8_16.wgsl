// Chunks of 16 codes of 8 bits, half of what shares a scale in x.
struct Weight { codes: vec4u, by: vec2f }
struct X { codes: vec4u, by: vec2f }

// Less 128, so that they have signs.
fn weight(raw: Raw) -> Weight {
    return Weight(raw.codes ^ vec4u(0x80808080u), vec2f(raw.scales.x, fma(128.0, raw.scales.x, raw.scales.y)));
}
fn load_x(row: u32, at: u32) -> X {
    let first = row + at / 8u * 3u;
    let half = at / 4u % 2u;
    let by = x4(first + 2u);
    return X(x[first + half], vec2f(by.x, select(by.y, by.z, half == 1u)));
}
fn add_product(sum: f32, w: Weight, x: X) -> f32 {
    let product = f32(dot16(w.codes, x.codes)) * x.by.x;
    if (CENTER == 128.0) {
        // Nothing is left of the offset.
        return fma(w.by.x, product, sum);
    }
    return fma(w.by.x, product, fma(w.by.y, x.by.y, sum));
}
