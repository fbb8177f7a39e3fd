// What sums of products begin with, so that codes count less CENTER, for the lower and the upper 16 elements of x, whose sums of
// codes are `by.y` and `by.z`. Those of the upper ones are all shifted by HIGH_SHIFT.
fn start_low(by: vec4u) -> i32 {
    return -i32(CENTER) * bitcast<i32>(by.y);
}
fn start_high(by: vec4u) -> i32 {
    return ((HIGH_LESS - i32(CENTER)) * bitcast<i32>(by.z)) << HIGH_SHIFT;
}
