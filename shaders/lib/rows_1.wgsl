// One row: scalar sums.
const ROWS = 1u;
alias X = vec4f;
alias Sum = f32;
fn load_x(row: u32, at: u32) -> X {
    return x_at(row, at);
}
fn mac(sum: Sum, w: vec4f, x: X) -> Sum {
    return fma(w.w, x.w, fma(w.z, x.z, fma(w.y, x.y, fma(w.x, x.x, sum))));
}
fn park(sum: Sum, at: u32) {
    parked[at] = sum;
}
