// Two bytes for each chunk: factors of 4 bits for scale and min of its halves; behind them 4 bytes for each 8 chunks: scale
// and min as f16.
fn load_scales(first: u32, planes: Planes, chunk: u32) -> Scales {
    let factors = word(first, planes.scales, chunk / 2u) >> (chunk % 2u * 16u);
    let by = halves(word(first, planes.scales, planes.chunks / 2u + chunk / 8u));
    return vec4f(by.xx, -by.yy) * vec4f((vec4u(factors) >> vec4u(0u, 8u, 4u, 12u)) & vec4u(15u));
}
