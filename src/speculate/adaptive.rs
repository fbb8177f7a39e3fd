//! Choosing in each round who drafts and how many tokens, plain decoding included, by what is known of costs and acceptance.

use super::acceptance::{Acceptance, KEPT};
use super::choice::{Candidate, Choice, RoundsBy, Speculating};
use super::costs::Costs;
use super::{Drafter, Origin, Round};
use crate::decode::{Draft, Timings};

/// Most draft tokens of a round.
pub(super) const MOST: usize = 15;
/// Draft tokens of a round, where a proposal has as many.
const LENGTHS: [usize; 7] = [1, 2, 3, 5, 7, 10, MOST];
/// Target forwards that a text may lose against plain decoding ...
const ALLOWANCE: f64 = 1.2;
/// ... and what more of its time, and what timing plain decoding again may cost of it.
const LOSS: f64 = 0.005;
/// Target forwards that earlier texts save at most for reading.
const SLUMP: f64 = 7.0;
const SAVINGS: f64 = 12.0;
/// Rounds for which a draft model that does not pay is left, at first, and at last.
const PAUSE: usize = 4;
const LONGEST_PAUSE: usize = 256;
/// Tokens that the draft model reads along with its first step, and in the time of one when it reads many.
const READ_PER_STEP: usize = 16;

pub struct Adaptive {
    costs: Costs,
    prediction: Acceptance,
    lookup: Acceptance,
    draft_model: Acceptance,
    /// Target forwards that earlier texts saved, for reading.
    savings: f64,
    begins: bool,
    /// What this text may still lose, in target forwards.
    funds: f64,
    /// Tokens and cost of the last rounds, the older the less.
    pace: (f64, f64),
    /// What a round that is submitted ahead loses, because a proposal comes too late for it.
    late: f64,
    /// Rounds since plain decoding was timed.
    since_plain: usize,
    /// Rounds for which the draft model is left, now and the next time.
    idle: usize,
    pause: usize,
    /// What the draft model won since it was left.
    won: f64,
    slump: f64,
    text: Text,
}

/// What concerns one text.
#[derive(Default)]
struct Text {
    known: Vec<Known>,
    /// Tokens that the draft model has read, where there is one.
    draft_model: Option<usize>,
    /// Tokens so far, the prompt included.
    length: usize,
    /// Tokens still wanted.
    room: usize,
    rounds: RoundsBy,
    choice: Option<Choice>,
    reported: Option<Choice>,
    /// Whether the round before could have been followed by one that was submitted ahead.
    could_repeat: bool,
}

/// A drafter whose tokens the CPU knows.
struct Known {
    drafter: Box<dyn Drafter>,
    proposal: Vec<u32>,
    /// A proposal that the text has not yet judged, and where it begins.
    judged: Option<(usize, Vec<u32>)>,
}

impl Adaptive {
    pub fn new(told: Timings) -> Self {
        let [prediction, lookup, draft_model] = [0.9, 0.8, 0.9].map(Acceptance::new);
        Self {
            costs: Costs::new(told),
            prediction,
            lookup,
            draft_model,
            savings: 0.0,
            begins: false,
            funds: 0.0,
            pace: (0.0, 0.0),
            late: 0.0,
            since_plain: 0,
            idle: 0,
            pause: PAUSE,
            won: 0.0,
            slump: 0.0,
            text: Text::default(),
        }
    }

    /// A text begins. `known` are the drafters that propose tokens which the CPU knows, the one to prefer first; their
    /// [`Drafter::origin`] says which they are. `draft_model`, where there is one, is how many tokens of the prompt it has
    /// read already.
    pub fn begin(&mut self, known: Vec<Box<dyn Drafter>>, draft_model: Option<usize>) {
        self.savings = (self.savings + self.funds).clamp(0.0, SAVINGS);
        self.begins = true;
        self.since_plain += 100;
        self.funds = ALLOWANCE;
        self.pace = (0.0, 0.0);
        let known = known.into_iter().map(|drafter| Known { drafter, proposal: Vec::new(), judged: None }).collect();
        self.text = Text { known, draft_model, ..Text::default() };
    }

    /// What it does at the moment, and why.
    pub fn speculating(&self) -> Speculating {
        let plain = self.costs.plain().map_or(0.0, f64::recip);
        let choice = self.text.reported.unwrap_or(Choice::Measure);
        let candidate = choice.candidate();
        Speculating {
            drafter: candidate.map(|candidate| candidate.drafter),
            lookahead: candidate.map_or(0, |candidate| candidate.lookahead),
            expected_tokens_per_second: plain * candidate.map_or(1.0, |candidate| candidate.speed()),
            plain_tokens_per_second: plain,
            reason: choice.reason(),
            rounds: self.text.rounds,
        }
    }

    fn acceptance(&mut self, origin: Origin) -> &mut Acceptance {
        match origin {
            Origin::Prediction => &mut self.prediction,
            Origin::Lookup => &mut self.lookup,
            Origin::DraftModel | Origin::Target => &mut self.draft_model,
        }
    }

    /// Hears what the text says of earlier proposals, and collects new ones.
    fn propose(&mut self, tokens: &[u32], room: usize) {
        let mut known = std::mem::take(&mut self.text.known);
        for one in &mut known {
            if let Some((at, guess)) = one.judged.take() {
                let text = tokens.get(at..).unwrap_or_default();
                let agreed = guess.iter().zip(text).take_while(|(guess, id)| guess == id).count();
                if agreed == guess.len() || agreed < text.len() {
                    self.acceptance(one.drafter.origin()).learn(guess.len(), agreed);
                } else {
                    one.judged = Some((at, guess));
                }
            }
            one.proposal = match one.drafter.draft(tokens, room) {
                Draft::Tokens(mut tokens) => {
                    tokens.truncate(MOST);
                    tokens
                }
                Draft::Model(_) => Vec::new(),
            };
            if one.judged.is_none() && !one.proposal.is_empty() {
                one.judged = Some((tokens.len(), one.proposal.clone()));
            }
        }
        self.text.known = known;
        (self.text.length, self.text.room) = (tokens.len(), room);
        if std::mem::take(&mut self.begins) {
            self.savings += LOSS * room as f64;
        }
    }

    /// Tokens per target forward of the last rounds; at least 1.
    fn pace(&self) -> f64 {
        f64::max((self.pace.0 + 1.0) / (self.pace.1 + 1.0), 1.0)
    }

    /// The lookahead with the highest score, up to `most`, among those that cannot lose more than `funds`.
    fn best(
        &self,
        drafter: Origin,
        most: usize,
        funds: f64,
        score: impl Fn(&Candidate) -> f64,
    ) -> Option<Candidate> {
        let expected = match drafter {
            Origin::Prediction => &self.prediction,
            Origin::Lookup => &self.lookup,
            Origin::DraftModel | Origin::Target => &self.draft_model,
        }
        .expect();
        let lengths = LENGTHS.into_iter().filter(|&length| length < most).chain([most]);
        let candidates = lengths.map(|lookahead| {
            let (tokens, cost) = (1.0 + expected[lookahead - 1], self.costs.cost(drafter, lookahead));
            Candidate { drafter, lookahead, tokens, cost }
        });
        candidates.filter(|one| one.cost - 1.0 <= funds).reduce(|a, b| if score(&b) > score(&a) { b } else { a })
    }

    fn choose(&self, waits: bool) -> Choice {
        let most = MOST.min(self.text.room.saturating_sub(1));
        if most == 0 {
            return Choice::Last;
        }
        if self.costs.plain().is_none() {
            return Choice::Measure;
        }
        let mut otherwise = Choice::Nothing;
        let mut candidates = Vec::with_capacity(3);
        // What the text makes without a proposal; a round that takes longer must bring more than that.
        let mut rate = self.pace();
        if let Some(read) = self.text.draft_model {
            let missed = self.text.length.saturating_sub(read + READ_PER_STEP);
            let most = if self.draft_model.is_new() { 1 } else { most };
            let reading = missed as f64 * self.costs.step() / READ_PER_STEP as f64;
            match self.best(Origin::DraftModel, most, f64::INFINITY, Candidate::speed) {
                Some(one) if one.speed() <= 1.0 => otherwise = Choice::Plain(one),
                _ => match self.best(Origin::DraftModel, most, self.funds, Candidate::speed) {
                    Some(one) if reading == 0.0 || self.reads(&one, reading) => {
                        rate = one.speed().max(rate);
                        candidates.push(one);
                    }
                    Some(one) => otherwise = Choice::TooDear(one, reading + one.cost - 1.0),
                    None => {
                        let one = self.best(Origin::DraftModel, 1, f64::INFINITY, Candidate::speed);
                        otherwise = one.map_or(Choice::Nothing, |one| Choice::TooDear(one, one.cost - 1.0));
                    }
                },
            }
        }
        for one in self.text.known.iter().filter(|one| waits && !one.proposal.is_empty()) {
            let (origin, most) = (one.drafter.origin(), most.min(one.proposal.len()));
            let gain = |one: &Candidate| one.gain(rate);
            match self.best(origin, most, self.funds, gain) {
                Some(one) => candidates.push(one),
                None => {
                    let one = self.best(origin, 1, f64::INFINITY, gain);
                    otherwise = one.map_or(otherwise, |one| Choice::TooDear(one, one.cost - 1.0));
                }
            }
        }
        match candidates.into_iter().reduce(|a, b| if b.gain(rate) > a.gain(rate) { b } else { a }) {
            Some(one) if one.gain(rate) > 0.0 => {
                if self.measures(&one) {
                    Choice::Measure
                } else {
                    Choice::Draft(one)
                }
            }
            Some(one) if one.speed() >= 1.0 => Choice::Wait(one, rate),
            Some(one) => Choice::Plain(one),
            None => otherwise,
        }
    }

    /// Whether it is time to measure plain decoding again: sooner where little is lost.
    fn measures(&self, one: &Candidate) -> bool {
        self.since_plain as f64 * LOSS > f64::max(1.0 - 1.0 / one.speed(), 3.0 * LOSS)
    }

    /// Whether it is worth its cost that the draft model reads what it missed: half the room, say, will be written.
    fn reads(&self, one: &Candidate, reading: f64) -> bool {
        let gain = 0.5 * self.text.room as f64 * (1.0 - 1.0 / one.speed());
        let spare = self.funds - (one.cost - 1.0) + self.savings;
        gain > 2.0 * reading && reading <= spare
    }
}

impl Drafter for Adaptive {
    fn draft(&mut self, tokens: &[u32], room: usize) -> Draft {
        self.propose(tokens, room);
        let choice = self.choose(true);
        self.text.choice = Some(choice);
        if !matches!(choice, Choice::Last | Choice::Measure) || self.text.reported.is_none() {
            self.text.reported = Some(choice);
        }
        let Some(one) = choice.candidate() else { return Draft::Tokens(Vec::new()) };
        match self.text.known.iter().find(|known| known.drafter.origin() == one.drafter) {
            Some(known) => Draft::Tokens(known.proposal.iter().copied().take(one.lookahead).collect()),
            None => Draft::Model(one.lookahead),
        }
    }

    /// To submit the next round before this one is read saves the waiting, and loses what a proposal would have won that
    /// this one makes possible. So it is done where waiting costs more than that.
    fn repeats(&mut self, tokens: &[u32], room: usize) -> bool {
        self.propose(tokens, room);
        let Some(now) = self.text.choice else { return false };
        let next = self.choose(true);
        let known = |choice: Choice| choice.candidate().filter(|one| one.drafter != Origin::DraftModel);
        if self.text.could_repeat {
            let loss = known(next).map_or(0.0, |one| one.gain(self.pace()).max(0.0));
            self.late = KEPT * self.late + (1.0 - KEPT) * loss;
        }
        self.text.could_repeat = known(now).is_none();
        let no_proposals = self.text.known.is_empty();
        let pays = self.costs.waiting() > self.late;
        if known(now).is_some() || !no_proposals && pays == self.costs.wants_pair() {
            return false;
        }
        let next = self.choose(false);
        if now.drafts() != next.drafts() || matches!(next, Choice::Last | Choice::Measure) {
            return false;
        }
        self.text.choice = Some(next);
        self.text.reported = Some(next);
        // Of the round before, the account has yet to hear.
        next.candidate().is_none_or(|one| 2.0 * (one.cost - 1.0) <= self.funds)
    }

    fn learn(&mut self, round: &Round) {
        let drafter = self.origin();
        let lookahead = round.rows.saturating_sub(1);
        self.since_plain += 1;
        let rounds = &mut self.text.rounds;
        let mut cost = 1.0;
        self.idle += 1;
        if self.idle >= self.pause && !self.draft_model.is_new() {
            self.pause = if self.won > 0.0 { PAUSE } else { LONGEST_PAUSE.min(2 * self.pause) };
            self.won = 0.0;
            self.draft_model.forget();
        }
        if lookahead == 0 {
            rounds.plain += 1;
            if round.prefilled == 0 {
                self.since_plain = 0;
                self.costs.learn_plain(round.seconds, round.ahead);
            }
        } else {
            match drafter {
                Origin::Prediction => rounds.prediction += 1,
                Origin::Lookup => rounds.lookup += 1,
                Origin::DraftModel | Origin::Target => rounds.draft_model += 1,
            }
            // How much of the time was reading is not known.
            cost = match round.prefilled + round.caught_up {
                0 => self.costs.learn(drafter, lookahead, round.seconds, round.ahead),
                _ => self.costs.cost(drafter, lookahead),
            };
        }
        let emitted = (round.accepted + 1) as f64;
        self.pace = (KEPT * self.pace.0 + emitted, KEPT * self.pace.1 + cost);
        self.funds = f64::min(self.funds + emitted - cost + LOSS * cost, SAVINGS);
        if drafter == Origin::DraftModel && lookahead > 0 {
            let reading = round.caught_up as f64 * self.costs.step() / READ_PER_STEP as f64;
            let saved = reading.min(self.savings);
            self.savings -= saved;
            self.funds -= reading - saved;
            self.draft_model.learn(round.drafted.min(lookahead), round.accepted);
            self.text.draft_model = Some(self.text.length + round.accepted);
            self.won += emitted - cost;
            self.slump = f64::min(self.slump + emitted - cost, 0.0);
            self.idle = 0;
            if self.slump < -SLUMP {
                self.slump = 0.0;
                self.draft_model.forget();
            }
        }
    }

    fn origin(&self) -> Origin {
        self.text.choice.and_then(|choice| choice.candidate()).map_or(Origin::Target, |one| one.drafter)
    }
}
