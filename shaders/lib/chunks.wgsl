// Fragment chunk
fn add_chunk(sums: Sums, raws: Raws, rows: Rows, chunk: u32) -> Sums {
    var added = sums;
    added = add_four(added, raws, #u, rows, chunk);
    return added;
}

// Fragment chunk_loop
fn add_chunk(sums: Sums, raws: Raws, rows: Rows, chunk: u32) -> Sums {
    var added = sums;
    for (var i = 0u; i < CHUNK4; i++) {
        added = add_four(added, raws, i, rows, chunk);
    }
    return added;
}
