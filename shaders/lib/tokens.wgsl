// Fragment tokens_all
fn token_count(row: u32) -> u32 {
    return dims.vocab;
}
fn token_at(row: u32, i: u32) -> u32 {
    return i;
}

// Fragment tokens_kept
@group(0) @binding(9) var<storage, read> list: array<u32>;  // (rows, stride)
fn token_count(row: u32) -> u32 {
    return cuts[row].count;
}
fn token_at(row: u32, i: u32) -> u32 {
    return list[row * dims.stride + i];
}
