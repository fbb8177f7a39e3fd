// Two rows in the lanes of a vec2.
const ROWS = 2u;
struct X { a: vec4f, b: vec4f }
alias Sum = vec2f;
fn load_x(row: u32, at: u32) -> X {
    return X(x_at(row, at), x_at(row + 1u, at));
}
fn mac(sum: Sum, w: vec4f, x: X) -> Sum {
    let first = fma(w.xx, vec2f(x.a.x, x.b.x), sum);
    return fma(w.ww, vec2f(x.a.w, x.b.w), fma(w.zz, vec2f(x.a.z, x.b.z), fma(w.yy, vec2f(x.a.y, x.b.y), first)));
}
fn park(sum: Sum, at: u32) {
    parked[at] = sum.x;
    parked[at + PITCH] = sum.y;
}
