// 16 bytes for each 8 chunks: scale and min as f16; eight times the lower 4 bits of a factor for the scale, and of one for
// the min; then eight times 2 bits further of each.
fn load_scales(first: u32, planes: Planes, chunk: u32) -> Scales {
    let header = weights[first + (planes.scales + chunk / 8u) * 8u];
    let i = chunk % 8u;
    let low = (header.yz >> vec2u(i * 4u)) & vec2u(15u);
    let high = (vec2u(header.w) >> vec2u(i * 2u, i * 2u + 16u)) & vec2u(3u);
    let by = halves(header.x) * vec2f(low | (high << vec2u(4u)));
    return vec2f(by.x, -by.y);
}
