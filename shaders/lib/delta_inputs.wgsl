const COLUMNS = 64u;  // of a head's state, in a workgroup
const CHANNELS = 2u * KEY_DIM + COLUMNS;

struct DeltaDims {
    key_heads: u32,
    value_heads: u32,
    value_dim: u32,
    taps: u32,
    ring: u32,         // positions whose inputs are kept
    first_input: u32,  // first float of these inputs in `states`
    width: u32,        // floats per row of projected
    stride: u32,       // floats per row of y
    replaces: u32,     // 1: delta net; 0: Mamba-2
    tiled: u32,        // 1: heads of v that share a head of k are key_heads apart; 0: they are adjacent
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: DeltaDims;
@group(0) @binding(2) var<storage, read> projected: array<f32>;  // (rows, width): q, k, v, write strengths, decays, gates
@group(0) @binding(3) var<storage, read> weights: array<f32>;    // (q k v, taps), the row's own position last
@group(0) @binding(8) var<storage, read> conv_bias: array<f32>;  // (q k v)
@group(0) @binding(6) var<storage, read_write> states: array<f32>;  // slots and inputs, as in src/model/history.rs

fn input_width() -> u32 {
    return 2u * dims.key_heads * KEY_DIM + dims.value_heads * (dims.value_dim + 2u);
}

// Input of a position from step.base on.
fn input(position: u32, i: u32) -> f32 {
    if (position >= step.position) {
        return projected[(position - step.position) * dims.width + i];
    }
    return states[dims.first_input + position % dims.ring * input_width() + i];
}

// Input of the convolution at a position that may be before step.base, where the saved state has it. `channel`: its number there.
fn conv_input(position: i32, i: u32, channel: u32, saved: u32) -> f32 {
    if (position < 0) {
        return 0.0;
    }
    if (u32(position) >= step.base) {
        return input(u32(position), i);
    }
    return states[saved + (u32(position) + dims.taps - 1u - step.base) * CHANNELS + channel];
}

fn convolved(position: u32, i: u32, channel: u32, saved: u32) -> f32 {
    var sum = conv_bias[i];
    for (var tap = 0u; tap < min(dims.taps, arrayLength(&weights)); tap += 1u) {
        let at = i32(position + tap + 1u) - i32(dims.taps);
        sum = fma(conv_input(at, i, channel, saved), weights[i * dims.taps + tap], sum);
    }
    return sum / (1.0 + exp(-sum));
}

fn input_of(channel: u32, key_head: u32, value: u32) -> u32 {
    let all_keys = dims.key_heads * KEY_DIM;
    let key = channel / KEY_DIM * all_keys + key_head * KEY_DIM + channel % KEY_DIM;
    return select(2u * all_keys + value, key, channel < 2u * KEY_DIM);
}
