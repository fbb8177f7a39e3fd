@group(0) @binding(2) var<storage, read> weights: array<u32>;
fn weight2(at: u32) -> vec2f {
    return halves(weights[at]);
}
