// Fragment int8_16
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

// Fragment int8_32
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

// Fragment int8_halves
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

// Fragment int8_parts
fn start_low(by: vec4u) -> i32 {
    return -i32(CENTER) * bitcast<i32>(by.y);
}
fn start_high(by: vec4u) -> i32 {
    return ((HIGH_LESS - i32(CENTER)) * bitcast<i32>(by.z)) << HIGH_SHIFT;
}
