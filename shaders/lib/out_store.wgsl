// Epilogue: y = result. The LM head's first row goes to step.draft_row.
@group(0) @binding(4) var<storage, read_write> y: array<f32>;  // (rows, y_stride)
fn store_pair(row: u32, out: u32, a: f32, b: f32) {
    let at = (row + dims.head * step.draft_row) * dims.y_stride + out;
    y[at] = a;
    if (out + 1u < dims.first_out + dims.outs) {
        y[at + 1u] = b;
    }
}
