fn scored(logit: f32) -> f32 {
    return scaled(logit);
}
fn noise(position: u32, token: u32) -> f32 {
    return -log(exponential(random(dims.stream, position, token)));
}
