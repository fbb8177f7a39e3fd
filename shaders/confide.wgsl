const THREADS = 64u;

struct ConfideDims {
    hidden: u32,    // elements of a hidden state
    x_stride: u32,  // elements per row of x
    rank: u32,      // elements of a Markov row
    one: f32,       // 1; compilers cannot reorder a sum by fma(summand, one, sum)
}

@group(0) @binding(0) var<storage, read_write> step: Step;
@group(0) @binding(1) var<uniform> dims: ConfideDims;
@group(0) @binding(2) var<storage, read> x: array<f32>;        // (rows, x_stride): normalised hidden states
@group(0) @binding(3) var<storage, read> markov: array<f32>;   // (rank)
@group(0) @binding(4) var<uniform> sampling: SamplingBlock;
@group(0) @binding(5) var<storage, read> weights: array<f32>;  // (hidden + rank)
@group(0) @binding(6) var<storage, read> bias: array<f32>;     // (1)

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) thread: u32) {
    let row = step.draft_row * dims.x_stride;
    var sum = 0.0;
    for (var i = thread; i < dims.hidden; i += THREADS) {
        sum = fma(x[row + i], weights[i], sum);
    }
    for (var i = thread; i < dims.rank; i += THREADS) {
        sum = fma(markov[i], weights[dims.hidden + i], sum);
    }
    let logit = sum_threads(sum, dims.one, thread) + bias[0];
    if (thread == 0u && sampling.confidence * (1.0 + exp(-logit)) > 1.0) {
        step.rows = 0u;
    }
}
