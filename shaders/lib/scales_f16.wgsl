// Two f16 for each group of chunks: scale and offset.
fn load_scales(at: u32, chunk: u32) -> Scales {
    return halves(word(at + chunk / GROUP_CHUNKS));
}
