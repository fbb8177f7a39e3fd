fn activate(v: f32) -> f32 {
    let positive = max(v, 0.0);
    return positive * positive;
}
