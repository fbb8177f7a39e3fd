//! MTP layers as drafters: their drafts are those of vLLM's arithmetic, on every device.

use common::altered::{overflowing, without};
use common::scenario::Scenario;
use common::{capacity, gpu, gpus, mtp_backends, path, run, tempfile};
use foretoken::internals::backend::{Backend, Device};
use foretoken::internals::model::Capacity;
use foretoken::internals::sample::{Draw, Processors, Sampling};
use foretoken::internals::session::{Progress, Session};
use foretoken::internals::target::{Draft, run_round};
use foretoken::internals::weights::{Folder, InMemory};
use foretoken::{DrafterChoice, GenerateOptions, LoadOptions, Origin, Prompt, ResponseFormat, Schedule, Stats, UseMtp};
use serde_json::{Value, json};
use std::ops::ControlFlow;

const FOLDER: &str = "tests/golden/drafters/qwen35-mtp";

/// A text of the golden: prompt, the target's own tokens, and for each lookahead the accepted tokens of each round.
struct Case {
    prompt: Vec<u32>,
    text: Vec<u32>,
    rounds: Vec<(usize, Vec<usize>)>,
}

fn cases() -> Vec<Case> {
    let file = std::fs::read(path(FOLDER).join("mtp.json")).unwrap();
    let golden: Value = serde_json::from_slice(&file).unwrap();
    let numbers = |value: &Value| -> Vec<usize> {
        value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap() as usize).collect()
    };
    let tokens = |value: &Value| numbers(value).into_iter().map(|id| id as u32).collect();
    let mode = |(name, mode): (&String, &Value)| {
        (name.strip_prefix("mtp_").unwrap().parse().unwrap(), numbers(&mode["accepted"]))
    };
    let case = |case: &Value| Case {
        prompt: tokens(&case["prompt_ids"]),
        text: tokens(&case["greedy_ids"]),
        rounds: case["modes"].as_object().unwrap().iter().map(mode).collect(),
    };
    golden["cases"].as_array().unwrap().iter().map(case).collect()
}

/// Returns a text, and the accepted tokens of each round. The first round is a plain one.
fn write(backend: &mut dyn Backend, case: &Case, lookahead: usize) -> (Vec<u32>, Vec<usize>) {
    let (&last, head) = case.prompt.split_last().unwrap();
    backend.truncate(0);
    run(backend.prefill(head)).unwrap();
    let (mut pending, mut text, mut rounds) = (last, Vec::new(), Vec::new());
    while text.len() < case.text.len() {
        let room = case.text.len() - text.len() - 1;
        let draft = Draft::Model(if rounds.is_empty() { 0 } else { lookahead.min(room) });
        let position = backend.cached().len();
        let verified = run(run_round(backend, pending, &draft)).unwrap();
        assert_eq!(verified.draft.len(), draft.len());
        let accepted = verified.draft.iter().zip(&verified.ids).take_while(|(draft, id)| draft == id).count();
        text.extend(&verified.ids[..=accepted]);
        rounds.push(accepted);
        backend.truncate(position + 1 + accepted);
        pending = verified.ids[accepted];
    }
    (text, rounds)
}

/// A device takes long, so that not all texts are written on each.
#[test]
fn rounds_are_those_of_the_reference() {
    let folder = path(FOLDER);
    let [software, as_on_gpus] = gpus();
    let [on_gpu, on_cpu] = mtp_backends(&software, &folder, capacity());
    let small = Capacity { prefill_chunk: 5, ..capacity() };
    let [in_chunks, cpu_in_chunks] = mtp_backends(&as_on_gpus, &folder, small);
    for (mut backend, part) in [(on_gpu, 0..3), (on_cpu, 0..6), (in_chunks, 4..5), (cpu_in_chunks, 3..6)] {
        for case in &cases()[part] {
            for (lookahead, accepted) in &case.rounds {
                let (text, rounds) = write(&mut *backend, case, *lookahead);
                assert_eq!(text, case.text, "{lookahead} ahead");
                assert_eq!(&rounds, accepted, "{lookahead} ahead on {}", backend.device().name);
            }
        }
    }
}

/// Generates a text with drafts of constant length, and returns it with its statistics.
fn drafted(backend: &mut dyn Backend, prompt: &[u32], lookahead: usize, overlap: bool) -> (Vec<u32>, Stats) {
    let text = Scenario::new(prompt).draft_model(Schedule::Constant, lookahead).most(60).overlap(overlap);
    let outcome = text.run(backend);
    (outcome.ids, outcome.stats)
}

/// A round submitted ahead reads the accepted draft again, with the hidden states of the target: its drafts are those of a round that waits.
#[test]
fn rounds_submitted_ahead_draft_what_others_draft() {
    for gpu in gpus() {
        let [mut backend, _] = mtp_backends(&gpu, &path(FOLDER), capacity());
        for (case, lookahead) in cases().iter().zip([1, 3, 7]) {
            let (text, waiting) = drafted(&mut *backend, &case.prompt, lookahead, false);
            let (same, ahead) = drafted(&mut *backend, &case.prompt, lookahead, true);
            assert_eq!(text, case.text[..60]);
            assert_eq!(same, text);
            assert_eq!(ahead.num_spec_steps, waiting.num_spec_steps);
            assert_eq!(ahead.num_accepted_draft_tokens, waiting.num_accepted_draft_tokens);
        }
    }
}

/// The layer draws with the noise of the positions that its target decides.
#[test]
fn drawn_drafts_are_accepted_as_often_on_every_device() {
    let mut counts = Vec::new();
    for mut backend in mtp_backends(&gpu(), &path(FOLDER), capacity()) {
        let processors = Processors { temperature: 0.7, top_k: 40, ..Processors::default() };
        for draw in [Draw::Coupled, Draw::Rejection] {
            backend
                .sample_by(&Sampling { processors: processors.clone(), draw, seed: 5, ..Sampling::default() })
                .unwrap();
            let plain = Scenario::new(&cases()[1].prompt).most(60).run(&mut *backend).ids;
            let (text, stats) = drafted(&mut *backend, &cases()[1].prompt, 3, true);
            assert!(draw == Draw::Rejection || text == plain);
            counts.push((text, stats.num_accepted_draft_tokens));
        }
    }
    assert!(counts[0].1 > 10, "{} tokens were accepted", counts[0].1);
    assert_eq!(counts[..2], counts[2..]);
}

/// Returns the draft after a text of which the last token is pending.
fn draft(backend: &mut dyn Backend, pending: u32) -> Vec<u32> {
    run(run_round(backend, pending, &Draft::Model(6))).unwrap().draft
}

#[test]
fn hidden_states_are_read_before_they_are_replaced() {
    let case = &cases()[0];
    let [last, rest @ ..] = &case.text[..] else { panic!("an empty text") };
    let text = [&case.prompt[..], &[*last], rest, rest].concat();
    let small = Capacity { prefill_chunk: 32, ..capacity() };
    for mut backend in mtp_backends(&gpu(), &path(FOLDER), small) {
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
        assert_eq!(draft(&mut *backend, 7), expected, "{}", backend.device().name);
        // What was rejected leaves no trace.
        backend.truncate(text.len());
        assert_eq!(draft(&mut *backend, 7), expected);
        backend.truncate(text.len());
        let snapshot = run(backend.snapshot()).unwrap();
        run(backend.rewind(40)).unwrap();
        run(backend.restore(&snapshot)).unwrap();
        assert_eq!(backend.cached(), text);
        assert_eq!(draft(&mut *backend, 7).len(), 6);
    }
}

/// Returns a folder of the target with the tokenizer of the tales.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for from in [path(FOLDER), path("models/tales/target")] {
        for name in ["config.json", "model.safetensors", "tokenizer.json"] {
            let (from, to) = (from.join(name), folder.path().join(name));
            if from.is_file() && !to.exists() {
                std::fs::copy(from, to).unwrap();
            }
        }
    }
    folder
}

#[test]
fn a_session_uses_the_layer_unless_it_is_told_not_to() {
    let (folder, gpu) = (folder(), gpu());
    let files = || Folder::open(folder.path()).unwrap();
    let load = |device: Device, options: &LoadOptions| {
        run(Session::load(device, files(), None::<Folder>, options, &mut |_, _| ()))
    };
    let drafts = GenerateOptions::new()
        .max_new_tokens(40)
        .drafter(DrafterChoice::DraftModel)
        .num_assistant_tokens_schedule(Schedule::Constant);
    let format = json!({ "type": "regex", "regex": "[a-z ,]*" });
    let formed = drafts.clone().response_format(ResponseFormat(format.as_object().unwrap().clone()));
    let prompt = Prompt::Tokens(cases()[2].prompt.clone());
    for device in [Device::from(&gpu), Device::cpu()] {
        let mut plain = load(device.clone(), &LoadOptions::new().use_mtp(UseMtp::No)).unwrap();
        let mut session = load(device, &LoadOptions::new()).unwrap();
        for options in [&drafts, &formed] {
            let mut origins = Vec::new();
            let mut write = |session: &mut Session| {
                let mut on_token = |progress: Progress<'_>| {
                    if let Progress::Token(token) = progress {
                        origins.push(token.origin);
                    }
                    ControlFlow::Continue(())
                };
                run(session.generate(&prompt, options, &mut on_token)).unwrap()
            };
            let found = write(&mut session);
            let expected = write(&mut plain);
            assert_eq!(found.token_ids, expected.token_ids);
            assert!(found.stats.num_accepted_draft_tokens > 0);
            assert!(origins.contains(&Origin::Mtp), "{origins:?}");
        }
    }
    let tales = Folder::open(path("models/tales/target")).unwrap();
    let must = LoadOptions::new().use_mtp(UseMtp::Yes);
    let missing = run(Session::load(&gpu, tales.clone(), None::<Folder>, &must, &mut |_, _| ())).err().unwrap();
    assert!(missing.to_string().contains("has no MTP layer"), "{missing}");
    let both = run(Session::load(&gpu, files(), Some(tales), &must, &mut |_, _| ())).err().unwrap();
    assert!(both.to_string().contains("with an assistant model"), "{both}");
}

/// A layer whose guesses are no numbers, or that is incomplete, costs its drafts and a warning, never the text.
#[test]
fn a_broken_layer_costs_a_warning_and_never_the_text() {
    let folder = folder();
    let options = GenerateOptions::new()
        .max_new_tokens(30)
        .drafter(DrafterChoice::DraftModel)
        .num_assistant_tokens_schedule(Schedule::Constant);
    let prompt = Prompt::Tokens(cases()[2].prompt.clone());
    let overflowing = overflowing(folder.path(), "mtp.layers.0.mlp.down_proj.weight");
    let incomplete = without(folder.path(), "mtp.norm.weight");
    for (source, warning) in [(overflowing, "without the draft model"), (incomplete, "the MTP layer is not used")] {
        for device in [Device::from(&gpu()), Device::cpu()] {
            let load = LoadOptions::new();
            let mut session =
                run(Session::load(device, source.clone(), None::<InMemory>, &load, &mut |_, _| ())).unwrap();
            let found = run(session.generate(&prompt, &options, &mut |_| ControlFlow::Continue(()))).unwrap();
            assert_eq!(found.token_ids, cases()[2].text[..30]);
            let warnings = &found.stats.warnings;
            assert!(warnings.iter().any(|found| found.contains(warning)), "{warnings:?}");
        }
    }
}
