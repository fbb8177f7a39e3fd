// Four rows in the lanes of a vec4.
const ROWS = 4u;
alias X = mat4x4f;
alias Sum = vec4f;
fn load_x(row: u32, at: u32) -> X {
    return quad(row, at);
}
fn mac(sum: Sum, w: vec4f, x: X) -> Sum {
    return mac4(sum, w, x);
}
fn park(sum: Sum, at: u32) {
    park_quad(sum, at);
}
