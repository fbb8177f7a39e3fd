const THREADS = 64u;

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> heads: HeadDims;
@group(0) @binding(2) var<storage, read> partial: array<vec4f>;   // (blocks, rows, heads, head_dim / 4)
@group(0) @binding(3) var<storage, read> norms: array<vec2f>;     // (blocks, rows, heads): top, sum
@group(0) @binding(4) var<storage, read_write> out: array<vec4f>; // (rows, heads, head_dim / 4)
@group(0) @binding(5) var<storage, read> sinks: array<f32>;       // (heads)

struct Joined {
    top: f32,
    sum: f32,
    values: vec4f,
}

fn join(so_far: Joined, norm: vec2f, values: vec4f, is_seen: bool) -> Joined {
    if (!is_seen) {
        return so_far;
    }
    let by = fold(so_far.top, so_far.sum, norm.x, norm.y);
    return Joined(by.top, by.sum, fold_values(so_far.values, values, by));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let width = heads.head_dim / 4u;
    let at = id.x * THREADS + thread;
    let head = at / width;
    let c = at % width;
    let row = id.y;
    if (step.rows == 0u || head >= heads.heads) {
        return;
    }
    let seen = step.position + row + 1u;
    let first = partial_index((seen - min(seen, heads.window)) / BLOCK, row, head);
    let last = partial_index(last_seen(row) / BLOCK, row, head);
    let stride = step.rows * heads.heads;
    var joined = Joined(norms[first].x, norms[first].y, partial[first * width + c]);
    for (var i = first + stride; i <= last; i += 4u * stride) {
        let i1 = min(i + stride, last);
        let i2 = min(i + 2u * stride, last);
        let i3 = min(i + 3u * stride, last);
        let n0 = norms[i];
        let n1 = norms[i1];
        let n2 = norms[i2];
        let n3 = norms[i3];
        let v0 = partial[i * width + c];
        let v1 = partial[i1 * width + c];
        let v2 = partial[i2 * width + c];
        let v3 = partial[i3 * width + c];
        joined = join(joined, n0, v0, true);
        joined = join(joined, n1, v1, i + stride <= last);
        joined = join(joined, n2, v2, i + 2u * stride <= last);
        joined = join(joined, n3, v3, i + 3u * stride <= last);
    }
    out[row * (heads.q_stride / 4u) + at] = joined.values / with_sink(joined.top, joined.sum, sinks[head]);
}
