// What a matmul does with its results, two neighbouring ones of a row at a time. Which of these it is, the dimensions say:
// so all matmuls of a format are one kernel.
const STORE = 0u;
const RESIDUAL = 1u;
const GATE = 2u;
const ACTIVATE = 3u;
const ROTARY = 4u;

@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(9) var<storage, read_write> gained: array<f32>;  // (rows, leaves): the residual times the next norm's gain

// y = result. The LM head's first row goes to step.draft_row.
fn store(at: u32, value: f32) {
    y[at + dims.head * step.draft_row * dims.y_stride] = value;
}

// The residual stream: y += result + bias. Returns the sum of its squares.
fn residual(row: u32, out: u32, pair: vec2f, has_both: bool) -> f32 {
    let at = row * dims.y_stride + out;
    let a = y[at] + pair.x;
    var b = 0.0;
    y[at] = a;
    if (has_both) {
        b = y[at + 1u] + pair.y;
        y[at + 1u] = b;
    }
    if (dims.leaves > 0u) {
        // What is a table elsewhere is the gain here.
        let gain = table[out / 2u];
        gained[row * dims.leaves + out] = a * gain.x;
        if (has_both) {
            gained[row * dims.leaves + out + 1u] = b * gain.y;
        }
    }
    return fma(b, b, a * a);
}

// The gated MLP, for which rows of W alternate gate and up: y = activation(gate + bias) * (up + bias).
fn gate(row: u32, out: u32, pair: vec2f) {
    y[row * dims.y_stride + out / 2u] = activate(pair.x) * pair.y;
}

// The fused q, k, v projection: adds the bias, rotates q and k, appends k and v to the cache.
fn rotary(row: u32, out: u32, pair: vec2f) {
    let q_width = heads.heads * heads.head_dim;
    let k_width = heads.kv_heads * heads.head_dim;
    if (out < q_width) {
        place_q(row, out, pair);
    } else if (out < q_width + k_width) {
        place_k(row, out - q_width, pair);
    } else {
        place_v(row, out - q_width - k_width, pair);
    }
}

fn put(at: u32, value: f32) {
    if (dims.epilogue == ACTIVATE) {
        // The plain MLP: y = activation(result + bias).
        y[at] = activate(value);
    } else {
        store(at, value);
    }
}

// Returns the sum of squares of what a norm follows.
fn store_pair(row: u32, out: u32, a: f32, b: f32) -> f32 {
    let has_both = out + 1u < dims.first_out + dims.outs;
    var pair = vec2f(a, b);
    if (dims.epilogue != STORE) {
        pair += vec2f(bias[out], bias[out + 1u]);
    }
    switch dims.epilogue {
        case RESIDUAL: {
            return residual(row, out, pair, has_both);
        }
        case ROTARY: {
            rotary(row, out, pair);
        }
        case GATE: {
            gate(row, out, pair);
        }
        default: {
            let at = row * dims.y_stride + out;
            put(at, pair.x);
            if (has_both) {
                put(at + 1u, pair.y);
            }
        }
    }
    return 0.0;
}
