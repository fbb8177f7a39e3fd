var<workgroup> maxima: array<f32, THREADS>;
fn max_threads(value: f32, thread: u32) -> f32 {
    maxima[thread] = value;
    workgroupBarrier();
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        if (thread < half) {
            maxima[thread] = max(maxima[thread], maxima[thread + half]);
        }
        workgroupBarrier();
    }
    return maxima[0];
}
