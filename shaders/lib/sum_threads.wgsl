var<workgroup> summands: array<f32, THREADS>;
fn sum_threads(value: f32, one: f32, thread: u32) -> f32 {
    summands[thread] = value;
    workgroupBarrier();
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        if (thread < half) {
            summands[thread] = fma(summands[thread + half], one, summands[thread]);
        }
        workgroupBarrier();
    }
    return summands[0];
}
