fn activate(v: f32) -> f32 {
    let u = 0.7978845608 * fma(0.044715 * v * v, v, v);
    return v / (1.0 + exp(-2.0 * u));
}
