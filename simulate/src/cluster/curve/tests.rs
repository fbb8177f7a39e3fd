//! Tests of `curve`.

use super::*;

#[test]
fn points_are_met_and_joined_by_lines() {
    let curve: Curve = "2:10, 4:10,8:30".parse().unwrap();
    assert_eq!([1, 2, 3, 4, 5, 8, 10].map(|rows| curve.at(rows)), [10.0, 10.0, 10.0, 10.0, 15.0, 30.0, 40.0]);
    let flat: Curve = "1:7".parse().unwrap();
    assert_eq!([1, 2, 1000].map(|rows| flat.at(rows)), [7.0; 3]);
}

#[test]
fn what_is_no_curve_is_refused() {
    for text in ["", "1", "1:", "0:3", "1:0", "1:nan", "1:2,1:3", "4:2,2:3", "1:3,2:2", "1:2,,2:3", "-1:2"] {
        let error = text.parse::<Curve>().unwrap_err();
        assert!(error.to_string().contains("curve") && error.code() == "bad-option", "{text}: {error}");
    }
}
