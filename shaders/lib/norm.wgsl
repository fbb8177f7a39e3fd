const THREADS = 128u;

struct NormDims {
    width: u32,   // elements per row
    stride: u32,  // vec4s per row of x and y
    head: u32,    // 1 for the norm before the LM head
    eps: f32,
    one: f32,     // 1; compilers cannot reorder a sum by fma(summand, one, sum)
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: NormDims;
@group(0) @binding(2) var<storage, read> x: array<vec4f>;        // (rows, stride), zero past width
@group(0) @binding(3) var<storage, read> gain: array<vec4f>;     // (stride), zero past width
@group(0) @binding(4) var<storage, read_write> y: array<vec4f>;  // (rows, stride)
