fn start_low(by: vec4u) -> i32 {
    return -i32(CENTER) * bitcast<i32>(by.y);
}
fn start_high(by: vec4u) -> i32 {
    return ((HIGH_LESS - i32(CENTER)) * bitcast<i32>(by.z)) << HIGH_SHIFT;
}
