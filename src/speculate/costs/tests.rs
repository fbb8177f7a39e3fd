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

/// The draft model reads as fast as the target, relative to a pass over one row. A few tokens, and those of a server, say nothing.
#[test]
fn reading_is_measured_on_the_target() {
    let timings = Timings { plain: Some(0.5), timed: [true; 5], ..Timings::guess(0.4) };
    let near = |costs: &Costs, reading: f64| (costs.reading(100) - reading).abs() < 1e-9;
    let mut costs = Costs::new(timings);
    assert!(near(&costs, 100.0 * 0.4 / 16.0));
    costs.learn_reading(63, 1.0, 40.0);
    assert!(near(&costs, 100.0 * 0.4 / 16.0));
    // 1 plain round and 200 tokens, each 0.3 of one.
    costs.learn_reading(200, 1.0, 0.5 * 61.0);
    assert!(near(&costs, 100.0 * 0.4 * 0.3));
    // A clock that stands still.
    costs.learn_reading(200, 1.0, 0.0);
    assert!(near(&costs, 0.0));
    let mut far = Costs::new(Timings { far: true, ..timings });
    far.learn_reading(200, 1.0, 0.5 * 61.0);
    assert!(near(&far, 100.0 * 0.4 / 16.0));
}
