// y = x W^T for few rows: each weight is read once, 16 bytes at a time, and used for all rows.
// A workgroup has four groups of 16 lanes; a group computes four outputs of ROWS rows.
const GROUPS = 4u;
const OUTS = 4u;
const PITCH = 65u;  // one more than the workgroup's threads, so that summing threads hit different banks

var<workgroup> parked: array<f32, 2u * ROWS * PITCH>;  // lane sums of two outputs: (2, ROWS, PITCH)

// The lane sums of row `row` of one of the two parked outputs, added in order. Lanes without a chunk parked zero.
// (A bound from a uniform would make lavapipe compile the kernel anew for every submission.)
fn add_lanes(output: u32, row: u32, group: u32) -> f32 {
    let base = (output * ROWS + row) * PITCH + group * LANES;
    var total = 0.0;
    for (var lane = 0u; lane < LANES; lane++) {
        total += parked[base + lane];
    }
    return total;
}

// All threads bring two outputs' lane sums; the first GROUPS * ROWS threads add and store them.
fn finish(a: Sum, b: Sum, tile: u32, first_row: u32, pair: u32, thread: u32) {
    park(a, thread);
    park(b, ROWS * PITCH + thread);
    workgroupBarrier();
    let group = thread / ROWS;
    let row = thread % ROWS;
    let out = (tile * GROUPS + group) * OUTS + pair * 2u;
    if (group < GROUPS && first_row + row < row_count() && out < dims.outs) {
        store_pair(first_row + row, dims.first_out + out, add_lanes(0u, row, group), add_lanes(1u, row, group));
    }
    workgroupBarrier();
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) grid: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    if (step.rows == 0u) {
        return;
    }
    let tile = id.z * grid.x + id.x;
    let first_row = id.y * ROWS;
    let first = (tile * GROUPS + thread / LANES) * OUTS;
    let last = dims.outs - 1u;
    let w0 = min(first, last);
    let w1 = min(first + 1u, last);
    let w2 = min(first + 2u, last);
    let w3 = min(first + 3u, last);
    var s0: Sum;
    var s1: Sum;
    var s2: Sum;
    var s3: Sum;
    for (var chunk = thread % LANES; chunk < dims.chunks; chunk += LANES) {
        let r0 = load_raw(w0, chunk);
        let r1 = load_raw(w1, chunk);
        let r2 = load_raw(w2, chunk);
        let r3 = load_raw(w3, chunk);
        for (var i = 0u; i < CHUNK4; i++) {
            let x = load_x(first_row, chunk * CHUNK4 + i);
            s0 = mac(s0, weight4(r0, i), x);
            s1 = mac(s1, weight4(r1, i), x);
            s2 = mac(s2, weight4(r2, i), x);
            s3 = mac(s3, weight4(r3, i), x);
        }
    }
    finish(s0, s1, tile, first_row, 0u, thread);
    finish(s2, s3, tile, first_row, 1u, thread);
}
