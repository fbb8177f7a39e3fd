@group(0) @binding(0) var<storage, read_write> wrong: array<u32>;  // (64)

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) thread: u32) {
    var count = 0u;
    // Tests all subnormals with both signs. The unit is 2^-24.
    for (var size = thread; size < 0x400u; size += 64u) {
        let both = unpack2x16float(size | ((size | 0x8000u) << 16u));
        let is = fma(both, vec2f(0x1p24), vec2f(0.0));
        count += u32(any(is != vec2f(f32(size), -f32(size))));
    }
    wrong[thread] = count;
}
