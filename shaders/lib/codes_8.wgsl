fn packed(codes: Codes, i: u32) -> u32 {
    return codes[i];
}
