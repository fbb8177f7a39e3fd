// x / rms(x) * gain, one workgroup per row; set as y, or added to it. For the LM head, rows start at step.logit_row.
const THREADS = 128u;

struct NormDims {
    width: u32,   // elements per row
    stride: u32,  // vec4s per row of x and y
    head: u32,    // 1 for the norm before the LM head
    eps: f32,
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: NormDims;
@group(0) @binding(2) var<storage, read> x: array<vec4f>;        // (rows, stride), zero past width
@group(0) @binding(3) var<storage, read> gain: array<vec4f>;     // (stride)
@group(0) @binding(4) var<storage, read_write> y: array<vec4f>;  // (rows, stride)

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    if (step.rows == 0u) {
        return;
    }
    let base = (id.x + dims.head * step.logit_row) * dims.stride;
    var sum = 0.0;
    for (var i = thread; i < dims.stride; i += THREADS) {
        let v = x[base + i];
        sum = fma(v.w, v.w, fma(v.z, v.z, fma(v.y, v.y, fma(v.x, v.x, sum))));
    }
    let scale = 1.0 / sqrt(sum_threads(sum, thread) / f32(dims.width) + dims.eps);
    for (var i = thread; i < dims.stride; i += THREADS) {
        place(id.x * dims.stride + i, x[base + i] * scale * gain[i]);
    }
}
