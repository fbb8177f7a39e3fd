//! Embeddings and scores: equal to those of Hugging Face transformers, on the GPU and on the CPU, and their effect on a session.

use common::altered::with_tokenizer;
use common::{gpu, path, run};
use foretoken::internals::backend::Device;
use foretoken::internals::session::Session;
use foretoken::internals::weights::{Folder, Source};
use foretoken::{ArithmeticChoice, GenerateOptions, KvDtype, LoadOptions, Pooling, Prompt, Score};
use std::ops::ControlFlow;

#[derive(serde::Deserialize)]
struct Readings {
    models: Vec<Reading>,
}

/// Results of transformers for a prompt with a model of `tests/golden/models` (`tests/golden/readings.py`).
#[derive(serde::Deserialize)]
struct Reading {
    model: String,
    prompt: Vec<u32>,
    mean: Vec<f32>,
    last: Vec<f32>,
    scores: Vec<Likely>,
}

#[derive(serde::Deserialize)]
struct Likely {
    continuation: Vec<u32>,
    logprob: f64,
}

fn load(device: impl Into<Device>, source: impl Source + 'static, options: LoadOptions) -> Session {
    let options = options.arithmetic(ArithmeticChoice::F32).kv_dtype(KvDtype::F32);
    run(Session::load(device, Box::new(source), None, &options, &mut |_, _| ())).unwrap()
}

fn length(vector: &[f32]) -> f32 {
    vector.iter().map(|x| x * x).sum::<f32>().sqrt()
}

#[test]
fn embeddings_and_scores_are_those_of_transformers() {
    let file = std::fs::read(path("tests/golden/readings.json")).unwrap();
    let Readings { models } = serde_json::from_slice(&file).unwrap();
    assert_eq!(models.len(), 13);
    for Reading { model, prompt, mean, last, scores } in models {
        let folder = path("tests/golden/models").join(&model);
        for device in [Device::from(&gpu()), Device::cpu()] {
            // A prompt of several chunks, the last of them incomplete.
            let options = LoadOptions::new().max_context(128).prefill_chunk(10);
            let mut session = load(device.clone(), with_tokenizer(&folder), options);
            let text = Prompt::Tokens(prompt.clone());
            for (pooling, expected) in [(Pooling::Mean, &mean), (Pooling::Last, &last)] {
                let mut embed = |normalize| run(session.embed(&text, pooling, normalize)).unwrap().embedding;
                let (found, unit) = (embed(false), embed(true));
                let worst = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
                assert!(worst <= 1e-4 && found.len() == expected.len(), "{model} {pooling:?}: {worst}");
                let (long, one) = (length(&found), length(&unit));
                assert!((one - 1.0).abs() < 1e-5, "{model} {pooling:?}: a length of {one}");
                assert!(unit.iter().zip(&found).all(|(unit, x)| (unit - x / long).abs() < 1e-6), "{model} {pooling:?}");
            }
            let continuations: Vec<Prompt> =
                scores.iter().map(|likely| Prompt::Tokens(likely.continuation.clone())).collect();
            let found = run(session.score(&text, &continuations)).unwrap();
            for (Score { logprob, num_tokens, .. }, expected) in found.iter().zip(&scores) {
                assert_eq!(*num_tokens, expected.continuation.len(), "{model}");
                let error = (logprob - expected.logprob).abs() / *num_tokens as f64;
                assert!(error < 1e-4, "{model}: {logprob} instead of {} for {num_tokens} tokens", expected.logprob);
            }
        }
    }
}

/// Long enough to be kept in the prompt cache when another text comes.
const BEGINNING: &str =
    "Once upon a time there was a king who had a daughter, and she was so fair that the sun himself wondered";

fn write(session: &mut Session, options: &GenerateOptions) -> foretoken::Generation {
    let prompt = Prompt::Text(BEGINNING.into());
    run(session.generate(&prompt, options, &mut |_| ControlFlow::Continue(()))).unwrap()
}

#[test]
fn a_text_is_likelier_than_another_and_its_score_is_that_of_its_tokens() {
    let tales = || Folder::open(path("models/tales/target")).unwrap();
    for device in [Device::from(&gpu()), Device::cpu()] {
        let mut session = load(device, tales(), LoadOptions::new());
        let options = GenerateOptions::new().max_new_tokens(40).logprobs(true).top_logprobs(2);
        let written = write(&mut session, &options);
        let prompt = Prompt::Text(BEGINNING.into());
        let text = |text: &str| Prompt::Text(text.into());
        let continuations = [Prompt::Tokens(written.token_ids.clone()), text(&written.text), text(" xq zzz")];
        let scores = run(session.score(&prompt, &continuations)).unwrap();
        // The score is the sum over the tokens; each token was chosen as the most likely one.
        let summed: f64 = written.logprobs.iter().map(|token| f64::from(token.logprob)).sum();
        assert!((scores[0].logprob - summed).abs() < 1e-6, "{} and {summed}", scores[0].logprob);
        assert_eq!(scores[0].num_tokens, written.token_ids.len());
        assert!(written.logprobs.iter().all(|token| token.top_logprobs[0].id == token.id && token.logprob <= 0.0));
        let bytes: Vec<u8> = written.logprobs.iter().flat_map(|token| token.bytes.clone()).collect();
        assert!(String::from_utf8_lossy(&bytes).starts_with(&written.text), "{:?}", String::from_utf8_lossy(&bytes));
        // The text has the same tokens, except for an end token.
        assert!((written.token_ids.len() - 1..=written.token_ids.len()).contains(&scores[1].num_tokens));
        assert!(scores[2].logprob / (scores[2].num_tokens as f64) < summed / written.token_ids.len() as f64 - 2.0);
        // The prompt stays cached and texts are unchanged, also after other texts.
        for other in
            ["", "The fox and the wolf went into the forest, and there they met a bear who had lost his honey."]
        {
            if !other.is_empty() {
                let embedded = run(session.embed(&text(other), Pooling::Mean, true)).unwrap();
                assert!(embedded.num_tokens > 16 && session.engine().cached().is_empty());
            }
            let again = write(&mut session, &options);
            assert_eq!((&again.token_ids, &again.logprobs), (&written.token_ids, &written.logprobs));
            assert_eq!(again.stats.num_cached_tokens, again.stats.num_prompt_tokens - 1);
        }
    }
}

#[test]
fn what_cannot_be_read_is_refused() {
    let folder = path("tests/golden/models/llama-gqa-tied");
    let options = LoadOptions::new().max_context(32);
    let mut session = load(&gpu(), with_tokenizer(&folder), options);
    let long = Prompt::Tokens(vec![1; 33]);
    assert_eq!(run(session.embed(&long, Pooling::Mean, true)).unwrap_err().code(), "context-full");
    let short = Prompt::Tokens(vec![1; 30]);
    let behind = |count: usize| [Prompt::Tokens(vec![2; count])];
    assert_eq!(run(session.score(&short, &behind(3))).unwrap_err().code(), "context-full");
    assert_eq!(run(session.score(&short, &[Prompt::Tokens(vec![u32::MAX])])).unwrap_err().code(), "bad-option");
    assert_eq!(run(session.score(&short, &[Prompt::Chat(Vec::new())])).unwrap_err().code(), "bad-option");
    let nothing = run(session.score(&short, &behind(0))).unwrap();
    assert_eq!((nothing[0].logprob, nothing[0].num_tokens), (0.0, 0));
    assert!(run(session.score(&short, &behind(2))).is_ok());
}
