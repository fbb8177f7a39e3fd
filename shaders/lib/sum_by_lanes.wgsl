// Sums chunks lane by lane, in the order in which matmul_rows adds. Used with 8 rows; smaller row counts have no `join`.
fn sum_chunks(first: vec2u, rows: Rows) -> Sums {
    let chunks = dims.chunks;
    var total = Sums();
    for (var lane = 0u; lane < LANES; lane++) {
        let planes = planes(lane);
        var sums = Sums();
        for (var chunk = lane; chunk < chunks; chunk += LANES) {
            sums = add_chunk(sums, load_raws(first, planes, chunk), rows, chunk);
        }
        total = join(total, sums);
    }
    return total;
}
