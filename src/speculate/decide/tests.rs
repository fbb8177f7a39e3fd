//! Tests of `decide`.

use super::*;

/// Offers with their candidates as lookahead:tokens:cost, the budget, the pace, and the room; then the choice.
const TABLE: &str = "
    nothing is offered        |                                      | 1.0 | 1.0 | 50 | nothing
    it pays                   | model 1:1.8:1.2 3:2.9:1.6            | 1.0 | 1.0 | 50 | draft model, 3
    the faster of two         | model 1:1.9:1.1 3:2.0:1.6            | 1.0 | 1.0 | 50 | draft model, 1
    it does not pay           | model 1:1.2:1.5                      | 1.0 | 1.0 | 50 | plain
    nor does the budget allow | model 1:1.2:1.5                      | 0.1 | 1.0 | 50 | plain
    only the short one may    | model 1:1.8:1.2 3:2.9:1.6            | 0.3 | 1.0 | 50 | draft model, 1
    none may                  | model 1:1.8:1.2 3:2.9:1.6            | 0.1 | 1.0 | 50 | too expensive
    reading pays              | model reading=0.5 1:1.8:1.2          | 1.0 | 1.0 | 50 | draft model, 1
    not in a short text       | model reading=0.5 1:1.8:1.2          | 1.0 | 1.0 |  4 | too expensive
    nor on this budget        | model reading=0.5 1:1.8:1.2          | 0.6 | 1.0 | 50 | too expensive
    the lookup gains more     | model 1:1.8:1.2; lookup 10:8.0:2.0   | 1.0 | 1.0 | 50 | lookup, 10
    the draft model is faster | model 1:1.9:1.1; lookup 10:3.0:2.0   | 1.0 | 1.0 | 50 | draft model, 1
    the text is faster        | lookup 2:1.5:1.3                     | 1.0 | 2.0 | 50 | wait
    credit allows it          | lookup credit=3 10:8.0:4.0           | 0.0 | 1.0 | 50 | lookup, 10
    plain was timed long ago  | model 1:1.5:1.2                      | 1.0 | 1.0 | 50 | measure, after 100 rounds
    but it gains much         | model 1:2.9:1.2                      | 1.0 | 1.0 | 50 | draft model, 1, after 100 rounds
";

fn offer(text: &str) -> Offer {
    let (name, rest) = text.split_once(' ').unwrap();
    let drafter = if name == "model" { Origin::DraftModel } else { Origin::Lookup };
    let mut offer = Offer { candidates: Vec::new(), reading: 0.0, credit: 0.0 };
    for word in rest.split(' ') {
        match word.split_once('=') {
            Some(("reading", cost)) => offer.reading = cost.parse().unwrap(),
            Some((_, credit)) => offer.credit = credit.parse().unwrap(),
            None => {
                let numbers: Vec<f64> = word.split(':').map(|number| number.parse().unwrap()).collect();
                let [lookahead, tokens, cost] = numbers[..] else { panic!("{word}") };
                offer.candidates.push(Candidate { drafter, lookahead: lookahead as usize, tokens, cost });
            }
        }
    }
    offer
}

#[test]
fn decisions() {
    for row in TABLE.trim().lines() {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, offers, drafts, pace, room, expected] = cells[..] else { panic!("{row}") };
        let offers: Vec<Offer> = offers.split("; ").filter(|text| !text.is_empty()).map(offer).collect();
        let mut budget = Budget::default();
        budget.settle(drafts.parse().unwrap(), 0.0, true);
        let (expected, rounds) = expected.split_once(", after").map_or((expected, 0), |(choice, _)| (choice, 100));
        (0..rounds).for_each(|_| budget.settle(0.0, 0.0, false));
        let choice = match decide(&offers, &budget, pace.parse().unwrap(), room.parse().unwrap()) {
            Choice::Draft(one) if one.drafter == Origin::Lookup => format!("lookup, {}", one.lookahead),
            Choice::Draft(one) => format!("draft model, {}", one.lookahead),
            Choice::Nothing => "nothing".into(),
            Choice::Plain(_) => "plain".into(),
            Choice::Wait(..) => "wait".into(),
            Choice::TooExpensive(..) => "too expensive".into(),
            Choice::Measure => "measure".into(),
            Choice::Last => "last".into(),
        };
        assert_eq!(choice, expected, "{row}");
    }
}
