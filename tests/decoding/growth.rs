//! A KV cache that grows while a text is generated does not change a bit of the text.

use common::scenario::Scenario;
use common::{attention, engine, gpu, kv_words, path, run};
use foretoken::internals::backend::Backend;
use foretoken::internals::backend::gpu::{GpuBackend, RoundBuffers, sampler_bytes};
use foretoken::internals::model::Capacity;
use foretoken::internals::session::Session;
use foretoken::internals::target::{Draft, Queue, Target, run_round};
use foretoken::internals::weights::Folder;
use foretoken::{Acceptance, Error, GenerateOptions, KvDtype, LoadOptions, Prompt, Schedule};
use std::ops::ControlFlow;

/// Initial number of positions.
const FIRST: usize = 1024;

fn small(kv_dtype: KvDtype, draft: bool) -> GpuBackend {
    let folder = path("tests/golden/models/llama-gqa-tied");
    let capacity = Capacity { max_context: 4 * FIRST - 100, prefill_chunk: 64, kv_dtype };
    engine(&gpu(), &folder, draft.then_some(&*folder), capacity)
}

fn tokens(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| i * i % 509).collect()
}

#[test]
fn logits_and_cache_are_those_of_a_cache_that_was_whole_before() {
    let text = tokens(2 * FIRST + 30);
    for kv_dtype in [KvDtype::F32, KvDtype::F16] {
        let mut engine = small(kv_dtype, false);
        // The second time the cache has its full size from the beginning.
        let [grown, whole] = [(); 2].map(|()| {
            engine.truncate(0);
            run(engine.prefill(&text[..FIRST - 1])).unwrap();
            let mut logits = run(engine.logits(&text[FIRST - 1..FIRST + 40], 5)).unwrap();
            run(engine.prefill(&text[FIRST + 40..2 * FIRST - 10])).unwrap();
            logits.extend(run(engine.logits(&text[2 * FIRST - 10..], 40)).unwrap());
            let bits: Vec<u32> = logits.into_iter().map(f32::to_bits).collect();
            (bits, [0, 1, 2].map(|layer| kv_words(&engine, layer)))
        });
        assert!(grown == whole, "{kv_dtype:?}");
    }
}

#[test]
fn room_is_taken_only_when_a_text_needs_it() {
    let mut engine = small(KvDtype::F32, false);
    let memory = engine.target().memory();
    let allocated = |engine: &GpuBackend| engine.gpu().counters().allocated;
    let at_first = allocated(&engine);
    let kv = |positions: usize| 3 * 2 * 4 * attention(engine.target().spec(), 0).kv_width() as u64 * positions as u64;
    let (first, second, most) = (kv(FIRST), kv(2 * FIRST), kv(4 * FIRST));
    assert_eq!(memory.kv, most);
    assert!(at_first < memory.total() - (most - first) + (1 << 20), "{at_first} bytes at first");
    run(engine.prefill(&tokens(FIRST))).unwrap();
    assert_eq!(allocated(&engine), at_first);
    run(engine.prefill(&[7])).unwrap();
    assert!(allocated(&engine) >= at_first + second - first);
    run(engine.prefill(&tokens(2 * FIRST))).unwrap();
    let full = allocated(&engine);
    assert!(full >= at_first + most - first && full <= memory.total() + (1 << 20), "{full} bytes at last");
}

/// Rounds are submitted ahead while the cache grows, plain and with a draft model.
#[test]
fn a_text_is_the_one_that_a_whole_cache_gives() {
    let prompt = tokens(FIRST - 40);
    let mut texts = Vec::new();
    for drafting in [false, true] {
        let mut engine = small(KvDtype::F32, drafting);
        for _ in ["grows", "is whole"] {
            let text = Scenario::new(&prompt).most(80);
            let text = if drafting { text.draft_model(Schedule::Constant, 3) } else { text };
            let before = engine.gpu().counters();
            let found = text.run(&mut engine);
            assert!(engine.gpu().counters().since(&before).ahead > 0, "no round was submitted behind another");
            texts.push(found.ids);
        }
    }
    assert_eq!(texts[0].len(), 80);
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
}

/// Each buffer is created a single time, in target and draft model.
#[test]
fn a_long_prompt_grows_the_cache_once() {
    let text = tokens(2 * FIRST + 30);
    let gpu = gpu();
    let creates = |work: &mut dyn FnMut()| {
        let before = gpu.counters();
        work();
        gpu.counters().since(&before).creates
    };
    let folder = path("tests/golden/models/llama-gqa-tied");
    let capacity = Capacity { max_context: 4 * FIRST - 100, prefill_chunk: 64, kv_dtype: KvDtype::F32 };
    let engines = [(); 2].map(|()| engine(&gpu, &folder, Some(&folder), capacity));
    let [mut engine, mut at_once] = engines;
    let once = creates(&mut || run(at_once.prefill(&text)).unwrap());
    let by_chunks = creates(&mut || drop(Scenario::new(&text).most(1).run(&mut engine)));
    assert!(once > 3);
    assert_eq!(by_chunks, once);
    let drafts = creates(&mut || while run(engine.catch_up(5)).unwrap() > 0 {});
    assert_eq!(drafts, once);
}

/// Commands that were encoded ahead use the new buffers. If memory suffices for some layers only, a growth replaces only those, and a
/// following text is the same.
#[test]
fn a_growth_that_is_refused_in_the_middle_leaves_the_engine_usable() {
    let mut engine = small(KvDtype::F32, false);
    let gpu = engine.gpu().clone();
    let (plain, text) = (Draft::Tokens(Vec::new()), tokens(FIRST + 10));
    run(async {
        engine.prefill(&[5, 6, 7]).await.unwrap();
        engine.submit(9, &plain).await.unwrap();
        engine.prepare(false);
        let expected = engine.finish().await.unwrap();
        // Room for one larger layer in addition to the smaller one.
        gpu.memory.set(Some(gpu.counters().allocated + 2 * engine.target().layers()[0].size()));
        engine.truncate(0);
        let refused = engine.reserve(text.len()).await;
        assert!(matches!(refused, Err(Error::OutOfGpuMemory { .. })), "{refused:?}");
        gpu.memory.set(None);
        engine.prefill(&[5, 6, 7]).await.unwrap();
        assert_eq!(run_round(&mut engine, 9, &plain).await.unwrap(), expected);
    });
}

/// All large buffers of the sampler are planned, and allocated before the first text.
#[test]
fn a_text_that_is_drawn_at_random_needs_no_memory_that_is_not_planned() {
    let gpu = gpu();
    let folder = || Folder::open(path("models/tales/target")).unwrap();
    let load = LoadOptions::new().max_context(256);
    let mut session =
        run(Session::load(&gpu, Box::new(folder()), Some(Box::new(folder())), &load, &mut |_, _| ())).unwrap();
    let planned = session.engine().memory().total() + session.engine().draft_memory().unwrap().total();
    // One list of the sampler.
    let list = 4 * 32 * session.engine().spec().unwrap().vocab_size as u64;
    let loaded = gpu.counters().allocated;
    assert!((planned..planned + list).contains(&loaded), "{loaded} bytes, {planned} planned");
    for (top_p, acceptance) in [(0.9, Acceptance::Coupled), (1.0, Acceptance::Coupled), (0.9, Acceptance::Rejection)] {
        let options =
            GenerateOptions::new().max_new_tokens(8).do_sample(true).seed(1).top_p(top_p).acceptance(acceptance);
        let prompt = Prompt::Text("Once upon a time".into());
        run(session.generate(&prompt, &options, &mut |_| ControlFlow::Continue(()))).unwrap();
        let allocated = gpu.counters().allocated;
        assert!(allocated < loaded + list, "{allocated} bytes, {loaded} after loading");
    }
}

/// The plan includes each buffer of a round that grows with the vocabulary.
#[test]
fn a_larger_vocabulary_needs_no_more_memory_than_planned() {
    let gpu = gpu();
    let capacity = Capacity { max_context: 256, prefill_chunk: 64, kv_dtype: KvDtype::F32 };
    let vocabs = [1 << 14, 1 << 16];
    let allocated = vocabs.map(|vocab| {
        let before = gpu.counters().allocated;
        let _buffers = RoundBuffers::new(&gpu, &capacity, vocab).unwrap();
        gpu.counters().allocated - before
    });
    let planned = vocabs.map(sampler_bytes);
    assert_eq!(allocated[1] - allocated[0], planned[1] - planned[0]);
}
