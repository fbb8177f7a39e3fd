// Two signed bytes for each chunk: factors for its halves; behind them 4 bytes for each 8 chunks: the scale as f16. CENTER is
// the code for zero.
fn load_scales(first: u32, planes: Planes, chunk: u32) -> Scales {
    let factors = word(first, planes.scales, chunk / 2u) >> (chunk % 2u * 16u);
    let signed = vec2f(bitcast<vec2i>(vec2u(factors << 24u, factors << 16u)) >> vec2u(24u));
    let scales = halves(word(first, planes.scales, planes.chunks / 2u + chunk / 8u)).x * signed;
    return vec4f(scales, -CENTER * scales);
}
