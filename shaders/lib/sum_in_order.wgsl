fn sum_chunks(first: vec2u, rows: Rows) -> Sums {
    let chunks = dims.chunks;
    var sums = Sums();
    for (var chunk = 0u; chunk < chunks; chunk++) {
        sums = add_chunk(sums, load_raws(first, planes(chunk), chunk), rows, chunk);
    }
    return sums;
}
