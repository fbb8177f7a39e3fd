const THREADS = 64u;
const SHARING = 8u;  // threads per 32 elements

struct QuantiseDims {
    blocks: u32,    // blocks of 32 elements per row
    behind: u32,    // 16-byte units after the blocks
    x_stride: u32,  // units per row of x
    y_stride: u32,  // units per row of y
    head: u32,      // 1: rows from step.logit_row on
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: QuantiseDims;
@group(0) @binding(2) var<storage, read> x: array<vec4u>;        // (rows, x_stride): floats
@group(0) @binding(3) var<storage, read_write> y: array<u32>;    // (rows, y_stride, 4)

var<workgroup> tops: array<u32, THREADS>;
var<workgroup> code_sums: array<i32, THREADS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    if (step.rows == 0u) {
        return;
    }
    let at = id.x * THREADS + thread;
    let row = dims.head * step.logit_row + id.y;
    let four = x[row * dims.x_stride + min(at, dims.x_stride - 1u)];
    // Magnitudes compare like their bits; non-finite values compare as the largest.
    let sizes = four & vec4u(0x7fffffffu);
    tops[thread] = max(max(sizes.x, sizes.y), max(sizes.z, sizes.w));
    workgroupBarrier();
    let first = thread / SHARING * SHARING;
    var top = 0u;
    for (var i = 0u; i < SHARING; i++) {
        top = max(top, tops[first + i]);
    }
    let largest = bitcast<f32>(top);
    let factor = select(127.0 / largest, 0.0, largest < 1e-30);
    let codes = vec4i(round(bitcast<vec4f>(four) * factor));
    code_sums[thread] = codes.x + codes.y + codes.z + codes.w;
    workgroupBarrier();
    let place = at % SHARING;
    let to = row * dims.y_stride * 4u;
    if (at < dims.blocks * SHARING) {
        let block = to + at / SHARING * 12u;
        y[block + place] = pack4xI8(codes);
        if (place == 0u) {
            let low = code_sums[first] + code_sums[first + 1u] + code_sums[first + 2u] + code_sums[first + 3u];
            let high = code_sums[first + 4u] + code_sums[first + 5u] + code_sums[first + 6u] + code_sums[first + 7u];
            y[block + 8u] = bitcast<u32>(largest / 127.0);
            y[block + 9u] = bitcast<u32>(low);
            y[block + 10u] = bitcast<u32>(high);
            y[block + 11u] = bitcast<u32>(f32(low + high));
        }
    } else if (at < dims.blocks * SHARING + dims.behind) {
        let unit = to + (dims.blocks * 3u + at - dims.blocks * SHARING) * 4u;
        y[unit] = four.x;
        y[unit + 1u] = four.y;
        y[unit + 2u] = four.z;
        y[unit + 3u] = four.w;
    }
}
