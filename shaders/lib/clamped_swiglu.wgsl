fn activate(v: f32) -> f32 {
    let clamped = min(v, 7.0);
    return clamped / (1.0 + exp(-1.702 * clamped));
}

fn gated(gate: f32, up: f32) -> f32 {
    return activate(gate) * (clamp(up, -7.0, 7.0) + 1.0);
}
