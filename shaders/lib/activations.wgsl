// Fragment silu
fn activate(v: f32) -> f32 {
    return v / (1.0 + exp(-v));
}

// Fragment gelu
fn activate(v: f32) -> f32 {
    let z = abs(v) * 0.70710678;
    let t = 1.0 / fma(0.5, z, 1.0);
    var p = fma(t, 0.17087277, -0.82215223);
    p = fma(t, p, 1.48851587);
    p = fma(t, p, -1.13520398);
    p = fma(t, p, 0.27886807);
    p = fma(t, p, -0.18628806);
    p = fma(t, p, 0.09678418);
    p = fma(t, p, 0.37409196);
    p = fma(t, p, 1.00002368);
    p = fma(t, p, -1.26551223);
    let tail = 0.5 * t * exp(fma(-z, z, p));
    return v * select(tail, 1.0 - tail, v > 0.0);
}

// Fragment gelu_tanh
fn activate(v: f32) -> f32 {
    let u = 0.7978845608 * fma(0.044715 * v * v, v, v);
    return v / (1.0 + exp(-2.0 * u));
}

// Fragment relu
fn activate(v: f32) -> f32 {
    return max(v, 0.0);
}

// Fragment relu_squared
fn activate(v: f32) -> f32 {
    let positive = max(v, 0.0);
    return positive * positive;
}

// Fragment clamped_swiglu
fn activate(v: f32) -> f32 {
    let clamped = min(v, 7.0);
    return clamped / (1.0 + exp(-1.702 * clamped));
}

fn gated(gate: f32, up: f32) -> f32 {
    return activate(gate) * (clamp(up, -7.0, 7.0) + 1.0);
}

// Fragment gated
fn gated(gate: f32, up: f32) -> f32 {
    return activate(gate) * up;
}
