const THREADS = 16u;

var<workgroup> row_scales: array<f32, ROWS>;
var<workgroup> squares: array<f32, THREADS * ROWS>;  // sums of squares per thread

fn find_row_scales(first_row: u32, thread: u32) {
    if (thread < ROWS) {
        var scale = 1.0;
        if (dims.norm_width > 0u) {
            let one = dims.one;
            let at = x_row(first_row + thread) + dims.sums;
            var sum = vec4f();
            for (var i = 0u; i < (dims.norm_width + 63u) / 64u; i++) {
                sum = fma(x4(at + i), vec4f(one), sum);
            }
            let total = fma(sum.w, one, fma(sum.z, one, fma(sum.y, one, sum.x)));
            scale = 1.0 / sqrt(total / f32(dims.norm_width) + dims.eps);
        }
        row_scales[thread] = scale;
    }
    workgroupBarrier();
}

fn results(sums: Sums, row: u32) -> Eight {
    let scale = row_scales[row];
    let eight = sums_of(sums, row);
    return Eight(eight.a * scale, eight.b * scale);
}

fn leave_sums(place: Place, sixteen: u32, thread: u32) {
    workgroupBarrier();
    if (thread % 2u == 0u && place.pairs > 0u) {
        for (var i = 0u; i < place.rows; i++) {
            let total = fma(squares[(thread + 1u) * ROWS + i], dims.one, squares[thread * ROWS + i]);
            gained[(place.row + i) * dims.leaves + dims.y_stride + dims.first_out / 16u + sixteen] = total;
        }
    }
}

@compute @workgroup_size(16)
fn main(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) grid: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    if (!has_rows(id.x)) {
        return;
    }
    let eight = (id.z * grid.y + id.y) * THREADS + thread;
    let sixteen = eight / 2u;
    let out = eight * 8u;
    let row = first_row_of(id.x);
    let last = (dims.outs - 1u) / 16u;
    let first = first_weight() + first_unit(min(sixteen, last) * 16u + eight % 2u * 8u);
    let sums = sum_all(first, rows_from(row));
    find_row_scales(row, thread);
    let rows = min(ROWS, max(row_count(), row) - row);
    let pairs = min(4u, (max(dims.outs, out) - out + 1u) / 2u);
    let place = Place(row, rows, dims.first_out + out, pairs, dims.first_out + dims.outs);
    finish(sums, place, thread);
    if (dims.leaves > 0u) {
        leave_sums(place, sixteen, thread);
    }
}
