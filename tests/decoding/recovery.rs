//! After a lost device the models are loaded again, and the text continues and is the same.

use async_trait::async_trait;
use common::altered::overflowing;
use common::foreign::Foreign;
use common::{gpu, path, run};
use foretoken::internals::backend::gpu::RoundBuffers;
use foretoken::internals::gpu::{DeviceFailure, Gpu};
use foretoken::internals::load::ModelFiles;
use foretoken::internals::model::Blueprint;
use foretoken::internals::session::{Progress, Session, other_device};
use foretoken::internals::weights::{Folder, Source};
use foretoken::{
    Arithmetic, DrafterChoice, Error, GenerateOptions, Generation, LoadOptions, Prompt, Result, Schedule, Speculation,
    WeightDtype,
};
use std::cell::Cell;
use std::ops::{ControlFlow, Range};
use std::rc::Rc;

/// A folder that can be removed, and that counts the bytes read of the weights.
#[derive(Clone)]
struct Watched {
    folder: Folder,
    gone: Rc<Cell<bool>>,
    read: Rc<Cell<u64>>,
}

impl Watched {
    fn new(folder: &str) -> Self {
        Self { folder: Folder::open(path(folder)).unwrap(), gone: Rc::default(), read: Rc::default() }
    }
}

#[async_trait(?Send)]
impl Source for Watched {
    async fn size(&self, file: &str) -> Result<Option<u64>> {
        self.folder.size(file).await
    }
    async fn read_range(&self, file: &str, range: Range<u64>) -> Result<Vec<u8>> {
        if self.gone.get() {
            return Err(Error::NotFound { path: file.into(), reason: "taken away".into() });
        }
        if file.ends_with(".safetensors") {
            self.read.set(self.read.get() + range.end - range.start);
        }
        self.folder.read_range(file, range).await
    }
    fn name(&self) -> String {
        self.folder.name()
    }
}

/// Loads the tales draft model, which is small, as target and as draft model.
fn load(gpu: &Rc<Gpu>, source: &Watched, max_context: usize) -> Result<Session> {
    load_pair(gpu, source, source, max_context)
}

fn load_pair(gpu: &Rc<Gpu>, target: &Watched, assistant: &Watched, max_context: usize) -> Result<Session> {
    let options = LoadOptions::new().max_context(max_context);
    run(Session::load(gpu, Box::new(target.clone()), Some(Box::new(assistant.clone())), &options, &mut |_, _| ()))
}

/// Generates, and destroys the device after each of these numbers of tokens.
fn generate(session: &mut Session, options: &GenerateOptions, losses: &[usize]) -> Result<Generation> {
    disturb(session, options, losses, Gpu::destroy)
}

/// Generates, and disturbs the device after each of these numbers of tokens.
fn disturb(
    session: &mut Session,
    options: &GenerateOptions,
    after: &[usize],
    disturb: impl Fn(&Gpu),
) -> Result<Generation> {
    let prompt = Prompt::Text("Once upon a time there was a king. Once upon a time".into());
    // The callback cannot reach the session, which is busy, so it gets the first device here.
    let gpu = session.engine().gpu().unwrap().clone();
    let mut seen = 0;
    let disturb = |seen| {
        if after.contains(&seen) {
            disturb(&gpu)
        }
    };
    disturb(seen);
    run(session.generate(&prompt, options, &mut |progress| {
        if let Progress::Token(_) = progress {
            seen += 1;
            disturb(seen);
        }
        ControlFlow::Continue(())
    }))
}

fn ways() -> [GenerateOptions; 3] {
    // The other schedules learn over calls.
    let num_assistant_tokens_schedule = Schedule::HeuristicTransient;
    let options =
        GenerateOptions::new().max_new_tokens(24).num_assistant_tokens_schedule(num_assistant_tokens_schedule);
    [
        options.clone().speculation(Speculation::Off),
        options.clone().num_assistant_tokens(4),
        options.prompt_lookup_num_tokens(6),
    ]
}

#[test]
fn a_text_goes_on_after_a_loss_and_is_the_same() {
    let source = Watched::new("models/tales/draft");
    let mut session = load(&gpu(), &source, 128).unwrap();
    for options in ways() {
        let undisturbed = generate(&mut session, &options, &[]).unwrap();
        for loss in [1, 2, 11] {
            let disturbed = generate(&mut session, &options, &[loss]).unwrap();
            assert_eq!(disturbed.token_ids, undisturbed.token_ids, "lost after {loss} tokens");
            assert_eq!((&disturbed.text, disturbed.finish_reason), (&undisturbed.text, undisturbed.finish_reason));
            let counts = |generation: &Generation| {
                let stats = &generation.stats;
                (stats.num_spec_steps, stats.per_step_drafted.clone(), stats.per_step_accepted.clone())
            };
            assert_eq!(counts(&disturbed), counts(&undisturbed), "lost after {loss} tokens");
            let [warning] = &disturbed.stats.warnings[..] else { panic!("{:?}", disturbed.stats.warnings) };
            assert!(warning.contains("the GPU was lost after"), "{warning}");
            let after = generate(&mut session, &options, &[]).unwrap();
            assert_eq!((after.token_ids, after.stats.warnings), (undisturbed.token_ids.clone(), vec![]));
        }
    }
}

#[test]
fn a_device_lost_between_two_texts_is_replaced() {
    let source = Watched::new("models/tales/draft");
    let mut session = load(&gpu(), &source, 128).unwrap();
    let [greedy, ..] = ways();
    let sampled = greedy.clone().do_sample(true).temperature(0.8).seed(3);
    let biased = greedy.clone().logit_bias([(300, 1.5)]).repetition_penalty(1.3);
    // Buffers of another sampling are created before the first round.
    for options in [greedy, sampled, biased] {
        let undisturbed = generate(&mut load(&gpu(), &source, 128).unwrap(), &options, &[]).unwrap();
        session.engine().gpu().unwrap().destroy();
        let after = generate(&mut session, &options, &[]).unwrap();
        assert_eq!(after.token_ids, undisturbed.token_ids, "{options:?}");
    }
}

/// A validation error of the device is reported once, with its message. No result of the failed work is used again.
#[test]
fn what_the_device_refuses_is_told_once_and_is_no_loss() {
    let source = Watched::new("models/tales/draft");
    let mut session = load(&gpu(), &source, 128).unwrap();
    let device = session.engine().gpu().unwrap().clone();
    let overrun = |gpu: &Gpu| gpu.write_buffer(&gpu.buffer("a small one", 16).unwrap(), 1 << 16, &[0; 4]);
    for options in ways() {
        let undisturbed = generate(&mut session, &options, &[]).unwrap();
        for after in [0, 1, 9] {
            let error = disturb(&mut session, &options, &[after], overrun).unwrap_err();
            let Error::Internal { reason } = &error else { panic!("{error:?}") };
            assert!(reason.contains("write_buffer"), "{reason}");
            let again = generate(&mut session, &options, &[]).unwrap();
            assert_eq!((again.token_ids, again.stats.warnings), (undisturbed.token_ids.clone(), vec![]));
            assert_eq!(again.stats.num_cached_tokens, 0);
        }
    }
    assert!(Rc::ptr_eq(session.engine().gpu().unwrap(), &device));
}

/// The text is the target's, and from then on each text has a warning that the draft model is missing.
#[test]
fn a_draft_model_that_cannot_be_set_up_again_is_a_warning() {
    let (target, assistant) = (Watched::new("models/tales/draft"), Watched::new("models/tales/draft"));
    let mut session = load_pair(&gpu(), &target, &assistant, 128).unwrap();
    let [_, options, _] = ways();
    let undisturbed = generate(&mut session, &options, &[]).unwrap();
    assistant.gone.set(true);
    let disturbed = generate(&mut session, &options, &[3]).unwrap();
    let after = generate(&mut session, &options, &[]).unwrap();
    for found in [disturbed, after] {
        assert_eq!(found.token_ids, undisturbed.token_ids);
        let says = |what: &str| found.stats.warnings.iter().filter(|warning| warning.contains(what)).count();
        assert_eq!(says("the assistant model is not used"), 1, "{:?}", found.stats.warnings);
        assert_eq!(says("taken away"), 1, "{:?}", found.stats.warnings);
    }
    assert_eq!(session.warnings().len(), 1);
    // With the next device the draft model is back.
    assistant.gone.set(false);
    let again = generate(&mut session, &options, &[3]).unwrap();
    assert_eq!((again.token_ids, session.warnings().len()), (undisturbed.token_ids, 0));
    assert!(session.engine().draft_memory().is_some());
}

/// A draft is only a guess: the text is the target's, and one warning states why it is plain.
#[test]
fn a_draft_model_whose_logits_are_not_finite_costs_its_drafts_only() {
    let foreign = Foreign::new(1_500);
    let target = Folder::open(path("models/tales/target")).unwrap();
    let load = LoadOptions::new().max_context(128);
    for folder in [path("models/tales/draft"), foreign.folder().to_owned()] {
        let assistant = Some(overflowing(&folder, "model.layers.0.mlp.down_proj.weight"));
        let mut session = run(Session::load(
            &gpu(),
            Box::new(target.clone()),
            assistant.map(|files| Box::new(files) as _),
            &load,
            &mut |_, _| (),
        ))
        .unwrap();
        let [plain, drafted, _] = ways();
        // In the chain, the draft model drafts if the lookup finds nothing.
        let chain = drafted.clone().drafter(DrafterChoice::Chain);
        for sampled in [false, true] {
            let sampled = |options: &GenerateOptions| {
                options.clone().do_sample(sampled).seed(4).repetition_penalty(sampled.then_some(1.1))
            };
            let expected = generate(&mut session, &sampled(&plain), &[]).unwrap();
            for options in [&drafted, &chain] {
                let found = generate(&mut session, &sampled(options), &[]).unwrap();
                assert_eq!((&found.text, &found.token_ids), (&expected.text, &expected.token_ids));
                let warnings = &found.stats.warnings;
                let failed = warnings.iter().filter(|warning| warning.contains("without the draft model"));
                assert_eq!(failed.count(), 1, "{warnings:?}");
            }
        }
    }
}

/// The cause that prevents a recovery is reported. Once it is gone, the session works again.
#[test]
fn files_that_are_gone_when_they_are_needed_again_are_an_error_and_not_the_end() {
    let source = Watched::new("models/tales/draft");
    let mut session = load(&gpu(), &source, 128).unwrap();
    let [options, ..] = ways();
    let undisturbed = generate(&mut session, &options, &[]).unwrap();
    source.gone.set(true);
    assert_eq!(generate(&mut session, &options, &[3]).unwrap_err().code(), "not-found");
    source.gone.set(false);
    assert_eq!(generate(&mut session, &options, &[]).unwrap().token_ids, undisturbed.token_ids);
}

#[test]
fn a_device_that_is_lost_while_loading_is_replaced() {
    let source = Watched::new("models/tales/draft");
    let lost = gpu();
    lost.destroy();
    let mut session = load(&lost, &source, 128).unwrap();
    assert_eq!(generate(&mut session, &ways()[0], &[]).unwrap().token_ids.len(), 24);
}

#[test]
fn what_a_device_cannot_hold_is_refused_before_the_weights_are_read() {
    let source = Watched::new("models/tales/draft");
    let small = common::gpu_with(1 << 16);
    let error = load(&small, &source, 1024).map(|_| ()).unwrap_err();
    let Error::OutOfGpuMemory { need, limit: Some(65_536), .. } = error else { panic!("{error}") };
    assert!(need > 65_536, "{need}");
    let headers = source.read.get();
    assert!(headers < 20_000, "{headers} bytes were read");
}

#[test]
fn dropped_sessions_free_all_their_buffers() {
    let source = Watched::new("models/tales/draft");
    let gpu = gpu();
    let mut held = None;
    for _ in 0..20 {
        let mut session = load(&gpu, &source, 64).unwrap();
        generate(&mut session, &GenerateOptions::new().max_new_tokens(2), &[]).unwrap();
        let allocated = gpu.counters().allocated;
        assert_eq!(*held.get_or_insert(allocated), allocated);
        drop(session);
        assert_eq!(gpu.counters().allocated, 0);
    }
}

#[test]
fn a_warning_names_another_device() {
    let here = gpu().info().clone();
    assert_eq!(other_device(&here, &here), None);
    let mut there = here.clone();
    there.driver += ".1";
    assert!(other_device(&here, &there).is_some());
    there.name = "another one".into();
    let warning = other_device(&here, &there).unwrap();
    assert!(warning.contains(&format!("another one, {}", here.backend)), "{warning}");
    assert!(warning.contains(&format!("{}, {}", here.name, here.backend)), "{warning}");
}

/// A replacement for a lost device must not measure again: another arithmetic could change the text midway.
#[test]
fn what_was_chosen_for_a_model_stays_with_it() {
    run(async {
        let gpu = gpu();
        let source = Folder::open(path("models/tales/draft")).unwrap();
        let options = LoadOptions::new().dtype(WeightDtype::Q8).max_context(64);
        let loadable = ModelFiles::open(Box::new(source), &options).await.unwrap().into_loadable();
        let Blueprint { spec, capacity, .. } = &loadable.blueprint;
        let buffers = RoundBuffers::new(&gpu, capacity, spec.vocab_size).unwrap();
        let measured = loadable.put(&gpu, &buffers, None, &mut |_| ()).await.unwrap().arithmetic();
        assert_eq!(loadable.arithmetic.get(), measured.into());
        let other = if measured == Arithmetic::F32 { Arithmetic::Int8 } else { Arithmetic::F32 };
        loadable.arithmetic.set(other.into());
        assert_eq!(loadable.put(&gpu, &buffers, None, &mut |_| ()).await.unwrap().arithmetic(), other);
    });
}

#[test]
fn a_loss_is_told_for_ever_and_other_failures_once() {
    let gpu = gpu();
    let refusal = || DeviceFailure::Refused("too far".into());
    for (failures, code) in [
        (vec![DeviceFailure::OutOfMemory], "out-of-gpu-memory"),
        (vec![refusal()], "internal"),
        (vec![DeviceFailure::OutOfMemory, refusal()], "out-of-gpu-memory"),
        (vec![refusal(), DeviceFailure::OutOfMemory], "internal"),
    ] {
        failures.into_iter().for_each(|failure| gpu.fail(failure));
        assert_eq!(gpu.check().unwrap_err().code(), code);
        assert_eq!(gpu.check(), Ok(()));
        assert!(gpu.buffer("another", 16).is_ok());
    }
    gpu.fail(DeviceFailure::OutOfMemory);
    gpu.fail(DeviceFailure::Lost("it fell off".into()));
    gpu.fail(refusal());
    for _ in 0..2 {
        assert_eq!(gpu.check(), Err(Error::DeviceLost { reason: "it fell off".into() }));
    }
}

#[test]
fn a_device_of_the_same_kind_takes_the_place_of_a_lost_one_if_there_is_one() {
    let mut gpu = Rc::into_inner(gpu()).unwrap();
    assert_eq!(run(gpu.reopen()).unwrap().info(), gpu.info());
    gpu.rename("one that was pulled out");
    let found = run(gpu.reopen()).unwrap();
    assert_ne!(found.info(), gpu.info());
}
