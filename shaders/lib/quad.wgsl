// Four rows: their elements at one place, by element, and their parked sums.
fn quad(row: u32, at: u32) -> mat4x4f {
    return transpose(mat4x4f(x_at(row, at), x_at(row + 1u, at), x_at(row + 2u, at), x_at(row + 3u, at)));
}
fn park_quad(sum: vec4f, at: u32) {
    parked[at] = sum.x;
    parked[at + PITCH] = sum.y;
    parked[at + 2u * PITCH] = sum.z;
    parked[at + 3u * PITCH] = sum.w;
}
