// Two bf16 for each group of chunks: scale and offset.
fn load_scales(at: u32, chunk: u32) -> Scales {
    let pair = word(at + chunk / GROUP_CHUNKS);
    return bitcast<vec2f>(vec2u(pair << 16u, pair & 0xffff0000u));
}
