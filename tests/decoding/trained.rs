//! Drafters that were trained for a target: their drafts are those of a reference, on every device.

use common::scenario::Scenario;
use common::{capacity, drafter_backends, gpu, gpus, mtp_backends, path, run, yields};
use foretoken::internals::backend::Backend;
use foretoken::internals::gpu::Gpu;
use foretoken::internals::model::Capacity;
use foretoken::internals::sample::{Draw, Processors, Sampling};
use foretoken::internals::target::{Draft, MAX_DRAFT, run_round};
use foretoken::{Schedule, Stats};
use serde_json::Value;
use std::rc::Rc;

/// A text of the golden: prompt, and the target's own tokens.
pub struct Case {
    pub prompt: Vec<u32>,
    pub text: Vec<u32>,
    modes: Vec<Mode>,
}

/// Tokens to draft in a round, and what the reference then did.
struct Mode {
    lookahead: usize,
    /// A draft ends before a token of which the drafter is less certain; 0: never.
    confidence: f32,
    /// Accepted tokens of each round.
    accepted: Vec<usize>,
}

/// A drafter with its golden.
pub struct Kind {
    folder: &'static str,
    file: &'static str,
    /// Start of the names of modes to test.
    prefix: &'static str,
    /// Numbers of tokens to draft in a round, each for a text.
    lookaheads: &'static [usize],
    /// Tokens of a text.
    most: usize,
}

pub const MTP: Kind = Kind {
    folder: "tests/golden/drafters/qwen35-mtp",
    file: "mtp.json",
    prefix: "mtp_",
    lookaheads: &[1, 3, 7],
    most: 30,
};
// Their target takes long on a software GPU.
pub const DFLASH: Kind =
    Kind { folder: "tests/golden/drafters/dflash", file: "dflash.json", prefix: "dflash", lookaheads: &[5], most: 30 };
pub const DSPARK: Kind =
    Kind { folder: "tests/golden/drafters/dspark", file: "dspark.json", prefix: "dspark", ..DFLASH };
pub const GEMMA: Kind =
    Kind { folder: "tests/golden/drafters/gemma4-assistant", file: "assistant.json", prefix: "clean_", ..MTP };
const KINDS: [Kind; 4] = [MTP, DFLASH, DSPARK, GEMMA];

impl Kind {
    /// Reads the texts.
    pub fn cases(&self) -> Vec<Case> {
        let file = std::fs::read(path(self.folder).join(self.file)).unwrap();
        let golden: Value = serde_json::from_slice(&file).unwrap();
        let numbers = |value: &Value| -> Vec<usize> {
            value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap() as usize).collect()
        };
        let tokens = |value: &Value| numbers(value).into_iter().map(|id| id as u32).collect();
        let mode = |(name, mode): (&String, &Value)| {
            let rest = name.strip_prefix(self.prefix)?;
            let confidence = rest.strip_prefix("_confidence_").map_or(0.0, |number| number.parse().unwrap());
            let lookahead = rest.parse().unwrap_or(MAX_DRAFT);
            Some(Mode { lookahead, confidence, accepted: numbers(&mode["accepted"]) })
        };
        let case = |case: &Value| Case {
            prompt: tokens(&case["prompt_ids"]),
            text: tokens(&case["greedy_ids"]),
            modes: case["modes"].as_object().unwrap().iter().filter_map(mode).collect(),
        };
        golden["cases"].as_array().unwrap().iter().map(case).collect()
    }

    /// Generates a text with drafts of constant length, and returns it with its statistics.
    fn drafted(&self, backend: &mut dyn Backend, prompt: &[u32], lookahead: usize, overlap: bool) -> (Vec<u32>, Stats) {
        let text = Scenario::new(prompt).draft_model(Schedule::Constant, lookahead).most(self.most).overlap(overlap);
        let outcome = text.run(backend);
        (outcome.ids, outcome.stats)
    }

    /// Loads target and drafter on a GPU, and on the CPU.
    fn backends(&self, gpu: &Rc<Gpu>, capacity: Capacity) -> [Box<dyn Backend>; 2] {
        let folder = path(self.folder);
        match self.file {
            "mtp.json" => mtp_backends(gpu, &folder, capacity),
            "assistant.json" => drafter_backends(gpu, [&folder.join("target"), &folder.join("assistant")], capacity),
            _ => drafter_backends(gpu, [&path("models/tales/target"), &folder], capacity),
        }
    }
}

/// Returns a text of at most `most` rounds, and the accepted tokens of each. The first round is a plain one.
fn write(backend: &mut dyn Backend, case: &Case, lookahead: usize, most: usize) -> (Vec<u32>, Vec<usize>) {
    let (&last, head) = case.prompt.split_last().unwrap();
    backend.truncate(0);
    run(backend.prefill(head)).unwrap();
    let (mut pending, mut text, mut rounds) = (last, Vec::new(), Vec::new());
    while text.len() < case.text.len() && rounds.len() < most {
        let room = case.text.len() - text.len() - 1;
        let draft = Draft::Model(if rounds.is_empty() { 0 } else { lookahead.min(room) });
        let position = backend.cached().len();
        let verified = run(run_round(backend, pending, &draft)).unwrap();
        let accepted = verified.draft.iter().zip(&verified.ids).take_while(|(draft, id)| draft == id).count();
        text.extend(&verified.ids[..=accepted]);
        rounds.push(accepted);
        backend.truncate(position + 1 + accepted);
        pending = verified.ids[accepted];
    }
    (text, rounds)
}

/// A software GPU takes long, so that it writes the start of few texts.
fn rounds_are_those_of_the_reference(kind: &Kind) {
    let [software, as_on_gpus] = gpus();
    let [on_gpu, on_cpu] = kind.backends(&software, capacity());
    let small = Capacity { prefill_chunk: 5, ..capacity() };
    let [in_chunks, cpu_in_chunks] = kind.backends(&as_on_gpus, small);
    for (mut backend, part) in [(on_gpu, 0..1), (on_cpu, 0..6), (in_chunks, 4..5), (cpu_in_chunks, 3..6)] {
        for case in &kind.cases()[part] {
            for Mode { lookahead, confidence, accepted } in &case.modes {
                backend.sample_by(&Sampling { confidence: *confidence, ..Sampling::default() }).unwrap();
                let most = if backend.on_gpu().is_some() { 8 } else { accepted.len() };
                let (text, rounds) = write(&mut *backend, case, *lookahead, most);
                assert_eq!(text, case.text[..text.len()], "{lookahead} ahead");
                assert_eq!(
                    rounds,
                    accepted[..most.min(accepted.len())],
                    "{lookahead} ahead on {}",
                    backend.device().name
                );
            }
        }
    }
}

#[test]
fn rounds_of_an_mtp_layer_are_those_of_the_reference() {
    rounds_are_those_of_the_reference(&MTP);
}

#[test]
fn rounds_of_dflash_are_those_of_the_reference() {
    rounds_are_those_of_the_reference(&DFLASH);
}

#[test]
fn rounds_of_dspark_are_those_of_the_reference() {
    rounds_are_those_of_the_reference(&DSPARK);
}

#[test]
fn rounds_of_an_assistant_of_gemma_are_those_of_the_reference() {
    rounds_are_those_of_the_reference(&GEMMA);
}

/// A round submitted ahead reads hidden states of its target that only the device knows: its drafts are those of a round that waits.
#[test]
fn rounds_submitted_ahead_draft_what_others_draft() {
    for kind in &KINDS {
        let [mut backend, _] = kind.backends(&gpu(), capacity());
        for (case, lookahead) in kind.cases().iter().skip(2).zip(kind.lookaheads) {
            let (text, waiting) = kind.drafted(&mut *backend, &case.prompt, *lookahead, false);
            let (same, ahead) = kind.drafted(&mut *backend, &case.prompt, *lookahead, true);
            assert_eq!(text, case.text[..case.text.len().min(kind.most)]);
            assert_eq!(same, text);
            assert_eq!(ahead.num_spec_steps, waiting.num_spec_steps);
            assert_eq!(ahead.num_accepted_draft_tokens, waiting.num_accepted_draft_tokens);
        }
    }
}

/// The drafter draws with the noise of the positions that its target decides.
#[test]
fn drawn_drafts_are_accepted_as_often_on_every_device() {
    for kind in &KINDS {
        let (mut counts, prompt) = (Vec::new(), &kind.cases()[3].prompt);
        for mut backend in kind.backends(&gpu(), capacity()) {
            let processors = Processors { temperature: 0.7, top_k: 40, ..Processors::default() };
            for draw in [Draw::Coupled, Draw::Rejection] {
                backend
                    .sample_by(&Sampling { processors: processors.clone(), draw, seed: 5, ..Sampling::default() })
                    .unwrap();
                let plain = Scenario::new(prompt).most(kind.most).run(&mut *backend).ids;
                let (text, stats) = kind.drafted(&mut *backend, prompt, 3, true);
                assert!(draw == Draw::Rejection || text == plain);
                counts.push((text, stats.num_accepted_draft_tokens));
            }
        }
        assert!(counts[0].1 > 2, "{} tokens of {} were accepted", counts[0].1, kind.folder);
        assert_eq!(counts[..2], counts[2..]);
    }
}

/// Near the end of the context a block has no room, and single steps have less and less.
#[test]
fn a_full_context_ends_the_text_at_the_same_token() {
    for kind in &KINDS {
        let prompt = &kind.cases()[0].prompt;
        let max_context = prompt.len() + 16;
        for mut backend in kind.backends(&gpu(), Capacity { max_context, ..capacity() }) {
            let plain = Scenario::new(prompt).run(&mut *backend).ids;
            assert!((15..=17).contains(&plain.len()), "{}", plain.len());
            for overlap in [false, true] {
                let text = Scenario::new(prompt).draft_model(Schedule::Constant, 7).overlap(overlap);
                assert_eq!(text.run(&mut *backend).ids, plain, "{} on {}", kind.folder, backend.device().name);
            }
        }
    }
}

fn is_cpu(backend: &dyn Backend) -> bool {
    backend.device().backend == "Cpu"
}

/// Returns the draft after a text of which the last token is pending.
fn draft(backend: &mut dyn Backend, pending: u32) -> Vec<u32> {
    run(run_round(backend, pending, &Draft::Model(6))).unwrap().draft
}

/// On the CPU a draft has fewer rows then. On a GPU the rows of a round are fixed when it is submitted.
#[test]
fn a_draft_ends_where_a_token_is_accepted_less_likely_than_it_costs() {
    let [case, ..] = &DSPARK.cases()[..] else { panic!("no case") };
    let drafts = |backend: &mut dyn Backend, least: f64| {
        backend.truncate(0);
        run(backend.prefill(&case.prompt)).unwrap();
        backend.end_drafts_below(least);
        draft(backend, case.text[0])
    };
    for mut backend in DSPARK.backends(&gpu(), capacity()) {
        let whole = drafts(&mut *backend, 0.0);
        assert_eq!(whole.len(), 6);
        let mut lengths = Vec::new();
        for least in [1e-6, 0.3, 0.6, 0.9, 1.1] {
            let cut = drafts(&mut *backend, least);
            assert!(whole.starts_with(&cut), "{cut:?} of {whole:?}");
            lengths.push(cut.len());
        }
        assert!(lengths.is_sorted_by(|a, b| a >= b), "{lengths:?}");
        assert_eq!(lengths[4], if is_cpu(&*backend) { 1 } else { 6 });
        assert!(lengths[0] > 3, "{lengths:?}");
    }
}

#[test]
fn hidden_states_are_read_before_they_are_replaced() {
    for kind in &KINDS {
        let case = &kind.cases()[0];
        let [last, rest @ ..] = &case.text[..] else { panic!("an empty text") };
        let mut text = [&case.prompt[..], &[*last], rest].concat();
        text.truncate(90);
        let small = Capacity { prefill_chunk: 32, ..capacity() };
        for mut backend in kind.backends(&gpu(), small) {
            run(backend.prefill(&text)).unwrap();
            let expected = draft(&mut *backend, 7);
            assert_eq!(expected.len(), 6);
            backend.truncate(0);
            // Rounds without drafts, more than the places of the ring.
            for &token in &text {
                let position = backend.cached().len();
                run(run_round(&mut *backend, token, &Draft::Tokens(vec![3, 4]))).unwrap();
                backend.truncate(position + 1);
            }
            assert_eq!(draft(&mut *backend, 7), expected, "{} on {}", kind.folder, backend.device().name);
            // What was rejected leaves no trace.
            backend.truncate(text.len());
            assert_eq!(draft(&mut *backend, 7), expected);
            backend.truncate(text.len());
            // Nor does a round that ends half way.
            for most in if is_cpu(&*backend) { &[1, 9, 25][..] } else { &[] } {
                assert_eq!(yields(run_round(&mut *backend, 9, &Draft::Model(6)), *most), *most);
                backend.truncate(text.len());
                assert_eq!(draft(&mut *backend, 7), expected, "{} after {most} steps", kind.folder);
                backend.truncate(text.len());
            }
            let snapshot = run(backend.snapshot()).unwrap();
            run(backend.rewind(20)).unwrap();
            run(backend.restore(&snapshot)).unwrap();
            assert_eq!(backend.cached(), text);
            assert_eq!(draft(&mut *backend, 7).len(), 6);
        }
    }
}
