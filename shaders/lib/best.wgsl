const NOT_FINITE = 0xffffffffu;
var<workgroup> scores: array<f32, THREADS>;
var<workgroup> tokens: array<u32, THREADS>;
// Score of the best token, for the calling thread.
var<private> best_score: f32;
fn best_of_threads(score: f32, token: u32, thread: u32) -> u32 {
    scores[thread] = score;
    tokens[thread] = token;
    workgroupBarrier();
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        if (thread < half) {
            let a = tokens[thread];
            let b = tokens[thread + half];
            let other = scores[thread + half];
            let wins = b < dims.vocab && (a == dims.vocab || other > scores[thread] || (other == scores[thread] && b < a));
            if (a != NOT_FINITE && (b == NOT_FINITE || wins)) {
                scores[thread] = other;
                tokens[thread] = b;
            }
        }
        workgroupBarrier();
    }
    let best = tokens[0];
    best_score = scores[0];
    workgroupBarrier();
    return best;
}
