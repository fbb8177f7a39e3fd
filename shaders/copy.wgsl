@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) grid: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    if (step.rows == 0u) {
        return;
    }
    let row = id.y * grid.x + id.x;
    let start = x_base(row);
    let to = y_base(row);
    for (var i = thread; i < dims.count; i += THREADS) {
        y[to + i] = x[start + i];
    }
}
