//! Tests of `shape`.

use super::*;

#[test]
fn every_shape_parses() {
    let shapes: Value = serde_json::from_str(include_str!("../shapes.json")).unwrap();
    for name in NAMES {
        parse_config(shapes[name].to_string().as_bytes(), None).unwrap();
    }
}
