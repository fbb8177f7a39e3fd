alias Scales = vec4f;
fn scale_of(scales: Scales, i: u32) -> vec2f {
    return select(scales.xz, scales.yw, i >= 4u);
}

// Two chunks share a word of factors.
struct Lane { is_odd: bool, word: u32, shift: u32 }
fn lane_of(chunk: u32) -> Lane {
    return Lane(chunk % 2u == 1u, chunk / 2u % 4u, chunk % 2u * 8u);
}
