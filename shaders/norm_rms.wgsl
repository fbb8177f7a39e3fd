@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) grid: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    if (step.rows == 0u) {
        return;
    }
    // In a grid of two dimensions, a row of activations is several rows here.
    let row = id.y * grid.x + id.x;
    let base = x_base(row);
    var sum = 0.0;
    for (var i = thread; i < dims.stride; i += THREADS) {
        let v = x[base + i];
        sum = fma(v.w, v.w, fma(v.z, v.z, fma(v.y, v.y, fma(v.x, v.x, sum))));
    }
    let scale = 1.0 / sqrt(sum_threads(sum, dims.one, thread) / f32(dims.width) + dims.eps);
    let to = y_base(row);
    for (var i = thread; i < dims.count; i += THREADS) {
        place(to + i, x[base + i] * scale * gain[i]);
    }
}
