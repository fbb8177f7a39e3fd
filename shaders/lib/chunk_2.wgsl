fn add_chunk(sums: Sums, raws: Raws, rows: Rows, chunk: u32) -> Sums {
    let s0 = add_four(sums, raws, 0u, rows, chunk);
    return add_four(s0, raws, 1u, rows, chunk);
}
