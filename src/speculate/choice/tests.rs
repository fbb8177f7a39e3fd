//! Tests of `choice`.

use super::*;

#[test]
fn reasons_name_what_was_measured() {
    let slow = Candidate { drafter: Origin::DraftModel, lookahead: 2, tokens: 1.82, cost: 2.24 };
    assert_eq!(
        Choice::Plain(slow).reason(Origin::DraftModel),
        "plain decoding: a token of the draft model costs 0.62 of a target forward, verification included, and \
         41 % of its tokens are expected to be accepted; the best lookahead, 2, would give 0.81 of the plain speed"
    );
    let fast = Candidate { drafter: Origin::Lookup, lookahead: 10, tokens: 8.5, cost: 1.7 };
    assert_eq!(
        Choice::Draft(fast).reason(Origin::DraftModel),
        "prompt lookup, 10 ahead: 75 % of its tokens are expected to be accepted and a round costs 1.70 target forwards, \
         which gives 5.00 times the plain speed"
    );
}
