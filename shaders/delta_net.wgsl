// Gated delta net: one step of the recurrence per position, for 64 columns of a head's state. One thread per column.
// q, k and v first pass a convolution over positions and SiLU. Positions from step.base to the first row are repeated from inputs of
// earlier passes; their results are not needed. KEY_DIM: elements per head of q and k.
const COLUMNS = 64u;
const CHANNELS = 2u * KEY_DIM + COLUMNS;
const KEYS = KEY_DIM / 4u;

struct DeltaDims {
    key_heads: u32,
    value_heads: u32,
    value_dim: u32,
    taps: u32,
    ring: u32,         // positions whose inputs are kept
    first_input: u32,  // first float of these inputs in `states`
    width: u32,        // floats per row of projected
    stride: u32,       // floats per row of y
    tiled: u32,        // 1: heads of v that share a head of k are key_heads apart; 0: they are adjacent
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: DeltaDims;
@group(0) @binding(2) var<storage, read> projected: array<f32>;  // (rows, width): q, k, v, write strengths, decays, gates
@group(0) @binding(3) var<storage, read> weights: array<f32>;    // (q k v, taps), the row's own position last
@group(0) @binding(4) var<storage, read> rates: array<f32>;      // (value_heads)
@group(0) @binding(5) var<storage, read> bias: array<f32>;       // (value_heads)
@group(0) @binding(6) var<storage, read_write> states: array<f32>;  // slots and inputs, as in src/model/history.rs
@group(0) @binding(7) var<storage, read_write> y: array<f32>;    // (rows, value_heads, value_dim)

// q and k of a position, unnormalised: one copy for even positions, one for odd ones.
var<workgroup> queries: array<f32, 2u * KEY_DIM>;
var<workgroup> keys: array<f32, 2u * KEY_DIM>;

fn query4(first: u32) -> vec4f {
    return vec4f(queries[first], queries[first + 1u], queries[first + 2u], queries[first + 3u]);
}

fn key4(first: u32) -> vec4f {
    return vec4f(keys[first], keys[first + 1u], keys[first + 2u], keys[first + 3u]);
}

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

@compute @workgroup_size(COLUMNS)
fn main(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) grid: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    if (step.rows == 0u && step.save_at != step.position) {
        return;
    }
    let blocks = (dims.value_dim + COLUMNS - 1u) / COLUMNS;
    let head = id.x / blocks;
    let column = id.x % blocks * COLUMNS + thread;
    let has_column = column < dims.value_dim;
    let key_head = select(head / (dims.value_heads / dims.key_heads), head % dims.key_heads, dims.tiled == 1u);
    let all_keys = dims.key_heads * KEY_DIM;
    let first_v = 2u * all_keys;
    let conv_width = first_v + dims.value_heads * dims.value_dim;
    let tail = (dims.taps - 1u) * CHANNELS;
    let part = tail + KEY_DIM * COLUMNS;
    let slot = (dims.value_heads * blocks) * part;
    let saved = step.slot * slot + id.x * part;
    let save = step.save_slot * slot + id.x * part;

    var state: array<vec4f, KEYS>;
    for (var i = 0u; i < KEYS; i += 1u) {
        let at = saved + tail + i * 4u * COLUMNS + thread;
        let old = vec4f(states[at], states[at + COLUMNS], states[at + 2u * COLUMNS], states[at + 3u * COLUMNS]);
        state[i] = select(old, vec4f(0.0), step.base == 0u);
    }
    let end = step.position + step.rows;
    for (var position = step.base; position <= end; position += 1u) {
        if (position == step.save_at) {
            // Ascending, because the slot may be the one that is read.
            for (var back = dims.taps - 1u; back > 0u; back -= 1u) {
                for (var channel = thread; channel < CHANNELS; channel += COLUMNS) {
                    let of_key = channel < 2u * KEY_DIM;
                    let key = channel / KEY_DIM * all_keys + key_head * KEY_DIM + channel % KEY_DIM;
                    let i = select(first_v + head * dims.value_dim + column, key, of_key);
                    if (of_key || has_column) {
                        let value = conv_input(i32(position) - i32(back), i, channel, saved);
                        states[save + (dims.taps - 1u - back) * CHANNELS + channel] = value;
                    }
                }
            }
            for (var i = 0u; i < KEYS; i += 1u) {
                let at = save + tail + i * 4u * COLUMNS + thread;
                states[at] = state[i].x;
                states[at + COLUMNS] = state[i].y;
                states[at + 2u * COLUMNS] = state[i].z;
                states[at + 3u * COLUMNS] = state[i].w;
            }
        }
        if (position == end) {
            break;
        }
        let copy = position % 2u * KEY_DIM;
        var v = 0.0;
        for (var channel = thread; channel < CHANNELS; channel += COLUMNS) {
            let of_key = channel < 2u * KEY_DIM;
            let key = channel / KEY_DIM * all_keys + key_head * KEY_DIM + channel % KEY_DIM;
            let i = select(first_v + head * dims.value_dim + column, key, of_key);
            var sum = 0.0;
            if (of_key || has_column) {
                for (var tap = 0u; tap < dims.taps; tap += 1u) {
                    let at = i32(position + tap + 1u) - i32(dims.taps);
                    sum = fma(conv_input(at, i, channel, saved), weights[i * dims.taps + tap], sum);
                }
            }
            let value = sum / (1.0 + exp(-sum));
            if (channel < KEY_DIM) {
                queries[copy + channel] = value;
            } else if (of_key) {
                keys[copy + channel - KEY_DIM] = value;
            } else {
                v = value;
            }
        }
        let strength = 1.0 / (1.0 + exp(-input(position, conv_width + head)));
        let x = input(position, conv_width + dims.value_heads + head) + bias[head];
        let decay = exp(-rates[head] * (max(x, 0.0) + log(1.0 + exp(-abs(x)))));
        workgroupBarrier();
        var known = 0.0;
        var lengths = vec2f(0.0);
        for (var i = 0u; i < KEYS; i += 1u) {
            let k = key4(copy + 4u * i);
            let q = query4(copy + 4u * i);
            state[i] *= decay;
            known += dot(state[i], k);
            lengths += vec2f(dot(q, q), dot(k, k));
        }
        let scales = inverseSqrt(lengths + 1e-6) * vec2f(inverseSqrt(f32(KEY_DIM)), 1.0);
        let change = (v - known * scales.y) * strength * scales.y;
        var sum = 0.0;
        for (var i = 0u; i < KEYS; i += 1u) {
            state[i] += change * key4(copy + 4u * i);
            sum += dot(state[i], query4(copy + 4u * i));
        }
        if (has_column && position >= step.position) {
            y[(position - step.position) * dims.stride + head * dims.value_dim + column] = sum * scales.x;
        }
    }
    // Keeps the inputs of rows that the saved state does not contain.
    let inputs = input_width();
    let first = select(max(step.save_at, step.position) - step.position, 0u, step.save_at == UNSAVED);
    for (var row = first; row < step.rows; row += 1u) {
        let to = dims.first_input + (step.position + row) % dims.ring * inputs;
        for (var i = id.x * COLUMNS + thread; i < inputs; i += grid.x * COLUMNS) {
            states[to + i] = projected[row * dims.width + i];
        }
    }
}
