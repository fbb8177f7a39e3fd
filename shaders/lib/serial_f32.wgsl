@group(0) @binding(2) var<storage, read> weights: array<vec2f>;
fn weight2(at: u32) -> vec2f {
    return weights[at];
}
