//! What rounds cost, in target forwards: measured where it was tried, guessed elsewhere. Timings are noisy: a busy
//! machine multiplies some, the first run of a shape is slow, clocks change.

use super::Origin;
use super::adaptive::MOST;
use std::collections::VecDeque;

/// Timings that count.
const RECENT: usize = 14;
/// Timings after which a cost is known well.
const WELL: usize = 4;
/// How much a slower or faster round moves the clock by which all are measured ...
const CLOCK: f64 = 0.005;
/// ... and how many of them seem faster when the clock stands still: those below the center.
const QUARTERS: f64 = 0.375;
/// What a verified draft token costs at the least.
const ROW: f64 = 0.02;
/// What a verified draft token costs at the most: no more than a forward of its own.
const MOST_ROW: f64 = 1.0;
/// What a draft step may cost, in guesses of it.
const WRONG_GUESS: f64 = 1.5;
/// Tokens that the draft model reads in the time of one draft step, when it reads many.
const READ_PER_STEP: f64 = 16.0;

/// Tokens whose reading can be timed: fewer are lost in the noise.
const MANY: usize = 32;

/// The last timings of one thing.
#[derive(Debug, Clone, Default)]
pub(super) struct Recent(VecDeque<f64>);

impl Recent {
    pub fn push(&mut self, value: f64) {
        if self.0.len() == RECENT {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn scale(&mut self, factor: f64) {
        self.0.iter_mut().for_each(|value| *value *= factor);
    }

    /// Timings that count, of those that could.
    pub fn share(&self) -> f64 {
        self.0.len() as f64 / RECENT as f64
    }

    /// The mean of the second quarter: what disturbs a timing makes it longer, so the upper half says little.
    pub fn center(&self) -> Option<f64> {
        let mut sorted: Vec<f64> = self.0.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let quarter = &sorted[count / 4..count.div_ceil(2)];
        (!quarter.is_empty()).then(|| quarter.iter().sum::<f64>() / quarter.len() as f64)
    }
}

/// The cost of a round by its number of draft tokens.
#[derive(Debug, Clone)]
pub(super) struct Curve {
    /// Guess of a draft token's cost: low, so that what it hides is found out.
    slope: f64,
    points: [Point; MOST],
}

#[derive(Debug, Clone, Default)]
struct Point {
    /// The guess, then what was measured: so one slow round is not believed.
    recent: Recent,
    measured: usize,
    /// What it may cost while it was measured once.
    price: f64,
    /// What the round that measured it first is believed to have cost, until a second one settles that.
    unsettled: Option<f64>,
}

impl Curve {
    /// Nothing is measured; drafting a token is guessed to cost `step`.
    pub fn new(step: f64) -> Self {
        Self { slope: ROW + step, points: Default::default() }
    }

    fn known(&self, tokens: usize) -> Option<f64> {
        let point = self.points.get(tokens.checked_sub(1)?)?;
        point.recent.center()
    }

    /// The cost, where it was measured well.
    fn settled(&self, tokens: usize) -> Option<f64> {
        let point = self.points.get(tokens.checked_sub(1)?)?;
        if point.measured > WELL { point.recent.center() } else { None }
    }

    /// The nearest smaller number of draft tokens that was measured, and its cost; a round without any costs 1.
    fn below(&self, tokens: usize) -> (usize, f64) {
        (1..tokens).rev().find_map(|below| Some((below, self.known(below)?))).unwrap_or((0, 1.0))
    }

    /// The estimate, optimistic where nothing was measured: then it is measured soon.
    pub fn cost(&self, tokens: usize) -> f64 {
        if tokens == 0 {
            return 1.0;
        }
        if let Some(cost) = self.known(tokens) {
            return cost;
        }
        let (below, cost) = self.below(tokens);
        let more = (tokens - below) as f64;
        let slope = if below > 0 { self.slope.min(f64::max((cost - 1.0) / below as f64, ROW)) } else { self.slope };
        let above = (tokens + 1..=MOST).find_map(|above| Some((above, self.known(above)?)));
        let between = above.map_or(f64::INFINITY, |(above, top)| cost + (top - cost) * more / (above - below) as f64);
        between.max(cost).min(cost + slope * more)
    }

    /// The cost to be ready for, pessimistic where nothing was measured; never more than that of a longer draft.
    pub fn price(&self, tokens: usize) -> f64 {
        let Some(point) = tokens.checked_sub(1).and_then(|i| self.points.get(i)) else { return 1.0 };
        let own = match point.measured {
            0 => {
                let (below, _) = self.below(tokens);
                self.price(below) + (MOST_ROW + WRONG_GUESS * self.slope) * (tokens - below) as f64
            }
            1 => point.price,
            _ => self.cost(tokens),
        };
        let longer = (tokens + 1..=MOST).find(|&longer| self.points[longer - 1].measured > 1);
        longer.map_or(own, |longer| self.cost(longer).min(own))
    }

    /// A round cost so much. Returns what it is believed to have cost.
    fn learn(&mut self, tokens: usize, cost: f64, price: f64) -> f64 {
        let guess = self.cost(tokens);
        let Some(point) = tokens.checked_sub(1).and_then(|i| self.points.get_mut(i)) else { return 1.0 };
        point.recent.push(cost);
        point.measured += 1;
        match point.measured {
            1 => {
                let believed = cost.min(price);
                point.recent.push(guess);
                point.price = believed;
                point.unsettled = Some(believed);
                believed
            }
            2 => {
                // The guess goes.
                point.recent.0.remove(1);
                let unsettled = point.unsettled.take();
                let cost = self.cost(tokens);
                cost + unsettled.map_or(0.0, |believed| cost - believed)
            }
            _ => self.cost(tokens),
        }
    }

    /// A text begins: what an earlier one is believed to have cost stays so.
    pub fn begin(&mut self) {
        for point in &mut self.points {
            point.unsettled = None;
        }
    }

    /// Whether anything is measured.
    pub fn is_measured(&self) -> bool {
        self.points.iter().any(|point| point.measured > 0)
    }
}

/// The costs on one device with one pair of models.
#[derive(Debug, Clone)]
pub(super) struct Costs {
    /// Seconds of a round without draft tokens.
    pub plain: Recent,
    /// Rounds with tokens that the CPU knows.
    pub known: Curve,
    /// Rounds of the draft model.
    pub model: Curve,
    /// What the draft model takes to read a token, when it reads many.
    reading: Recent,
    step: f64,
}

impl Costs {
    /// Nothing is measured; a draft step is guessed to cost `step` target forwards.
    pub fn new(step: f64) -> Self {
        let (plain, reading) = (Recent::default(), Recent::default());
        Self { plain, known: Curve::new(0.0), model: Curve::new(step), reading, step }
    }

    /// A text begins, at another position: plain decoding is measured again before the old timings are forgotten.
    pub fn begin(&mut self) {
        if let Some(seconds) = self.plain.center() {
            self.plain = Recent(VecDeque::from([seconds]));
        }
        self.known.begin();
        self.model.begin();
    }

    /// Rounds of a drafter.
    pub fn curve(&self, drafter: Origin) -> &Curve {
        if drafter == Origin::DraftModel { &self.model } else { &self.known }
    }

    /// What a round may cost, by what is known of both kinds: the draft model's rounds verify as many rows.
    pub fn price(&self, drafter: Origin, tokens: usize) -> f64 {
        let (known, model) = (self.known.price(tokens), self.model.price(tokens));
        if drafter == Origin::DraftModel {
            model.min(known + WRONG_GUESS * self.step * tokens as f64)
        } else {
            known.min(model)
        }
    }

    /// A round of a drafter took so many seconds. Returns what it is believed to have cost.
    pub fn learn(&mut self, drafter: Origin, tokens: usize, cost: f64) -> f64 {
        let price = self.price(drafter, tokens);
        let curve = if drafter == Origin::DraftModel { &mut self.model } else { &mut self.known };
        if let Some(known) = curve.settled(tokens) {
            let slower = if cost < known { QUARTERS - 1.0 } else { QUARTERS };
            self.plain.scale(1.0 + CLOCK * slower);
        }
        curve.learn(tokens, cost, price)
    }

    /// What the draft model takes to read so many tokens.
    pub fn reading(&self, tokens: usize) -> f64 {
        tokens as f64 * self.reading.center().unwrap_or(self.step / READ_PER_STEP)
    }

    /// As [`Costs::learn`], of a round in which the draft model first read tokens that it had missed; they count apart.
    /// Returns what the round and what reading is believed to have cost.
    pub fn learn_reading(&mut self, tokens: usize, read: usize, cost: f64) -> (f64, f64) {
        if read < MANY {
            let reading = self.reading(read);
            return (self.learn(Origin::DraftModel, tokens, cost - reading), reading);
        }
        let steady = self.model.cost(tokens);
        self.reading.push(f64::max(cost - steady, 0.0) / read as f64);
        (steady, self.reading(read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(rounds: &[(Origin, usize, f64)]) -> Costs {
        let mut costs = Costs::new(0.1);
        for &(drafter, tokens, cost) in rounds {
            costs.learn(drafter, tokens, cost);
        }
        costs
    }

    #[test]
    fn timings_that_were_disturbed_do_not_count() {
        let mut recent = Recent::default();
        [1.0, 5.0, 1.1, 0.9, 5.0, 1.0, 1.1].into_iter().for_each(|value| recent.push(value));
        assert!((recent.center().unwrap() - 1.0).abs() < 0.11);
    }

    #[test]
    fn one_slow_round_is_not_believed_and_two_are() {
        let drafter = Origin::Lookup;
        assert!(costs(&[(drafter, 4, 3.0)]).known.cost(4) < 1.1);
        assert_eq!(costs(&[(drafter, 4, 3.0), (drafter, 4, 3.1)]).known.cost(4), 3.0);
        assert_eq!(costs(&[(drafter, 4, 3.0), (drafter, 4, 1.2)]).known.cost(4), 1.2);
    }

    #[test]
    fn what_was_not_measured_lies_between_and_is_hoped_to_be_cheap() {
        let drafter = Origin::Lookup;
        let known = costs(&[(drafter, 3, 1.1), (drafter, 3, 1.1), (drafter, 9, 2.5), (drafter, 9, 2.5)]).known;
        assert!(known.cost(6) >= 1.1 && known.cost(6) < 1.3, "{}", known.cost(6));
        assert!(known.cost(15) > 2.5);
        assert!(known.price(6) <= 2.5, "a shorter draft costs no more than a longer one");
        assert!(known.price(15) > 8.0);
    }

    #[test]
    fn rounds_of_the_draft_model_bound_those_of_the_lookup_and_the_other_way_round() {
        let model = Origin::DraftModel;
        let measured = costs(&[(model, 4, 1.8), (model, 4, 1.8)]);
        assert_eq!(measured.price(Origin::Lookup, 4), 1.8);
        let measured = costs(&[(Origin::Lookup, 4, 1.2), (Origin::Lookup, 4, 1.2)]);
        assert!(measured.price(model, 4) < 2.0 && measured.price(model, 4) > 1.5);
    }

    #[test]
    fn reading_counts_apart() {
        let mut costs = costs(&[(Origin::DraftModel, 2, 1.3), (Origin::DraftModel, 2, 1.3)]);
        let (round, reading) = costs.learn_reading(2, 200, 5.3);
        assert!((round - 1.3).abs() < 1e-9 && (reading - 4.0).abs() < 1e-9);
        assert!((costs.reading(100) - 2.0).abs() < 1e-9);
    }
}
