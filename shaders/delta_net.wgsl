const KEYS = KEY_DIM / 4u;

@group(0) @binding(4) var<storage, read> rates: array<f32>;      // (value_heads)
@group(0) @binding(5) var<storage, read> bias: array<f32>;       // (value_heads)
@group(0) @binding(7) var<storage, read_write> y: array<f32>;    // (rows, value_heads, value_dim)
@group(0) @binding(9) var<storage, read> skip: array<f32>;       // (value_heads)

// q and k of a position, unnormalised: one copy for even positions, one for odd ones.
var<workgroup> queries: array<f32, 2u * KEY_DIM>;
var<workgroup> keys: array<f32, 2u * KEY_DIM>;

fn query4(first: u32) -> vec4f {
    return vec4f(queries[first], queries[first + 1u], queries[first + 2u], queries[first + 3u]);
}

fn key4(first: u32) -> vec4f {
    return vec4f(keys[first], keys[first + 1u], keys[first + 2u], keys[first + 3u]);
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
    let value = head * dims.value_dim + column;
    let conv_width = 2u * dims.key_heads * KEY_DIM + dims.value_heads * dims.value_dim;
    let tail = (dims.taps - 1u) * CHANNELS;
    let part = tail + KEY_DIM * COLUMNS;
    let slot = (dims.value_heads * blocks) * part;
    let saved = step.slot * slot + id.x * part;
    let save = step.save_slot * slot + id.x * part;

    var state = array<vec4f, KEYS>();
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
                    if (channel < 2u * KEY_DIM || has_column) {
                        let i = input_of(channel, key_head, value);
                        let before = conv_input(i32(position) - i32(back), i, channel, saved);
                        states[save + (dims.taps - 1u - back) * CHANNELS + channel] = before;
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
            var result = 0.0;
            if (channel < 2u * KEY_DIM || has_column) {
                result = convolved(position, input_of(channel, key_head, value), channel, saved);
            }
            if (channel < KEY_DIM) {
                queries[copy + channel] = result;
            } else if (channel < 2u * KEY_DIM) {
                keys[copy + channel - KEY_DIM] = result;
            } else {
                v = result;
            }
        }
        let x = input(position, conv_width + dims.value_heads + head) + bias[head];
        let speed = max(x, 0.0) + log(1.0 + exp(-abs(x)));
        let decay = exp(-rates[head] * speed);
        let strength = select(speed, 1.0 / (1.0 + exp(-input(position, conv_width + head))), dims.replaces == 1u);
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
        let unit = inverseSqrt(lengths + 1e-6) * vec2f(inverseSqrt(f32(KEY_DIM)), 1.0);
        let scales = select(vec2f(1.0), unit, dims.replaces == 1u);
        let change = (v - select(0.0, known * scales.y, dims.replaces == 1u)) * strength * scales.y;
        var sum = 0.0;
        for (var i = 0u; i < KEYS; i += 1u) {
            state[i] += change * key4(copy + 4u * i);
            sum += dot(state[i], query4(copy + 4u * i));
        }
        if (has_column && position >= step.position) {
            y[(position - step.position) * dims.stride + head * dims.value_dim + column] = fma(skip[head], v, sum * scales.x);
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
