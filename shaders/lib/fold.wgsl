struct Fold {
    top: f32,   // largest score so far
    sum: f32,   // sum of exp(score - top)
    kept: f32,  // factor for the values so far
    fresh: f32, // factor for the block's values
}
fn fold(top: f32, sum: f32, block_top: f32, block_sum: f32) -> Fold {
    let higher = max(top, block_top);
    let kept = exp(top - higher);
    let fresh = exp(block_top - higher);
    return Fold(higher, fma(sum, kept, block_sum * fresh), kept, fresh);
}
fn with_sink(top: f32, sum: f32, sink: f32) -> f32 {
    return sum + exp(sink - top);
}
fn fold_values(values: vec4f, block_values: vec4f, by: Fold) -> vec4f {
    return fma(values, vec4f(by.kept), block_values * by.fresh);
}
