struct Places {
    v#: u32,
}
struct Scores {
    v#: f32,
}
struct Fours {
    v#: vec4f,
}
fn load_places(kv_head: u32, first: u32) -> Places {
    return Places(
        place_of(kv_head, first + #u),
    );
}
fn load_q(at: Places, c: u32) -> Fours {
    return Fours(
        q[at.v# + c],
    );
}
fn load_shares(at: u32) -> Fours {
    return Fours(
        shares[#u * PLACES + at],
    );
}
fn add_score(sum: f32, k: vec4f, x: vec4f) -> f32 {
    return fma(k.w, x.w, fma(k.z, x.z, fma(k.y, x.y, fma(k.x, x.x, sum))));
}
fn score(sum: Scores, k: vec4f, x: Fours) -> Scores {
    return Scores(
        add_score(sum.v#, k, x.v#),
    );
}
fn leave_all_scores(s0: Scores, s1: Scores, s2: Scores, s3: Scores, first: u32, four: u32, position: vec4u) {
    leave_scores(#u, row_of(first + #u), four, position, vec4f(s0.v#, s1.v#, s2.v#, s3.v#));
}
fn add_values(sum: Fours, p: Fours, v: mat4x4f) -> Fours {
    return Fours(
        weigh(sum.v#, p.v#, v),
    );
}
fn leave_values(values: Fours, at: u32) {
    shares[#u * PLACES + at] = values.v#;
}
