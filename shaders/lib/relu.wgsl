fn activate(v: f32) -> f32 {
    return max(v, 0.0);
}
