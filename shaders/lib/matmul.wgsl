const LANES = 16u;

struct MatmulDims {
    chunks: u32,     // 16-byte chunks of weights per row of W
    scales: u32,     // first unit of scales in a row, in 16 bytes
    stride: u32,     // 16-byte units per row
    outs: u32,       // rows of this piece of W, or of each expert
    first_out: u32,  // first row of this piece in the whole W
    x_stride: u32,   // 16-byte units per row of x
    y_stride: u32,   // elements per row of y
    head: u32,       // 1 for the LM head, whose x starts at step.logit_row
    epilogue: u32,   // processing of the results
    norm_width: u32, // elements of x that a norm completed here covers; 0: x needs no norm
    sums: u32,       // units of x before the row's sums of squares, one sum per 16 elements
    leaves: u32,     // elements per row written for the next norm; 0: no norm follows
    eps: f32,        // of the norm
    one: f32,        // 1, unknown to compilers, so that they cannot reorder fma(a, one, fma(b, one, c))
    scale: f32,      // of what is added to the residual stream, or of the logits
    cap: f32,        // bound of the logits; 0: no bound
    factors: u32,    // elements per row of factors for activated results; 0: no factors
    first_factor: u32,
    first_expert: u32,  // first expert of this piece of W
    experts: u32,    // experts of this piece of W
    sharing: u32,    // choices of experts that share a row of x
    bias_stride: u32,  // elements from the bias of an expert to that of the next; 0: all have the same
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: MatmulDims;

// Epilogues. The dimensions select one at run time, so that all matmuls of a format share a kernel.
const STORE = 0u;
const RESIDUAL = 1u;
const GATE = 2u;
const ACTIVATE = 3u;
const ROTARY = 4u;
const HEAD = 5u;

@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(9) var<storage, read_write> gained: array<f32>;  // (rows, leaves): the residual times the next norm's gain

fn scaled_logits(pair: vec2f) -> vec2f {
    let logits = pair * dims.scale;
    if (dims.cap == 0.0) {
        return logits;
    }
    return dims.cap * tanh(clamp(logits / dims.cap, vec2f(-15.0), vec2f(15.0)));
}

fn times_factors(pair: vec2f, row: u32, out: u32) -> vec2f {
    if (dims.factors == 0u) {
        return pair;
    }
    return pair * table[(row * dims.factors + dims.first_factor + out) / 2u];
}
