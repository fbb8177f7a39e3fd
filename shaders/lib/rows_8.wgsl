// Eight rows in the lanes of two vec4s: named, since an indexed array of sums would leave the registers.
const ROWS = 8u;
struct X { a: mat4x4f, b: mat4x4f }
struct Sum { a: vec4f, b: vec4f }
fn load_x(row: u32, at: u32) -> X {
    return X(quad(row, at), quad(row + 4u, at));
}
fn mac(sum: Sum, w: vec4f, x: X) -> Sum {
    return Sum(mac4(sum.a, w, x.a), mac4(sum.b, w, x.b));
}
fn park(sum: Sum, at: u32) {
    park_quad(sum.a, at);
    park_quad(sum.b, at + 4u * PITCH);
}
