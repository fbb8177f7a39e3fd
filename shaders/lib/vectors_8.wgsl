// Eight query vectors, in the lanes of two vec4s: named, since an indexed array of sums would leave the registers.
const VECTORS = 8u;
struct Places { low: vec4u, high: vec4u }
struct Scores { low: vec4f, high: vec4f }
struct Q { low: mat4x4f, high: mat4x4f }
fn load_four(at: vec4u, c: u32) -> mat4x4f {
    return transpose(mat4x4f(q[at.x + c], q[at.y + c], q[at.z + c], q[at.w + c]));
}
struct Values { a: vec4f, b: vec4f, c: vec4f, d: vec4f, e: vec4f, f: vec4f, g: vec4f, h: vec4f }
fn load_places(kv_head: u32, first: u32) -> Places {
    return Places(places(kv_head, vec4u(0u, 1u, 2u, 3u) + first), places(kv_head, vec4u(4u, 5u, 6u, 7u) + first));
}
fn load_q(at: Places, c: u32) -> Q {
    return Q(load_four(at.low, c), load_four(at.high, c));
}
fn score(sum: Scores, k: vec4f, x: Q) -> Scores {
    return Scores(mac4(sum.low, k, x.low), mac4(sum.high, k, x.high));
}
fn leave_all_scores(s0: Scores, s1: Scores, s2: Scores, s3: Scores, first: u32, block: u32, thread: u32) {
    for (var n = 0u; n < 4u; n++) {
        leave_scores(n, row_of(first + n), block, thread, vec4f(s0.low[n], s1.low[n], s2.low[n], s3.low[n]));
        leave_scores(n + 4u, row_of(first + n + 4u), block, thread, vec4f(s0.high[n], s1.high[n], s2.high[n], s3.high[n]));
    }
}
fn add_all_values(sum: Values, t: u32, v: mat4x4f) -> Values {
    return Values(
        add_values(sum.a, 0u, t, v),
        add_values(sum.b, 1u, t, v),
        add_values(sum.c, 2u, t, v),
        add_values(sum.d, 3u, t, v),
        add_values(sum.e, 4u, t, v),
        add_values(sum.f, 5u, t, v),
        add_values(sum.g, 6u, t, v),
        add_values(sum.h, 7u, t, v),
    );
}
fn leave_all_values(sum: Values, thread: u32) {
    leave_values(0u, thread, sum.a);
    leave_values(1u, thread, sum.b);
    leave_values(2u, thread, sum.c);
    leave_values(3u, thread, sum.d);
    leave_values(4u, thread, sum.e);
    leave_values(5u, thread, sum.f);
    leave_values(6u, thread, sum.g);
    leave_values(7u, thread, sum.h);
}
