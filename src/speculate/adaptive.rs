//! Adaptive schedule: selects drafter and lookahead (or plain decoding) in each round from measured costs and acceptance.

use super::acceptance::{Acceptance, KEPT};
use super::choice::{Candidate, Choice, RoundsBy, Speculating};
use super::costs::{Costs, READ_PER_STEP};
use super::{Drafter, Origin, Round};
use crate::target::{Draft, Timings};

/// Most draft tokens of a round.
pub(super) const MOST: usize = 15;
/// Lookaheads to choose from, in addition to the longest possible one.
const LENGTHS: [usize; 7] = [1, 2, 3, 5, 7, 10, MOST];
/// Target forwards that a text may lose against plain decoding.
const ALLOWANCE: f64 = 1.2;
/// Share of a text's time that it may lose in addition. The same share each is allowed for reading and for timing plain decoding again.
const LOSS: f64 = 0.005;
/// Share of a text's tokens that may be lost by interrupting a server. An interruption costs two round trips.
const INTERRUPTING: f64 = 0.05;
/// Most target forwards that can be saved up: gains within a text, and the reading budget that earlier texts did not use.
const SAVINGS: f64 = 12.0;
/// Target forwards of credit, for drafting from a server, that a drafter gains for each proposal whose first token the text confirmed. Each
/// wrong first token takes as much away.
const CREDIT: f64 = 0.4;
/// First and last number of rounds after which an unprofitable draft model is tried again. The number doubles each time.
const PAUSES: [usize; 2] = [4, 256];

/// Drafter that picks in each round the source and the lookahead, 0 to 15, with the most expected tokens per second.
///
/// A round is expected to emit `1 + sum_i prod_(j<=i) a_j` tokens, with the running acceptance a_j at place j of a draft. Costs start from
/// [`Timings`] and are corrected by each round. Proposals on the CPU (lookup, prediction) are compared with the text that follows, verified
/// or not, so learning about them is free. It starts anew in each text, with earlier texts as a prior. A draft model must be tried to be
/// measured: it starts with one token. If it does not pay, it is tried again after growing pauses.
///
/// The lookahead is chosen for the largest gain over the pace of the text, since a long round also delays the gains of other drafters.
///
/// A text is hardly ever slower than plain decoding: a round runs only if losing all its draft tokens would not overdraw an account. The
/// account starts with 1.2 target forwards. If the target is on a server, two round trips are added, up to 5 % of the text. The account
/// grows by 0.5 % of the time and by gains of drafts, and shrinks by their losses. Reading what a draft model missed has its own budget:
/// 0.5 % of the text in advance, and what earlier texts did not use. The bound holds only if the costs are accurate.
///
/// Plain decoding means its fastest form, with rounds submitted ahead. A round that waits for a proposal costs more, so rounds wait only if
/// the expected gain exceeds that cost. Interrupting a server that streams costs two round trips: one for the draft, one until it streams
/// again. So only a proposal that pays for both interrupts it, from a drafter whose proposals the text confirmed. Such a drafter may
/// overdraw the account a little, since trials of a draft model may have emptied it.
pub struct Adaptive {
    costs: Costs,
    /// Acceptance by [`Origin`]; tokens of the target need no entry.
    acceptance: [Acceptance; 4],
    /// Rounds since the draft model last drafted, and the number of such rounds until it is tried again.
    idle: usize,
    pause: usize,
    /// Target forwards that the draft model gained since it was last retried.
    won: f64,
    /// Target forwards that this text may still lose.
    funds: f64,
    /// Target forwards available for reading by the draft model.
    reading: f64,
    /// Tokens and cost of recent rounds; older rounds weigh less.
    pace: (f64, f64),
    /// Share of the rounds that could have been submitted ahead for which a proposal turned up.
    late: f64,
    /// Rounds since plain decoding was last timed.
    since_plain: usize,
    text: Text,
}

/// State of one text.
#[derive(Default)]
struct Text {
    known: Vec<Known>,
    /// Tokens that the draft model has read; `None`: there is no draft model.
    draft_model: Option<usize>,
    /// Tokens so far, including the prompt.
    length: usize,
    /// Tokens still wanted.
    room: usize,
    rounds: RoundsBy,
    choice: Option<Choice>,
    reported: Option<Choice>,
    /// True if the next round could have been submitted before the previous round was read.
    could_repeat: bool,
    /// True if the server streams, so that a draft would interrupt it.
    is_streamed: bool,
}

/// A drafter that proposes on the CPU.
struct Known {
    drafter: Box<dyn Drafter>,
    proposal: Vec<u32>,
    /// Length of its latest proposal that was not empty.
    usual: usize,
    /// Proposals that the text has not fully confirmed or refuted yet.
    judged: Vec<Judged>,
    /// Target forwards that it may lose on a server beyond `funds`, because the text confirmed its proposals.
    credit: f64,
}

/// A proposal that is compared with the text.
struct Judged {
    /// Position of its first token.
    at: usize,
    proposal: Vec<u32>,
    /// Tokens that agreed with the text so far.
    agreed: usize,
}

impl Judged {
    /// Updates `acceptance` and `credit` from the text so far. Returns true if tokens are left to compare.
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
    /// Creates a schedule that starts from the given timings, without observed acceptance.
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

    /// Begins a text. `known`: drafters that propose on the CPU, in order of preference, identified by [`Drafter::origin`]. `draft_model`:
    /// number of prompt tokens that the draft model has read; `None`: there is none.
    pub fn begin(&mut self, known: Vec<Box<dyn Drafter>>, draft_model: Option<usize>) {
        self.reading = (self.reading + self.funds).clamp(0.0, SAVINGS);
        self.funds = ALLOWANCE;
        // The speed of plain decoding depends on the position. So it is timed before any draft that gains less than a factor of 2.
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

    /// Returns the current choice with its reason.
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

    /// Compares earlier proposals with the text, and collects new ones.
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

    /// Returns the tokens per target forward of recent rounds; at least 1.
    fn pace(&self) -> f64 {
        f64::max((self.pace.0 + 1.0) / (self.pace.1 + 1.0), 1.0)
    }

    /// Returns the cost until an interrupted server streams again, in target forwards; 0 without a server.
    fn interruption(&self) -> f64 {
        if self.costs.is_far() { self.costs.waiting() } else { 0.0 }
    }

    /// Returns the lookahead up to `most` with the highest score among those that cannot lose more than `funds`.
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

    /// Chooses for a round. `waits`: true if it waits for the previous round; otherwise there are no proposals from the CPU.
    fn choose(&self, waits: bool) -> Choice {
        let most = MOST.min(self.text.room.saturating_sub(1));
        if most == 0 {
            return Choice::Last;
        }
        if self.costs.plain().is_none() {
            return Choice::Measure;
        }
        let (mut otherwise, mut found) = (Choice::Nothing, None::<Candidate>);
        // Tokens per target forward without a proposal; a longer round must exceed this rate.
        let mut rate = self.pace();
        let model = self.text.draft_model.map(|read| {
            let missed = self.text.length.saturating_sub(read + READ_PER_STEP);
            (
                Origin::DraftModel,
                // A single draft token never pays for a round trip to a server.
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

    /// Returns true if plain decoding should be timed again: the less `one` gains over it, the sooner.
    fn measures(&self, one: &Candidate) -> bool {
        self.since_plain as f64 * LOSS > f64::max(1.0 - 1.0 / one.speed(), 3.0 * LOSS)
    }

    /// Returns true if it pays that the draft model reads what it missed, assuming that half of `room` will be generated.
    fn reads(&self, one: &Candidate, reading: f64) -> bool {
        let gain = 0.5 * self.text.room as f64 * (1.0 - 1.0 / one.speed());
        let spare = self.funds - (one.cost - 1.0) + self.reading;
        gain > 2.0 * reading && reading <= spare
    }

    /// Returns true if a server should continue its stream, even if there is a proposal.
    fn streams_on(&mut self) -> bool {
        self.text.is_streamed = true;
        let next = self.choose(true);
        if next.candidate().is_some() {
            // Charged even if the token in transit refutes the proposal.
            self.funds -= self.interruption();
            self.pace.1 += self.interruption();
        } else if next != Choice::Last {
            (self.text.choice, self.text.reported) = (Some(next), Some(next));
        }
        next.candidate().is_none()
    }

    /// Returns true if proposals gain more than it costs to wait for them in each round.
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

    /// Returns true if the next round can be submitted before this one is read. This saves the wait, but loses the gain of proposals that
    /// depend on this round. So it is done only if waiting costs more.
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
        // The account does not include the previous round yet.
        next.candidate().is_none_or(|one| 2.0 * (one.cost - 1.0) <= self.funds)
    }

    fn learn(&mut self, round: &Round) {
        let (drafter, lookahead) = (self.origin(), round.rows.saturating_sub(1));
        self.text.rounds.count(drafter, lookahead);
        self.since_plain += 1;
        // Rounds with an unknown share of reading are not timed.
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
