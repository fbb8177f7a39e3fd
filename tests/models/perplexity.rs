//! The perplexity of stored weights is the same on the GPU as on the CPU with the f32 values that they represent.

use common::lab::Random;
use common::reference::Model;
use common::small::Small;
use common::{blueprint_as, capacity, engine_of, gpu, path, rounded, run};
use foretoken::internals::backend::Backend;
use foretoken::internals::model::{Blueprint, parse_config};
use foretoken::internals::sample::softmax;
use foretoken::internals::target::Target;
use foretoken::internals::text::Tokenizer;
use foretoken::internals::weights::{Dtype, Float, widen};
use foretoken::{ArithmeticChoice, KvDtype, WeightDtype};

const TOKENS: usize = 1000;
/// Tokens that are read at once, without earlier context.
const WINDOW: usize = 250;

/// Returns exp of the mean surprise at a text's tokens, from the logits of each window.
fn perplexity(text: &[u32], vocab: usize, mut logits: impl FnMut(&[u32]) -> Vec<f32>) -> f64 {
    let mut nats = Vec::new();
    for window in text.chunks(WINDOW) {
        let logits = logits(window);
        assert_eq!(logits.len(), window.len() * vocab);
        let next = logits.chunks_exact(vocab).zip(&window[1..]);
        nats.extend(next.map(|(row, token)| -f64::from(softmax(row)[*token as usize]).ln()));
    }
    (nats.iter().sum::<f64>() / nats.len() as f64).exp()
}

fn assert_equal(what: &str, gpu: f64, cpu: f64) {
    let off = gpu / cpu - 1.0;
    println!("{what}: {gpu:.4} on the GPU, {cpu:.4} on the CPU, {:+.5} %", 100.0 * off);
    assert!(off.abs() < 1e-3, "{what}: {gpu} instead of {cpu}");
}

/// Includes two of MLX's types: group sizes and scale types are tested on single rows.
#[test]
fn every_stored_type_has_the_perplexity_of_what_it_stands_for() {
    let gpu = gpu();
    let mut random = Random(5);
    let text: Vec<u32> = (0..TOKENS).map(|_| random.bits() as u32 % Small::VOCAB as u32).collect();
    for dtype in Dtype::all() {
        if dtype == Dtype::F32 || matches!(dtype, Dtype::Affine(of) if (of.group_size, of.scales) != (64, Float::F16)) {
            continue;
        }
        let small = small(dtype);
        let mut engine = small.load(&gpu, WeightDtype::Auto).0;
        let on_gpu = perplexity(&text, Small::VOCAB, |window| {
            engine.truncate(0);
            run(engine.logits(window, 64)).unwrap()
        });
        let model = run(Model::load(small.spec.clone(), &small.weights())).unwrap();
        let on_cpu = perplexity(&text, Small::VOCAB, |window| model.logits(window, KvDtype::F32));
        assert_equal(&format!("{dtype:?}"), on_gpu, on_cpu);
    }
}

/// Scales logits to realistic sizes by the last norm, because random weights of some types are large.
fn small(dtype: Dtype) -> Small {
    let mut small = Small::new([dtype; 9]);
    let head = widen(dtype, &small.tensors[8].3);
    let size = (head.iter().map(|x| x * x).sum::<f32>() / head.len() as f32).sqrt();
    let gain = 2.0 / (size * (Small::HIDDEN as f32).sqrt());
    small.tensors.last_mut().unwrap().3 = gain.to_le_bytes().repeat(Small::HIDDEN);
    small
}

/// The tales draft model on a tale that was not in its training data, as stored and quantised on load.
#[test]
fn a_tale_has_the_perplexity_of_the_rounded_weights() {
    let gpu = gpu();
    let folder = path("models/tales/draft");
    let file = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let tokenizer = Tokenizer::from_json("tokenizer.json", &file("tokenizer.json")).unwrap();
    let tale = std::fs::read_to_string(path("models/tales/tale.txt")).unwrap();
    let text = tokenizer.encode(&tale, false).unwrap();
    let spec = parse_config(&file("config.json"), None).unwrap();
    let stored = file("model.safetensors");
    let mut before = 0.0;
    for (wanted, dtype) in
        [(WeightDtype::F16, Dtype::F16), (WeightDtype::Q8, Dtype::Q8_0), (WeightDtype::Q4, Dtype::Q4_1)]
    {
        let mut engine = engine_of(&gpu, blueprint_as(&folder, capacity(), wanted), None);
        let on_gpu = perplexity(&text[..TOKENS], spec.vocab_size, |window| {
            engine.truncate(0);
            run(engine.logits(window, 64)).unwrap()
        });
        let model = run(Model::load(spec.clone(), &rounded(&stored, dtype, |_| false))).unwrap();
        let on_cpu = perplexity(&text[..TOKENS], spec.vocab_size, |window| model.logits(window, KvDtype::F32));
        assert_equal(&format!("{wanted:?}"), on_gpu, on_cpu);
        if wanted != WeightDtype::F16 {
            let (blueprint, weights) = blueprint_as(&folder, capacity(), wanted);
            let blueprint = Blueprint { arithmetic: ArithmeticChoice::Int8, ..blueprint };
            let mut integers = engine_of(&gpu, (blueprint, weights), None);
            let with_integers = perplexity(&text[..TOKENS], spec.vocab_size, |window| {
                integers.truncate(0);
                run(integers.logits(window, 64)).unwrap()
            });
            let off = with_integers / on_gpu - 1.0;
            println!("{wanted:?}: {with_integers:.4} with integers, {:+.3} %", 100.0 * off);
            assert!(off != 0.0 && off.abs() < 5e-3, "{wanted:?}: {with_integers} with integers");
        }
        assert!(on_gpu > before && on_gpu < 100.0, "{wanted:?}: fewer bits know less, but something: {on_gpu}");
        before = on_gpu;
    }
}
