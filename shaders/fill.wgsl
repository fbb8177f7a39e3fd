@group(0) @binding(0) var<storage, read_write> data: array<u32>;

// PCG hash (Jarzynski and Olano 2020).
fn hash(v: u32) -> u32 {
    let state = v * 747796405u + 2891336453u;
    let mixed = ((state >> ((state >> 28u) + 4u)) ^ state) * 277803737u;
    return (mixed >> 22u) ^ mixed;
}

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) grid: vec3u) {
    for (var i = id.x; i < arrayLength(&data); i += grid.x * 256u) {
        data[i] = word(hash(i));
    }
}
