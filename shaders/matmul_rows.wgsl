const PITCH = 129u;            // one more than the workgroup's threads, so that summing threads hit different banks
const PART = min(ROWS, 8u);    // rows whose lane sums are combined at a time
const PAIRS = 8u;              // pairs of outputs that are finished at a time

var<workgroup> parked: array<f32, 2u * PART * PITCH>;  // lane sums of a thread's pair of outputs: (2, PART, PITCH)

fn park(sum: vec4f, at: u32) {
    parked[at] = sum.x;
    if (ROWS > 1u) {
        parked[at + PITCH] = sum.y;
    }
    if (ROWS > 2u) {
        parked[at + 2u * PITCH] = sum.z;
        parked[at + 3u * PITCH] = sum.w;
    }
}

fn park_part(sums: Sums, output: u32, part: u32, at: u32) {
    park(quad_of(sums, output, part * 2u), at);
    if (ROWS > 4u) {
        park(quad_of(sums, output, part * 2u + 1u), at + 4u * PITCH);
    }
}

// Adds parked lane sums in order. Lanes without a chunk have parked zero.
// (With a bound from a uniform, lavapipe would recompile the kernel for every submission.)
fn add_lanes(at: u32) -> f32 {
    let one = dims.one;
    var total = 0.0;
    for (var lane = 0u; lane < LANES; lane++) {
        total = fma(parked[at + lane * 8u], one, total);
    }
    return total;
}

fn finish(sums: Sums, pair: u32, part: u32, outs: u32, first_row: u32, thread: u32) {
    park_part(sums, pair * 2u, part, thread);
    park_part(sums, pair * 2u + 1u, part, PART * PITCH + thread);
    workgroupBarrier();
    let place = thread / PART;
    let row = part * PART + thread % PART;
    let sixteen = (outs * 2u + pair) * 16u;
    let out = sixteen + place * 2u;
    if (place < PAIRS) {
        var square = 0.0;
        if (first_row + row < row_count() && out < dims.outs) {
            let at = thread % PART * PITCH + place;
            let scale = row_scales[row];
            let a = add_lanes(at) * scale;
            square = store_pair(first_row + row, dims.first_out + out, a, add_lanes(PART * PITCH + at) * scale);
        }
        squares[place * PART + row % PART] = square;
    }
    workgroupBarrier();
    if (thread < PART) {
        leave_sum(first_row, row, sixteen, 0u);
    }
}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) grid: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    if (!has_rows(id.x)) {
        return;
    }
    let outs = id.z * grid.y + id.y;
    let first_row = first_row_of(id.x);
    let first = first_units(outs * 2u, thread % 8u);
    let rows = rows_from(first_row);
    let planes = planes(thread / 8u);
    let chunks = dims.chunks;
    var sums = Sums();
    for (var chunk = thread / 8u; chunk < chunks; chunk += LANES) {
        sums = add_chunk(sums, load_raws(first, planes, chunk), rows, chunk);
    }
    find_row_scales(first_row, thread);
    for (var part = 0u; part < ROWS / PART; part++) {
        finish(sums, 0u, part, outs, first_row, thread);
        finish(sums, 1u, part, outs, first_row, thread);
    }
}
