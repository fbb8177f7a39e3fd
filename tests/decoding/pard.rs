//! Draft models that guess several tokens in one pass, in rows that read a mask token.

use common::reference::Model;
use common::scenario::Scenario;
use common::{Tales, blueprint, cpu_engine, engine, gpu, gpus, path, run, tempfile};
use foretoken::internals::backend::Backend;
use foretoken::internals::backend::cpu::CpuBackend;
use foretoken::internals::target::{Draft, Queue, run_round};
use foretoken::{KvDtype, Schedule};
use serde_json::Value;
use std::path::Path;

/// A token that texts do not have.
const MASK: u32 = 4_001;

/// Returns a folder of the draft model of the tales, with a mask token. It was not trained for it, so it often guesses wrong.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let from = path("models/tales/draft");
    let mut config: Value = serde_json::from_slice(&std::fs::read(from.join("config.json")).unwrap()).unwrap();
    config["pard_token"] = MASK.into();
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    std::fs::copy(from.join("model.safetensors"), folder.path().join("model.safetensors")).unwrap();
    folder
}

fn on_cpu(draft: &Path) -> CpuBackend {
    cpu_engine(&path("models/tales/target"), Some(draft), Tales::capacity())
}

/// Returns the tokens that the model guesses after a text.
fn guesses(model: &Model, text: &[u32], count: usize) -> Vec<u32> {
    let masks = vec![MASK; count - 1];
    let logits = model.logits(&[text, &masks].concat(), KvDtype::F32);
    let vocab = logits.len() / (text.len() + masks.len());
    let rows = logits[(text.len() - 1) * vocab..].chunks_exact(vocab);
    let best =
        |row: &[f32]| (0..row.len() as u32).max_by(|a, b| row[*a as usize].total_cmp(&row[*b as usize])).unwrap();
    rows.map(best).collect()
}

#[test]
fn one_pass_guesses_what_the_model_computes_at_its_masks() {
    let folder = folder();
    let (blueprint, weights) = blueprint(folder.path(), Tales::capacity());
    let model = run(Model::load(blueprint.spec, &weights)).unwrap();
    let text = &Tales::cases()[1].prompt_ids;
    let on_gpu = engine(&gpu(), &path("models/tales/target"), Some(folder.path()), Tales::capacity());
    for mut backend in [Box::new(on_gpu) as Box<dyn Backend>, Box::new(on_cpu(folder.path()))] {
        for (len, count) in [(1, 1), (5, 4), (9, 8), (40.min(text.len()), 3), (2, 31)] {
            let text = &text[..len];
            let cached = backend.keep_shared(&text[..len - 1]);
            run(backend.prefill(&text[cached..len - 1])).unwrap();
            let found = run(run_round(&mut *backend, text[len - 1], &Draft::Model(count))).unwrap().draft;
            assert_eq!(found, guesses(&model, text, count), "{count} after {len} on {}", backend.device().name);
            backend.truncate(len);
        }
    }
}

#[test]
fn the_text_is_the_plain_one_and_rounds_submitted_ahead_guess_the_same() {
    let folder = folder();
    let case = &Tales::cases()[1];
    let most = case.greedy_ids.len().min(20);
    let write = |backend: &mut dyn Queue, count: usize, overlap: bool| {
        let text = Scenario::new(&case.prompt_ids).draft_model(Schedule::Constant, count).most(most);
        let outcome = text.overlap(overlap).run(backend);
        assert_eq!(outcome.ids, case.greedy_ids[..most], "{count} ahead");
        (outcome.stats.num_spec_steps, outcome.stats.num_accepted_draft_tokens)
    };
    let mut on_cpu = on_cpu(folder.path());
    for (gpu, counts) in gpus().into_iter().zip([&[1, 16][..], &[4]]) {
        let mut backend = engine(&gpu, &path("models/tales/target"), Some(folder.path()), Tales::capacity());
        for &count in counts {
            let waiting = write(&mut backend, count, false);
            assert!(waiting.1 > 0);
            assert_eq!(write(&mut backend, count, true), waiting, "{count} ahead");
            assert_eq!(write(&mut on_cpu, count, true), waiting, "{count} ahead on the CPU");
        }
    }
}
