// Two f32 for each group of chunks: scale and offset.
fn load_scales(at: u32, chunk: u32) -> Scales {
    let pair = at + chunk / GROUP_CHUNKS * 2u;
    return bitcast<vec2f>(vec2u(word(pair), word(pair + 1u)));
}
