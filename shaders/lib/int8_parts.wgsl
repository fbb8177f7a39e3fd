// Initial values of sums of products, which subtract CENTER from the codes, for the lower and upper 16 elements of x. The sums of
// codes of x are `by.y` and `by.z`. Sums for the upper elements are shifted left by HIGH_SHIFT.
fn start_low(by: vec4u) -> i32 {
    return -i32(CENTER) * bitcast<i32>(by.y);
}
fn start_high(by: vec4u) -> i32 {
    return ((HIGH_LESS - i32(CENTER)) * bitcast<i32>(by.z)) << HIGH_SHIFT;
}
