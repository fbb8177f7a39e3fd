// f16 -> f32 without shader-f16.

// By hand, since a driver may flush subnormals: f16's in unpack2x16float, f32's in any arithmetic. A normal number gets
// f32's exponent bias; a subnormal one is a count of 2^-24.
fn widen(halves: vec4u) -> vec4f {
    let size = halves & vec4u(0x7fffu);
    let normal = bitcast<vec4f>((size << vec4u(13u)) + vec4u(0x38000000u));
    let magnitude = select(normal, vec4f(size) * 0x1p-24, size < vec4u(0x400u));
    return bitcast<vec4f>(bitcast<vec4u>(magnitude) | ((halves & vec4u(0x8000u)) << vec4u(16u)));
}
