// y = x W^T for many rows (prefill): 32 x 32 tiles through workgroup memory, 4 x 4 results per thread.
// It walks W's chunks lane by lane, so that it adds in the same order as matmul_rows.
const TILE = 32u;
const STAGE4 = 8u;  // vec4s of a row staged at a time

var<workgroup> w_stage: array<vec4f, TILE * STAGE4>;  // (STAGE4, TILE)
var<workgroup> x_stage: array<vec4f, TILE * STAGE4>;

// A chunk's place in the lane-by-lane order. step: how many chunks of its lane come before it.
struct Place { chunk: u32, step: u32 }
fn place(i: u32) -> Place {
    let short = dims.chunks / LANES;
    let long_lanes = dims.chunks % LANES;
    let in_long = long_lanes * (short + 1u);
    if (i < in_long) {
        let step = i % (short + 1u);
        return Place(i / (short + 1u) + step * LANES, step);
    }
    let rest = i - in_long;
    let step = rest % max(short, 1u);
    return Place(long_lanes + rest / max(short, 1u) + step * LANES, step);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) grid: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let first_out = (id.z * grid.x + id.x) * TILE;
    let first_row = id.y * TILE;
    // This thread's rows: row + 8 i. Its outputs: out, out + 1, out + 16, out + 17.
    let row = thread / 8u;
    let out = (thread % 8u) * 2u;
    var sum0 = vec4f();
    var sum1 = vec4f();
    var sum2 = vec4f();
    var sum3 = vec4f();
    var total0 = vec4f();
    var total1 = vec4f();
    var total2 = vec4f();
    var total3 = vec4f();
    let stage_chunks = STAGE4 / CHUNK4;
    for (var done = 0u; done < dims.chunks; done += stage_chunks) {
        for (var n = thread; n < TILE * stage_chunks; n += 64u) {
            let line = n % TILE;
            let slot = n / TILE;
            let chunk = place(min(done + slot, dims.chunks - 1u)).chunk;
            let raw = load_raw(min(first_out + line, dims.outs - 1u), chunk);
            for (var i = 0u; i < CHUNK4; i++) {
                w_stage[(slot * CHUNK4 + i) * TILE + line] = weight4(raw, i);
                x_stage[(slot * CHUNK4 + i) * TILE + line] = x_at(first_row + line, chunk * CHUNK4 + i);
            }
        }
        workgroupBarrier();
        for (var slot = 0u; slot < min(stage_chunks, dims.chunks - done); slot++) {
            if (place(done + slot).step == 0u) {
                total0 += sum0;
                total1 += sum1;
                total2 += sum2;
                total3 += sum3;
                sum0 = vec4f();
                sum1 = vec4f();
                sum2 = vec4f();
                sum3 = vec4f();
            }
            for (var i = 0u; i < CHUNK4; i++) {
                let at = (slot * CHUNK4 + i) * TILE;
                let x4 = transpose(mat4x4f(
                    x_stage[at + row], x_stage[at + row + 8u], x_stage[at + row + 16u], x_stage[at + row + 24u],
                ));
                sum0 = mac4(sum0, w_stage[at + out], x4);
                sum1 = mac4(sum1, w_stage[at + out + 1u], x4);
                sum2 = mac4(sum2, w_stage[at + out + 16u], x4);
                sum3 = mac4(sum3, w_stage[at + out + 17u], x4);
            }
        }
        workgroupBarrier();
    }
    total0 += sum0;
    total1 += sum1;
    total2 += sum2;
    total3 += sum3;
    for (var i = 0u; i < 4u; i++) {
        let r = first_row + row + 8u * i;
        if (r < row_count()) {
            if (first_out + out < dims.outs) {
                store_pair(r, dims.first_out + first_out + out, total0[i], total1[i]);
            }
            if (first_out + out + 16u < dims.outs) {
                store_pair(r, dims.first_out + first_out + out + 16u, total2[i], total3[i]);
            }
        }
    }
}
