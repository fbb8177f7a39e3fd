//! Several texts: a beginning that they share is read once, and the texts are those of a session that writes each alone.

use common::altered::with_tokenizer;
use common::{gpu, path, run};
use foretoken::internals::backend::Device;
use foretoken::internals::session::Session;
use foretoken::{ArithmeticChoice, GenerateOptions, KvDtype, LoadOptions, Prompt};
use std::ops::ControlFlow;

/// A model of `tests/golden/models`.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// It can be cut anywhere: it has keys and values alone.
    None,
    /// It can be cut at multiples of 64 tokens, and at its latest positions.
    Inputs,
    /// It can be cut before the last token of the latest chunks of a prompt, and at its latest positions.
    States,
}

const MODELS: [(&str, State); 5] = [
    ("llama-gqa-tied", State::None),
    ("lfm2", State::Inputs),
    ("lfm3", State::Inputs),
    ("qwen3_5", State::States),
    ("granite4-hybrid", State::States),
];

/// Tokens of a new text: enough to leave nothing of the prompt's end in the rings of recurrent state.
const NEW: usize = 80;

fn tokens(first: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|at| 3 + (first + at * 29) % 500).collect()
}

fn load(device: &Device, model: &str, budget: u64) -> Session {
    let options = LoadOptions::new().arithmetic(ArithmeticChoice::F32).kv_dtype(KvDtype::F32);
    let options = options.max_context(256).prompt_cache_bytes(budget);
    let source = with_tokenizer(&path("tests/golden/models").join(model));
    run(Session::load(device.clone(), Box::new(source), None, &options, &mut |_, _| ())).unwrap()
}

/// Writes texts after prompts, with seeds from 1 on. Returns them, and the prompt tokens that each read.
fn write(session: &mut Session, prompts: &[Vec<u32>]) -> (Vec<Vec<u32>>, Vec<usize>) {
    let text = |(seed, prompt): (u64, &Vec<u32>)| {
        let options = GenerateOptions::new().do_sample(true).seed(seed).max_new_tokens(NEW).min_new_tokens(NEW);
        let prompt = Prompt::Tokens(prompt.clone());
        let found = run(session.generate(&prompt, &options, &mut |_| ControlFlow::Continue(()))).unwrap();
        (found.token_ids, found.stats.num_prompt_tokens - 1 - found.stats.num_cached_tokens)
    };
    (1..).zip(prompts).map(text).unzip()
}

/// Writes texts with one session, and compares them with those of a session that keeps nothing of other texts.
fn read_counts(device: &Device, model: &str, prompts: &[Vec<u32>]) -> Vec<usize> {
    let (texts, read) = write(&mut load(device, model, 64 << 20), prompts);
    let mut alone = load(device, model, 0);
    // The first text has nothing to share.
    for (seed, (prompt, text)) in prompts.iter().zip(&texts).enumerate().skip(1) {
        alone.engine_mut().truncate(0);
        let options = GenerateOptions::new().do_sample(true).seed(seed as u64 + 1);
        let options = options.max_new_tokens(NEW).min_new_tokens(NEW);
        let prompt = Prompt::Tokens(prompt.clone());
        let found = run(alone.generate(&prompt, &options, &mut |_| ControlFlow::Continue(()))).unwrap();
        assert_eq!(&found.token_ids, text, "{model}, seed {}", seed + 1);
    }
    read
}

/// Checks each model on the CPU, and one of each state on a GPU, which here takes long.
fn on_each_device(check: impl Fn(&Device, &str, State)) {
    let mut on_gpu = MODELS.to_vec();
    on_gpu.dedup_by_key(|(_, state)| *state);
    on_gpu.iter().for_each(|(model, state)| check(&Device::from(&gpu()), model, *state));
    MODELS.iter().for_each(|(model, state)| check(&Device::cpu(), model, *state));
}

#[test]
fn texts_after_one_prompt_read_it_once() {
    on_each_device(|device, model, state| {
        let read = read_counts(device, model, &vec![tokens(7, 115); 4]);
        let expected = match state {
            State::None => [114, 0, 0, 0],
            // After the second reading, a copy of the text has the state of the prompt's end.
            State::Inputs => [114, 114 - 64, 0, 0],
            // The state is that before the last token.
            State::States => [114, 1, 1, 1],
        };
        assert_eq!(read, expected, "{model} on {}", device.info().name);
    });
}

/// The prompts take turns, and a part of them begins in the same way.
#[test]
fn prompts_that_share_a_beginning_read_it_once_in_any_order() {
    let (a, b) = (tokens(7, 120), tokens(250, 90));
    let prompt = |beginning: &[u32], own: u32| [beginning, &tokens(own, 20)].concat();
    let prompts = [
        prompt(&a, 11),
        prompt(&b, 21),
        prompt(&a, 31),
        prompt(&a, 41),
        prompt(&b, 51),
        prompt(&b, 61),
        prompt(&a, 71),
    ];
    on_each_device(|device, model, state| {
        let read = read_counts(device, model, &prompts);
        let (whole, own) = ([139, 109], 19);
        let expected = match state {
            State::None => [whole[0], whole[1], own, own, own, own, own],
            // The second reading of a beginning leaves a copy.
            State::Inputs => [whole[0], whole[1], whole[0] - 64, own, whole[1] - 64, own, own],
            // The state of the latest text is that before the last token of the beginning.
            State::States => [whole[0], whole[1], whole[0], own + 1, whole[1], own + 1, own],
        };
        assert_eq!(read, expected, "{model} on {}", device.info().name);
    });
}
