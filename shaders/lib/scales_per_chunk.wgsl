// One scale and one offset for all weights of a chunk.
alias Scales = vec2f;
fn scale_of(scales: Scales, i: u32) -> vec2f {
    return scales;
}
