const TOGETHER = 16u;

// Units of codes in a row, first unit of scales, and values that are the same for all chunks of a lane. They are kept in variables,
// because compilers do not move them out of the loop.
struct Planes { chunks: u32, scales: u32, lane: Lane }

fn planes(chunk: u32) -> Planes {
    return Planes(dims.chunks, dims.scales, lane_of(chunk));
}

// First unit of a row, as the unit of another row plus a constant. A constant that is added last costs no instruction.
struct First { unit: u32, further: u32 }

fn first_unit(row: u32) -> u32 {
    return row / TOGETHER * TOGETHER * dims.stride + row % 2u * 8u + row % TOGETHER / 2u;
}

fn unit(first: First, at: u32) -> u32 {
    return first.unit + at * TOGETHER + first.further;
}
