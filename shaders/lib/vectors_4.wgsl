// Four query vectors, in the lanes of vec4s.
const VECTORS = 4u;
alias Places = vec4u;
alias Scores = vec4f;
alias Q = mat4x4f;
struct Values { a: vec4f, b: vec4f, c: vec4f, d: vec4f }
fn load_places(kv_head: u32, first: u32) -> Places {
    return places(kv_head, vec4u(0u, 1u, 2u, 3u) + first);
}
fn load_q(at: Places, c: u32) -> Q {
    return transpose(mat4x4f(q[at.x + c], q[at.y + c], q[at.z + c], q[at.w + c]));
}
fn score(sum: Scores, k: vec4f, x: Q) -> Scores {
    return mac4(sum, k, x);
}
fn leave_all_scores(s0: Scores, s1: Scores, s2: Scores, s3: Scores, first: u32, block: u32, thread: u32) {
    for (var n = 0u; n < 4u; n++) {
        leave_scores(n, row_of(first + n), block, thread, vec4f(s0[n], s1[n], s2[n], s3[n]));
    }
}
fn add_all_values(sum: Values, t: u32, v: mat4x4f) -> Values {
    return Values(
        add_values(sum.a, 0u, t, v),
        add_values(sum.b, 1u, t, v),
        add_values(sum.c, 2u, t, v),
        add_values(sum.d, 3u, t, v),
    );
}
fn leave_all_values(sum: Values, thread: u32) {
    leave_values(0u, thread, sum.a);
    leave_values(1u, thread, sum.b);
    leave_values(2u, thread, sum.c);
    leave_values(3u, thread, sum.d);
}
