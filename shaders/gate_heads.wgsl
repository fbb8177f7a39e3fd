const THREADS = 64u;

struct GateDims {
    head_dim: u32,
    stride: u32,      // floats per row of x
    gates: u32,       // floats per row of gates
    first_gate: u32,  // first of them that is a gate
    each: u32,        // 1: each element has a gate
    normed: u32,      // 1: each head is normalised before the gates; 2: after them
    gain_stride: u32, // floats from the gains of a head to those of the next; 0: all have the same
    eps: f32,
    one: f32,
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: GateDims;
@group(0) @binding(2) var<storage, read> gates: array<f32>;    // (rows, dims.gates)
@group(0) @binding(3) var<storage, read> gain: array<f32>;     // (head_dim), or (heads, head_dim), of the norm
@group(0) @binding(4) var<storage, read_write> x: array<f32>;  // (rows, heads, head_dim)

// Gate of an element of a head.
fn gate_of(first: u32, head: u32, i: u32) -> f32 {
    return gates[first + select(head, head * dims.head_dim + i, dims.each == 1u)];
}

fn sigmoid(x: f32) -> f32 {
    return 1.0 / (1.0 + exp(-x));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    if (step.rows == 0u) {
        return;
    }
    let head = id.x;
    let base = id.y * dims.stride + head * dims.head_dim;
    let first_gate = id.y * dims.gates + dims.first_gate;
    var scale = 1.0;
    if (dims.normed > 0u) {
        var sum = 0.0;
        for (var i = thread; i < dims.head_dim; i += THREADS) {
            let gate = gate_of(first_gate, head, i);
            let value = x[base + i] * select(1.0, gate * sigmoid(gate), dims.normed == 2u);
            sum = fma(value, value, sum);
        }
        scale = 1.0 / sqrt(sum_threads(sum, dims.one, thread) / f32(dims.head_dim) + dims.eps);
    }
    for (var i = thread; i < dims.head_dim; i += THREADS) {
        let gate = gate_of(first_gate, head, i);
        var factor = sigmoid(gate);
        if (dims.normed > 0u) {
            factor *= scale * gain[head * dims.gain_stride + i] * gate;
        }
        x[base + i] *= factor;
    }
}
