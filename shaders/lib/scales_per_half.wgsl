// Two scales, then two offsets: of the first and of the second 16 weights of a chunk.
alias Scales = vec4f;
fn scale_of(scales: Scales, i: u32) -> vec2f {
    return select(scales.xz, scales.yw, i >= 4u);
}
