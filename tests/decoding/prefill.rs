//! Prefill in chunks: the caller gets progress reports, and may abort.

use common::{gpu, path, run};
use foretoken::internals::backend::Device;
use foretoken::internals::backend::cpu::Processor;
use foretoken::internals::gpu::Gpu;
use foretoken::internals::session::{Progress, Session};
use foretoken::internals::weights::Folder;
use foretoken::{FinishReason, GenerateOptions, Generation, LoadOptions, Prompt, Schedule, Speculation};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

const CHUNK: usize = 16;
/// Tokens of the prompt: all but the last are read before the first round, in 13 chunks.
const LENGTH: usize = 200;
/// Tokens that the draft model reads in its first round.
const CLOSE_BEHIND: usize = 15;

/// Loads the tales draft model, which is small, as target and as draft model.
fn session() -> Session {
    let source = Folder::open(path("models/tales/draft")).unwrap();
    // Without a prompt cache, forgotten tokens must be read again.
    let options = LoadOptions::new().max_context(256).prefill_chunk(CHUNK).prompt_cache_bytes(0);
    run(Session::load(&gpu(), Box::new(source.clone()), Some(Box::new(source)), &options, &mut |_, _| ())).unwrap()
}

fn prompt(first: u32) -> Prompt {
    Prompt::Tokens((0..LENGTH as u32).map(|at| first + at * 37 % 3000).collect())
}

fn plain() -> GenerateOptions {
    GenerateOptions::new().max_new_tokens(6).speculation(Speculation::Off)
}

fn drafted() -> GenerateOptions {
    let num_assistant_tokens_schedule = Schedule::Constant;
    GenerateOptions::new().num_assistant_tokens_schedule(num_assistant_tokens_schedule).max_new_tokens(6)
}

/// Returns the progress reports before the first token, and the generation. `hear` may abort.
fn generate(
    session: &mut Session,
    first: u32,
    options: &GenerateOptions,
    mut hear: impl FnMut(usize, &Gpu) -> ControlFlow<()>,
) -> (Vec<(usize, usize)>, Generation) {
    let gpu = session.engine().gpu().unwrap().clone();
    let mut heard = Vec::new();
    let generation = run(session.generate(&prompt(first), options, &mut |progress| match progress {
        Progress::Prefill { done, of } => {
            heard.push((done, of));
            hear(heard.len(), &gpu)
        }
        Progress::Token(_) | Progress::Waiting => ControlFlow::Continue(()),
    }));
    (heard, generation.unwrap())
}

/// Generates another text, so that nothing of the prompt is cached.
fn forget(session: &mut Session) {
    run(session.generate(&Prompt::Tokens(vec![7, 8]), &plain(), &mut |_| ControlFlow::Continue(()))).unwrap();
}

/// Returns the progress reports of an uncached prompt.
fn by_the_target() -> Vec<(usize, usize)> {
    let of = LENGTH - 1;
    (CHUNK..of).step_by(CHUNK).map(|done| (done, of)).collect()
}

#[test]
fn the_caller_hears_of_each_chunk_and_the_device_always_has_another() {
    let mut session = session();
    let counters = session.engine().counters();
    let mut submits = Vec::new();
    let (heard, generation) = generate(&mut session, 5, &plain(), |_, gpu| {
        submits.push(gpu.counters().since(&counters).submits);
        ControlFlow::Continue(())
    });
    assert_eq!(heard, by_the_target());
    // At each report one chunk is done and one more is submitted.
    assert_eq!(submits, (2..=heard.len() as u64 + 1).collect::<Vec<_>>());
    let did = session.engine().counters().since(&counters);
    let rounds = generation.stats.num_spec_steps as u64;
    assert_eq!((did.submits - did.ahead, did.blocking_readbacks), (13 + rounds - did.ahead, rounds));

    // Cached tokens are not read again.
    let (heard, _) = generate(&mut session, 5, &plain(), |_, _| ControlFlow::Continue(()));
    assert_eq!(heard, []);
    // The draft model reads after the target.
    let (heard, of_draft) = generate(&mut session, 5, &drafted(), |_, _| ControlFlow::Continue(()));
    assert_eq!(heard, vec![(LENGTH - 1, LENGTH - 1); (LENGTH - 1 - CLOSE_BEHIND).div_ceil(CHUNK)]);
    assert_eq!(of_draft.token_ids, generation.token_ids);
}

#[test]
fn a_caller_may_break_off_at_every_chunk_and_what_was_read_stays_cached() {
    let mut session = session();
    for (options, chunks) in [(plain(), 12), (drafted(), 24)] {
        forget(&mut session);
        let (heard, expected) = generate(&mut session, 5, &options, |_, _| ControlFlow::Continue(()));
        assert_eq!(heard.len(), chunks);
        for at in 1..=chunks {
            forget(&mut session);
            let counters = session.engine().counters();
            let (heard, broken_off) = generate(&mut session, 5, &options, |count, _| match count == at {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            });
            assert_eq!(heard.len(), at);
            assert_eq!(broken_off.finish_reason, FinishReason::Aborted);
            assert_eq!((broken_off.text.as_str(), broken_off.token_ids.len()), ("", 0));
            let did = session.engine().counters().since(&counters);
            assert_eq!((did.submits, did.blocking_readbacks), (at as u64 + 1, 0), "at {at}");
            let cached = session.engine().cached().len();
            assert_eq!(cached, (CHUNK * (at + 1)).min(LENGTH - 1));
            let (_, again) = generate(&mut session, 5, &options, |_, _| ControlFlow::Continue(()));
            assert_eq!((again.text, again.token_ids), (expected.text.clone(), expected.token_ids.clone()));
            assert_eq!(again.stats.num_cached_tokens, cached);
            let by_draft = CHUNK * at.saturating_sub(12);
            assert_eq!(again.stats.num_cached_draft_tokens, by_draft.min(LENGTH - 1 - CLOSE_BEHIND));
        }
    }
}

/// On the CPU also within a chunk of the prompt, and within a round.
#[test]
fn a_caller_may_break_off_within_a_pass_on_the_cpu() {
    let source = Folder::open(path("models/tales/draft")).unwrap();
    let device = Device::Cpu(Rc::new(Processor::new(None).yielding_after(Duration::ZERO)));
    let options = LoadOptions::new().max_context(256).prefill_chunk(CHUNK).prompt_cache_bytes(0);
    let mut session =
        run(Session::load(device, Box::new(source.clone()), Some(Box::new(source)), &options, &mut |_, _| ())).unwrap();
    for options in [plain(), drafted()] {
        let generate = |session: &mut Session, breaks_at: usize| {
            session.engine_mut().truncate(0);
            let (mut waits, mut chunks) = (0, 0);
            let generation = run(session.generate(&prompt(5), &options, &mut |progress| {
                waits += usize::from(progress == Progress::Waiting);
                chunks += usize::from(matches!(progress, Progress::Prefill { .. }));
                if waits == breaks_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }));
            (generation.unwrap(), waits, chunks, session.engine().cached().len())
        };
        let (expected, whole, _, _) = generate(&mut session, usize::MAX);
        assert!(whole > 13 * 2 * 6, "{whole} steps of 13 chunks and two layers");
        for at in (1..=whole).step_by(whole / 20) {
            let (ended, waits, chunks, cached) = generate(&mut session, at);
            assert_eq!((ended.finish_reason, waits), (FinishReason::Aborted, at));
            assert!(expected.token_ids.starts_with(&ended.token_ids));
            // Chunks that were read stay cached, and nothing else.
            assert!(cached >= (LENGTH - 1).min(CHUNK * chunks) && cached < LENGTH + ended.token_ids.len());
            let again = run(session.generate(&prompt(5), &options, &mut |_| ControlFlow::Continue(()))).unwrap();
            assert_eq!(
                (again.token_ids, again.stats.num_cached_tokens),
                (expected.token_ids.clone(), cached.min(LENGTH - 1))
            );
        }
    }
}

#[test]
fn a_device_that_is_lost_meanwhile_changes_nothing() {
    let mut session = session();
    for options in [plain(), drafted()] {
        forget(&mut session);
        let (heard, expected) = generate(&mut session, 5, &options, |_, _| ControlFlow::Continue(()));
        for at in [2, heard.len()] {
            forget(&mut session);
            let (_, found) = generate(&mut session, 5, &options, |count, gpu| {
                if count == at {
                    gpu.destroy();
                }
                ControlFlow::Continue(())
            });
            assert_eq!(found.token_ids, expected.token_ids);
            let [warning] = &found.stats.warnings[..] else { panic!("{:?}", found.stats.warnings) };
            assert!(warning.contains("the GPU was lost after 0 tokens"), "{warning}");
        }
    }
}
