// How rows of weights stand: sixteen together, their 16-byte units interleaved, those of the eight even rows before those of the odd
// ones. So threads for neighbouring pairs of rows read neighbouring units.
const TOGETHER = 16u;

// Units of codes in a row, its first unit of scales, and what depends on the chunk, but not on how often 16 are added to it: such
// is for variables before a loop, since compilers leave it inside.
struct Planes { chunks: u32, scales: u32, lane: Lane }

fn planes(chunk: u32) -> Planes {
    return Planes(dims.chunks, dims.scales, lane_of(chunk));
}

// A row's first unit: one of another row, and a constant, which costs no instruction where it is added last.
struct First { unit: u32, further: u32 }

fn first_unit(row: u32) -> u32 {
    return row / TOGETHER * TOGETHER * dims.stride + row % 2u * 8u + row % TOGETHER / 2u;
}

fn unit(first: First, at: u32) -> u32 {
    return first.unit + at * TOGETHER + first.further;
}
