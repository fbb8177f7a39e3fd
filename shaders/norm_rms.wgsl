// RMS norm: x / rms(x) * gain, written to y or added to it.
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    if (step.rows == 0u) {
        return;
    }
    let base = (id.x + dims.head * step.logit_row) * dims.stride;
    var sum = 0.0;
    for (var i = thread; i < dims.stride; i += THREADS) {
        let v = x[base + i];
        sum = fma(v.w, v.w, fma(v.z, v.z, fma(v.y, v.y, fma(v.x, v.x, sum))));
    }
    let scale = 1.0 / sqrt(sum_threads(sum, dims.one, thread) / f32(dims.width) + dims.eps);
    for (var i = thread; i < dims.stride; i += THREADS) {
        place(id.x * dims.stride + i, x[base + i] * scale * gain[i]);
    }
}
