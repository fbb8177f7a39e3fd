//! Adaptive schedule: selects drafter and lookahead (or plain decoding) in each round from measured costs and acceptance.

use super::acceptance::Acceptance;
use super::budget::Budget;
use super::choice::{Choice, RoundsBy, Speculating};
use super::costs::READ_PER_STEP;
use super::decide::{Offer, decide};
use super::estimates::{Estimates, MAX_LOOKAHEAD};
use super::proposals::Proposer;
use super::{Drafter, Origin, Round};
use crate::target::{Draft, Timings};

/// First and last number of rounds after which an unprofitable draft model is tried again. The number doubles each time.
const PAUSES: [usize; 2] = [4, 256];

/// Drafter that picks in each round the source and the lookahead, 0 to 15, with the most expected tokens per second.
///
/// With the acceptance `a_j` at place `j` of a draft, `k` draft tokens, and costs in plain rounds of the target:
///
/// ```text
/// tokens = 1 + sum over i = 1..k of a_1 * ... * a_i       expected tokens of a round
/// cost   = rows(k + 1) + k * step + waiting               its cost; a plain round costs 1
/// speed  = tokens / cost                                  relative to plain decoding
/// gain   = tokens - 1 - rate * (cost - 1)                 tokens gained at `rate` tokens per plain round
/// loss   = cost - 1                                       if all draft tokens are rejected
/// ```
///
/// - `Estimates` measure acceptance and costs, which start from [`Timings`].
/// - `Budget` limits the losses of a text. So it is hardly slower than plain decoding, if the costs are accurate.
/// - `decide` chooses for one round.
///
/// Each text starts anew, with earlier texts as a prior. Proposals on the CPU are compared with the text without verification. A draft model
/// must be tried to be measured: it starts with one token. If it does not pay, it is tried again after growing pauses.
///
/// Plain decoding means its fastest form, with rounds submitted ahead. A round that waits for a proposal costs more, so rounds wait only if
/// the expected gain exceeds that cost.
///
/// A server streams plain rounds without requests. While it streams, a draft costs a second round trip: the one after which the server streams
/// again.
pub struct Adaptive {
    estimates: Estimates,
    budget: Budget,
    /// True if the server streams; `None`: the target is on this machine.
    streams: Option<bool>,
    retry: Retry,
    text: Text,
    /// Drafter on the device.
    on_device: Origin,
}

/// State of one text.
#[derive(Default)]
struct Text {
    proposers: Vec<Proposer>,
    /// Tokens that the draft model has read; `None`: there is no draft model.
    draft_model: Option<usize>,
    /// Tokens so far, including the prompt.
    length: usize,
    /// Tokens still wanted.
    room: usize,
    rounds: RoundsBy,
    /// Choice for the current round.
    choice: Option<Choice>,
    /// Latest choice that says something about the drafters, else the first one.
    reported: Option<Choice>,
    /// True if the next round could have been submitted before the previous round was read.
    could_repeat: bool,
    /// True if the round waited for proposals, and if the next one will.
    waits: [bool; 2],
    /// Cost of waiting for proposals that did not come.
    waited: f64,
}

/// Pauses between trials of a draft model that does not pay.
struct Retry {
    /// Rounds since the draft model last drafted.
    idle: usize,
    /// Number of such rounds until it is tried again.
    pause: usize,
    /// Target forwards that it won since it was last retried.
    won: f64,
}

impl Retry {
    /// Counts a round in which the draft model did not draft. If a pause ends, forgets its acceptance, so that it is tried again.
    fn learn_idle(&mut self, acceptance: &mut Acceptance) {
        self.idle += 1;
        if self.idle >= self.pause && !acceptance.is_new() {
            self.pause = if self.won > 0.0 { PAUSES[0] } else { PAUSES[1].min(2 * self.pause) };
            self.won = 0.0;
            *acceptance = Acceptance::default();
        }
    }
}

impl Adaptive {
    /// Creates a schedule that starts from the given timings, without observed acceptance.
    pub fn new(timings: Timings) -> Self {
        Self {
            estimates: Estimates::new(timings),
            budget: Budget::default(),
            streams: timings.far.then_some(false),
            retry: Retry { idle: 0, pause: PAUSES[0], won: 0.0 },
            text: Text::default(),
            on_device: Origin::DraftModel,
        }
    }

    /// Begins a text. `known`: drafters that propose on the CPU, in order of preference, identified by [`Drafter::origin`]. `draft_model`:
    /// number of prompt tokens that the draft model has read; `None`: there is none.
    pub fn begin(&mut self, known: Vec<Box<dyn Drafter>>, draft_model: Option<usize>) {
        self.budget.begin();
        self.estimates.begin(known.iter().map(|drafter| drafter.origin()));
        self.streams = self.streams.map(|_| false);
        let proposers = known.into_iter().map(Proposer::new).collect();
        self.text = Text { proposers, draft_model, ..Text::default() };
    }

    /// Sets the drafter on the device, whose tokens are otherwise those of a draft model.
    pub fn on_device(self, on_device: Origin) -> Self {
        Self { on_device, ..self }
    }

    /// Returns the drafter of the current round.
    fn drafter(&self) -> Origin {
        self.text.choice.and_then(|choice| choice.candidate()).map_or(Origin::Target, |one| one.drafter)
    }

    /// Returns the current choice with its reason.
    pub fn speculating(&self) -> Speculating {
        let plain = self.estimates.costs.plain().map_or(0.0, f64::recip);
        let choice = self.text.reported.unwrap_or(Choice::Measure);
        let candidate = choice.candidate();
        Speculating {
            drafter: candidate.map(|candidate| candidate.drafter.or_on_device(self.on_device)),
            lookahead: candidate.map_or(0, |candidate| candidate.lookahead),
            expected_tokens_per_second: plain * candidate.map_or(1.0, |candidate| candidate.speed()),
            plain_tokens_per_second: plain,
            reason: choice.reason(self.on_device),
            rounds: self.text.rounds,
        }
    }

    /// Compares earlier proposals with the text, and collects new ones.
    fn propose(&mut self, tokens: &[u32], room: usize) {
        for proposer in &mut self.text.proposers {
            let origin = proposer.origin();
            let acceptance = self.estimates.acceptance(origin);
            proposer.propose(tokens, room, MAX_LOOKAHEAD, |place, is_right| acceptance.learn_place(place, is_right));
        }
        if self.text.length == 0 {
            let interruption = if self.streams.is_some() { self.estimates.costs.waiting() } else { 0.0 };
            self.budget.plan(room, interruption);
        }
        (self.text.length, self.text.room) = (tokens.len(), room);
    }

    /// Returns the cost until the server streams again after a draft, in target forwards; 0 if none streams.
    fn interruption(&self) -> f64 {
        if self.streams == Some(true) { self.estimates.costs.waiting() } else { 0.0 }
    }

    /// Returns the draft model's offer for a round of at most `most` draft tokens.
    fn offer_of_model(&self, most: usize) -> Option<Offer> {
        let missed = self.text.length.saturating_sub(self.text.draft_model? + READ_PER_STEP);
        // A single draft token never pays for a round trip to a server.
        let most = if self.estimates.is_untried() && self.streams.is_none() { 1 } else { most };
        let candidates = self.estimates.candidates(Origin::DraftModel, most, self.interruption());
        Some(Offer { candidates, reading: self.estimates.costs.reading(missed), credit: 0.0 })
    }

    /// Returns the offer of a CPU drafter for a round of at most `most` draft tokens; `None`: no tokens.
    fn offer_of(&self, proposer: &Proposer, most: usize) -> Option<Offer> {
        let drafter = proposer.origin();
        let credit = (proposer.credit - self.text.waited).max(0.0);
        let candidates = || self.estimates.candidates(drafter, most, self.interruption());
        (most > 0).then(|| Offer { candidates: candidates(), reading: 0.0, credit })
    }

    /// Chooses for a round. `waits`: true if it waits for the previous round; otherwise there are no proposals from the CPU.
    fn choose(&self, waits: bool) -> Choice {
        let most = MAX_LOOKAHEAD.min(self.text.room.saturating_sub(1));
        if most == 0 {
            return Choice::Last;
        }
        if self.estimates.costs.plain().is_none() {
            return Choice::Measure;
        }
        let proposers = self.text.proposers.iter().filter(|_| waits);
        let offers = proposers.filter_map(|one| self.offer_of(one, most.min(one.proposal.len())));
        let offers: Vec<Offer> = self.offer_of_model(most).into_iter().chain(offers).collect();
        decide(&offers, &self.budget, self.estimates.pace(), self.text.room)
    }

    /// Sets the choice for the next round.
    fn set(&mut self, choice: Choice) {
        self.text.choice = Some(choice);
        if !matches!(choice, Choice::Last | Choice::Measure) || self.text.reported.is_none() {
            self.text.reported = Some(choice);
        }
    }

    /// Returns true if a server should continue its stream, even if there is a proposal.
    fn streams_on(&mut self) -> bool {
        self.streams = Some(true);
        let next = self.choose(true);
        if next.candidate().is_some() {
            // Charged even if the token in transit refutes the proposal.
            let interruption = self.interruption();
            self.budget.interrupt(interruption);
            self.estimates.learn_delay(interruption);
        } else if next != Choice::Last {
            self.set(next);
        }
        next.candidate().is_none()
    }

    /// Returns true if proposals gain more than it costs to wait for them in each round.
    fn waits(&self) -> bool {
        let gain = |one: &Proposer| {
            let offer = self.offer_of(one, one.usual);
            offer.map_or(0.0, |offer| offer.gain(self.estimates.pace(), self.budget.drafts + offer.credit))
        };
        let gain = self.text.proposers.iter().map(gain).fold(0.0, f64::max);
        self.estimates.costs.waiting() <= self.estimates.gain_of_waiting(gain)
    }
}

impl Drafter for Adaptive {
    fn draft(&mut self, tokens: &[u32], room: usize) -> Draft {
        self.propose(tokens, room);
        self.text.waits = [self.text.waits[1], false];
        self.streams = self.streams.map(|_| false);
        let choice = self.choose(true);
        self.set(choice);
        let Some(one) = choice.candidate() else { return Draft::Tokens(Vec::new()) };
        match self.text.proposers.iter().find(|proposer| proposer.origin() == one.drafter) {
            Some(proposer) => Draft::Tokens(proposer.proposal.clone()).cut(one.lookahead),
            None => Draft::Model(one.lookahead),
        }
    }

    /// Returns true if the next round can be submitted before this one is read. This saves the wait, but loses the gain of proposals that
    /// depend on this round. So it is done only if waiting costs more.
    fn repeats(&mut self, tokens: &[u32], room: usize) -> bool {
        self.propose(tokens, room);
        let Some(now) = self.text.choice else { return false };
        if self.streams.is_some() {
            return now.candidate().is_none() && self.streams_on();
        }
        if self.text.could_repeat {
            self.estimates.learn_late(self.text.proposers.iter().any(|one| !one.proposal.is_empty()));
        }
        self.text.could_repeat = now.candidate().is_none_or(|one| one.drafter == Origin::DraftModel);
        let may_wait = !self.text.proposers.is_empty() && !self.estimates.costs.wants_pair();
        let waits = self.text.could_repeat && may_wait && self.waits();
        self.text.waits[1] = waits;
        if !self.text.could_repeat || waits {
            return false;
        }
        let next = self.choose(false);
        if now.drafts() != next.drafts() || matches!(next, Choice::Last | Choice::Measure) {
            return false;
        }
        self.set(next);
        // The budget does not include the previous round yet.
        next.candidate().is_none_or(|one| 2.0 * one.loss() <= self.budget.drafts)
    }

    /// Returns the tokens that plain rounds would give in the time of a row.
    fn least_acceptance(&self) -> f64 {
        let drafts = self.text.choice.and_then(|choice| choice.drafts());
        drafts.map_or(0.0, |(_, lookahead)| self.estimates.pace() * self.estimates.costs.row(lookahead))
    }

    fn learn(&mut self, round: &Round) {
        let (drafter, lookahead) = (self.drafter(), round.rows.saturating_sub(1));
        self.text.rounds.count(drafter, lookahead);
        let (cost, timed_plain) = self.estimates.learn(drafter, round);
        if lookahead == 0 && self.text.waits[0] && !round.ahead {
            self.text.waited += self.estimates.costs.waiting();
        }
        let won = (round.accepted + 1) as f64 - cost;
        self.budget.settle(won, cost, timed_plain);
        self.budget.charge_reading(self.estimates.costs.reading(round.caught_up));
        let acceptance = self.estimates.acceptance(Origin::DraftModel);
        if drafter != Origin::DraftModel || lookahead == 0 {
            // It may have read a part of what it missed.
            self.text.draft_model = self.text.draft_model.map(|read| read + round.caught_up);
            return self.retry.learn_idle(acceptance);
        }
        acceptance.learn(round.drafted.min(lookahead), round.accepted);
        self.retry = Retry { idle: 0, won: self.retry.won + won, ..self.retry };
        self.text.draft_model = Some(self.text.length + round.accepted);
    }

    fn origin(&self) -> Origin {
        self.drafter().or_on_device(self.on_device)
    }
}
