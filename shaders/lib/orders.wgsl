// Fragment sum_by_lanes
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

// Fragment sum_in_order
fn sum_chunks(first: vec2u, rows: Rows) -> Sums {
    let chunks = dims.chunks;
    var sums = Sums();
    for (var chunk = 0u; chunk < chunks; chunk++) {
        sums = add_chunk(sums, load_raws(first, planes(chunk), chunk), rows, chunk);
    }
    return sums;
}
