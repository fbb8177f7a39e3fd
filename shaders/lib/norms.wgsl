// Fragment norm_set
fn place(at: u32, value: vec4f) {
    y[at] = value;
}

// Fragment norm_add
@group(0) @binding(5) var<storage, read> factor: array<f32>;  // (1)

fn place(at: u32, value: vec4f) {
    y[at] = (y[at] + value) * factor[0];
}

// Fragment norm
const THREADS = 128u;

struct NormDims {
    width: u32,     // elements per row
    stride: u32,    // vec4s per row of x
    y_stride: u32,  // vec4s per row of y
    y_first: u32,   // first vec4 of a row of y to write
    count: u32,     // vec4s to write
    head: u32,      // 1 for the norm before the LM head
    // Rows of x or y may be of the latest positions: that of position p is row p % ring. 0: they are the rows of the pass.
    x_ring: u32,
    y_ring: u32,
    next: u32,      // positions between a row and where it is written
    by_draft: u32,  // 1: the place in a ring moves by a position for each draft token, while that of the pass stays
    eps: f32,
    one: f32,       // 1; compilers cannot reorder a sum by fma(summand, one, sum)
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: NormDims;
@group(0) @binding(2) var<storage, read> x: array<vec4f>;        // (rows, stride), zero past width
@group(0) @binding(3) var<storage, read> gain: array<vec4f>;     // (stride), zero past width
@group(0) @binding(4) var<storage, read_write> y: array<vec4f>;  // (rows, y_stride)

// Returns the first vec4 of a row of x.
fn x_base(row: u32) -> u32 {
    let at = row + dims.head * step.logit_row;
    return select(at, (step.position + at + dims.by_draft * step.draft_row) % max(dims.x_ring, 1u), dims.x_ring > 0u) * dims.stride;
}

fn y_base(row: u32) -> u32 {
    let at = step.position + dims.head * step.logit_row + row + dims.next + dims.by_draft * step.draft_row;
    return select(row, at % max(dims.y_ring, 1u), dims.y_ring > 0u) * dims.y_stride + dims.y_first;
}
