fn add_chunk(sums: Sums, raws: Raws, rows: Rows, chunk: u32) -> Sums {
    return add_four(sums, raws, 0u, rows, chunk);
}
