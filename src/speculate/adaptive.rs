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
/// The share of a text's tokens that may be lost by interrupting a server, which costs the way to it twice.
const INTERRUPTING: f64 = 0.05;
/// Target forwards that can be saved for later: what is won in a text, and what earlier texts left for reading.
const SAVINGS: f64 = 12.0;
/// Target forwards by which a known drafter may overdraw a text's account on a server, for each proposal whose first token the server wrote;
/// each other one takes as much away.
const CREDIT: f64 = 0.4;
/// Rounds after which a draft model that does not pay is tried again, at first and at last: each time twice as many.
const PAUSES: [usize; 2] = [4, 256];

/// Picks in each round the drafter and the lookahead, 0 to 15, that are expected to give the most tokens per second.
///
/// A round is expected to bring `1 + sum_i prod_(j<=i) a_j` tokens, with the running acceptance a_j at place j of a draft, and
/// costs what it was told to cost ([`Timings`]), corrected by each round. Proposals that the CPU knows (lookup, prediction) are
/// judged token by token by the text that follows, whether they were verified or not, so learning about them is free, and is
/// done anew in each text: what others taught is a guess about it. A draft model is learned of by trying it: it begins with
/// one token, and where it does not pay it is tried again after growing pauses.
///
/// A draft's length is chosen to gain the most on the pace of the text, since a round that takes long also delays what
/// other drafters would bring.
///
/// Hardly ever slower: a round is done only where losing all its draft tokens would not overdraw an account. It begins a text
/// with 1.2 target forwards (and the way to a server twice, up to 5 % of the text, if the target is on one), gets 0.5 % of the time and what drafts win, and pays what they lose. Reading what a draft model
/// missed has as much of the whole text in advance, and what earlier texts did not use. This holds as far as the costs do.
///
/// Plain decoding is meant as it is fastest: submitted ahead. A round that waits for a proposal costs more, so that is done
/// where proposals win more than it costs. A server that writes by itself costs the way twice when it is interrupted, for the draft and to
/// let it write again. So it is interrupted only for a proposal that pays both, by a drafter whose proposals the text confirmed;
/// such a drafter may lose a little more than the account has, which a draft model that was tried may have emptied.
pub struct Adaptive {
    costs: Costs,
    /// By [`Origin`]; the target's own tokens need none.
    acceptance: [Acceptance; 4],
    /// Rounds since the draft model drafted, and for how many it is left until it is tried again.
    idle: usize,
    pause: usize,
    /// Target forwards that it won since it was tried again.
    won: f64,
    /// Target forwards that this text may still lose.
    funds: f64,
    /// Target forwards that there are for reading.
    reading: f64,
    /// Tokens and cost of the last rounds, the older the less.
    pace: (f64, f64),
    /// In which share of the rounds that could be submitted ahead a proposal came too late for that.
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
    /// Whether a server writes by itself what is decided about.
    is_streamed: bool,
}

/// A drafter whose tokens the CPU knows.
struct Known {
    drafter: Box<dyn Drafter>,
    proposal: Vec<u32>,
    /// Tokens of its latest proposal.
    usual: usize,
    /// Proposals of which the text has not yet judged each token.
    judged: Vec<Judged>,
    /// Target forwards that it may lose on a server beyond the funds, since the text confirmed its proposals.
    credit: f64,
}

/// A proposal that is compared with the text.
struct Judged {
    /// Where it begins.
    at: usize,
    proposal: Vec<u32>,
    /// Tokens that the text has.
    agreed: usize,
}

impl Judged {
    /// Learns from the tokens that the text has by now; whether others are yet to come.
    fn goes_on(&mut self, text: &[u32], acceptance: &mut Acceptance, credit: &mut f64) -> bool {
        while let (Some(guess), Some(id)) = (self.proposal.get(self.agreed), text.get(self.at + self.agreed)) {
            acceptance.learn_place(self.agreed, guess == id);
            if self.agreed == 0 {
                *credit = (*credit + if guess == id { CREDIT } else { -CREDIT }).clamp(0.0, SAVINGS);
            }
            if guess != id {
                return false;
            }
            self.agreed += 1;
        }
        self.agreed < self.proposal.len()
    }
}

impl Adaptive {
    /// What rounds cost is as told until they say otherwise; of acceptance nothing is known.
    pub fn new(told: Timings) -> Self {
        let mut acceptance = [if told.far { Acceptance::careful() } else { Acceptance::default() }; 4];
        acceptance[Origin::DraftModel as usize] = Acceptance::default();
        Self {
            costs: Costs::new(told),
            acceptance,
            idle: 0,
            pause: PAUSES[0],
            won: 0.0,
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
        self.costs.begin();
        for one in &known {
            self.acceptance[one.origin() as usize].begin();
        }
        self.pace = (0.0, 0.0);
        let known = known
            .into_iter()
            .map(|drafter| Known { drafter, proposal: Vec::new(), usual: 0, judged: Vec::new(), credit: 0.0 })
            .collect();
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

    /// Hears what the text says of earlier proposals, and collects new ones.
    fn propose(&mut self, tokens: &[u32], room: usize) {
        for one in &mut self.text.known {
            let acceptance = &mut self.acceptance[one.drafter.origin() as usize];
            one.judged.retain_mut(|judged| judged.goes_on(tokens, acceptance, &mut one.credit));
            one.proposal = match one.drafter.draft(tokens, room) {
                Draft::Tokens(mut tokens) => {
                    tokens.truncate(MOST);
                    tokens
                }
                Draft::Model(_) => Vec::new(),
            };
            if !one.proposal.is_empty() {
                one.usual = one.proposal.len();
            }
            if !one.proposal.is_empty() && one.judged.last().is_none_or(|judged| judged.at < tokens.len()) {
                one.judged.push(Judged { at: tokens.len(), proposal: one.proposal.clone(), agreed: 0 });
            }
        }
        if self.text.length == 0 {
            self.reading += LOSS * room as f64;
            self.funds += f64::min(2.0 * self.interruption(), INTERRUPTING * room as f64);
        }
        (self.text.length, self.text.room) = (tokens.len(), room);
    }

    /// Tokens per target forward of the last rounds; at least 1.
    fn pace(&self) -> f64 {
        f64::max((self.pace.0 + 1.0) / (self.pace.1 + 1.0), 1.0)
    }

    /// What it costs that a server which was interrupted writes by itself again.
    fn interruption(&self) -> f64 {
        if self.costs.is_far() { self.costs.waiting() } else { 0.0 }
    }

    /// The lookahead with the highest score, up to `most`, among those that cannot lose more than `funds`.
    fn best(&self, drafter: Origin, most: usize, funds: f64, score: impl Fn(&Candidate) -> f64) -> Option<Candidate> {
        let expected = self.acceptance[drafter as usize].expect();
        let lengths = LENGTHS.into_iter().filter(|&length| length < most).chain([most]);
        let candidates = lengths.map(|lookahead| {
            let tokens = 1.0 + expected[lookahead - 1];
            let interruption = if self.text.is_streamed { self.interruption() } else { 0.0 };
            let cost = self.costs.cost(drafter, lookahead) + interruption;
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
        let (mut otherwise, mut found) = (Choice::Nothing, None::<Candidate>);
        // What the text makes without a proposal; a round that takes longer must bring more than that.
        let mut rate = self.pace();
        let model = self.text.draft_model.map(|read| {
            let missed = self.text.length.saturating_sub(read + READ_PER_STEP);
            (
                Origin::DraftModel,
                // One token is never worth the way to a server.
                if self.acceptance[Origin::DraftModel as usize].is_new() && !self.costs.is_far() { 1 } else { most },
                self.costs.reading(missed),
                self.funds,
            )
        });
        let known = self.text.known.iter().filter(|one| waits && !one.proposal.is_empty());
        let known = known.map(|one| {
            let credit = if self.costs.is_far() { one.credit } else { 0.0 };
            (one.drafter.origin(), most.min(one.proposal.len()), 0.0, self.funds + credit)
        });
        for (drafter, most, reading, funds) in model.into_iter().chain(known) {
            let is_model = drafter == Origin::DraftModel;
            let score = |one: &Candidate| if is_model { one.speed() } else { one.gain(rate) };
            let best = |funds| self.best(drafter, most, funds, score);
            let pays = best(f64::INFINITY).is_some_and(|one| one.speed() > 1.0);
            match best(if pays { funds } else { f64::INFINITY }) {
                Some(one) if reading > 0.0 && pays && !self.reads(&one, reading) => {
                    otherwise = Choice::TooDear(one, reading + one.cost - 1.0);
                }
                Some(one) => {
                    rate = if is_model { one.speed().max(rate) } else { rate };
                    found = Some(found.filter(|other| other.gain(rate) >= one.gain(rate)).unwrap_or(one));
                }
                None => {
                    let one = self.best(drafter, 1, f64::INFINITY, score);
                    otherwise = one.map_or(otherwise, |one| Choice::TooDear(one, one.cost - 1.0));
                }
            }
        }
        match found {
            Some(one) if one.gain(rate) > 0.0 && self.measures(&one) => Choice::Measure,
            Some(one) if one.gain(rate) > 0.0 => Choice::Draft(one),
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

    /// Whether a server is to write on by itself, also where there is a proposal.
    fn streams_on(&mut self) -> bool {
        self.text.is_streamed = true;
        let next = self.choose(true);
        if next.candidate().is_some() {
            // Whatever becomes of the proposal with the token that is under way.
            self.funds -= self.interruption();
            self.pace.1 += self.interruption();
        } else if next != Choice::Last {
            (self.text.choice, self.text.reported) = (Some(next), Some(next));
        }
        next.candidate().is_none()
    }

    /// Whether proposals win more than it costs to wait for them in each round.
    fn waits(&self) -> bool {
        let pace = self.pace();
        let gain = |one: &Known| {
            let best = self.best(one.drafter.origin(), one.usual, self.funds, |one| one.gain(pace));
            best.map_or(0.0, |one| one.gain(pace))
        };
        let known = self.text.known.iter().filter(|one| one.usual > 0);
        self.costs.waiting() <= self.late * known.map(gain).fold(0.0, f64::max)
    }
}

impl Drafter for Adaptive {
    fn draft(&mut self, tokens: &[u32], room: usize) -> Draft {
        self.propose(tokens, room);
        self.text.is_streamed = false;
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
        if self.costs.is_far() {
            return now.candidate().is_none() && self.streams_on();
        }
        if self.text.could_repeat {
            let came = self.text.known.iter().any(|known| !known.proposal.is_empty());
            self.late = KEPT * self.late + (1.0 - KEPT) * f64::from(u8::from(came));
        }
        self.text.could_repeat = now.candidate().is_none_or(|one| one.drafter == Origin::DraftModel);
        if !self.text.could_repeat || !self.text.known.is_empty() && self.waits() && !self.costs.wants_pair() {
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
        self.text.rounds.count(drafter, lookahead);
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
        let won = (round.accepted + 1) as f64 - cost;
        self.pace = (KEPT * self.pace.0 + won + cost, KEPT * self.pace.1 + cost);
        self.funds = f64::min(self.funds + won + LOSS * cost, SAVINGS);
        self.idle += 1;
        let acceptance = &mut self.acceptance[Origin::DraftModel as usize];
        if drafter == Origin::DraftModel && lookahead > 0 {
            self.idle = 0;
            self.text.draft_model = Some(self.text.length + round.accepted);
            let reading = self.costs.reading(round.caught_up);
            let saved = reading.min(self.reading);
            self.reading -= saved;
            self.funds -= reading - saved;
            acceptance.learn(round.drafted.min(lookahead), round.accepted);
            self.won += won;
        } else if self.idle >= self.pause && !acceptance.is_new() {
            self.pause = if self.won > 0.0 { PAUSES[0] } else { PAUSES[1].min(2 * self.pause) };
            self.won = 0.0;
            *acceptance = Acceptance::default();
        }
    }

    fn origin(&self) -> Origin {
        self.text.choice.and_then(|choice| choice.candidate()).map_or(Origin::Target, |one| one.drafter)
    }
}
