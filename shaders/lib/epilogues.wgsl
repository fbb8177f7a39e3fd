// What a matmul does with its results, two neighbouring ones of a row at a time. Which of these it is, the dimensions say:
// so all matmuls of a format are one kernel.
const STORE = 0u;
const RESIDUAL = 1u;
const GATE = 2u;
const ACTIVATE = 3u;
const ROTARY = 4u;

@group(0) @binding(4) var<storage, read> bias: array<f32>;

// y = result. The LM head's first row goes to step.draft_row.
fn store(at: u32, value: f32) {
    y[at + dims.head * step.draft_row * dims.y_stride] = value;
}

// The residual stream: y += result + bias.
fn residual(at: u32, value: f32) {
    y[at] += value;
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
    switch dims.epilogue {
        case RESIDUAL: { residual(at, value); }
        // The plain MLP: y = activation(result + bias).
        case ACTIVATE: { y[at] = activate(value); }
        default: { store(at, value); }
    }
}

fn store_pair(row: u32, out: u32, a: f32, b: f32) {
    var pair = vec2f(a, b);
    if (dims.epilogue != STORE) {
        pair += vec2f(bias[out], bias[out + 1u]);
    }
    if (dims.epilogue == ROTARY) {
        rotary(row, out, pair);
    } else if (dims.epilogue == GATE) {
        gate(row, out, pair);
    } else {
        let at = row * dims.y_stride + out;
        put(at, pair.x);
        if (out + 1u < dims.first_out + dims.outs) {
            put(at + 1u, pair.y);
        }
    }
}
