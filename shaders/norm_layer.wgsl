@group(0) @binding(5) var<storage, read> bias: array<vec4f>;     // (stride), zero past width

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    if (step.rows == 0u) {
        return;
    }
    let base = x_base(id.x);
    var sum = 0.0;
    for (var i = thread; i < dims.stride; i += THREADS) {
        let v = x[base + i];
        sum = fma(v.w, dims.one, fma(v.z, dims.one, fma(v.y, dims.one, fma(v.x, dims.one, sum))));
    }
    let mean = sum_threads(sum, dims.one, thread) / f32(dims.width);
    workgroupBarrier();
    // Uses deviations from the mean instead of the sum of squares, which would lose precision for a large mean.
    var squares = 0.0;
    for (var i = thread; i < dims.stride; i += THREADS) {
        let inside = vec4u(i * 4u) + vec4u(0u, 1u, 2u, 3u) < vec4u(dims.width);
        let v = select(vec4f(), x[base + i] - mean, inside);
        squares = fma(v.w, v.w, fma(v.z, v.z, fma(v.y, v.y, fma(v.x, v.x, squares))));
    }
    let scale = 1.0 / sqrt(sum_threads(squares, dims.one, thread) / f32(dims.width) + dims.eps);
    let to = y_base(id.x);
    for (var i = thread; i < dims.count; i += THREADS) {
        y[to + i] = fma((x[base + i] - mean) * scale, gain[i], bias[i]);
    }
}
