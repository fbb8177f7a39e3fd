//! A draft model with another tokenizer, too, changes only the number of target forwards.

use common::foreign::Foreign;
use common::{Tale, Tales, gpu, path, run};
use foretoken::internals::backend::{Backend, Device};
use foretoken::internals::session::{Progress, Session};
use foretoken::internals::target::{Draft, Target, run_round};
use foretoken::internals::text::{Tokenizer, Translator};
use foretoken::internals::weights::Folder;
use foretoken::{
    Acceptance, DeviceChoice, DrafterChoice, Engine, GenerateOptions, Generation, LoadOptions, Origin, Prompt,
    ResponseFormat, Schedule, Speculation, Stats,
};
use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;

/// Merges of the tales tokenizer: all, and few enough that rarer words are split differently.
const ALL: usize = 3_837;
const FEWER: usize = 1_500;

fn load(draft: &Path, max_context: usize) -> foretoken::Result<Session> {
    load_on(&gpu(), draft, max_context)
}

fn load_on(device: impl Into<Device>, draft: &Path, max_context: usize) -> foretoken::Result<Session> {
    let options = LoadOptions::new().max_context(max_context);
    let [target, draft] = [&*path("models/tales/target"), draft].map(|folder| Box::new(Folder::open(folder).unwrap()));
    run(Session::load(device, target, Some(draft), &options, &mut |_, _| ()))
}

fn generate(session: &mut Session, prompt: &[u32], options: &GenerateOptions) -> Generation {
    let mut from_draft = 0;
    let generation = run(session.generate(&Prompt::Tokens(prompt.to_vec()), options, &mut |progress| {
        if let Progress::Token(token) = progress {
            from_draft += usize::from(token.origin == Origin::DraftModel);
        }
        ControlFlow::Continue(())
    }))
    .unwrap();
    let Stats { num_emitted_tokens, num_accepted_draft_tokens, num_spec_steps, .. } = generation.stats;
    assert_eq!(num_emitted_tokens, generation.token_ids.len());
    assert_eq!(num_emitted_tokens, num_accepted_draft_tokens + num_spec_steps);
    assert_eq!(num_accepted_draft_tokens, from_draft);
    generation
}

fn drafting(count: usize, schedule: Schedule, most: usize) -> GenerateOptions {
    GenerateOptions::new().max_new_tokens(most).num_assistant_tokens(count).num_assistant_tokens_schedule(schedule)
}

fn cases(kinds: &[&str]) -> Vec<Tale> {
    let mut cases = Tales::cases();
    cases.retain(|case| case.greedy_ids.len() > 40);
    kinds.iter().map(|kind| cases.remove(cases.iter().position(|case| case.kind == *kind).unwrap())).collect()
}

fn tokenizer(folder: &Path) -> Rc<Tokenizer> {
    let bytes = std::fs::read(folder.join("tokenizer.json")).unwrap();
    Rc::new(Tokenizer::from_json("tokenizer.json", &bytes).unwrap())
}

fn translator(draft: &Path) -> Translator {
    Translator::new(tokenizer(&path("models/tales/target")), tokenizer(draft))
}

/// Verifies drafts that end inside characters of 2, 3 and 4 bytes, after a prompt that the draft model has read.
fn check_inside_characters(engine: &mut impl Target) {
    let prompt = &cases(&["rename"])[0].prompt_ids;
    let (&pending, head) = prompt.split_last().unwrap();
    run(engine.prefill(head)).unwrap();
    while run(engine.catch_up(pending)).unwrap() > 0 {}
    run(run_round(engine, pending, &Draft::Model(4))).unwrap();
    for character in ["é", "日", "😀"] {
        let bytes = tokenizer(&path("models/tales/target")).encode(character, false).unwrap();
        assert!(bytes.len() > 1, "{character}: {bytes:?}");
        for &byte in &bytes[..bytes.len() - 1] {
            engine.truncate(head.len());
            let verified = run(run_round(engine, byte, &Draft::Model(4))).unwrap();
            assert_eq!((verified.draft.len(), verified.ids.len()), (0, 1), "{character}");
            engine.truncate(head.len());
            // The draft model's cache is still complete.
            assert_eq!(run(engine.catch_up(pending)).unwrap(), 0, "{character}");
        }
    }
}

#[test]
fn a_draft_model_on_the_gpu_reads_nothing_again_after_part_of_a_character() {
    let foreign = Foreign::new(ALL);
    let mut engine = common::engine(&gpu(), &path("models/tales/target"), Some(foreign.folder()), Tales::capacity());
    engine.translate_by(Box::new(translator(foreign.folder()))).unwrap();
    check_inside_characters(&mut engine);
}

#[test]
fn a_draft_model_on_the_cpu_reads_nothing_again_after_part_of_a_character() {
    let foreign = Foreign::new(ALL);
    let mut engine = common::cpu_engine(&path("models/tales/target"), Some(foreign.folder()), Tales::capacity());
    engine.translate_by(Box::new(translator(foreign.folder()))).unwrap();
    check_inside_characters(&mut engine);
}

/// These texts once crashed the CPU's engine, and one was slow: they are often inside a character.
#[test]
fn characters_of_several_tokens_are_those_of_the_plain_text_on_every_device() {
    let foreign = Foreign::new(ALL);
    let target = path("models/tales/target").display().to_string();
    let options = |most| GenerateOptions::new().max_new_tokens(most);
    for device in [DeviceChoice::Cpu, DeviceChoice::Webgpu] {
        let load = LoadOptions::new().device(device).max_context(256);
        let draft = foreign.folder().display().to_string();
        let engine = Engine::builder(&target).assistant_model(draft).options(load).load().unwrap();
        let write = |options: GenerateOptions| engine.generate("He said: ", options).wait().unwrap();
        let form = options(60).response_format(ResponseFormat::regex("[日本語あいう]{12}"));
        let biased = options(40).logit_bias([(130, 100.0)]);
        for options in [form, biased] {
            let plain = write(options.clone().speculation(Speculation::Off));
            let drafted =
                write(options.drafter(DrafterChoice::DraftModel).num_assistant_tokens_schedule(Schedule::Constant));
            assert_eq!(drafted.token_ids, plain.token_ids, "{device:?}");
        }
    }
}

/// If only the ids differ, translation costs no acceptance: the rounds equal those of the shared tokenizer.
#[test]
fn other_ids_alone_give_the_same_rounds() {
    let foreign = Foreign::new(ALL);
    for (device, kinds) in [(Device::cpu(), &["open", "retell", "rename"][..]), (Device::from(&gpu()), &["rename"])] {
        let mut session = load_on(device, foreign.folder(), 512).unwrap();
        for case in cases(kinds) {
            let options = drafting(8, Schedule::Constant, case.max_new_tokens);
            let generation = generate(&mut session, &case.prompt_ids, &options);
            assert_eq!(generation.token_ids, case.greedy_ids, "{}", case.prompt);
            let expected = &case.modes["assisted_constant_8"];
            assert_eq!(generation.stats.per_step_accepted, expected.accepted, "{}", case.prompt);
            assert_eq!(generation.stats.per_step_drafted, expected.drafted, "{}", case.prompt);
            assert!(generation.stats.warnings[0].contains("tokenizer"), "{:?}", generation.stats.warnings);
        }
    }
}

#[test]
fn every_lookahead_and_schedule_gives_the_plain_tokens() {
    let foreign = Foreign::new(FEWER);
    let schedules = [Schedule::Constant, Schedule::Heuristic, Schedule::HeuristicTransient];
    let (mut accepted, mut rounds) = (0, 0);
    // A software GPU takes long.
    let devices =
        [(Device::cpu(), &[1, 3, 8, 31][..], &schedules[..]), (Device::from(&gpu()), &[3, 31], &schedules[..1])];
    for (device, counts, schedules) in devices {
        let mut session = load_on(device, foreign.folder(), 512).unwrap();
        for case in cases(&["open", "rename"]) {
            for (count, schedule) in counts.iter().flat_map(|count| schedules.iter().map(move |way| (*count, *way))) {
                let generation = generate(&mut session, &case.prompt_ids, &drafting(count, schedule, 20));
                assert_eq!(generation.token_ids, case.greedy_ids[..20], "{count}, {schedule:?}: {}", case.prompt);
                accepted += generation.stats.num_accepted_draft_tokens;
                rounds += generation.stats.num_spec_steps;
            }
        }
    }
    // 175 in 305 on the CPU when this was written.
    assert!(accepted * 2 > rounds, "{accepted} accepted in {rounds} rounds");
}

/// Noise, biases and penalties belong to the target's ids, so the text equals the plain one here too.
#[test]
fn samples_are_the_plain_ones() {
    let foreign = Foreign::new(FEWER);
    let mut session = load(foreign.folder(), 256).unwrap();
    let case = &cases(&["open"])[0];
    let sampled = drafting(5, Schedule::Constant, 24)
        .do_sample(true)
        .seed(7)
        .temperature(0.7)
        .top_k(50)
        .repetition_penalty(1.2)
        .logit_bias([(1, 3.0), (300, -4.0)])
        .assistant_confidence_threshold(0.1);
    let plain = sampled.clone().speculation(Speculation::Off);
    let expected = generate(&mut session, &case.prompt_ids, &plain).token_ids;
    assert_eq!(generate(&mut session, &case.prompt_ids, &sampled).token_ids, expected);
    // Rejection sampling gives another text; the counts of its rounds are still consistent.
    let rejected = sampled.acceptance(Acceptance::Rejection);
    assert!(generate(&mut session, &case.prompt_ids, &rejected).stats.num_accepted_draft_tokens > 0);

    // A draft that ends when the draft model is uncertain is shorter, and accepted more often.
    let free = generate(&mut session, &case.prompt_ids, &drafting(8, Schedule::Constant, 30)).stats;
    let sure = drafting(8, Schedule::Constant, 30).assistant_confidence_threshold(0.4);
    let sure = generate(&mut session, &case.prompt_ids, &sure).stats;
    assert!(
        sure.num_draft_tokens < free.num_draft_tokens / 2,
        "{} of {}",
        sure.num_draft_tokens,
        free.num_draft_tokens
    );
    assert!(sure.draft_acceptance_rate > free.draft_acceptance_rate);
}

/// The draft model's own positions run out before the target's, because it writes more tokens.
#[test]
fn a_full_context_ends_the_text_at_the_same_token() {
    let foreign = Foreign::new(300);
    let case = &cases(&["open"])[0];
    let room = case.prompt_ids.len() + 30;
    let mut session = load(foreign.folder(), room).unwrap();
    for count in [4, 31] {
        let generation = generate(&mut session, &case.prompt_ids, &drafting(count, Schedule::Constant, 96));
        assert_eq!(generation.token_ids, case.greedy_ids[..31]);
    }
}

#[test]
fn a_text_goes_on_after_the_device_is_lost() {
    let foreign = Foreign::new(FEWER);
    let mut session = load(foreign.folder(), 256).unwrap();
    let case = &cases(&["rename"])[0];
    let gpu = session.engine().gpu().unwrap().clone();
    let mut seen = 0;
    let options = drafting(4, Schedule::Constant, 24);
    let generation = run(session.generate(&Prompt::Tokens(case.prompt_ids.clone()), &options, &mut |_| {
        seen += 1;
        if seen == 8 {
            gpu.destroy();
        }
        ControlFlow::Continue(())
    }))
    .unwrap();
    assert_eq!(generation.token_ids, case.greedy_ids[..24]);
    assert_eq!(generate(&mut session, &case.prompt_ids, &options).token_ids, case.greedy_ids[..24]);
    assert!(!Rc::ptr_eq(session.engine().gpu().unwrap(), &gpu));
}

#[test]
fn a_round_is_two_submissions_and_two_small_readbacks_and_creates_nothing() {
    let gpu = gpu();
    let foreign = Foreign::new(FEWER);
    let mut engine = common::engine(&gpu, &path("models/tales/target"), Some(foreign.folder()), Tales::capacity());
    engine.translate_by(Box::new(translator(foreign.folder()))).unwrap();
    let case = &cases(&["rename"])[0];
    let (&pending, head) = case.prompt_ids.split_last().unwrap();
    run(engine.prefill(head)).unwrap();
    // The draft model reads the prompt in its own submissions, once.
    assert!(run(engine.catch_up(pending)).unwrap() > 0);
    run(run_round(&mut engine, pending, &Draft::Model(1))).unwrap();
    for (draft, times) in
        [(Draft::Model(1), 2), (Draft::Model(9), 2), (Draft::Model(31), 2), (Draft::Tokens(vec![]), 1)]
    {
        // The first round of each size compiles.
        engine.truncate(head.len());
        run(run_round(&mut engine, pending, &draft)).unwrap();
        engine.truncate(head.len());
        let before = gpu.counters();
        let verified = run(run_round(&mut engine, pending, &draft)).unwrap();
        let round = gpu.counters().since(&before);
        assert_eq!((round.submits, round.blocking_readbacks, round.creates), (times, times, 0), "{draft:?}: {round:?}");
        assert!(round.readback_bytes <= 256, "{draft:?}: {round:?}");
        assert_eq!(verified.ids[0], case.greedy_ids[0]);
        assert_eq!(verified.ids.len(), verified.draft.len() + 1);
    }
}

#[test]
fn a_draft_model_whose_tokenizer_has_more_tokens_is_left_out() {
    let foreign = Foreign::new(ALL);
    let file = foreign.folder().join("tokenizer.json");
    let longer = std::fs::read_to_string(&file).unwrap().replace("\"Ġthe\":", "\"Ġtheee\":9999,\"Ġthe\":");
    std::fs::write(&file, longer).unwrap();
    let mut session = load(foreign.folder(), 64).unwrap();
    assert!(session.engine().draft_memory().is_none());
    let warnings = generate(&mut session, &[5, 6], &drafting(4, Schedule::Constant, 2)).stats.warnings;
    let named = foreign.folder().file_name().unwrap().to_str().unwrap();
    assert!(warnings[0].contains(named) && warnings[0].contains("4096"), "{warnings:?}");
}
