//! Tests of `costs`.

use super::*;

#[test]
fn a_slow_round_is_hardly_believed_and_many_are() {
    let mut costs = Costs::new(Timings { plain: Some(1.0), timed: [true; 5], ..Timings::guess(0.1) });
    let before = costs.cost(Origin::Lookup, 7);
    costs.learn(Origin::Lookup, 7, 50.0, false);
    assert!(costs.cost(Origin::Lookup, 7) < 1.06 * before);
    for _ in 0..60 {
        costs.learn(Origin::Lookup, 7, 2.0 * before, false);
    }
    assert!((costs.cost(Origin::Lookup, 7) / before - 2.0).abs() < 0.01);
}

#[test]
fn waiting_is_known_from_two_plain_rounds_next_to_each_other() {
    let mut costs = Costs::new(Timings { plain: Some(1.0), timed: [true; 5], ..Timings::guess(0.1) });
    (0..40).for_each(|round| costs.learn_plain(if round % 2 == 0 { 1.2 } else { 1.0 }, round % 2 == 1));
    assert!((costs.waiting() - 0.2).abs() < 0.01 && (costs.plain().unwrap() - 1.0).abs() < 0.01);
}
