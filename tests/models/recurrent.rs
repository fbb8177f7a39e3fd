//! Recurrent state: a text has the same bits after any rollback, copy or restart, as a target and as a draft model, on every device.

use common::scenario::Scenario;
use common::{capacity, cpu_engine, engine, gpu, path, run, yielding_engine, yields};
use foretoken::internals::backend::Backend;
use foretoken::internals::backend::cpu::CpuBackend;
use foretoken::internals::model::Capacity;
use foretoken::internals::target::{Draft, Target, run_round};
use foretoken::{LookupRule, Schedule};
use std::path::{Path, PathBuf};

/// Goldens with recurrent state.
fn folders() -> Vec<PathBuf> {
    ["lfm2", "lfm3", "qwen3_5", "granite4-hybrid"].map(|name| path("tests/golden/models").join(name)).into()
}

/// Rows of a prefill chunk: so few that most rollbacks need a checkpoint.
const CHUNK: usize = 8;

/// Returns the model as its own draft model, on the GPU and on the CPU.
fn backends(folder: &Path) -> [(&'static str, Box<dyn Backend>); 2] {
    let capacity = Capacity { prefill_chunk: CHUNK, ..capacity() };
    let cpu = cpu_engine(folder, Some(folder), capacity);
    [("GPU", Box::new(engine(&gpu(), folder, Some(folder), capacity))), ("CPU", Box::new(cpu))]
}

/// Calls `check` with each model on each device, and its name.
fn on_each(check: impl Fn(&mut dyn Backend, &str)) {
    for folder in folders() {
        for (device, mut backend) in backends(&folder) {
            check(&mut *backend, &format!("{} on the {device}", folder.file_name().unwrap().display()));
        }
    }
}

/// Returns true if the model keeps states of delta nets, instead of inputs of convolutions.
fn has_states(backend: &dyn Backend) -> bool {
    backend.spec().is_some_and(|spec| spec.layers.iter().any(|layer| layer.delta_net().is_some()))
}

fn text(len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| 3 + i * 29 % 500).collect()
}

/// Returns the bits of the logits after each token of `text`, each computed alone.
fn alone(backend: &mut dyn Backend, text: &[u32]) -> Vec<Vec<u32>> {
    backend.truncate(0);
    bits(backend, text, 1)
}

fn bits(backend: &mut dyn Backend, tokens: &[u32], rows: usize) -> Vec<Vec<u32>> {
    let logits = run(backend.logits(tokens, rows)).unwrap();
    let vocab = logits.len() / tokens.len().max(1);
    logits.chunks(vocab.max(1)).map(|row| row.iter().map(|logit| logit.to_bits()).collect()).collect()
}

#[test]
fn a_text_goes_on_after_a_rollback_to_any_length() {
    on_each(|backend, what| {
        let text = text(200);
        let expected = alone(backend, &text);
        for keep in (0..text.len()).step_by(13).chain([62, 63, 64, 65, 66, 127, 128, 129, 199]) {
            run(backend.prefill(&text[backend.cached().len()..])).unwrap();
            backend.truncate(keep);
            let kept = backend.cached().len();
            if has_states(backend) {
                // A prompt leaves the states before the last tokens of its latest chunks alone.
                let is_end = kept >= text.len() - 2 * CHUNK;
                assert!(kept == 0 || kept <= keep && is_end, "{what}: {kept} of {keep} tokens");
                assert!(kept == keep || keep + 1 < text.len(), "{what}: {kept} of {keep} tokens");
            } else {
                assert!(kept == keep || kept == keep / 64 * 64, "{what}: {kept} of {keep} tokens");
                // The latest chunk can be cut anywhere.
                assert!(kept == keep || text.len() - keep > CHUNK.max(32), "{what}: {kept} of {keep} tokens");
            }
            let again = (keep + 9).min(text.len());
            assert!(bits(backend, &text[kept..again], 5) == expected[kept..again], "{what}: after {keep} tokens");
        }
        run(backend.prefill(&text[backend.cached().len()..])).unwrap();
        run(backend.rewind(70)).unwrap();
        assert_eq!(backend.cached(), &text[..70], "{what}");
        assert!(bits(backend, &text[70..80], 3) == expected[70..80], "{what}");
    });
}

#[test]
fn a_rejected_draft_leaves_no_trace_at_any_depth() {
    on_each(|backend, what| {
        let text = text(160);
        let expected = alone(backend, &text);
        backend.truncate(0);
        let mut position = 0;
        for (round, accepted) in [0, 1, 2, 3, 5, 8, 30, 31, 0, 0, 17, 1, 0, 31].into_iter().enumerate() {
            // The first tokens of the draft are those of the text.
            let mut draft = text[position + 1..][..accepted].to_vec();
            draft.extend((accepted as u32..31 - round as u32 % 3).map(|i| 3 + i * 7 % 500));
            run(run_round(backend, text[position], &Draft::Tokens(draft))).unwrap();
            position += accepted + 1;
            backend.keep(position);
            assert_eq!(backend.cached(), &text[..position], "{what}: round {round}");
        }
        assert!(bits(backend, &text[position..], 4) == expected[position..], "{what}");
    });
}

/// A draft model that is the target drafts what the target chooses, if its state is right.
#[test]
fn a_draft_model_keeps_its_state_too() {
    on_each(|backend, what| {
        let text = text(90);
        run(backend.prefill(&text)).unwrap();
        let mut pending = 7;
        while run(backend.catch_up(pending)).unwrap() > 0 {}
        for round in 0..12 {
            let wrong = (0..round * 5 % 31).map(|i| 3 + i * 11 % 500).collect();
            for draft in [Draft::Tokens(wrong), Draft::Model(1 + round as usize % 5)] {
                let verified = run(run_round(backend, pending, &draft)).unwrap();
                let agreed = verified.draft.iter().zip(&verified.ids).take_while(|(draft, id)| draft == id).count();
                if let Draft::Model(count) = draft {
                    assert_eq!(agreed, count, "{what}: round {round}");
                }
                backend.keep(backend.cached().len() - verified.draft.len() + agreed);
                pending = verified.ids[agreed];
            }
        }
        // Also after a longer rollback.
        backend.truncate(70);
        run(backend.prefill(&text[backend.cached().len()..80])).unwrap();
        let verified = run(run_round(backend, 9, &Draft::Model(6))).unwrap();
        assert_eq!(verified.draft, verified.ids[..6], "{what}");
    });
}

#[test]
fn every_drafter_gives_the_plain_tokens() {
    let gpu = gpu();
    for folder in folders() {
        // Another model of the same vocabulary, so that most drafts are rejected.
        let other = path("tests/golden/models/llama-gqa-tied");
        for (target, draft) in [(&folder, &folder), (&folder, &other), (&other, &folder)] {
            let capacity = Capacity { prefill_chunk: CHUNK, ..capacity() };
            let mut engine = engine(&gpu, target, Some(draft), capacity);
            let prompt = [text(20), text(20)].concat();
            let plain = Scenario::new(&prompt).most(45).run(&mut engine).ids;
            let what = format!("{} drafts for {}", draft.display(), target.display());
            for (count, overlap) in [(1, true), (4, false), (15, true)] {
                let scenario = |overlap| Scenario::new(&prompt).most(45).overlap(overlap);
                let by_model = scenario(overlap).draft_model(Schedule::Constant, count).run(&mut engine);
                by_model.expect_ids(&plain, &what);
                let by_lookup = scenario(!overlap).lookup(count, 3, LookupRule::MostRecent).run(&mut engine);
                by_lookup.expect_ids(&plain, &what);
            }
        }
    }
}

#[test]
fn a_copy_of_a_conversation_goes_on() {
    on_each(|backend, what| {
        let text = text(150);
        let expected = alone(backend, &text);
        run(backend.rewind(140)).unwrap();
        let snapshot = run(backend.snapshot()).unwrap();
        let layers = backend.spec().unwrap().layers.len();
        let saved: Vec<_> = (0..layers).map(|layer| run(backend.read_kv(layer)).unwrap()).collect();
        // Another text, longer than the ring.
        backend.truncate(0);
        run(backend.prefill(&text.iter().rev().copied().cycle().take(300).collect::<Vec<_>>())).unwrap();
        run(backend.restore(&snapshot)).unwrap();
        assert_eq!(backend.cached(), &text[..140], "{what}");
        assert!(bits(backend, &text[140..], 4) == expected[140..], "{what}: snapshot");
        backend.truncate(0);
        run(backend.prefill(&text[..3])).unwrap();
        backend.truncate(0);
        run(backend.reserve(140)).unwrap();
        for (layer, bytes) in saved.iter().enumerate() {
            assert!(backend.write_kv(layer, 140, bytes), "{what}: layer {layer}");
            assert!(!backend.write_kv(layer, 140, &bytes[4..]), "{what}: layer {layer}");
            assert!(backend.write_kv(layer, 140, bytes), "{what}: layer {layer}");
        }
        backend.set_cached(&text[..140], 0);
        if has_states(backend) {
            // So that the last token can be computed again, to check the copy.
            backend.truncate(139);
            assert_eq!(backend.cached().len(), 139, "{what}");
            run(backend.prefill(&text[139..140])).unwrap();
            assert!(run(backend.read_kv(0)).unwrap() == saved[0], "{what}: what is copied again");
        }
        backend.truncate(135);
        let kept = backend.cached().len();
        let checkpoint = if has_states(backend) { 0 } else { 128 };
        assert_eq!(kept, checkpoint, "{what}: a copy has the state before its last token, and that of checkpoints");
        assert!(bits(backend, &text[kept..], 7) == expected[kept..], "{what}: saved");
    });
}

/// It begins to read tokens of another text, in a chunk longer than the rings of recurrent state too, or to verify them.
#[test]
fn a_pass_that_ends_half_way_leaves_no_trace() {
    let attention = ["llama-gqa-tied", "mistral-window"].map(|name| path("tests/golden/models").join(name));
    for folder in folders().into_iter().chain(attention) {
        for chunk in [CHUNK, 160] {
            let mut backend = yielding_engine(&folder, None, Capacity { prefill_chunk: chunk, ..capacity() });
            let (text, other) = (text(230), text(250 + chunk).split_off(250));
            let expected = alone(&mut backend, &text);
            // Tokens that are cached before, the last ones by rounds, and tokens that are forgotten after it.
            for (cached, by_rounds, forgotten) in [(0, 0, 0), (70, 0, 1), (130, 9, 0), (197, 12, 40)] {
                type Way = fn(&mut CpuBackend, &[u32], usize) -> usize;
                let ways: [Way; 3] = [
                    |backend, other, most| yields(backend.prefill(&other[..1]), most),
                    |backend, other, most| yields(backend.prefill(other), most),
                    |backend, other, most| {
                        yields(run_round(backend, other[0], &Draft::Tokens(other[1..CHUNK].to_vec())), most)
                    },
                ];
                for (way, begin) in ways.into_iter().enumerate() {
                    let what = format!("{}, {chunk} rows, {cached} tokens, way {way}", folder.display());
                    let continues = |backend: &mut CpuBackend, most: usize| {
                        backend.truncate(0);
                        run(backend.prefill(&text[..cached - by_rounds])).unwrap();
                        for token in &text[cached - by_rounds..cached] {
                            run(run_round(backend, *token, &Draft::Tokens(Vec::new()))).unwrap();
                        }
                        assert_eq!(backend.cached(), &text[..cached], "{what}");
                        begin(backend, &other, most)
                    };
                    let whole = continues(&mut backend, usize::MAX);
                    assert!(whole > backend.spec().unwrap().layers.len(), "{what}: {whole} steps");
                    for most in [1, whole / 2, whole] {
                        assert_eq!(continues(&mut backend, most), most, "{what}");
                        backend.truncate(cached);
                        let kept = backend.cached().len();
                        assert!(kept == cached || has_states(&backend) && kept + 64 > cached, "{what}: {kept}");
                        backend.truncate(cached - forgotten);
                        let kept = backend.cached().len();
                        let end = cached - forgotten + 12;
                        assert!(bits(&mut backend, &text[kept..end], 5) == expected[kept..end], "{what}: {most} steps");
                    }
                }
            }
        }
    }
}
