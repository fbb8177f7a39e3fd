//! A token's logits and cached keys and values have the same bits, no matter how they were computed (promise P2).

use common::{Tales, capacity, difference, engine, goldens, gpu, gpu_of, gpu_with, kv_words, path, run};
use foretoken::KvDtype;
use foretoken::internals::backend::Backend;
use foretoken::internals::backend::gpu::{GpuBackend, Variants};
use foretoken::internals::gpu::{GpuOptions, Kernel};
use foretoken::internals::model::Capacity;
use foretoken::internals::target::{Draft, Target, run_round};
use std::path::Path;

/// Tokens of the text, past the first block of 256 positions.
const LENGTH: usize = 280;
/// First of the compared positions.
const FIRST: usize = 220;
const BLOCK: usize = 256;

fn tokens(count: usize, vocab: usize) -> Vec<u32> {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    (0..count).map(|_| (next() % (vocab - 3) + 3) as u32).collect()
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|x| x.to_bits()).collect()
}

/// Returns the keys and values of the first `len` positions of every layer that has them, in a fixed order.
fn cache(engine: &GpuBackend, len: usize) -> Vec<u32> {
    let spec = engine.target().spec();
    let capacity = engine.target().capacity();
    let per_word = if capacity.kv_dtype == KvDtype::F16 { 2 } else { 1 };
    let mut all = Vec::new();
    for (layer, spec) in spec.layers.iter().enumerate() {
        let Some(attention) = spec.attention() else { continue };
        let (heads, dim) = (attention.own_kv_heads(), attention.head_dim);
        let words = kv_words(engine, layer);
        for head in 0..heads {
            for position in 0..len {
                for i in (0..dim).step_by(per_word) {
                    let k = (position / BLOCK * 2 * heads + head) * BLOCK * dim
                        + (i / 4 * BLOCK + position % BLOCK) * 4
                        + i % 4;
                    let v = ((position / BLOCK * 2 + 1) * heads + head) * BLOCK * dim + position % BLOCK * dim + i;
                    all.extend([words[k / per_word], words[v / per_word]]);
                }
            }
        }
    }
    all
}

fn check(folder: &Path, capacity: Capacity, row_counts: &[usize]) {
    let mut engine = engine(&gpu(), folder, None, capacity);
    let vocab = engine.target().spec().vocab_size;
    let text = tokens(LENGTH, vocab);
    run(engine.prefill(&text[..FIRST])).unwrap();
    let alone = bits(&run(engine.logits(&text[FIRST..], 1)).unwrap());
    let alone_cache = cache(&engine, LENGTH);
    for &rows in row_counts {
        run(engine.rewind(FIRST)).unwrap();
        let together = bits(&run(engine.logits(&text[FIRST..], rows)).unwrap());
        let what = format!("{} in chunks of {rows}", folder.display());
        for (position, (a, b)) in alone.chunks(vocab).zip(together.chunks(vocab)).enumerate() {
            assert_eq!(a, b, "{what}: logits at position {}", FIRST + position);
        }
        assert_eq!(alone_cache, cache(&engine, LENGTH), "{what}: cache");
    }
    // After rollbacks to either side of a block boundary, in chunks across it, and from the beginning.
    for (keep, rows) in [(255, 5), (256, 3), (257, 16), (240, 32), (270, 1), (1, 64)] {
        run(engine.rewind(keep)).unwrap();
        let again = bits(&run(engine.logits(&text[keep..], rows)).unwrap());
        let (alone, again) = (alone.chunks(vocab).rev(), again.chunks(vocab).rev());
        assert!(alone.zip(again).all(|(a, b)| a == b), "{} kept {keep}, chunks of {rows}", folder.display());
    }
}

#[test]
fn rows_alone_in_batches_and_in_prefill_chunks_give_the_same_bits() {
    let capacity = Capacity { prefill_chunk: LENGTH, ..capacity() };
    for (i, folder) in goldens().into_iter().enumerate() {
        let all: Vec<usize> = (2..=17).chain([33, 64, LENGTH]).collect();
        // Every second model has the same numbers of rows: they need the same kernels.
        let some = [[2, 7, 16, LENGTH], [4, 11, 64, LENGTH]][i % 2];
        check(&folder, capacity, if i == 0 { &all } else { &some });
    }
}

#[test]
fn the_same_holds_with_a_cache_in_f16() {
    let capacity = Capacity { prefill_chunk: LENGTH, kv_dtype: KvDtype::F16, ..capacity() };
    for name in ["llama-gqa-tied", "mistral-window", "qwen3"] {
        check(&path("tests/golden/models").join(name), capacity, &[3, 8, 16, LENGTH]);
    }
}

#[test]
fn the_same_holds_for_the_tales_target() {
    check(&path("models/tales/target"), Tales::capacity(), &[7, 16, 64]);
}

/// GPUs run other kernels than CPUs, with another order of sums, and get nearly the same results.
#[test]
fn the_same_holds_for_what_gpus_run() {
    let capacity = Capacity { prefill_chunk: LENGTH, ..capacity() };
    let folder = path("tests/golden/models/qwen3");
    let [processor, gpu] = [false, true].map(|as_on_gpus| {
        let gpu = gpu_of(&GpuOptions { as_on_gpus, ..GpuOptions::default() });
        let mut engine = engine(&gpu, &folder, None, capacity);
        let text = tokens(LENGTH, engine.target().spec().vocab_size);
        let alone = run(engine.logits(&text, 1)).unwrap();
        for rows in [2, 4, 7, 16, 20, LENGTH] {
            engine.truncate(0);
            assert_eq!(bits(&run(engine.logits(&text, rows)).unwrap()), bits(&alone), "{as_on_gpus}: {rows} rows");
        }
        alone
    });
    let error = difference(&gpu, &processor);
    println!("{error:.1e}");
    assert!(error < 1e-5, "{error:e}");
}

/// Devices that break the promise get fewer kernel variants. Every such set gives the same bits here.
#[test]
fn fewer_kernel_variants_give_the_same_bits() {
    let mut engine = engine(&gpu(), &path("tests/golden/models/qwen3"), None, capacity());
    let text = tokens(LENGTH, engine.target().spec().vocab_size);
    let expected = bits(&run(engine.logits(&text, 64)).unwrap());
    for variants in [Variants::NO_TILES, Variants::ONE] {
        engine.target().use_variants(variants);
        for rows in [1, 5, 16, 64] {
            engine.truncate(0);
            let found = bits(&run(engine.logits(&text, rows)).unwrap());
            assert_eq!(expected, found, "{variants:?}, chunks of {rows}");
        }
    }
}

/// Loading compares the kernels for prefill. Kernels for rounds of a size are compared before the first such round, on a part of the
/// model.
#[test]
fn every_variant_is_compared_before_it_is_first_needed_and_never_again() {
    for (name, max_context) in [("qwen3", 512), ("llama-gqa-tied", 12), ("llama-gqa-tied", 2)] {
        let gpu = gpu_of(&GpuOptions { as_on_gpus: true, ..GpuOptions::default() });
        let capacity = Capacity { max_context, ..capacity() };
        let mut engine = engine(&gpu, &path("tests/golden/models").join(name), None, capacity);
        let before = gpu.counters();
        assert!(before.pipelines <= 12, "{} pipelines for a greedy model", before.pipelines);
        run(engine.check_invariance()).unwrap();
        assert_eq!(gpu.counters().since(&before).submits, 0, "{name}: compared again");
        assert_eq!(engine.target().variants().warning(), None, "this device's variants agree");
        assert!(engine.cached().is_empty());
        if max_context < 100 {
            continue;
        }
        let row = 4 * engine.target().spec().vocab_size.min(1024) as u64;
        for rows in [1, 2, 4, 8, 16, 32] {
            let draft = Draft::Tokens(vec![5; rows - 1]);
            let compares = if [1, 32].contains(&rows) { 0 } else { 2 };
            for compares in [compares, 0] {
                engine.truncate(0);
                let before = gpu.counters();
                assert!(run(engine.ready(&draft)).unwrap());
                let did = gpu.counters().since(&before);
                let expected = (compares, compares, compares * row);
                assert_eq!((did.submits, did.blocking_readbacks, did.readback_bytes), expected, "{rows} rows: {did:?}");
                assert_eq!(did.pipelines > 0, compares > 0, "{rows} rows: {did:?}");
                // A layer and a part of the head, twice.
                assert!(did.dispatches <= 2 * 14, "{did:?}");
            }
            let before = gpu.counters();
            run(run_round(&mut engine, 7, &draft)).unwrap();
            let round = gpu.counters().since(&before);
            assert_eq!((round.submits, round.creates), (1, 0), "{rows} rows: {round:?}");
        }
    }
}

/// A CPU compiles kernels only on loading. Its few variants serve any number of rows.
#[test]
fn no_round_of_a_processor_compiles() {
    let gpu = gpu();
    if !gpu.is_processor() {
        return println!("skipped: this device is no processor");
    }
    let (target, draft) = (path("models/tales/target"), path("models/tales/draft"));
    let mut engine = engine(&gpu, &target, Some(&draft), Tales::capacity());
    run(engine.prefill(&[5; 40])).unwrap();
    // The draft model reads the prompt.
    run(run_round(&mut engine, 5, &Draft::Model(1))).unwrap();
    let before = gpu.counters();
    for count in 0..=15 {
        for draft in [Draft::Tokens(vec![5; count]), Draft::Model(count)] {
            assert!(run(engine.ready(&draft)).unwrap());
            run(run_round(&mut engine, 5, &draft)).unwrap();
        }
    }
    assert_eq!(gpu.counters().since(&before).creates, 0);
    assert_eq!(engine.target().variants().warning(), None);
}

#[test]
fn matrices_split_over_bindings_give_the_same_bits() {
    for name in ["llama-gqa-tied", "mistral-window", "smollm3-nope"] {
        let folder = path("tests/golden/models").join(name);
        let capacity = Capacity { max_context: 128, prefill_chunk: 64, kv_dtype: KvDtype::F16 };
        let logits = |max_binding: u64| {
            let mut engine = engine(&gpu_with(max_binding), &folder, None, capacity);
            let text = tokens(100, engine.target().spec().vocab_size);
            let dispatches = engine.gpu().counters().dispatches;
            let logits = bits(&run(engine.logits(&text, 64)).unwrap());
            (logits, engine.gpu().counters().dispatches - dispatches)
        };
        let (whole, few) = logits(0);
        let (split, many) = logits(64 << 10);
        assert!(many > few, "{name}: a limit of 64 KiB splits nothing: {many} dispatches, {few} before");
        assert_eq!(whole, split, "{name}");
    }
}

#[test]
fn any_course_of_verifying_and_truncating_leaves_the_cache_of_a_fresh_run() {
    for (name, kv_dtype) in
        [("llama-gqa-tied", KvDtype::F32), ("mistral-window", KvDtype::F16), ("qwen3", KvDtype::F32)]
    {
        let folder = path("tests/golden/models").join(name);
        let capacity = Capacity { kv_dtype, ..capacity() };
        let gpu = gpu();
        let mut engine = engine(&gpu, &folder, None, capacity);
        let text = tokens(4000, engine.target().spec().vocab_size);
        let mut noise = text.iter().map(|&token| token as usize);
        for _ in 0..120 {
            let (rows, back, pending) = (noise.next().unwrap(), noise.next().unwrap(), noise.next().unwrap() as u32);
            let draft: Vec<u32> = (0..rows % 20).map(|_| noise.next().unwrap() as u32).collect();
            if engine.cached().len() + draft.len() + 1 > 200 {
                engine.truncate(back % 100);
            }
            run(run_round(&mut engine, pending, &Draft::Tokens(draft))).unwrap();
            let len = engine.cached().len();
            engine.truncate(len - back % 12.min(len));
        }
        let text = engine.cached().to_vec();
        let used = cache(&engine, text.len());
        engine.truncate(0);
        run(engine.prefill(&text)).unwrap();
        assert!(text.len() > 20, "{name}");
        assert_eq!(used, cache(&engine, text.len()), "{name}, {} positions", text.len());
    }
}

/// Index of the tile among the variants.
const TILE: usize = Kernel::ROWS.len();

/// Returns the rows per pass of the variant chosen for `rows` rows; 0: the tile.
fn chosen(variants: Variants, rows: usize) -> u32 {
    Kernel::ROWS.get(variants.choose(rows)).copied().unwrap_or(0)
}

#[test]
fn what_differs_is_not_used() {
    let all = Variants::ALL;
    let expected = [(1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (16, 16), (17, 16), (32, 16), (33, 0), (500, 0)];
    assert_eq!(expected.map(|(rows, _)| (rows, chosen(all, rows))), expected);
    let mut known = Variants::default();
    assert_eq!((known.missing(1), known.missing(4), known.missing(64)), (None, Some(2), Some(TILE)));
    known.learn(2, false);
    assert_eq!((known.missing(4), known.warning()), (None, None));
    // A differing variant is replaced by larger ones, then by smaller ones.
    known.learn(3, true);
    assert_eq!((chosen(known, 4), chosen(known, 7), known.missing(7)), (4, 4, Some(4)));
    known.learn(4, true);
    assert_eq!((chosen(known, 7), chosen(known, 20), known.missing(7)), (4, 4, None));
    assert_eq!((chosen(known, 64), known.missing(64)), (4, Some(TILE)));
    known.learn(TILE, true);
    assert_eq!((chosen(known, 64), known.missing(64)), (4, None));
    assert_eq!((chosen(Variants::NO_TILES, 64), chosen(Variants::NO_TILES, 3)), (16, 4));
    assert_eq!((chosen(Variants::ONE, 64), chosen(Variants::ONE, 3)), (1, 1));
    assert!(Variants::NO_TILES.warning() != known.warning() && known.warning().is_some());
}
