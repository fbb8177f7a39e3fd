// Joins the blocks of each row and head in order, and divides by the softmax sum.
const THREADS = 64u;

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> heads: HeadDims;
@group(0) @binding(2) var<storage, read> partial: array<vec4f>;   // (blocks, rows, heads, head_dim / 4)
@group(0) @binding(3) var<storage, read> norms: array<vec2f>;     // (blocks, rows, heads): top, sum
@group(0) @binding(4) var<storage, read_write> out: array<vec4f>; // (rows, heads, head_dim / 4)

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let width = heads.head_dim / 4u;
    if (thread >= width || step.rows == 0u) {
        return;
    }
    let seen = step.position + id.y + 1u;
    let first = (seen - min(seen, heads.window)) / BLOCK;
    let last = (seen - 1u) / BLOCK;
    var at = partial_index(first, id.y, id.x);
    var top = norms[at].x;
    var sum = norms[at].y;
    var values = partial[at * width + thread];
    for (var block = first + 1u; block <= last; block++) {
        at = partial_index(block, id.y, id.x);
        let by = fold(top, sum, norms[at].x, norms[at].y);
        values = fold_values(values, partial[at * width + thread], by);
        top = by.top;
        sum = by.sum;
    }
    out[id.y * (heads.q_stride / 4u) + id.x * width + thread] = values / sum;
}
