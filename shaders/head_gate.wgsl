// Multiplies each head of attention's output by the sigmoid of its gate. One thread per row and element.
struct HeadGateDims {
    heads: u32,
    head_dim: u32,
    stride: u32,  // floats per row of x
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: HeadGateDims;
@group(0) @binding(2) var<storage, read> gates: array<f32>;    // (rows, heads)
@group(0) @binding(3) var<storage, read_write> x: array<f32>;  // (rows, heads, head_dim)

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
    let i = id.x;
    let row = id.y;
    if (row >= step.rows || i >= dims.heads * dims.head_dim) {
        return;
    }
    let gate = gates[row * dims.heads + i / dims.head_dim];
    x[row * dims.stride + i] *= 1.0 / (1.0 + exp(-gate));
}
