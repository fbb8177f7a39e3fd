//! Choosing in each round who drafts and how many tokens, plain decoding included, by what is known of costs and acceptance.

use super::acceptance::{Acceptance, KEPT};
use super::choice::{Candidate, Choice, RoundsBy, Speculating};
use super::costs::{Costs, READ_PER_STEP};
use super::{Drafter, Origin, Round};
use crate::target::{Draft, Timings};

/// Most draft tokens of a round.
pub(super) const MOST: usize = 15;
/// Numbers of draft tokens among which is chosen, where there are as many.
const LENGTHS: [usize; 7] = [1, 2, 3, 5, 7, 10, MOST];
/// Target forwards that a text may lose against plain decoding ...
const ALLOWANCE: f64 = 1.2;
/// ... and the share of its time that it may lose besides; as much may go to reading, and to timing plain decoding again.
const LOSS: f64 = 0.005;
/// Target forwards that can be saved for later: what is won in a text, and what earlier texts left for reading.
const SAVINGS: f64 = 12.0;
/// Target forwards that the draft model loses in a row before what is known of its acceptance is forgotten.
const SLUMP: f64 = 7.0;
/// Rounds after which a draft model that does not pay is tried again, at first and at last: each time twice as many.
const PAUSE: usize = 4;
const LONGEST_PAUSE: usize = 256;

/// Picks in each round the drafter and the lookahead, 0 to 15, that are expected to give the most tokens per second.
///
/// A round is expected to bring `1 + sum_i prod_(j<=i) a_j` tokens, with the running acceptance a_j at place j of a draft, and
/// costs what it was told to cost ([`Timings`]), corrected by each round. Proposals that the CPU knows (lookup, prediction) are
/// judged by the text that follows, whether they were verified or not, so learning about them is free. A draft model is
/// learned of by trying it: it begins with one token, and where it does not pay it is tried again after growing pauses.
///
/// A draft's length is chosen to gain the most on the pace of the text, since a round that takes long also delays what
/// other drafters would bring.
///
/// Hardly ever slower: a round is done only where losing all its draft tokens would not overdraw an account. It begins a text
/// with 1.2 target forwards, gets 0.5 % of the time and what drafts win, and pays what they lose. Reading what a draft model
/// missed has as much of the whole text in advance, and what earlier texts did not use. This holds as far as the costs do.
///
/// Plain decoding is meant as it is fastest: submitted ahead. A round that waits for a proposal costs more, so that is done
/// where proposals win more than it costs.
pub struct Adaptive {
    costs: Costs,
    prediction: Acceptance,
    lookup: Acceptance,
    draft_model: Acceptance,
    /// Rounds since the draft model drafted, and for how many it is left until it is tried again.
    idle: usize,
    pause: usize,
    /// Target forwards that it won since it was tried again, and that it lost since its best moment.
    won: f64,
    slump: f64,
    /// Target forwards that this text may still lose.
    funds: f64,
    /// Target forwards that there are for reading.
    reading: f64,
    /// Tokens and cost of the last rounds, the older the less.
    pace: (f64, f64),
    /// What a round that is submitted ahead loses, because a proposal comes too late for it.
    late: f64,
    /// Rounds since plain decoding was timed.
    since_plain: usize,
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
    /// What rounds cost is as told until they say otherwise; of acceptance nothing is known.
    pub fn new(told: Timings) -> Self {
        let [prediction, lookup, draft_model] = [0.9, 0.9, 0.9].map(Acceptance::new);
        Self {
            costs: Costs::new(told),
            prediction,
            lookup,
            draft_model,
            idle: 0,
            pause: PAUSE,
            won: 0.0,
            slump: 0.0,
            funds: 0.0,
            reading: 0.0,
            pace: (0.0, 0.0),
            late: 0.0,
            since_plain: 0,
            text: Text::default(),
        }
    }

    /// A text begins. `known` are the drafters that propose tokens which the CPU knows, the one to prefer first; their
    /// [`Drafter::origin`] says which they are. `draft_model`, where there is one, is how many tokens of the prompt it has
    /// read already.
    pub fn begin(&mut self, known: Vec<Box<dyn Drafter>>, draft_model: Option<usize>) {
        self.reading = (self.reading + self.funds).clamp(0.0, SAVINGS);
        self.funds = ALLOWANCE;
        // At another position plain decoding takes another time: no draft that wins less than twice comes first.
        self.since_plain += (0.5 / LOSS) as usize;
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
        if self.text.length == 0 {
            self.reading += LOSS * room as f64;
        }
        (self.text.length, self.text.room) = (tokens.len(), room);
    }

    /// Tokens per target forward of the last rounds; at least 1.
    fn pace(&self) -> f64 {
        f64::max((self.pace.0 + 1.0) / (self.pace.1 + 1.0), 1.0)
    }

    /// The lookahead with the highest score, up to `most`, among those that cannot lose more than `funds`.
    fn best(&self, drafter: Origin, most: usize, funds: f64, score: impl Fn(&Candidate) -> f64) -> Option<Candidate> {
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

    /// What to do in a round; one that does not wait for what the round before emits has no proposal that the CPU knows.
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
            let reading = self.costs.reading(missed);
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
        let spare = self.funds - (one.cost - 1.0) + self.reading;
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
        let (drafter, lookahead) = (self.origin(), round.rows.saturating_sub(1));
        let rounds = &mut self.text.rounds;
        *match drafter {
            _ if lookahead == 0 => &mut rounds.plain,
            Origin::Prediction => &mut rounds.prediction,
            Origin::Lookup => &mut rounds.lookup,
            Origin::DraftModel | Origin::Target => &mut rounds.draft_model,
        } += 1;
        self.since_plain += 1;
        // How much of a round's time was reading is not known.
        let is_timed = round.prefilled + round.caught_up == 0;
        let mut cost = if lookahead == 0 { 1.0 } else { self.costs.cost(drafter, lookahead) };
        if is_timed && lookahead > 0 {
            cost = self.costs.learn(drafter, lookahead, round.seconds, round.ahead);
        } else if is_timed {
            self.costs.learn_plain(round.seconds, round.ahead);
            self.since_plain = 0;
        }
        let emitted = (round.accepted + 1) as f64;
        self.pace = (KEPT * self.pace.0 + emitted, KEPT * self.pace.1 + cost);
        self.funds = f64::min(self.funds + emitted - cost + LOSS * cost, SAVINGS);
        self.idle += 1;
        if drafter == Origin::DraftModel && lookahead > 0 {
            self.idle = 0;
            self.text.draft_model = Some(self.text.length + round.accepted);
            let reading = self.costs.reading(round.caught_up);
            let saved = reading.min(self.reading);
            self.reading -= saved;
            self.funds -= reading - saved;
            self.draft_model.learn(round.drafted.min(lookahead), round.accepted);
            self.won += emitted - cost;
            self.slump = f64::min(self.slump + emitted - cost, 0.0);
            if self.slump < -SLUMP {
                self.slump = 0.0;
                self.draft_model.forget();
            }
        } else if self.idle >= self.pause && !self.draft_model.is_new() {
            self.pause = if self.won > 0.0 { PAUSE } else { LONGEST_PAUSE.min(2 * self.pause) };
            self.won = 0.0;
            self.draft_model.forget();
        }
    }

    fn origin(&self) -> Origin {
        self.text.choice.and_then(|choice| choice.candidate()).map_or(Origin::Target, |one| one.drafter)
    }
}
