// VECTORS query vectors. A line with a # stands there once for each: an indexed array of sums would leave the registers.
struct Places {
    v#: u32,
}
struct Queries {
    v#: vec4f,
}
struct Scores {
    v#: f32,
}
struct Values {
    v#: vec4f,
}
fn load_places(kv_head: u32, first: u32) -> Places {
    return Places(
        place_of(kv_head, first + #u),
    );
}
fn load_q(at: Places, c: u32) -> Queries {
    return Queries(
        q[at.v# + c],
    );
}
fn add_score(sum: f32, k: vec4f, x: vec4f) -> f32 {
    return fma(k.w, x.w, fma(k.z, x.z, fma(k.y, x.y, fma(k.x, x.x, sum))));
}
fn score(sum: Scores, k: vec4f, x: Queries) -> Scores {
    return Scores(
        add_score(sum.v#, k, x.v#),
    );
}
fn leave_all_scores(s0: Scores, s1: Scores, s2: Scores, s3: Scores, first: u32, block: u32, thread: u32) {
    leave_scores(#u, row_of(first + #u), block, thread, vec4f(s0.v#, s1.v#, s2.v#, s3.v#));
}
fn add_all_values(sum: Values, t: u32, v: mat4x4f) -> Values {
    return Values(
        add_values(sum.v#, #u, t, v),
    );
}
fn leave_all_values(sum: Values, thread: u32) {
    leave_values(#u, thread, sum.v#);
}
