fn add_chunk(sums: Sums, raws: Raws, rows: Rows, chunk: u32) -> Sums {
    var added = sums;
    added = add_four(added, raws, #u, rows, chunk);
    return added;
}
