@group(0) @binding(2) var<storage, read> weights: array<u32>;
fn weight2(at: u32) -> vec2f {
    let word = weights[at];
    return bitcast<vec2f>(vec2u(word << 16u, word & 0xffff0000u));
}
