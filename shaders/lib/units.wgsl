// How rows of weights stand: sixteen together, first the even ones, then the odd ones, of each eight the 16-byte units
// interleaved. So threads for neighbouring pairs of rows read neighbouring units.
struct Planes { chunks: u32, scales: u32 }  // units of codes in a row, and its first unit of scales

fn planes() -> Planes {
    return Planes(dims.chunks, dims.scales);
}

// The first unit of a row; the next one of the same row is 8 further.
fn first_unit(row: u32) -> u32 {
    let eight = row / 16u * 2u + row % 2u;
    return eight * dims.stride * 8u + row % 16u / 2u;
}
