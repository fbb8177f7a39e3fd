const PARTS = 4u;  // threads that add a row's sums

var<workgroup> part_sums: array<f32, ROWS * PARTS>;
var<workgroup> row_scales: array<f32, ROWS>;
var<workgroup> squares: array<f32, PAIRS * PART>;  // (PAIRS, PART): sums over two neighbouring elements of the next x

fn find_row_scales(first_row: u32, thread: u32) {
    if (dims.norm_width > 0u) {
        let one = dims.one;
        if (thread < ROWS * PARTS) {
            let at = x_row(first_row + thread / PARTS) + dims.sums;
            var sum = vec4f();
            for (var i = thread % PARTS; i < (dims.norm_width + 63u) / 64u; i += PARTS) {
                sum = fma(x4(at + i), vec4f(one), sum);
            }
            part_sums[thread] = fma(sum.w, one, fma(sum.z, one, fma(sum.y, one, sum.x)));
        }
        workgroupBarrier();
        if (thread < ROWS) {
            var total = 0.0;
            for (var i = 0u; i < PARTS; i++) {
                total = fma(part_sums[thread * PARTS + i], one, total);
            }
            row_scales[thread] = WEIGHT_SCALE / sqrt(total / f32(dims.norm_width) + dims.eps);
        }
    } else if (thread < ROWS) {
        row_scales[thread] = WEIGHT_SCALE;
    }
    workgroupBarrier();
}

fn leave_sum(first_row: u32, row: u32, out: u32, pair: u32) {
    if (dims.leaves > 0u && first_row + row < row_count() && out < dims.outs) {
        var total = 0.0;
        for (var i = 0u; i < 8u; i++) {
            total = fma(squares[(pair + i) * PART + row % PART], dims.one, total);
        }
        gained[(first_row + row) * dims.leaves + dims.y_stride + (dims.first_out + out) / 16u] = total;
    }
}
