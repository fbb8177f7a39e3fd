// One value from each of THREADS threads, added as a tree; all threads get the sum.
var<workgroup> summands: array<f32, THREADS>;
fn sum_threads(value: f32, thread: u32) -> f32 {
    summands[thread] = value;
    workgroupBarrier();
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        if (thread < half) {
            summands[thread] += summands[thread + half];
        }
        workgroupBarrier();
    }
    return summands[0];
}
