//! Tests of `acceptance`.

use super::*;

#[test]
fn a_place_that_was_not_tried_is_like_the_one_before() {
    let mut acceptance = Acceptance::default();
    (0..100).for_each(|_| acceptance.learn(1, 1));
    assert!(acceptance.expect()[7] > 7.0, "{:?}", acceptance.expect());
    (0..100).for_each(|_| acceptance.learn(5, 1));
    let expected = acceptance.expect();
    assert!(expected[0] > 0.95 && expected[7] < 1.5, "{expected:?}");
}
