//! What rounds cost, in target forwards: measured where it was tried, guessed elsewhere. Timings are noisy: a busy
//! machine multiplies some, the first run of a shape is slow, clocks change.

use super::Origin;
use super::adaptive::{MOST, PLAIN_FIRST};
use std::collections::VecDeque;

/// Timings of plain decoding and of reading that count.
const RECENT: usize = 14;
/// Timings of a round that count, in target forwards: many, so that a change of the clock moves the clock and not these.
const ROUNDS: usize = 48;
/// Timings after which a cost is known well.
const WELL: usize = 4;
/// How much a slower or faster round moves the clock by which all are measured ...
const CLOCK: f64 = 0.01;
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

/// What waiting costs at the most, in target forwards: more is a change of the clock.
const MOST_WAITING: f64 = 4.0;
/// Rounds without draft tokens after which it is measured again, at first and later.
const PAIR_FIRST: usize = 8;
const PAIR: usize = 96;
/// Tokens whose reading can be timed: fewer are lost in the noise.
const MANY: usize = 32;

/// The last timings of one thing.
#[derive(Debug, Clone, Default)]
pub(super) struct Recent {
    timings: VecDeque<f64>,
    center: Option<f64>,
}

impl Recent {
    pub fn push(&mut self, value: f64) {
        self.push_among(value, RECENT);
    }

    fn push_among(&mut self, value: f64, most: usize) {
        if self.timings.len() == most {
            self.timings.pop_front();
        }
        self.timings.push_back(value);
        let mut sorted: Vec<f64> = self.timings.iter().copied().collect();
        self.center = Some(center(&mut sorted));
    }

    pub fn len(&self) -> usize {
        self.timings.len()
    }

    fn scale(&mut self, factor: f64) {
        self.timings.iter_mut().chain(&mut self.center).for_each(|value| *value *= factor);
    }

    /// Timings that count, of those that could.
    pub fn share(&self) -> f64 {
        self.len() as f64 / RECENT as f64
    }

    /// The median, the lower one of two, less one standard error, or so; of one timing the error is not known.
    fn at_least(&self) -> Option<f64> {
        let mut sorted: Vec<f64> = self.timings.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1).filter(|last| *last > 0)?;
        let spread = sorted[last - last / 4] - sorted[last / 4];
        Some(sorted[last / 2] - spread / (sorted.len() as f64).sqrt())
    }

    /// The [`center`] of the timings.
    pub fn center(&self) -> Option<f64> {
        self.center
    }
}

/// The mean of the second quarter: what disturbs a timing makes it longer, so the upper half says little.
fn center(timings: &mut [f64]) -> f64 {
    timings.sort_by(f64::total_cmp);
    let count = timings.len();
    let quarter = &timings[count / 4..usize::max(count / 2, count / 4 + 1)];
    quarter.iter().sum::<f64>() / quarter.len() as f64
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
    recent: Recent,
    measured: usize,
    /// What it may cost by what was known before it was measured.
    price: f64,
    /// Rounds that are not measured well, and what they are believed to have cost together.
    unsettled: (f64, f64),
}

impl Curve {
    /// Nothing is measured; drafting a token is guessed to cost `step`.
    pub fn new(step: f64) -> Self {
        Self { slope: ROW + step, points: Default::default() }
    }

    /// The cost, where it was measured well.
    fn settled(&self, tokens: usize) -> Option<f64> {
        let point = self.points.get(tokens.checked_sub(1)?)?;
        if point.measured >= WELL { point.recent.center() } else { None }
    }

    /// The center of the timings. Where there are less than four, those of shorter drafts make up for them: a draft costs
    /// no less than a shorter one, so a few slow rounds are not believed and a few cheap lengths need not be tried one by
    /// one to know that the next is dear. The estimate is optimistic where nothing was measured: then it is measured soon.
    pub fn cost(&self, tokens: usize) -> f64 {
        if let Some(cost) = self.settled(tokens) {
            return cost;
        }
        let longer = (tokens + 1..=MOST).find_map(|longer| self.settled(longer)).unwrap_or(f64::INFINITY);
        // A round without draft tokens costs 1.
        let mut timings = [1.0 + self.slope * tokens as f64; WELL];
        let mut count = 0;
        for shorter in (1..=tokens).rev() {
            let slope = |cost: f64| self.slope.min(f64::max((cost - 1.0) / shorter as f64, ROW));
            let more = |cost: f64| cost + slope(cost) * (tokens - shorter) as f64;
            match self.settled(shorter) {
                Some(cost) => {
                    timings[count..].fill(more(cost));
                    break;
                }
                None => {
                    for &cost in &self.points[shorter - 1].recent.timings {
                        if count < WELL {
                            timings[count] = more(cost);
                            count += 1;
                        }
                    }
                }
            }
        }
        center(&mut timings).min(longer)
    }

    /// The cost to be ready for, pessimistic where nothing was measured; never more than that of a longer draft.
    pub fn price(&self, tokens: usize) -> f64 {
        let Some(point) = tokens.checked_sub(1).and_then(|i| self.points.get(i)) else { return 1.0 };
        let own = match point.measured {
            0 => {
                let below = (1..tokens).rev().find(|below| self.points[below - 1].measured > 0).unwrap_or(0);
                self.price(below) + (MOST_ROW + WRONG_GUESS * self.slope) * (tokens - below) as f64
            }
            measured => {
                let most = if measured < WELL { point.price } else { f64::INFINITY };
                point.recent.center().unwrap_or(1.0).min(most)
            }
        };
        let longer = (tokens + 1..=MOST).find(|&longer| self.points[longer - 1].measured > 1);
        longer.map_or(own, |longer| self.points[longer - 1].recent.center().unwrap_or(own).min(own))
    }

    /// A round cost so much. Returns what it is believed to have cost: no more than `price`, which it might have cost, until
    /// it is measured well, and then the rest.
    fn learn(&mut self, tokens: usize, cost: f64, price: f64) -> f64 {
        let Some(point) = tokens.checked_sub(1).and_then(|i| self.points.get_mut(i)) else { return 1.0 };
        if point.measured == 0 {
            point.price = price;
        }
        point.recent.push_among(cost, ROUNDS);
        point.measured += 1;
        let center = point.recent.center().unwrap_or(cost);
        if point.measured < WELL {
            let believed = center.min(point.price);
            point.unsettled = (point.unsettled.0 + 1.0, point.unsettled.1 + believed);
            return believed;
        }
        let (rounds, believed) = std::mem::take(&mut point.unsettled);
        center + rounds * center - believed
    }

    /// A text begins: what an earlier one is believed to have cost stays so.
    pub fn begin(&mut self) {
        for point in &mut self.points {
            point.unsettled = (0.0, 0.0);
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
    /// Seconds of a round without draft tokens; of one that is submitted ahead, where that can be.
    pub plain: Recent,
    /// Rounds with tokens that the CPU knows.
    pub known: Curve,
    /// Rounds of the draft model.
    pub model: Curve,
    /// Of such rounds next to each other, one of them submitted ahead: what the other one took, in times of that.
    pairs: Recent,
    /// Rounds without draft tokens since the last pair.
    unpaired: usize,
    /// What the draft model takes to read a token, when it reads many.
    reading: Recent,
    step: f64,
}

impl Costs {
    /// Nothing is measured; a draft step is guessed to cost `step` target forwards.
    pub fn new(step: f64) -> Self {
        let [plain, pairs, reading] = [(); 3].map(|()| Recent::default());
        Self { plain, pairs, unpaired: 0, known: Curve::new(0.0), model: Curve::new(step), reading, step }
    }

    /// A text begins, at another position: plain decoding is measured again before the old timings are forgotten.
    pub fn begin(&mut self) {
        if let Some(seconds) = self.plain.center() {
            self.plain = Recent::default();
            (1..PLAIN_FIRST).for_each(|_| self.plain.push(seconds));
        }
        self.known.begin();
        self.model.begin();
    }

    /// What it costs to wait for a round before the next is submitted, where that was measured.
    pub fn waiting(&self) -> Option<f64> {
        self.pairs.at_least().map(|direct| (direct - 1.0).clamp(0.0, MOST_WAITING))
    }

    /// Whether it is time to know that better: once, and after a while again.
    pub fn wants_pair(&mut self) -> bool {
        let is_time = self.unpaired >= if self.pairs.len() < 2 * WELL { PAIR_FIRST } else { PAIR };
        self.unpaired = if is_time { 0 } else { self.unpaired };
        is_time
    }

    /// A round without draft tokens took so many seconds, and so many the one before it if that was such a round, too; each
    /// with whether it was submitted ahead. Returns what it cost to wait.
    pub fn learn_plain(&mut self, round: (f64, bool), before: Option<(f64, bool)>) -> f64 {
        match (round, before) {
            ((direct, false), Some((ahead, true))) | ((ahead, true), Some((direct, false))) if ahead > 0.0 => {
                self.pairs.push_among(direct / ahead, ROUNDS);
                self.unpaired = 0;
            }
            _ => self.unpaired += 1,
        }
        let (seconds, ahead) = round;
        let waited = if ahead { 0.0 } else { self.waiting().unwrap_or_default() };
        self.plain.push(seconds / (1.0 + waited));
        waited
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

    /// What the draft model takes to read so many tokens; the guess counts as a timing until there are enough.
    pub fn reading(&self, tokens: usize) -> f64 {
        let mut timings = [self.step / READ_PER_STEP; WELL];
        let measured =
            self.reading.timings.iter().zip(&mut timings).map(|(&measured, timing)| *timing = measured).count();
        let each = if measured < WELL { center(&mut timings) } else { self.reading.center().unwrap_or_default() };
        tokens as f64 * each
    }

    /// As [`Costs::learn`], of a round in which the draft model first read tokens that it had missed; they count apart, and
    /// are timed once it is known well what such a round costs. Returns what the round and what reading is believed to
    /// have cost.
    pub fn learn_reading(&mut self, tokens: usize, read: usize, cost: f64) -> (f64, f64) {
        match self.model.settled(tokens) {
            Some(round) if read >= MANY => {
                let reading = f64::max(cost - round, 0.0);
                self.reading.push(reading / read as f64);
                (round, reading.min(WRONG_GUESS * self.reading(read)))
            }
            _ => {
                let reading = self.reading(read);
                (self.learn(Origin::DraftModel, tokens, f64::max(cost - reading, 1.0)), reading)
            }
        }
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
    fn a_few_slow_rounds_are_not_believed_and_four_are() {
        let drafter = Origin::Lookup;
        assert!(costs(&[(drafter, 4, 3.0), (drafter, 4, 9.0)]).known.cost(4) < 1.1);
        assert_eq!(costs(&[(drafter, 4, 3.0); 4]).known.cost(4), 3.0);
        assert!(costs(&[(drafter, 2, 3.0), (drafter, 3, 3.0), (drafter, 5, 3.0)]).known.cost(6) > 3.0);
    }

    #[test]
    fn what_was_not_measured_lies_between_and_is_hoped_to_be_cheap() {
        let drafter = Origin::Lookup;
        let known = costs(&[[(drafter, 3, 1.1); 4], [(drafter, 9, 2.5); 4]].concat()).known;
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
    fn reading_counts_apart_and_a_slow_one_is_not_believed() {
        let mut costs = costs(&[(Origin::DraftModel, 2, 1.3); 4]);
        assert!(costs.learn_reading(2, 200, 5.3).1 < 2.0);
        let (round, reading) = (0..3).map(|_| costs.learn_reading(2, 200, 5.3)).last().unwrap();
        assert!((round - 1.3).abs() < 1e-9 && (reading - 4.0).abs() < 1e-9);
        assert!((costs.reading(100) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn waiting_is_believed_once_two_pairs_of_rounds_agree() {
        let (waited, ahead) = ((1.1, false), (1.0, true));
        let mut costs = costs(&[]);
        assert_eq!(costs.learn_plain(ahead, Some(waited)), 0.0);
        assert_eq!(costs.waiting(), None);
        assert!((costs.learn_plain(waited, Some(ahead)) - 0.1).abs() < 1e-9);
    }
}
