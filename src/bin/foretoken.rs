//! foretoken
fn main(){}
