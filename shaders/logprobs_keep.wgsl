@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: SampleDims;
@group(0) @binding(2) var<storage, read> logits: array<vec4f>;      // (rows, stride / 4)
@group(0) @binding(3) var<storage, read_write> kept: array<vec4f>;  // (rows, stride / 4)
@group(0) @binding(4) var<uniform> sampling: SamplingBlock;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let row = step.draft_row + id.y;
    for (var n = 0u; n < 4u; n++) {
        let first = first_id(id.x, thread, n);
        if (first < dims.stride) {
            kept[(row * dims.stride + first) / 4u] = four_logits(row, first);
        }
    }
}
