fn add_chunk(sums: Sums, raws: Raws, rows: Rows, chunk: u32) -> Sums {
    let s0 = add_four(sums, raws, 0u, rows, chunk);
    let s1 = add_four(s0, raws, 1u, rows, chunk);
    let s2 = add_four(s1, raws, 2u, rows, chunk);
    let s3 = add_four(s2, raws, 3u, rows, chunk);
    let s4 = add_four(s3, raws, 4u, rows, chunk);
    let s5 = add_four(s4, raws, 5u, rows, chunk);
    let s6 = add_four(s5, raws, 6u, rows, chunk);
    return add_four(s6, raws, 7u, rows, chunk);
}
