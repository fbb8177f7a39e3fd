// What both matmul kernels share: y = x W^T, W [outs, cols] in pieces of whole rows, x [rows, cols] f32.
// A row of W is a sequence of 16-byte chunks, and behind them what else quantised weights have. Lane l of 16 sums chunks l,
// l + 16, l + 32, ... in order, then the 16 lane sums are added in order. The order depends on nothing else, so a row's
// result does not either.
const LANES = 16u;

struct MatmulDims {
    chunks: u32,     // 16-byte chunks of weights per row of W
    scales: u32,     // where in a row its scales begin, in 16 bytes
    stride: u32,     // 16-byte units from row to row
    outs: u32,       // rows of this piece of W
    first_out: u32,  // its first row in the whole W
    x_stride: u32,   // vec4s per row of x
    y_stride: u32,   // elements per row of y
    head: u32,       // 1 for the LM head, whose x starts at step.logit_row
    epilogue: u32,   // what becomes of the results
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: MatmulDims;
@group(0) @binding(2) var<storage, read> weights: array<vec4u>;  // (outs, stride)
@group(0) @binding(3) var<storage, read> x: array<vec4f>;        // (rows, x_stride)

fn row_count() -> u32 {
    return step.rows - dims.head * step.logit_row;
}

// Rows past the end repeat the last one and are never stored.
fn x_at(row: u32, at: u32) -> vec4f {
    return x[min(row, row_count() - 1u) * dims.x_stride + at];
}
