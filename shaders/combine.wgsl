const THREADS = 64u;

struct CombineDims {
    used: u32,    // experts of a row
    width: u32,   // vec4s of a row that are added
    stride: u32,  // vec4s per row
    bias_stride: u32,  // vec4s from the bias of an expert to that of the next; 0: all have the same
    adds: u32,    // 1: the sum is added; 0: it is written
    scale: f32,   // of the sum
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: CombineDims;
@group(0) @binding(2) var<storage, read> x: array<vec4f>;         // (rows, used, stride)
@group(0) @binding(3) var<storage, read> choices: array<Choice>;  // (rows, used)
@group(0) @binding(4) var<storage, read_write> y: array<vec4f>;   // (rows, stride)
@group(0) @binding(5) var<storage, read> bias: array<vec4f>;      // (experts, width), or (width)

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let at = id.x * THREADS + thread;
    let row = id.y;
    if (row >= step.rows || at >= dims.width) {
        return;
    }
    var sum = vec4f();
    for (var i = 0u; i < min(dims.used, arrayLength(&choices)); i++) {
        let place = row * dims.used + i;
        let choice = choices[place];
        let result = x[place * dims.stride + at] + bias[choice.expert * dims.bias_stride + at];
        sum = fma(vec4f(choice.weight), result, sum);
    }
    let to = row * dims.stride + at;
    y[to] = fma(sum, vec4f(dims.scale), select(vec4f(), y[to], dims.adds == 1u));
}
