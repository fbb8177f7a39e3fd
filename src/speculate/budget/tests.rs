//! Tests of `budget`.

use super::*;

/// All drafts are rejected, at any cost: each is allowed only while the bound of the first two invariants holds.
#[test]
fn losses_stay_within_the_allowance_and_the_share() {
    for loss in [0.01, 0.1, 0.5, 1.0, 3.0] {
        let (mut budget, mut lost, mut time) = (Budget::default(), 0.0, 0.0);
        budget.begin();
        budget.plan(1000, 0.0);
        for round in 0..1000 {
            let drafts = loss <= budget.drafts;
            let cost = if drafts { 1.0 + loss } else { 1.0 };
            budget.settle(1.0 - cost, cost, !drafts);
            (lost, time) = (lost + cost - 1.0, time + cost);
            assert!(lost <= ALLOWANCE + SHARE * time + 1e-9, "{loss}, round {round}: {lost} of {time}");
            assert!(budget.is_valid() && budget.drafts <= MAX_SAVED);
        }
    }
}

#[test]
fn reading_takes_its_own_share_first() {
    let mut budget = Budget::default();
    budget.begin();
    budget.plan(1000, 0.0);
    budget.charge_reading(3.0);
    assert!((budget.drafts, budget.reading) == (ALLOWANCE, 2.0));
    budget.charge_reading(3.0);
    assert!((budget.drafts, budget.reading) == (ALLOWANCE - 1.0, 0.0) && budget.is_valid());
}

#[test]
fn savings_are_limited_and_pay_for_reading_in_the_next_text() {
    let mut budget = Budget::default();
    budget.begin();
    (0..10).for_each(|_| budget.settle(5.0, 1.0, false));
    assert_eq!(budget.drafts, MAX_SAVED);
    budget.begin();
    assert!(budget.drafts == ALLOWANCE && budget.allows_reading(MAX_SAVED, 1.0));
    assert!(!budget.allows_reading(MAX_SAVED + 1.0, 1.0));
}
