fn add_chunk(sums: Sums, raws: Raws, rows: Rows, chunk: u32) -> Sums {
    let s0 = add_four(sums, raws, 0u, rows, chunk);
    let s1 = add_four(s0, raws, 1u, rows, chunk);
    let s2 = add_four(s1, raws, 2u, rows, chunk);
    return add_four(s2, raws, 3u, rows, chunk);
}
