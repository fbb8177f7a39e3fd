//! Speculation changes nothing but the number of target forwards, and drafts as transformers does.

mod common;
use common::{Tales, engine, goldens, gpu, path, plain, run};
use foretoken::decode::{Draft, Engine, Target};
use foretoken::options::Schedule;
use foretoken::session::{Sink, rounds};
use foretoken::speculate::{DraftModel, Drafter, Lookahead, NoDrafter, Origin, PromptLookup, Stats};
use foretoken::{KvDtype, Result};
use std::ops::ControlFlow;

/// Collects tokens up to a number.
struct Collect {
    ids: Vec<u32>,
    origins: Vec<Origin>,
    most: usize,
}

impl Sink for Collect {
    fn room(&self) -> usize {
        self.most - self.ids.len()
    }
    fn push(&mut self, id: u32, origin: Origin, last: bool) -> Result<ControlFlow<()>> {
        assert!(self.ids.len() < self.most);
        self.ids.push(id);
        self.origins.push(origin);
        assert!(!last || origin == Origin::Target, "the last token is the target's own");
        Ok(ControlFlow::Continue(()))
    }
}

fn generate(engine: &mut Engine, drafter: &mut impl Drafter, prompt: &[u32], most: usize) -> (Vec<u32>, Stats) {
    engine.truncate(0);
    let ends = engine.target().spec().eos_token_id.clone();
    let mut sink = Collect { ids: Vec::new(), origins: Vec::new(), most };
    let stats = run(rounds(engine, drafter, prompt, &ends, &mut sink)).unwrap();
    assert_eq!(stats.num_emitted_tokens, sink.ids.len());
    assert_eq!(stats.num_emitted_tokens, stats.num_accepted_draft_tokens + stats.num_spec_steps);
    let from_drafter = sink.origins.iter().filter(|origin| **origin != Origin::Target).count();
    assert_eq!(from_drafter, stats.num_accepted_draft_tokens);
    (sink.ids, stats)
}

fn lookup(engine: &Engine, num_tokens: usize, max_ngram: usize) -> PromptLookup {
    PromptLookup { num_tokens, max_ngram, ends: engine.target().spec().eos_token_id.clone() }
}

/// The number of rounds and the drafted and accepted tokens of each are those of transformers.
#[test]
fn rounds_equal_those_of_transformers() {
    let mut engine = engine(&gpu(), &path("models/tales/target"), Some(&path("models/tales/draft")), Tales::capacity());
    for case in Tales::cases() {
        let (ids, _) = generate(&mut engine, &mut NoDrafter, &case.prompt_ids, case.max_new_tokens);
        assert_eq!(ids, case.greedy_ids, "{}", case.prompt);
        for (mode, expected) in &case.modes {
            let schedule = |schedule, start| Lookahead::new(schedule, start);
            let (ids, stats) = match mode.as_str() {
                "assisted_heuristic_5" => {
                    let mut lookahead = schedule(Schedule::Heuristic, 5);
                    generate(&mut engine, &mut DraftModel(&mut lookahead), &case.prompt_ids, case.max_new_tokens)
                }
                "assisted_constant_8" => {
                    let mut lookahead = schedule(Schedule::Constant, 8);
                    generate(&mut engine, &mut DraftModel(&mut lookahead), &case.prompt_ids, case.max_new_tokens)
                }
                "lookup_10_ngram_3" => {
                    let mut lookup = lookup(&engine, 10, 3);
                    generate(&mut engine, &mut lookup, &case.prompt_ids, case.max_new_tokens)
                }
                "lookup_10_ngram_2" => {
                    let mut lookup = lookup(&engine, 10, 2);
                    generate(&mut engine, &mut lookup, &case.prompt_ids, case.max_new_tokens)
                }
                other => panic!("an unknown mode: {other}"),
            };
            assert_eq!(ids, case.greedy_ids, "{mode}: {}", case.prompt);
            assert_eq!(stats.per_step_drafted, expected.drafted, "drafted, {mode}: {}", case.prompt);
            assert_eq!(stats.per_step_accepted, expected.accepted, "accepted, {mode}: {}", case.prompt);
            assert_eq!(stats.num_spec_steps, expected.rounds, "{mode}: {}", case.prompt);
        }
    }
}
