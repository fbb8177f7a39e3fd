//! A text generated in rounds: what is asked for, and what is expected of it.

use crate::run;
use foretoken::internals::session::{Run, Sink, rounds};
use foretoken::internals::speculate::{DraftModel, Drafter, Lookahead, NoDrafter, PromptLookup};
use foretoken::internals::target::{Logprobs, Queue};
use foretoken::{LookupRule, Origin, Result, Schedule, Stats};
use std::fmt::Display;
use std::ops::ControlFlow;

/// A text to generate. By default up to 1000 tokens, without drafts, after a prompt that is read from its beginning.
pub struct Scenario<'a> {
    prompt: &'a [u32],
    proposer: Proposer<'a>,
    most: usize,
    ends: Vec<u32>,
    overlap: bool,
    /// Length to which the cache of the target is cut first. `None`: it stays.
    kept: Option<usize>,
}

/// A drafter, and what it is made of.
enum Proposer<'a> {
    None,
    Model(Schedule, usize),
    Lookup(usize, usize, LookupRule),
    Other(&'a mut dyn Drafter),
}

impl<'a> Scenario<'a> {
    pub fn new(prompt: &'a [u32]) -> Self {
        Self { prompt, proposer: Proposer::None, most: 1000, ends: Vec::new(), overlap: true, kept: Some(0) }
    }

    pub fn drafter(self, drafter: &'a mut dyn Drafter) -> Self {
        Self { proposer: Proposer::Other(drafter), ..self }
    }

    pub fn draft_model(self, schedule: Schedule, count: usize) -> Self {
        Self { proposer: Proposer::Model(schedule, count), ..self }
    }

    pub fn lookup(self, count: usize, max_ngram: usize, rule: LookupRule) -> Self {
        Self { proposer: Proposer::Lookup(count, max_ngram, rule), ..self }
    }

    /// Ends the text after this many tokens.
    pub fn most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Ends the text at one of these tokens.
    pub fn ends(self, ends: &[u32]) -> Self {
        Self { ends: ends.into(), ..self }
    }

    pub fn overlap(self, overlap: bool) -> Self {
        Self { overlap, ..self }
    }

    /// Keeps this many tokens in the cache of the target.
    pub fn keeping(self, kept: usize) -> Self {
        Self { kept: Some(kept), ..self }
    }

    /// Keeps what the target has cached and prepared.
    pub fn keeping_all(self) -> Self {
        Self { kept: None, ..self }
    }

    /// Generates the text. The counts of every text agree with its tokens.
    pub fn run(self, target: &mut dyn Queue) -> Outcome {
        if let Some(kept) = self.kept {
            target.truncate(kept);
        }
        let mut lookahead;
        let (mut none, mut model, mut lookup);
        let drafter: &mut dyn Drafter = match self.proposer {
            Proposer::None => {
                none = NoDrafter;
                &mut none
            }
            Proposer::Model(schedule, count) => {
                lookahead = Lookahead::new(schedule, count);
                model = DraftModel { lookahead: &mut lookahead, origin: Origin::DraftModel };
                &mut model
            }
            Proposer::Lookup(count, max_ngram, rule) => {
                lookup = PromptLookup::new(count, max_ngram, rule, &self.ends);
                &mut lookup
            }
            Proposer::Other(drafter) => drafter,
        };
        let mut text = Run::new(self.prompt);
        text.overlap = self.overlap;
        let mut sink = Collect { tokens: Vec::new(), logprobs: Vec::new(), most: self.most };
        run(rounds(target, drafter, &mut text, &self.ends, &mut sink)).unwrap();
        let (ids, stats) = (sink.tokens.iter().map(|(id, ..)| *id).collect::<Vec<_>>(), text.stats);
        assert_eq!(stats.num_emitted_tokens, ids.len());
        assert_eq!(stats.num_emitted_tokens, stats.num_accepted_draft_tokens + stats.num_spec_steps);
        let from_drafter = sink.tokens.iter().filter(|(_, origin, _)| *origin != Origin::Target).count();
        assert_eq!(from_drafter, stats.num_accepted_draft_tokens);
        Outcome { ids, tokens: sink.tokens, logprobs: sink.logprobs, stats }
    }
}

/// A generated text.
pub struct Outcome {
    pub ids: Vec<u32>,
    /// For each token its origin, and `true` if it is the last of its round.
    pub tokens: Vec<(u32, Origin, bool)>,
    pub logprobs: Vec<Logprobs>,
    pub stats: Stats,
}

impl Outcome {
    #[track_caller]
    pub fn expect_ids(self, ids: &(impl AsRef<[u32]> + ?Sized), what: impl Display) -> Self {
        assert_eq!(self.ids, ids.as_ref(), "{what}");
        self
    }

    #[track_caller]
    pub fn expect_rounds(self, rounds: usize, what: impl Display) -> Self {
        assert_eq!(self.stats.num_spec_steps, rounds, "{what}");
        self
    }

    /// Compares the numbers of drafted and of accepted tokens by round.
    #[track_caller]
    pub fn expect_drafts(self, drafted: &[usize], accepted: &[usize], what: impl Display) -> Self {
        assert_eq!(self.stats.per_step_drafted, drafted, "drafted, {what}");
        assert_eq!(self.stats.per_step_accepted, accepted, "accepted, {what}");
        self
    }
}

/// Collects up to `most` tokens.
struct Collect {
    tokens: Vec<(u32, Origin, bool)>,
    logprobs: Vec<Logprobs>,
    most: usize,
}

impl Sink for Collect {
    fn room(&self) -> usize {
        self.most - self.tokens.len()
    }
    fn push_logprobs(&mut self, logprobs: Logprobs) {
        self.logprobs.push(logprobs);
    }
    fn push(&mut self, id: u32, origin: Origin, last: bool) -> Result<ControlFlow<()>> {
        assert!(self.tokens.len() < self.most);
        assert!(!last || origin == Origin::Target, "the last token is the target's own");
        self.tokens.push((id, origin, last));
        Ok(ControlFlow::Continue(()))
    }
}
