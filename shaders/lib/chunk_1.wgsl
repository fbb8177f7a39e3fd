// Adds the one vec4 of weights in a chunk, without a loop: a counter would keep the compiler from loading ahead.
fn add_chunk(sums: Sums, raws: Raws, rows: Rows, chunk: u32) -> Sums {
    return add_four(sums, raws, 0u, rows, chunk);
}
