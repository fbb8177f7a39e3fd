fn token_count(row: u32) -> u32 {
    return dims.vocab;
}
fn token_at(row: u32, i: u32) -> u32 {
    return i;
}
