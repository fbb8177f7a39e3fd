// Two query vectors.
const VECTORS = 2u;
alias Places = vec2u;
alias Scores = vec2f;
alias Q = mat4x2f;
struct Values { a: vec4f, b: vec4f }
fn load_places(kv_head: u32, first: u32) -> Places {
    return places(kv_head, vec4u(first, first + 1u, first, first)).xy;
}
fn load_q(at: Places, c: u32) -> Q {
    return transpose(mat2x4f(q[at.x + c], q[at.y + c]));
}
fn score(sum: Scores, k: vec4f, x: Q) -> Scores {
    return fma(vec2f(k.w), x[3], fma(vec2f(k.z), x[2], fma(vec2f(k.y), x[1], fma(vec2f(k.x), x[0], sum))));
}
fn leave_all_scores(s0: Scores, s1: Scores, s2: Scores, s3: Scores, first: u32, block: u32, thread: u32) {
    for (var n = 0u; n < 2u; n++) {
        leave_scores(n, row_of(first + n), block, thread, vec4f(s0[n], s1[n], s2[n], s3[n]));
    }
}
fn add_all_values(sum: Values, t: u32, v: mat4x4f) -> Values {
    return Values(
        add_values(sum.a, 0u, t, v),
        add_values(sum.b, 1u, t, v),
    );
}
fn leave_all_values(sum: Values, thread: u32) {
    leave_values(0u, thread, sum.a);
    leave_values(1u, thread, sum.b);
}
