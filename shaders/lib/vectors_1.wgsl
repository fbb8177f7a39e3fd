// One query vector.
const VECTORS = 1u;
alias Places = u32;
alias Scores = f32;
alias Values = vec4f;
fn load_places(kv_head: u32, first: u32) -> Places {
    return places(kv_head, vec4u(first)).x;
}
fn load_q(at: Places, c: u32) -> vec4f {
    return q[at + c];
}
fn score(sum: Scores, k: vec4f, x: vec4f) -> Scores {
    return fma(k.w, x.w, fma(k.z, x.z, fma(k.y, x.y, fma(k.x, x.x, sum))));
}
fn leave_all_scores(s0: Scores, s1: Scores, s2: Scores, s3: Scores, first: u32, block: u32, thread: u32) {
    leave_scores(0u, row_of(first), block, thread, vec4f(s0, s1, s2, s3));
}
fn add_all_values(sum: Values, t: u32, v: mat4x4f) -> Values {
    return add_values(sum, 0u, t, v);
}
fn leave_all_values(sum: Values, thread: u32) {
    leave_values(0u, thread, sum);
}
