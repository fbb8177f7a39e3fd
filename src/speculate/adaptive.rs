//! Choosing in each round who drafts and how many tokens, plain decoding included, by what was measured.

use super::acceptance::Acceptance;
use super::account::Account;
use super::choice::{Candidate, Choice, RoundsBy, Speculating};
use super::costs::Costs;
use super::{Drafter, Origin, Round};
use crate::decode::Draft;

/// Most draft tokens of a round.
pub(super) const MOST: usize = 15;
/// Standard errors by which an uncertain drafter is given credit.
const CREDIT: f64 = 1.0;
/// Timings of plain decoding before anything else is tried.
pub(super) const PLAIN_FIRST: usize = 3;
/// What timing plain decoding again may cost of the time.
const PLAIN_AGAIN: f64 = 0.005;
/// Rounds that the acceptance in earlier texts counts for.
const EARLIER: f64 = 16.0;
/// What a round is believed to lose at first when a proposal comes too late for it, in target forwards, and what an
/// observation leaves of that.
const LATE: f64 = 0.25;
const LATE_KEPT: f64 = 0.97;
/// Tokens that the draft model reads along with its first step.
const CLOSE_BEHIND: usize = 16;

/// Picks in each round the drafter and the lookahead, 0 to 15, that are expected to give the most tokens per second.
///
/// A round is expected to bring `1 + sum_i prod_(j<=i) a_j` tokens, with the running acceptance a_j at place j of a draft,
/// and costs what rounds of its kind and length were measured to cost. Proposals that the CPU knows (lookup, prediction)
/// are judged by the text that follows, whether they were verified or not, so learning about them is free.
///
/// A draft's length is chosen to gain the most on the pace of the text, since a round that takes long also delays what
/// other drafters would bring.
///
/// Never slower: what is lost against plain decoding, by trials or by error, is entered in an account, and a round that
/// could overdraw it, all its tokens rejected, is not done. So a text takes at most 2 % longer than plain decoding takes
/// for it, or for 64 tokens if it is shorter, and beyond 128 tokens less than 1 %; what a drafter won it may risk again.
/// Plain decoding is meant as it is fastest: submitted ahead. A round that waits for a proposal instead costs more, which
/// is entered in the account, too.
/// That holds as far as the timings and the guess of a draft step do: what was measured wrong is paid once more. Reading a
/// long prompt with a draft model that turns out useless may besides cost what earlier texts won.
///
/// Within 3 % of the best choice that never changes, in texts of some thousand tokens (`tests/adaptive.rs` has the
/// worlds). A first text of 64 tokens is mostly over before it is known what pays: nothing can be tried that could cost
/// more than 1.3 target forwards. Nor is a change found out by a draft model of which reading the text costs more than
/// trials may. What is learned is kept from text to text: costs as they are, acceptance for as much as a few rounds.
pub struct Adaptive {
    costs: Costs,
    prediction: Acceptance,
    lookup: Acceptance,
    draft_model: Acceptance,
    account: Account,
    /// What a round that is submitted ahead loses, because a proposal comes too late for it.
    late: f64,
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
    /// Rounds since plain decoding was timed.
    since_plain: usize,
    rounds: RoundsBy,
    choice: Option<Choice>,
    reported: Option<Choice>,
    /// Whether the round before could have been followed by one that was submitted ahead.
    could_repeat: bool,
    /// Of the round before, if it was a plain one: its seconds, and whether it was submitted ahead.
    plain: Option<(f64, bool)>,
    /// Whether the next round was to be submitted ahead, while plain decoding was measured.
    is_pair: bool,
}

/// A drafter whose tokens the CPU knows.
struct Known {
    drafter: Box<dyn Drafter>,
    proposal: Vec<u32>,
    /// A proposal that the text has not yet judged, and where it begins.
    judged: Option<(usize, Vec<u32>)>,
}

impl Adaptive {
    /// Nothing is measured yet. `draft_step` guesses what a step of the draft model costs, in target forwards: the ratio
    /// of the sizes of their weights, say. Without a draft model it means nothing.
    pub fn new(draft_step: f64) -> Self {
        let [prediction, lookup, draft_model] = [0.9, 0.7, 0.7].map(Acceptance::new);
        let costs = Costs::new(draft_step.clamp(0.01, 1.0));
        Self { costs, prediction, lookup, draft_model, account: Account::default(), late: LATE, text: Text::default() }
    }

    /// A text begins. `known` are the drafters that propose tokens which the CPU knows, the one to prefer first; their
    /// [`Drafter::origin`] says which they are. `draft_model`, where there is one, is how many tokens of the prompt it has
    /// read already.
    pub fn begin(&mut self, known: Vec<Box<dyn Drafter>>, draft_model: Option<usize>) {
        self.account = self.account.next(known.len() + usize::from(draft_model.is_some()));
        self.costs.begin();
        for acceptance in [&mut self.prediction, &mut self.lookup, &mut self.draft_model] {
            acceptance.begin(EARLIER);
        }
        let known = known.into_iter().map(|drafter| Known { drafter, proposal: Vec::new(), judged: None }).collect();
        self.text = Text { known, draft_model, ..Text::default() };
    }

    /// What it does at the moment, and why.
    pub fn speculating(&self) -> Speculating {
        let plain = self.costs.plain.center().filter(|seconds| *seconds > 0.0).map_or(0.0, f64::recip);
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
    }

    fn funds(&self, drafter: Origin) -> f64 {
        self.account.funds(drafter, self.costs.curve(drafter).is_measured())
    }

    fn choose(&self) -> Choice {
        let most = MOST.min(self.text.room.saturating_sub(1));
        if most == 0 {
            return Choice::Last;
        }
        if self.costs.plain.len() < PLAIN_FIRST {
            return Choice::Measure;
        }
        let mut too_dear = None;
        let mut candidates = Vec::with_capacity(3);
        // What the text makes without a proposal; a round that takes longer must bring more than that.
        let mut rate = self.account.pace();
        if let Some(read) = self.text.draft_model {
            let by_speed = |one: &Candidate| one.speed();
            let best = |funds| best(Origin::DraftModel, &self.draft_model, &self.costs, most, funds, by_speed);
            let reading = self.costs.reading(self.text.length.saturating_sub(read + CLOSE_BEHIND));
            match best(self.funds(Origin::DraftModel)) {
                Some(one) if reading == 0.0 || self.reads(&one, reading) => {
                    rate = one.speed().max(rate);
                    candidates.push(one);
                }
                Some(one) => {
                    too_dear = Some((one, reading + self.costs.price(Origin::DraftModel, one.lookahead) - 1.0))
                }
                None => too_dear = best(f64::INFINITY).map(|one| (one, self.costs.price(Origin::DraftModel, 1) - 1.0)),
            }
        }
        for one in self.text.known.iter().filter(|one| !one.proposal.is_empty()) {
            let (origin, most) = (one.drafter.origin(), most.min(one.proposal.len()));
            let acceptance = if origin == Origin::Prediction { &self.prediction } else { &self.lookup };
            let gain = |one: &Candidate| one.tokens - rate * one.cost;
            let best = |funds| best(origin, acceptance, &self.costs, most, funds, gain);
            match best(self.funds(origin)) {
                Some(one) => candidates.push(one),
                None => too_dear = best(f64::INFINITY).map(|one| (one, self.costs.price(origin, 1) - 1.0)),
            }
        }
        let hope = |one: &Candidate| one.hoped() - rate * one.cost;
        match candidates.into_iter().reduce(|a, b| if hope(&b) > hope(&a) { b } else { a }) {
            Some(one) if hope(&one) > 1.0 - rate => {
                if self.measures(&one) {
                    Choice::Measure
                } else if one.speed() >= 1.0 {
                    Choice::Draft(one)
                } else {
                    Choice::Try(one)
                }
            }
            Some(one) if one.speed() >= 1.0 => Choice::Wait(one, rate),
            Some(one) => Choice::Plain(one),
            None => too_dear.map_or(Choice::Nothing, |(one, price)| Choice::TooDear(one, price)),
        }
    }

    /// Whether it is time to measure plain decoding again: often while it was measured seldom, or where little is lost.
    fn measures(&self, one: &Candidate) -> bool {
        let lost = f64::max(1.0 - 1.0 / one.speed(), 3.0 * PLAIN_AGAIN);
        self.text.since_plain as f64 * PLAIN_AGAIN > lost * self.costs.plain.share()
    }

    /// Whether it is worth its cost that the draft model reads what it missed: half the room, say, will be written.
    fn reads(&self, one: &Candidate, reading: f64) -> bool {
        let gain = 0.5 * self.text.room as f64 * (1.0 - one.cost / one.hoped());
        let spare = self.funds(Origin::DraftModel) - (self.costs.price(Origin::DraftModel, one.lookahead) - 1.0);
        gain > 2.0 * reading && reading <= spare + self.account.reading_funds(self.text.room)
    }
}

/// The lookahead with the highest score, among those that cannot lose more than `funds`.
fn best(
    drafter: Origin,
    acceptance: &Acceptance,
    costs: &Costs,
    most: usize,
    funds: f64,
    score: impl Fn(&Candidate) -> f64,
) -> Option<Candidate> {
    let expected = acceptance.expect();
    let candidates = (1..=most).filter(|&lookahead| costs.price(drafter, lookahead) - 1.0 <= funds).map(|lookahead| {
        let expected = expected[lookahead - 1];
        let (tokens, cost) = (1.0 + expected.accepted, costs.curve(drafter).cost(lookahead));
        Candidate { drafter, lookahead, tokens, error: CREDIT * expected.error, cost }
    });
    candidates.reduce(|a, b| if score(&b) > score(&a) { b } else { a })
}

impl Drafter for Adaptive {
    fn draft(&mut self, tokens: &[u32], room: usize) -> Draft {
        self.propose(tokens, room);
        self.text.length = tokens.len();
        self.text.room = room;
        let choice = self.choose();
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
    /// this one makes possible. So it is done where waiting costs more than that, or more than the account allows.
    fn repeats(&mut self, tokens: &[u32], room: usize) -> bool {
        self.propose(tokens, room);
        (self.text.length, self.text.room) = (tokens.len(), room);
        let Some(now) = self.text.choice else { return false };
        if self.costs.plain.len() + 1 < PLAIN_FIRST {
            // After the first round, which is not timed, every second one.
            self.text.is_pair = !self.text.is_pair;
            return !self.text.is_pair;
        }
        let next = self.choose();
        let known = |choice: Choice| choice.candidate().filter(|one| one.drafter != Origin::DraftModel);
        if self.text.could_repeat {
            let rate = self.account.pace();
            let loss = known(next).map_or(0.0, |one| f64::max(one.tokens - 1.0 - rate * (one.cost - 1.0), 0.0));
            self.late = LATE_KEPT * self.late + (1.0 - LATE_KEPT) * loss;
        }
        self.text.could_repeat = known(now).is_none();
        if known(now).is_some() || now.drafts() != next.drafts() || matches!(next, Choice::Last | Choice::Measure) {
            return false;
        }
        self.text.choice = Some(next);
        self.text.reported = Some(next);
        // Of a round that is a trial, the account has yet to hear.
        let is_safe = match next {
            Choice::Draft(one) => 2.0 * (self.costs.price(one.drafter, one.lookahead) - 1.0) <= self.funds(one.drafter),
            Choice::Try(_) => false,
            _ => true,
        };
        let Some(known) = self.text.known.first() else { return is_safe };
        let waiting = self.costs.waiting().unwrap_or_default();
        let pays = waiting > self.late || waiting > self.funds(known.drafter.origin());
        is_safe && pays != (next.drafts().is_none() && self.costs.wants_pair())
    }

    fn learn(&mut self, round: &Round) {
        for acceptance in [&mut self.prediction, &mut self.lookup, &mut self.draft_model] {
            acceptance.fade();
        }
        self.text.since_plain += 1;
        let drafter = self.origin();
        let lookahead = round.rows.saturating_sub(1);
        let rounds = &mut self.text.rounds;
        match drafter {
            _ if lookahead == 0 => {
                rounds.plain += 1;
                let mut waited = 0.0;
                if round.prefilled == 0 {
                    self.text.since_plain = 0;
                    let timing = (round.seconds, round.ahead);
                    waited = self.costs.learn_plain(timing, self.text.plain.replace(timing));
                }
                let known = self.text.known.first().map(|known| known.drafter.origin());
                self.account.enter_plain(known.unwrap_or(Origin::DraftModel), waited);
                return;
            }
            Origin::Prediction => rounds.prediction += 1,
            Origin::Lookup => rounds.lookup += 1,
            Origin::DraftModel | Origin::Target => rounds.draft_model += 1,
        }
        if drafter == Origin::DraftModel {
            self.draft_model.learn(round.drafted.min(lookahead), round.accepted);
            self.text.draft_model = Some(self.text.length + round.accepted);
        }
        self.text.plain = None;
        // A coarse clock may say that no time passed.
        let plain = self.costs.plain.center().filter(|plain| *plain > 0.0);
        let Some(cost) = plain.map(|plain| round.seconds / plain).filter(|cost| cost.is_finite()) else { return };
        let (cost, reading) = match drafter {
            // How much of the time was the target's reading is not known.
            _ if round.prefilled > 0 => (self.costs.price(drafter, lookahead), self.costs.reading(round.caught_up)),
            Origin::DraftModel => self.costs.learn_reading(lookahead, round.caught_up, cost),
            _ => (self.costs.learn(drafter, lookahead, cost), 0.0),
        };
        let believed = cost + self.account.enter_reading(reading, self.text.room);
        self.account.enter_round(drafter, round.accepted + 1, believed);
    }

    fn origin(&self) -> Origin {
        self.text.choice.and_then(|choice| choice.candidate()).map_or(Origin::Target, |one| one.drafter)
    }
}
