const CHECKPOINT = 64u;  // as in src/model/history.rs

struct ConvDims {
    width: u32,
    taps: u32,
    ring: u32,    // positions in the ring of the history
    stride: u32,  // floats per row of y
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: ConvDims;
@group(0) @binding(2) var<storage, read> projected: array<f32>;      // (rows, 3, width): b, c, x
@group(0) @binding(3) var<storage, read> weights: array<f32>;        // (width, taps), the row's own position last
@group(0) @binding(4) var<storage, read_write> history: array<f32>;  // (ring, width), then checkpoints (count, taps - 1, width)
@group(0) @binding(5) var<storage, read_write> y: array<f32>;        // (rows, stride)

fn input(row: u32, i: u32) -> f32 {
    let first = row * 3u * dims.width + i;
    return projected[first] * projected[first + 2u * dims.width];
}

fn place(position: u32) -> i32 {
    return i32(position % CHECKPOINT + dims.taps - 1u) - i32(CHECKPOINT);
}

fn in_checkpoint(position: u32, place: i32) -> u32 {
    return (dims.ring + position / CHECKPOINT * (dims.taps - 1u) + u32(place)) * dims.width;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
    let i = id.x;
    let row = id.y;
    if (row >= step.rows || i >= dims.width) {
        return;
    }
    let here = step.position + row;
    var sum = 0.0;
    for (var tap = 0u; tap < min(dims.taps, arrayLength(&weights)); tap += 1u) {
        let back = dims.taps - 1u - tap;
        var value = 0.0;
        if (back <= row) {
            value = input(row - back, i);
        } else if (back <= here) {
            let position = here - back;
            let place = place(position);
            let ring = position % dims.ring * dims.width;
            value = history[select(ring, in_checkpoint(position, place), place >= 0) + i];
        }
        sum = fma(value, weights[i * dims.taps + tap], sum);
    }
    y[row * dims.stride + i] = projected[row * 3u * dims.width + dims.width + i] * sum;
    // The ring is longer than a pass, so no row overwrites what another one reads.
    let value = input(row, i);
    history[here % dims.ring * dims.width + i] = value;
    let place = place(here);
    if (place >= 0) {
        history[in_checkpoint(here, place) + i] = value;
    }
}
