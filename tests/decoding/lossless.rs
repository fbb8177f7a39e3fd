//! Speculation changes nothing but the number of target forwards, and it drafts as transformers does.

use common::altered::configured;
use common::scenario::{Outcome, Scenario};
use common::{Golden, Tale, Tales, blueprint, capacity, cpu_engine, engine, goldens, gpu, gpus, path, plain, run};
use foretoken::internals::backend::Backend;
use foretoken::internals::backend::gpu::{GpuBackend, Variants};
use foretoken::internals::gpu::Gpu;
use foretoken::internals::model::{Capacity, LayerSpec, NormKind, Residual};
use foretoken::internals::sample::{Bias, Draw, Processors, Sampling};
use foretoken::internals::session::Session;
use foretoken::internals::speculate::{Drafter, Round};
use foretoken::internals::target::{Draft, Queue, Target, run_round};
use foretoken::{GenerateOptions, LoadOptions, LookupRule, Origin, Prompt, Schedule, Speculation};
use serde_json::json;
use std::ops::ControlFlow;
use std::rc::Rc;

/// Returns a text that ends where the model ends it.
fn text<'a>(backend: &dyn Backend, prompt: &'a [u32], most: usize) -> Scenario<'a> {
    Scenario::new(prompt).ends(&backend.spec().unwrap().eos_token_id).most(most)
}

/// Generates cases in these modes.
fn check_rounds(engine: &mut impl Queue, ends: &[u32], modes: &[&str], cases: &[Tale]) {
    for case in cases {
        for mode in modes {
            let text = Scenario::new(&case.prompt_ids).ends(ends).most(case.max_new_tokens);
            let text = match *mode {
                "assisted_heuristic_5" => text.draft_model(Schedule::Heuristic, 5),
                "assisted_constant_8" => text.draft_model(Schedule::Constant, 8),
                "lookup_10_ngram_3" => text.lookup(10, 3, LookupRule::Leftmost),
                "lookup_10_ngram_2" => text.lookup(10, 2, LookupRule::Leftmost),
                other => panic!("an unknown mode: {other}"),
            };
            let (expected, what) = (&case.modes[*mode], format!("{mode}: {}", case.prompt));
            let found = text.run(engine).expect_ids(&case.greedy_ids, &what);
            found.expect_drafts(&expected.drafted, &expected.accepted, &what).expect_rounds(expected.rounds, &what);
        }
    }
}

/// The number of rounds and the drafted and accepted tokens of each equal those of transformers. A software adapter takes long, so the
/// GPU runs only one mode, and a quarter of the cases.
#[test]
fn rounds_equal_those_of_transformers() {
    let [target, draft] = ["models/tales/target", "models/tales/draft"].map(path);
    let mut on_gpu = engine(&gpu(), &target, Some(&draft), Tales::capacity());
    let ends = on_gpu.target().spec().eos_token_id.clone();
    let cases = Tales::cases();
    check_rounds(&mut on_gpu, &ends, &["assisted_heuristic_5"], &cases[..cases.len() / 4]);
    let all: Vec<&str> = cases[0].modes.keys().map(String::as_str).collect();
    assert_eq!(all.len(), 4);
    check_rounds(&mut cpu_engine(&target, Some(&draft), Tales::capacity()), &ends, &all, &cases);
}

const LOOKAHEADS: [usize; 5] = [1, 2, 4, 8, 15];
const SCHEDULES: [Schedule; 3] = [Schedule::Constant, Schedule::Heuristic, Schedule::HeuristicTransient];

/// Proposes the known continuation from some point on; with `shift`, wrong tokens.
struct Prophet {
    text: Vec<u32>,
    shift: u32,
    count: usize,
}

impl Drafter for Prophet {
    fn draft(&mut self, tokens: &[u32], _room: usize) -> Draft {
        let rest = self.text.get(tokens.len()..).unwrap_or_default();
        Draft::Tokens(rest.iter().take(self.count).map(|id| id ^ self.shift).collect())
    }
    fn learn(&mut self, _round: &Round) {}
    fn origin(&self) -> Origin {
        Origin::Lookup
    }
}

/// Ways to draft: with a draft model, and with the lookup.
const WAYS: usize = 6;

/// Makes a text drafted in one of the ways.
fn drafted(text: Scenario<'_>, way: usize, count: usize) -> Scenario<'_> {
    let rules = [(1, LookupRule::Leftmost), (3, LookupRule::Whole), (3, LookupRule::MostRecent)];
    match SCHEDULES.get(way) {
        Some(&schedule) => text.draft_model(schedule, count),
        None => {
            let (ngram, rule) = rules[way - SCHEDULES.len()];
            text.lookup(count, ngram, rule)
        }
    }
}

/// Checks that every drafter, lookahead and schedule gives the tokens of plain decoding. A GPU tries one way for each lookahead: `turn`
/// chooses it.
fn matrix(backend: &mut dyn Backend, prompt: &[u32], most: usize, turn: usize, what: &str) {
    let ends = backend.spec().unwrap().eos_token_id.clone();
    let text = || Scenario::new(prompt).ends(&ends).most(most);
    let expected = text().run(backend).ids;
    for (at, count) in LOOKAHEADS.into_iter().enumerate() {
        for way in 0..WAYS {
            if backend.on_gpu().is_none() || (turn + at) % WAYS == way {
                let what = format!("{what}: way {way}, {count} ahead on {}", backend.device().name);
                drafted(text(), way, count).run(backend).expect_ids(&expected, what);
            }
        }
    }
}

#[test]
fn every_drafter_lookahead_and_schedule_gives_the_plain_tokens_on_the_goldens() {
    let gpu = gpu();
    let draft = path("tests/golden/models/llama-gqa-tied");
    for (turn, folder) in goldens().into_iter().enumerate() {
        // Repeated, so that the lookup finds a match.
        let prompt = [&Golden::read(&folder).prompt_ids[..12]; 2].concat();
        let what = folder.display().to_string();
        matrix(&mut engine(&gpu, &folder, Some(&draft), capacity()), &prompt, 18, turn, &what);
        matrix(&mut cpu_engine(&folder, Some(&draft), capacity()), &prompt, 18, turn, &what);
    }
}

#[test]
fn every_drafter_lookahead_and_schedule_gives_the_plain_tokens_on_the_tales_pair() {
    let cases = Tales::cases();
    let prompts = ["open", "rename"].map(|kind| {
        let case = cases.iter().find(|case| case.kind == kind && case.greedy_ids.len() > 40);
        &case.unwrap().prompt_ids
    });
    let [target, draft] = ["models/tales/target", "models/tales/draft"].map(path);
    let [on_gpu, like_gpu] = gpus().map(|gpu| engine(&gpu, &target, Some(&draft), Tales::capacity()));
    let on_cpu = cpu_engine(&target, Some(&draft), Tales::capacity());
    let backends: [(Box<dyn Backend>, _); 3] =
        [(Box::new(on_gpu), 0..2), (Box::new(like_gpu), 5..6), (Box::new(on_cpu), 0..2)];
    for (mut backend, turns) in backends {
        for turn in turns {
            matrix(&mut *backend, prompts[turn % 2], 16, turn, "tales");
        }
    }
}

/// A device whose driver breaks the promise of equal bits uses the remaining kernel variants.
#[test]
fn the_tokens_are_the_same_whichever_kernel_variants_are_in_use() {
    let tales = path("models/tales");
    let mut engine = engine(&gpu(), &tales.join("target"), Some(&tales.join("draft")), Tales::capacity());
    let case = Tales::cases().into_iter().find(|case| case.kind == "rename" && case.greedy_ids.len() > 40).unwrap();
    for variants in [Variants::NO_TILES, Variants::ONE] {
        engine.target().use_variants(variants);
        let text = || text(&engine, &case.prompt_ids, 20);
        let texts = [text(), text().draft_model(Schedule::Constant, 20), text().lookup(31, 2, LookupRule::Leftmost)];
        for (at, text) in texts.into_iter().enumerate() {
            text.run(&mut engine).expect_ids(&case.greedy_ids[..20], format!("{variants:?}, drafter {at}"));
        }
    }
}

/// transformers ignores such ids, because they are never generated.
#[test]
fn an_end_of_text_beyond_the_vocabulary_changes_nothing() {
    let folder = path("models/tales/draft");
    let options = GenerateOptions::new().max_new_tokens(24).min_new_tokens(20);
    let plain = options.clone().speculation(Speculation::Off);
    let drafted = options.num_assistant_tokens_schedule(Schedule::Constant);
    let generate = |ends: &[u32], options: &GenerateOptions| {
        let source = || configured(&folder, "generation_config.json", "eos_token_id", &json!(ends));
        let load = LoadOptions::new().max_context(128);
        let mut session =
            run(Session::load(&gpu(), Box::new(source()), Some(Box::new(source())), &load, &mut |_, _| ())).unwrap();
        let prompt = Prompt::Text("Once upon a time there was a king.".into());
        run(session.generate(&prompt, options, &mut |_| ControlFlow::Continue(()))).unwrap()
    };
    let expected = generate(&[0, 2], &plain);
    assert_eq!(expected.stats.warnings, Vec::<String>::new());
    // If rows of logits were contiguous, these ids would be the text's own tokens in the next row.
    let beyond: Vec<u32> = [0, 2].into_iter().chain(expected.token_ids.iter().map(|id| 4096 + id)).collect();
    for options in [plain, drafted] {
        let found = generate(&beyond, &options);
        assert_eq!(found.token_ids, expected.token_ids, "{:?}", options.drafting.speculation);
        let says = format!("eos_token_id {} is ignored", beyond[2]);
        assert!(found.stats.warnings.iter().any(|warning| warning.contains(&says)), "{:?}", found.stats.warnings);
    }
}

/// Every golden model drafts for itself and so is never wrong. One engine each, because loading takes longest.
#[test]
fn adversarial_drafters_change_nothing_and_a_round_is_one_submission() {
    let [processor, gpu] = gpus();
    let folders = goldens();
    let all = folders.iter().map(|folder| (&processor, folder)).chain([(&gpu, &folders[0])]);
    for ((gpu, folder), most) in all.zip([7, 24].into_iter().cycle()) {
        let mut engine = engine(gpu, folder, Some(folder), capacity());
        adversarial(&mut engine, folder, most);
        one_submission(&mut engine, folder);
    }
}

/// `most`: tokens of each text whose drafter knows the target's tokens.
fn adversarial(engine: &mut GpuBackend, folder: &std::path::Path, most: usize) {
    let golden = Golden::read(folder);
    let what = folder.display();
    let prompt = &golden.prompt_ids;
    let expected = plain(engine, prompt, 32);
    let ends = engine.target().spec().eos_token_id.clone();
    let cut = |ids: &[u32], most: usize| {
        let end = ids.iter().position(|id| ends.contains(id)).map_or(ids.len(), |end| end + 1);
        ids[..end.min(most)].to_vec()
    };
    for most in [1, 23] {
        // No token ends the text, because a draft may continue after it.
        let itself = Scenario::new(prompt).most(most).draft_model(Schedule::Constant, 5).run(engine);
        let stats = itself.expect_ids(&expected[..most], format!("{what}: itself")).stats;
        assert_eq!(stats.num_accepted_draft_tokens, stats.num_draft_tokens, "{what}: itself");
    }
    let whole = [&prompt[..], &expected[..]].concat();
    for (name, shift, count) in [("always wrong", 1, 6), ("always empty", 0, 0), ("always right", 0, 31)] {
        let mut prophet = Prophet { text: whole.clone(), shift, count };
        let found = text(engine, prompt, most).drafter(&mut prophet).run(engine);
        let Outcome { ids, stats, .. } =
            found.expect_ids(&cut(&expected, most), format!("{what}: {name}, {most} tokens"));
        if shift == 1 {
            assert_eq!(stats.num_accepted_draft_tokens, 0, "{what}: {name}");
        }
        if shift == 0 && count > 0 {
            assert!(stats.num_spec_steps <= 1 + ids.len() / 16, "{what}: {name}");
        }
    }
}

#[test]
fn drafts_past_the_end_of_text_end_with_it() {
    let mut engine = engine(&gpu(), &path("models/tales/target"), None, Tales::capacity());
    let case = Tales::cases().into_iter().find(|case| (10..30).contains(&case.greedy_ids.len())).unwrap();
    let ends = engine.target().spec().eos_token_id.clone();
    assert!(ends.contains(case.greedy_ids.last().unwrap()), "the case ends by itself");
    let longer = [&case.prompt_ids[..], &case.greedy_ids[..], &[7, 8, 9, 10]].concat();
    for count in LOOKAHEADS {
        let mut prophet = Prophet { text: longer.clone(), shift: 0, count };
        let text = text(&engine, &case.prompt_ids, 96).drafter(&mut prophet);
        text.run(&mut engine).expect_ids(&case.greedy_ids, count);
    }
}

/// The context ends in the middle of a draft, for target and draft model, and for a draft model with less room. A GPU first needs the
/// kernels for a draft there.
#[test]
fn a_full_context_ends_the_text_at_the_same_token() {
    gpus().iter().for_each(fill_the_context);
}

fn fill_the_context(gpu: &Rc<Gpu>) {
    let folder = path("tests/golden/models/llama-gqa-tied");
    let golden = Golden::read(&folder);
    let small = |max_context| Capacity { max_context, ..capacity() };
    for (target_room, draft_room) in [(50, 50), (50, 45), (64, 64), (65, 70)] {
        let pair = (blueprint(&folder, small(target_room)), blueprint(&folder, small(draft_room)));
        let mut engine = common::engine_of(gpu, pair.0, Some(pair.1));
        let expected = text(&engine, &golden.prompt_ids, 1000).run(&mut engine).ids;
        assert_eq!(expected.len(), target_room - golden.prompt_ids.len() + 1);
        // The end of the text as a prompt, and drafts that are longer than the remaining room.
        let whole = [&golden.prompt_ids[..], &expected, &[5; 40]].concat();
        for (left, count) in [(2, 1), (2, 31), (3, 31), (5, 31), (9, 31)] {
            let (prompt, rest) = whole[..target_room + 1].split_at(target_room - left);
            let what = format!("{target_room} positions, {left} of them left, {count} draft tokens");
            let mut prophet = Prophet { text: whole.clone(), shift: 0, count };
            let text = text(&engine, prompt, 1000).drafter(&mut prophet);
            let stats = text.run(&mut engine).expect_ids(rest, &what).stats;
            assert!(stats.num_accepted_draft_tokens > 0, "{what}: {stats:?}");
        }
        for count in LOOKAHEADS {
            let what = format!("{target_room} and {draft_room} positions, {count} draft tokens");
            let text = text(&engine, &golden.prompt_ids, 1000).draft_model(Schedule::Constant, count);
            text.run(&mut engine).expect_ids(&expected, what);
        }
    }
}

#[test]
fn a_shared_prefix_is_reused_and_changes_nothing() {
    let mut engine = engine(&gpu(), &path("models/tales/target"), Some(&path("models/tales/draft")), Tales::capacity());
    let case = &Tales::cases()[4];
    let first = text(&engine, &case.prompt_ids, 30).run(&mut engine).ids;
    let longer = [&case.prompt_ids[..], &first[..20], &[17, 300]].concat();
    let fresh = text(&engine, &longer, 20).run(&mut engine).ids;
    for reused in [longer.len() - 1, case.prompt_ids.len(), 1] {
        let text = text(&engine, &longer, 20).draft_model(Schedule::Constant, 4).keeping(reused);
        let stats = text.run(&mut engine).expect_ids(&fresh, reused).stats;
        assert_eq!(stats.num_cached_tokens, reused);
    }
}

/// Checks a round: one submission, one readback of at most 256 bytes, nothing created, 5 dispatches per layer in one block of positions
/// (6 with normalised heads, plus 2 or 4 for norms that matmuls cannot do, plus 5 for experts).
fn one_submission(engine: &mut GpuBackend, folder: &std::path::Path) {
    let gpu = engine.gpu().clone();
    engine.truncate(0);
    run(engine.prefill(&Golden::read(folder).prompt_ids)).unwrap();
    // The draft model reads the prompt in its own submissions, once.
    run(run_round(engine, 5, &Draft::Model(1))).unwrap();
    for draft in [Draft::Model(4), Draft::Model(15), Draft::Tokens(vec![5; 10]), Draft::Tokens(vec![])] {
        let len = engine.cached().len();
        let [first, round] = [(); 2].map(|()| {
            let before = gpu.counters();
            run(run_round(engine, 5, &draft)).unwrap();
            engine.truncate(len);
            gpu.counters().since(&before)
        });
        // Before the first round of its size: pipelines and two staging buffers of a comparison, but nothing on a CPU.
        let most = if gpu.is_processor() { 0 } else { first.pipelines + 2 };
        assert!(first.creates <= most, "{first:?}");
        let what = format!("{} {draft:?}: {round:?}", folder.display());
        assert_eq!((round.submits, round.blocking_readbacks, round.creates), (1, 1, 0), "{what}");
        assert!(round.readback_bytes <= 256, "{what}");
        let spec = engine.target().spec();
        // Within one block of positions nothing is merged.
        let plan = engine.target().plan();
        let has_attention = |layer: &LayerSpec| usize::from(layer.attention().is_some());
        let layers = plan.dispatches().into_iter().zip(&spec.layers);
        let layers: Vec<_> = layers.map(|(count, layer)| count - has_attention(layer)).collect();
        let norms = match (spec.norm, spec.residual) {
            (NormKind::Rms, Residual::PostNorms) => 4,
            (NormKind::Rms, Residual::OnlyPostNorms) => 2,
            (NormKind::Rms, _) => 0,
            (NormKind::Layer, Residual::ParallelOneNorm) => 1,
            (NormKind::Layer, _) => 2,
        };
        // A layer's own input takes a gate, a projection and a norm; the inputs of all layers a projection, a norm and an embedding.
        let inputs = if spec.layer_input_size > 0 { 3 } else { 0 };
        let norms = norms + inputs;
        for (count, layer) in layers.iter().zip(&spec.layers) {
            let more = usize::from(spec.qk_norm.is_some()) + 2 * usize::from(spec.attention_gate.is_some());
            // A delta net takes the recurrence and its gates.
            let gates = usize::from(layer.delta_net().is_some());
            // Experts take a router, their choice, their lists, a sum and a norm. With an MLP too, also two products and three more norms.
            let experts = match (layer.intermediate_size, layer.expert_size) {
                (_, 0) => 0,
                (0, _) => 5,
                // Without norms of its own, a shared MLP takes its two products alone.
                _ if spec.experts.is_some_and(|experts| !experts.with_mlp) => 7,
                _ => 10,
            };
            assert_eq!(*count, 5 + more * has_attention(layer) + gates + experts + norms, "{what}");
        }
        // In addition to the layers: embed, norm, LM head and sampling, in the target and in each draft step.
        let embeds = 1 + usize::from(spec.learned_positions) + usize::from(spec.embedding_norm) + inputs;
        // A matrix of two formats takes two dispatches.
        let sections = blueprint(folder, capacity()).0.sections;
        let more: usize = sections.iter().map(|sections| sections.len() - 1).sum();
        let forward = (layers.iter().sum::<usize>() + embeds + 3 + more) as u64;
        let forwards = if let Draft::Model(steps) = draft { 1 + steps as u64 } else { 1 };
        assert_eq!(round.dispatches, forward * forwards, "{what}");
    }
}

fn ways() -> Vec<(String, Sampling)> {
    let off = Processors::default();
    let mut processors: Vec<Processors> =
        [0.3, 0.7, 1.0, 1.5].map(|temperature| Processors { temperature, ..off.clone() }).into();
    processors.push(Processors { top_k: 40, ..off.clone() });
    processors.push(Processors { top_p: 0.9, ..off.clone() });
    processors.push(Processors { min_p: 0.05, ..off.clone() });
    processors.push(Processors { repetition_penalty: 1.1, ..off.clone() });
    let subtracting = Processors { presence_penalty: 0.9, frequency_penalty: 0.4, prompt_len: 20, ..off.clone() };
    processors.push(Processors { no_repeat_ngram_size: 2, ..subtracting });
    let biases = vec![Bias::ban(7), Bias { after: vec![5], ..Bias::always(6, 3.0) }, Bias::always(9, -1.5)];
    processors.push(Processors { temperature: 0.7, top_k: 40, top_p: 0.9, repetition_penalty: 1.1, biases, ..off });
    let sampled = processors.iter().enumerate().map(|(seed, processors)| Sampling {
        processors: processors.clone(),
        draw: Draw::Coupled,
        seed: seed as u64,
        ..Sampling::default()
    });
    let greedy = processors.last().map(|processors| Sampling { processors: processors.clone(), ..Sampling::default() });
    sampled.chain(greedy).map(|way| (format!("{:?} {:?}", way.draw, way.processors), way)).collect()
}

/// A seed gives the same text for every drafter, lookahead and confidence. They take turns: drafting takes most of the time. A software
/// GPU takes long, so that it tries every fifth way with the large pair.
#[test]
fn every_way_of_sampling_gives_the_plain_tokens() {
    let gpu = gpu();
    let golden = path("tests/golden/models/llama-gqa-tied");
    let twice = [&Golden::read(&golden).prompt_ids[..12]; 2].concat();
    let [target, draft] = ["models/tales/target", "models/tales/draft"].map(path);
    let tale = Tales::cases()[1].prompt_ids.clone();
    let small = engine(&gpu, &golden, Some(&golden), capacity());
    let on_gpu = engine(&gpu, &target, Some(&draft), Tales::capacity());
    let on_cpu = cpu_engine(&target, Some(&draft), Tales::capacity());
    let backends: [(Box<dyn Backend>, _, usize); 3] =
        [(Box::new(small), &twice, 1), (Box::new(on_gpu), &tale, 5), (Box::new(on_cpu), &tale, 1)];
    let mut texts = Vec::new();
    let lookaheads = [(1, Schedule::Constant), (4, Schedule::Heuristic), (15, Schedule::Constant)];
    for (turn, (mut backend, prompt, every)) in backends.into_iter().enumerate() {
        let backend = &mut *backend;
        for (at, (what, way)) in ways().into_iter().enumerate().step_by(every) {
            backend.sample_by(&way).unwrap();
            let expected = text(backend, prompt, 18).run(backend).ids;
            let (count, schedule) = lookaheads[(turn + at) % 3];
            let drafted = text(backend, prompt, 18).draft_model(schedule, count).run(backend);
            drafted.expect_ids(&expected, format!("draft model, {schedule:?} {count}: {what}"));
            if (turn + at).is_multiple_of(2) {
                let found = text(backend, prompt, 18).lookup(count, 2, LookupRule::Leftmost).run(backend);
                found.expect_ids(&expected, format!("lookup of {count}: {what}"));
            } else {
                backend.sample_by(&Sampling { confidence: 0.5, ..way }).unwrap();
                let sure = text(backend, prompt, 18).draft_model(Schedule::Constant, 8).run(backend);
                let stats = sure.expect_ids(&expected, format!("cut by confidence: {what}")).stats;
                let cut = stats.per_step_drafted.iter().any(|&drafted| drafted < 8);
                assert!(cut, "no draft was cut: {what}");
            }
            texts.extend((every == 1).then_some(expected));
        }
    }
    texts.sort();
    texts.dedup();
    assert!(texts.len() >= 13, "{} texts of 22 differ", texts.len());
}

/// Log-probabilities are of the raw logits, unaffected by processors, and have the same bits with every drafter. A software GPU takes long,
/// so that its texts are shorter.
#[test]
fn logprobs_are_the_same_with_drafts_and_without() {
    let [target, draft] = ["models/tales/target", "models/tales/draft"].map(path);
    check_logprobs(&mut engine(&gpu(), &target, Some(&draft), Tales::capacity()), 8);
    check_logprobs(&mut cpu_engine(&target, Some(&draft), Tales::capacity()), 24);
}

/// `most`: tokens of a text.
fn check_logprobs(backend: &mut dyn Backend, most: usize) {
    let prompt = &Tales::cases()[1].prompt_ids;
    let vocab = backend.spec().unwrap().vocab_size;
    let [drawn, .., adjusted] = &ways()[..] else { panic!("few ways") };
    for (what, way) in [drawn, adjusted, &("greedy".into(), Sampling::default())] {
        backend.sample_by(&Sampling { logprobs: Some(5), ..way.clone() }).unwrap();
        let Outcome { ids: expected, logprobs: plain, .. } = text(backend, prompt, most).run(backend);
        assert_eq!(plain.len(), expected.len());
        for count in [4, 15] {
            let text = || text(backend, prompt, most);
            let drafted = text().draft_model(Schedule::Constant, count);
            for text in [drafted, text().lookup(count, 2, LookupRule::Leftmost)] {
                let logprobs = text.run(backend).expect_ids(&expected, format!("{what}: {count}")).logprobs;
                assert_eq!(logprobs.len(), expected.len());
                for (place, (found, expected)) in logprobs.iter().zip(&plain).enumerate() {
                    assert_eq!(
                        (found.chosen, &found.top),
                        (expected.chosen, &expected.top),
                        "{what}: {count}, {place}"
                    );
                }
            }
        }
        // Log-probabilities of the raw logits, whatever the processors did.
        backend.truncate(0);
        let text = [&prompt[..], &expected].concat();
        let logits = run(backend.logits(&text, 64)).unwrap();
        for (place, (told, id)) in plain.iter().zip(&expected).enumerate() {
            let row = &logits[(prompt.len() - 1 + place) * vocab..][..vocab];
            let all = foretoken::internals::sample::log_sum_exp(row);
            assert!((told.chosen - (row[*id as usize] - all)).abs() < 2e-5, "{what}: {place}");
            let likely: Vec<u32> = told.top.iter().map(|(id, _)| *id).collect();
            assert_eq!(likely, foretoken::internals::sample::most_likely(row, 5), "{what}: {place}");
        }
    }
}

/// Drafts with the target's own distribution are all accepted, in both kinds of acceptance.
#[test]
fn the_targets_own_drafts_are_all_accepted_when_sampled() {
    let folder = path("tests/golden/models/llama-gqa-tied");
    let prompt = Golden::read(&folder).prompt_ids;
    let mut engine = engine(&gpu(), &folder, Some(&folder), capacity());
    for draw in [Draw::Coupled, Draw::Rejection] {
        engine.sample_by(&Sampling { draw, seed: 3, ..Sampling::default() }).unwrap();
        let stats = text(&engine, &prompt, 100).draft_model(Schedule::Constant, 6).run(&mut engine).stats;
        // An end of text counts as the target's own.
        assert!(stats.num_accepted_draft_tokens + 1 >= stats.num_draft_tokens, "{draw:?}: {stats:?}");
    }
}

#[test]
fn a_sampled_round_is_one_submission_too() {
    let gpu = gpu();
    let mut engine = engine(&gpu, &path("models/tales/target"), Some(&path("models/tales/draft")), Tales::capacity());
    for (what, way) in ways() {
        for draw in [way.draw, Draw::Rejection] {
            engine.sample_by(&Sampling { draw, ..way.clone() }).unwrap();
            engine.truncate(0);
            run(engine.prefill(&[1, 2, 3])).unwrap();
            run(run_round(&mut engine, 5, &Draft::Model(1))).unwrap();
            for draft in [Draft::Model(15), Draft::Tokens(vec![5; 10]), Draft::Tokens(vec![])] {
                // Kernels may be compiled before the first round of this size.
                run(engine.ready(&draft)).unwrap();
                let before = gpu.counters();
                run(run_round(&mut engine, 5, &draft)).unwrap();
                let round = gpu.counters().since(&before);
                assert_eq!((round.submits, round.blocking_readbacks, round.creates), (1, 1, 0), "{what} {draft:?}");
                assert!(round.readback_bytes <= 256, "{what} {draft:?}");
            }
        }
    }
}

/// Log-probabilities are part of the readback of the ids, and cost nothing if not requested.
#[test]
fn a_round_with_logprobs_is_one_submission_too() {
    let gpu = gpu();
    let mut engine = engine(&gpu, &path("models/tales/target"), Some(&path("models/tales/draft")), Tales::capacity());
    let round = |engine: &mut GpuBackend, draft: &Draft, logprobs: Option<usize>| {
        engine.sample_by(&Sampling { logprobs, ..Sampling::default() }).unwrap();
        engine.truncate(0);
        run(engine.prefill(&[1, 2, 3])).unwrap();
        run(run_round(engine, 5, draft)).unwrap();
        run(engine.ready(draft)).unwrap();
        let before = gpu.counters();
        let verified = run(run_round(engine, 5, draft)).unwrap();
        assert_eq!(verified.logprobs.len(), logprobs.map_or(0, |_| verified.ids.len()));
        assert!(verified.logprobs.iter().all(|row| Some(row.top.len()) == logprobs));
        gpu.counters().since(&before)
    };
    for draft in [Draft::Model(3), Draft::Tokens(vec![5; 31]), Draft::Tokens(vec![])] {
        let rows = draft.len() as u64 + 1;
        let before = round(&mut engine, &draft, None);
        for top in [0, 1, 20] {
            let told = round(&mut engine, &draft, Some(top));
            assert_eq!((told.submits, told.blocking_readbacks, told.creates), (1, 1, 0), "{draft:?}");
            let least = rows * 8 * (1 + top.max(1) as u64);
            assert!((least..least + 256).contains(&told.readback_bytes), "{draft:?}: {told:?}");
            assert_eq!(told.dispatches, before.dispatches + 4, "{draft:?}");
        }
        assert_eq!(round(&mut engine, &draft, None), before, "{draft:?}");
    }
}
