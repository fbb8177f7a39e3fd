const PAIRS = 128u;  // pairs of outputs per workgroup
const PART = 1u;     // rows that are finished at a time: SwiftShader compiles one store per word of workgroup memory

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) grid: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    if (!has_rows(id.x)) {
        return;
    }
    let sixteen = ((id.z * grid.y + id.y) * 8u + thread / 8u) * 2u;
    let place = thread % 8u;
    let first_row = first_row_of(id.x);
    let first = first_units(sixteen, place);
    let rows = rows_from(first_row);
    let total = sum_chunks(first, rows);
    find_row_scales(first_row, thread);
    for (var row = 0u; row < ROWS; row++) {
        for (var pair = 0u; pair < 2u; pair++) {
            let out = (sixteen + pair) * 16u + place * 2u;
            let a = quad_of(total, pair * 2u, row / 4u)[row % 4u];
            let b = quad_of(total, pair * 2u + 1u, row / 4u)[row % 4u];
            var square = 0.0;
            if (first_row + row < row_count() && out < dims.outs) {
                square = store_pair(first_row + row, dims.first_out + out, a * row_scales[row], b * row_scales[row]);
            }
            squares[thread / 8u * 16u + pair * 8u + place] = square;
        }
        workgroupBarrier();
        if (thread < PAIRS / 8u) {
            leave_sum(first_row, row, (sixteen - thread / 8u * 2u + thread) * 16u, thread * 8u);
        }
        workgroupBarrier();
    }
}
