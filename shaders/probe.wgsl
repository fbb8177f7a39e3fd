@group(0) @binding(0) var<storage, read> data: array<vec4u>;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) grid: vec3u) {
    var seen = vec4u();
    for (var i = id.x; i < arrayLength(&data); i += grid.x * 256u) {
        seen ^= data[i];
    }
    // Never true for the probe's data. The compiler cannot know that, so it must keep the reads.
    if (all(seen == vec4u(0x9e3779b9u))) {
        out[0] = seen.x;
    }
}
