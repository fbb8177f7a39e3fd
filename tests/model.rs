//! Whole models against Hugging Face transformers: logits of every prompt position, greedy ids.

mod common;
use common::{Golden, capacity, engine, goldens, gpu, plain, run};
use foretoken::decode::Target;

/// |logit - reference| <= this * max(1, max |reference|).
const BOUND: f32 = 2e-4;

/// The largest difference, relative to max(1, max |theirs|).
fn difference(ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    let largest = theirs.iter().fold(1f32, |most, x| most.max(x.abs()));
    let worst = ours.iter().zip(theirs).fold(0f32, |worst, (a, b)| {
        assert!(a.is_finite());
        worst.max((a - b).abs())
    });
    worst / largest
}

#[test]
fn logits_and_greedy_ids_equal_transformers() {
    let gpu = gpu();
    for folder in goldens() {
        let golden = Golden::read(&folder);
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let mut engine = engine(&gpu, &folder, None, capacity());
        let prompt = difference(&run(engine.logits(&golden.prompt_ids, 64)).unwrap(), &golden.prompt_logits);
        let ids = plain(&mut engine, &golden.prompt_ids, golden.greedy_ids.len());
        assert_eq!(ids, golden.greedy_ids, "{name}");
        engine.truncate(0);
        let text = [&golden.prompt_ids[..], &golden.greedy_ids[..golden.greedy_ids.len() - 1]].concat();
        let logits = run(engine.logits(&text, 64)).unwrap();
        let vocab = engine.target().spec().vocab_size;
        let greedy = difference(&logits[(golden.prompt_ids.len() - 1) * vocab..], &golden.greedy_logits);
        println!("{name}: prompt logits {prompt:.1e}, greedy logits {greedy:.1e}");
        assert!(prompt <= BOUND && greedy <= BOUND, "{name}: {prompt:e}, {greedy:e}");
    }
}
