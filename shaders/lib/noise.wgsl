// Fragment noise_none
fn scored(logit: f32) -> f32 {
    return logit;
}
fn noise(position: u32, token: u32) -> f32 {
    return 0.0;
}

// Fragment noise_gumbel
fn scored(logit: f32) -> f32 {
    return scaled(logit);
}
fn noise(position: u32, token: u32) -> f32 {
    return -log(exponential(random(dims.stream, position, token)));
}
