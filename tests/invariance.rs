//! A token's logits and cached keys and values have the same bits however they were computed (promise P2).

mod common;
use common::{Tales, capacity, engine, goldens, gpu, gpu_with, path, run};
use foretoken::KvDtype;
use foretoken::decode::{Capacity, Draft, Engine, Target, Variants};
use foretoken::gpu::Kernel;
use std::path::Path;

/// Past the first and the second block of 64 positions.
const LENGTH: usize = 140;

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

/// Keys and values of the first `len` positions of every layer, in a fixed order.
fn cache(engine: &Engine, len: usize) -> Vec<u32> {
    let spec = engine.target().spec();
    let capacity = engine.target().capacity();
    let per_word = if capacity.kv_dtype == KvDtype::F16 { 2 } else { 1 };
    let (heads, dim) = (spec.num_key_value_heads, spec.head_dim);
    let mut all = Vec::new();
    for layer in 0..spec.layers.len() {
        let words = run(engine.kv_words(layer)).unwrap();
        for head in 0..heads {
            for position in 0..len {
                for i in (0..dim).step_by(per_word) {
                    let k = (position / 64 * 2 * heads + head) * 64 * dim + (i / 4 * 64 + position % 64) * 4 + i % 4;
                    let v = ((position / 64 * 2 + 1) * heads + head) * 64 * dim + position % 64 * dim + i;
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
    let alone = bits(&run(engine.logits(&text, 1)).unwrap());
    let alone_cache = cache(&engine, LENGTH);
    for &rows in row_counts {
        engine.truncate(0);
        let together = bits(&run(engine.logits(&text, rows)).unwrap());
        let what = format!("{} in chunks of {rows}", folder.display());
        for (position, (a, b)) in alone.chunks(vocab).zip(together.chunks(vocab)).enumerate() {
            assert_eq!(a, b, "{what}: logits at position {position}");
        }
        assert_eq!(alone_cache, cache(&engine, LENGTH), "{what}: cache");
    }
    // After rollbacks to either side of a block boundary, and in chunks that straddle it.
    for (keep, rows) in [(63, 5), (64, 3), (65, 16), (127, 2), (130, 1), (1, 64)] {
        engine.truncate(keep);
        let again = bits(&run(engine.logits(&text[keep..], rows)).unwrap());
        assert_eq!(alone[keep * vocab..], again, "{} kept {keep}, chunks of {rows}", folder.display());
    }
}

#[test]
fn rows_alone_in_batches_and_in_prefill_chunks_give_the_same_bits() {
    let capacity = Capacity { prefill_chunk: LENGTH, ..capacity() };
    for (i, folder) in goldens().into_iter().enumerate() {
        let all: Vec<usize> = (2..=17).chain([33, 64, LENGTH]).collect();
        let some = [2, 4, 7, 11, 16, 64, LENGTH];
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

/// Devices that break the promise get fewer kernel variants; each choice gives the same bits here.
#[test]
fn fewer_kernel_variants_give_the_same_bits() {
    let mut engine = engine(&gpu(), &path("tests/golden/models/qwen3"), None, capacity());
    let text = tokens(LENGTH, engine.target().spec().vocab_size);
    let expected = bits(&run(engine.logits(&text, 64)).unwrap());
    for variants in [Variants::NoTiles, Variants::One] {
        engine.target().use_variants(variants);
        for rows in [1, 5, 16, 64] {
            engine.truncate(0);
            let found = bits(&run(engine.logits(&text, rows)).unwrap());
            assert_eq!(expected, found, "{variants:?}, chunks of {rows}");
        }
        let long = Draft::Tokens(text[..31].to_vec());
        engine.truncate(60);
        assert_eq!(run(engine.verify(7, &long)).unwrap().ids.len(), 16, "a round is cut to 16 rows");
    }
}

/// The check on loading runs each kernel variant once behind a common beginning, and reads one row of logits of each.
#[test]
fn the_check_of_the_device_covers_every_variant_and_reads_no_more_than_it_compares() {
    for (name, max_context) in [("qwen3", 256), ("llama-gqa-tied", 12), ("llama-gqa-tied", 2)] {
        let gpu = gpu();
        let capacity = Capacity { max_context, ..capacity() };
        let mut engine = engine(&gpu, &path("tests/golden/models").join(name), None, capacity);
        let before = gpu.counters();
        assert_eq!(run(engine.check_invariance()).unwrap(), Variants::All, "this device's variants agree");
        let did = gpu.counters().since(&before);
        let variants = Kernel::ROWS.len() as u64 + 1;
        let row = 4 * engine.target().spec().vocab_size as u64;
        assert_eq!((did.blocking_readbacks, did.readback_bytes), (variants, variants * row));
        let beginning = u64::from(max_context > 33);
        // The layers, the head, and the copy of each.
        assert_eq!(did.submits, beginning + 3 * variants);
        assert!(engine.cached().is_empty());
    }
}

#[test]
fn matrices_split_over_bindings_give_the_same_bits() {
    for name in ["llama-gqa-tied", "mistral-window", "smollm3-nope"] {
        let folder = path("tests/golden/models").join(name);
        let capacity = Capacity { max_context: 128, prefill_chunk: 32, kv_dtype: KvDtype::F32 };
        let logits = |max_binding: u64| {
            let mut engine = engine(&gpu_with(max_binding), &folder, None, capacity);
            let text = tokens(100, engine.target().spec().vocab_size);
            let dispatches = engine.gpu().counters().dispatches;
            let logits = bits(&run(engine.logits(&text, 32)).unwrap());
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
            run(engine.verify(pending, &Draft::Tokens(draft))).unwrap();
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
