// Sixteen rows in the lanes of four vec4s.
const ROWS = 16u;
struct X { a: mat4x4f, b: mat4x4f, c: mat4x4f, d: mat4x4f }
struct Sum { a: vec4f, b: vec4f, c: vec4f, d: vec4f }
fn load_x(row: u32, at: u32) -> X {
    return X(quad(row, at), quad(row + 4u, at), quad(row + 8u, at), quad(row + 12u, at));
}
fn mac(sum: Sum, w: vec4f, x: X) -> Sum {
    return Sum(mac4(sum.a, w, x.a), mac4(sum.b, w, x.b), mac4(sum.c, w, x.c), mac4(sum.d, w, x.d));
}
fn park(sum: Sum, at: u32) {
    park_quad(sum.a, at);
    park_quad(sum.b, at + 4u * PITCH);
    park_quad(sum.c, at + 8u * PITCH);
    park_quad(sum.d, at + 12u * PITCH);
}
