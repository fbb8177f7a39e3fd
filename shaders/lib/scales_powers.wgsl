// The two smallest exponents stand for subnormal numbers, which GPUs may flush to zero. Here they are zero.
fn load_scales(first: First, planes: Planes, chunk: u32) -> Scales {
    let exponent = (word(first, planes.scales, chunk / 4u) >> (chunk % 4u * 8u)) & 255u;
    return vec2f(bitcast<f32>((max(exponent, 1u) - 1u) << 23u), 0.0);
}
