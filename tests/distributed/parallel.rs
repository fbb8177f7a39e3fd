//! Several targets on threads generate the text of plain decoding, with every drafter, and if devices are lost.

use async_trait::async_trait;
use common::foreign::Foreign;
use common::{Tales, engine, gpu, path, run, within, yielding_engine};
use foretoken::dsi::{Feed, TaskId};
use foretoken::internals::backend::gpu::GpuBackend;
use foretoken::internals::backend::server::Later;
use foretoken::internals::gpu::GpuOptions;
use foretoken::internals::parallel::{
    self, Build, Command, Guess, Instances, Parallel, Report, Role, RunOptions, ThreadInstances, Translated,
};
use foretoken::internals::sample::{Draw, Sampling};
use foretoken::internals::session::{Progress, Session, Sink};
use foretoken::internals::speculate::{PromptLookup, Tuner};
use foretoken::internals::target::{Draft, Queue, Target, Traffic, Translate, Verified};
use foretoken::internals::weights::Folder;
use foretoken::{
    DeviceChoice, Error, GenerateOptions, LoadOptions, LookupRule, Origin, Prompt, Result, Schedule, Stats,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::time::Duration;

/// Collects up to `most` tokens, and breaks off at token number `until`.
struct Collect {
    ids: Vec<u32>,
    origins: Vec<Origin>,
    most: usize,
    until: Option<usize>,
    ended: bool,
}

impl Collect {
    fn new(most: usize) -> Self {
        Self { ids: Vec::new(), origins: Vec::new(), most, until: None, ended: false }
    }
}

impl Sink for Collect {
    fn room(&self) -> usize {
        self.most - self.ids.len()
    }
    fn push(&mut self, id: u32, origin: Origin, last: bool) -> Result<ControlFlow<()>> {
        assert!(!self.ended, "a token behind the last one");
        self.ids.push(id);
        self.origins.push(origin);
        self.ended = last || self.until == Some(self.ids.len());
        Ok(if self.until == Some(self.ids.len()) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

fn write(servers: &mut ThreadInstances, prompt: &[u32], options: RunOptions, sink: &mut Collect) -> Result<Stats> {
    let stats = run(parallel::run(servers, prompt, options, &mut Tuner::default(), sink))?;
    assert!(sink.ended);
    assert_eq!(stats.num_emitted_tokens, sink.ids.len());
    assert_eq!(stats.num_emitted_tokens, stats.num_accepted_draft_tokens + stats.num_spec_steps);
    assert!(stats.num_accepted_draft_tokens <= stats.num_draft_tokens);
    assert_eq!(stats.per_step_drafted.iter().sum::<usize>(), stats.num_draft_tokens);
    let accepted = stats.num_accepted_draft_tokens;
    let from_drafter = sink.origins.iter().filter(|origin| **origin != Origin::Target).count();
    // The token at which the sink broke off counts as the target's.
    assert!(from_drafter == accepted || sink.until.is_some() && from_drafter == accepted + 1);
    Ok(stats)
}

fn load(which: &str) -> GpuBackend {
    engine(&gpu(), &path("models/tales").join(which), None, Tales::capacity())
}

fn tales(which: &'static str) -> Build {
    Box::new(move || Ok(Box::new(load(which))))
}

fn on_cpu(which: &'static str) -> Build {
    Box::new(move || Ok(Box::new(yielding_engine(&path("models/tales").join(which), None, Tales::capacity()))))
}

fn ends() -> Vec<u32> {
    common::blueprint(&path("models/tales/target"), Tales::capacity()).0.spec.eos_token_id
}

const MODEL: &[Origin] = &[Origin::DraftModel];
const LOOKUP: &[Origin] = &[Origin::Lookup];
const BOTH: &[Origin] = &[Origin::Lookup, Origin::DraftModel];

fn run_options(sampling: &Sampling, lookahead: usize, drafters: &[Origin]) -> RunOptions {
    let lookup = || PromptLookup::new(lookahead, 2, LookupRule::Leftmost, &ends());
    let guesses = drafters.iter().map(|drafter| match drafter {
        Origin::DraftModel => Guess::Model,
        _ => Guess::Text(Box::new(lookup())),
    });
    RunOptions {
        sampling: sampling.clone(),
        lookahead,
        longest: None,
        guesses: guesses.collect(),
        ends: ends(),
        capacity: Tales::capacity().max_context,
    }
}

fn cut(ids: &[u32], most: usize) -> Vec<u32> {
    let ends = ends();
    let end = ids.iter().position(|id| ends.contains(id)).map_or(ids.len(), |end| end + 1);
    ids[..end.min(most)].to_vec()
}

/// The servers of one degree generate all their texts, so each text must replace an earlier one in the caches.
#[test]
fn every_degree_lookahead_and_drafter_gives_the_plain_tokens() {
    within(|| {
        let sampled = Sampling { draw: Draw::Coupled, seed: 7, ..Sampling::default() };
        let mut texts = Vec::new();
        let mut alone = engine(&gpu(), &path("models/tales/target"), None, Tales::capacity());
        for (case, way) in [(0, Sampling::default()), (4, sampled)] {
            let prompt = Tales::cases().swap_remove(case).prompt_ids;
            alone.sample_by(&way).unwrap();
            let expected = cut(&common::plain(&mut alone, &prompt, 24), 24);
            texts.push((prompt, way, expected));
        }
        drop(alone);
        type BuildOf = fn(&'static str) -> Build;
        let places: [(usize, [BuildOf; 2]); 5] = [
            (1, [tales, tales]),
            (1, [tales, on_cpu]),
            (2, [tales, tales]),
            (3, [tales, on_cpu]),
            (2, [on_cpu, on_cpu]),
        ];
        for (sp_degree, [target, draft]) in places {
            let targets = (0..sp_degree).map(|_| target("target")).collect();
            let (mut servers, failed) = ThreadInstances::start(targets, Some(draft("draft"))).unwrap();
            assert_eq!((failed, servers.sp_degree(), servers.has_drafter()), (None, sp_degree, true));
            let mut accepted = 0;
            for (turn, lookahead) in [1, 3, 5].into_iter().enumerate() {
                for (which, drafters) in [MODEL, LOOKUP, BOTH].into_iter().enumerate() {
                    // The texts take turns.
                    for (prompt, way, expected) in texts.iter().skip((turn + which) % 2).step_by(2) {
                        let mut sink = Collect::new(24);
                        let stats =
                            write(&mut servers, prompt, run_options(way, lookahead, drafters), &mut sink).unwrap();
                        let what = format!("{sp_degree} targets, {lookahead}, {drafters:?}, {:?}: {stats:?}", way.draw);
                        assert_eq!(&sink.ids, expected, "{what}");
                        assert_eq!(stats.warnings, Vec::<String>::new(), "{what}");
                        accepted += stats.num_accepted_draft_tokens;
                    }
                }
            }
            assert!(accepted > 0);
        }
    });
}

/// By an end of text, by the token limit, and by a sink that breaks off, at every place of a block.
#[test]
fn a_text_ends_in_the_middle_of_a_block() {
    within(|| {
        let (mut servers, _) =
            ThreadInstances::start(vec![tales("target"), tales("target")], Some(tales("draft"))).unwrap();
        let case = Tales::cases().into_iter().find(|case| (10..30).contains(&case.greedy_ids.len())).unwrap();
        assert!(ends().contains(case.greedy_ids.last().unwrap()), "the case ends by itself");
        let mut text = |most, until| {
            let mut sink = Collect { until, ..Collect::new(most) };
            write(&mut servers, &case.prompt_ids, run_options(&Sampling::default(), 5, MODEL), &mut sink).unwrap();
            sink.ids
        };
        assert_eq!(text(96, None), case.greedy_ids);
        for at in 1..=8 {
            assert_eq!(text(at, None), case.greedy_ids[..at], "{at} tokens wanted");
            assert_eq!(text(96, Some(at)), case.greedy_ids[..at], "enough after {at}");
        }
        assert_eq!(text(96, None), case.greedy_ids);
        let long = vec![5; 512];
        let full = run(parallel::run(
            &mut servers,
            &long,
            run_options(&Sampling::default(), 5, MODEL),
            &mut Tuner::default(),
            &mut Collect::new(3),
        ));
        assert_eq!(full, Err(Error::ContextFull { need: 513, limit: 512 }));
    });
}

/// A target whose device is lost at a forward.
struct Mortal {
    engine: GpuBackend,
    /// Forwards left to all instances of this server until the next loss.
    left: Arc<AtomicIsize>,
}

#[async_trait(?Send)]
impl Target for Mortal {
    fn sample_by(&mut self, sampling: &Sampling) -> Result<()> {
        self.engine.sample_by(sampling)
    }
    fn cached(&self) -> &[u32] {
        self.engine.cached()
    }
    fn capacity(&self) -> usize {
        self.engine.capacity()
    }
    fn truncate(&mut self, len: usize) {
        self.engine.truncate(len);
    }
    async fn prefill(&mut self, tokens: &[u32]) -> Result<()> {
        self.engine.prefill(tokens).await
    }
    async fn submit(&mut self, pending: u32, draft: &Draft) -> Result<()> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.engine.gpu().destroy();
        }
        self.engine.submit(pending, draft).await
    }
    async fn finish(&mut self) -> Result<Verified> {
        self.engine.finish().await
    }
}

impl Queue for Mortal {}

fn mortal(left: &Arc<AtomicIsize>, lives: isize) -> Build {
    let (left, lives) = (left.clone(), AtomicIsize::new(lives));
    Box::new(move || {
        if lives.fetch_sub(1, Ordering::Relaxed) <= 0 {
            return Err(Error::WebGpuUnavailable { reason: "it has no life left".into() });
        }
        Ok(Box::new(Mortal { engine: load("target"), left: left.clone() }))
    })
}

/// A device that is lost at any time changes nothing in the text. If the last one is lost, the error says so, and the servers
/// can still generate if they come back.
#[test]
fn a_lost_device_does_not_change_the_text() {
    within(|| {
        let case = Tales::cases().swap_remove(4);
        let expected = case.greedy_ids[..16.min(case.greedy_ids.len())].to_vec();
        let never = Arc::new(AtomicIsize::new(-1));
        let dying = Arc::new(AtomicIsize::new(-1));
        let greedy = Sampling::default();
        for (lives, sp_degree) in [(9, 1), (9, 2), (1, 2)] {
            let targets = (1..sp_degree).map(|_| mortal(&never, 9)).chain([mortal(&dying, lives)]).collect();
            let (mut servers, _) = ThreadInstances::start(targets, None).unwrap();
            for at in [0, 2] {
                dying.store(at, Ordering::Relaxed);
                let mut sink = Collect::new(16);
                let stats = write(&mut servers, &case.prompt_ids, run_options(&greedy, 3, LOOKUP), &mut sink).unwrap();
                assert_eq!(sink.ids, expected, "{lives} lives, {sp_degree} targets, dies at {at}: {stats:?}");
                dying.store(-1, Ordering::Relaxed);
            }
        }
        let (mut servers, _) = ThreadInstances::start(vec![mortal(&dying, 1)], None).unwrap();
        dying.store(2, Ordering::Relaxed);
        let mut sink = Collect::new(16);
        let failed = run(parallel::run(
            &mut servers,
            &case.prompt_ids,
            run_options(&greedy, 3, LOOKUP),
            &mut Tuner::default(),
            &mut sink,
        ));
        assert!(matches!(failed, Err(Error::WebGpuUnavailable { .. })), "{failed:?}");
        assert_eq!(sink.ids, expected[..sink.ids.len()]);
    });
}

#[test]
fn a_lost_draft_model_does_not_change_the_text() {
    within(|| {
        let case = Tales::cases().swap_remove(4);
        let (never, dying) = (Arc::new(AtomicIsize::new(-1)), Arc::new(AtomicIsize::new(3)));
        let (mut servers, _) = ThreadInstances::start(vec![mortal(&never, 9)], Some(mortal(&dying, 1))).unwrap();
        let expected = case.greedy_ids[..16.min(case.greedy_ids.len())].to_vec();
        // Whether the model is lost during a text depends on the speed of the others. So texts are written until one says so.
        loop {
            let mut sink = Collect::new(16);
            let options = run_options(&Sampling::default(), 3, MODEL);
            let stats = write(&mut servers, &case.prompt_ids, options, &mut sink).unwrap();
            assert_eq!(sink.ids, expected);
            if stats.warnings.iter().any(|warning| warning.contains("without the draft model")) {
                break;
            }
        }
    });
}

/// A model without a device: a token depends on all tokens before it. Forwards take varying time.
struct Mock {
    cached: Vec<u32>,
    submitted: Vec<u32>,
    /// Number of tokens of ten that equal the target's.
    right: u32,
    /// Maximum rows of a forward.
    rows: usize,
    /// Maximum microseconds of a forward.
    slow: u64,
    /// Forwards until its driver panics.
    left: usize,
}

impl Mock {
    fn new(right: u32, rows: usize, slow: u64, left: usize) -> Self {
        Self { cached: Vec::new(), submitted: Vec::new(), right, rows, slow, left }
    }

    fn build(right: u32, rows: usize, slow: u64, left: usize) -> Build {
        Box::new(move || Ok(Box::new(Self::new(right, rows, slow, left))))
    }

    fn token(text: &[u32], right: u32) -> u32 {
        let hash = text.iter().fold(17_u32, |hash, &id| (hash ^ id).wrapping_mul(0x0100_0193).rotate_left(5));
        if hash / 64 % 10 < right { 1 + hash % 5 } else { 9 }
    }
}

#[async_trait(?Send)]
impl Target for Mock {
    fn sample_by(&mut self, _sampling: &Sampling) -> Result<()> {
        Ok(())
    }
    fn cached(&self) -> &[u32] {
        &self.cached
    }
    fn capacity(&self) -> usize {
        200
    }
    fn truncate(&mut self, len: usize) {
        self.cached.truncate(len);
    }
    async fn prefill(&mut self, tokens: &[u32]) -> Result<()> {
        self.cached.extend_from_slice(tokens);
        Ok(())
    }
    async fn submit(&mut self, pending: u32, draft: &Draft) -> Result<()> {
        let Draft::Tokens(draft) = draft else { panic!("it has no draft model") };
        self.submitted = [&[pending], &draft[..draft.len().min(self.rows - 1)]].concat();
        Ok(())
    }
    async fn finish(&mut self) -> Result<Verified> {
        self.left = self.left.checked_sub(1).expect("the driver is well");
        let mut ids = Vec::new();
        for &id in &self.submitted {
            self.cached.push(id);
            ids.push(Self::token(&self.cached, self.right));
        }
        assert!(self.cached.len() <= self.capacity());
        let waits = u64::from(Self::token(&self.cached, 10)) * self.slow / 5;
        std::thread::sleep(Duration::from_micros(waits));
        Ok(Verified { draft: self.submitted[1..].to_vec(), ids, ..Verified::default() })
    }
}

impl Queue for Mock {}

/// With fast and slow targets, good and bad drafters, forwards of few rows and drivers that panic, the text is the target's, and
/// nothing waits for a thread that has ended.
#[test]
fn threads_of_any_speed_write_the_same_text() {
    within(|| {
        const NEVER: usize = usize::MAX;
        let forwards = |lookahead, capacity| {
            let (sampling, ends) = (Sampling::default(), Vec::new());
            RunOptions { sampling, lookahead, longest: Some(31), guesses: vec![Guess::Model], ends, capacity }
        };
        for (right, rows, slow, left) in
            [(10, 32, 400, NEVER), (7, 32, 900, NEVER), (7, 2, 200, NEVER), (0, 32, 300, NEVER), (7, 32, 300, 5)]
        {
            for sp_degree in 1..=4 {
                let targets = (1..sp_degree).map(|at| Mock::build(10, rows, slow * at, NEVER));
                // Only the last target may panic; with more than two targets the drafter may, too.
                let targets = targets.chain([Mock::build(10, rows, slow, left)]).collect();
                let drafter = Mock::build(right, 32, 100, if sp_degree > 2 { left } else { NEVER });
                let (mut servers, _) = ThreadInstances::start(targets, Some(drafter)).unwrap();
                let mut tuner = Tuner::default();
                for (lookahead, most, prompt) in [(1, 30, 3), (3, 30, 70), (5, 300, 190), (5, 30, 3)] {
                    let prompt: Vec<u32> = (0..prompt).map(|at| at % 5).collect();
                    let mut expected = prompt.clone();
                    while expected.len() - prompt.len() < most && expected.len() <= 200 {
                        expected.push(Mock::token(&expected, 10));
                    }
                    let mut sink = Collect::new(most);
                    let wrote =
                        run(parallel::run(&mut servers, &prompt, forwards(lookahead, 200), &mut tuner, &mut sink));
                    let what = format!("{right} of 10, {rows} rows, {sp_degree} targets, {lookahead}: {wrote:?}");
                    if sp_degree == 1 && left < NEVER {
                        assert!(matches!(wrote, Err(Error::Internal { .. })), "{what}");
                        assert!(expected[prompt.len()..].starts_with(&sink.ids), "{what}");
                    } else {
                        assert!(wrote.is_ok(), "{what}");
                        assert_eq!(sink.ids, expected[prompt.len()..], "{what}");
                    }
                }
            }
        }
    });
}

/// A target that reads two chunks of a prompt and then waits for the test to open the gate.
struct Gated {
    mock: Mock,
    chunks: Arc<AtomicIsize>,
    open: Arc<AtomicBool>,
}

#[async_trait(?Send)]
impl Target for Gated {
    fn sample_by(&mut self, _sampling: &Sampling) -> Result<()> {
        Ok(())
    }
    fn cached(&self) -> &[u32] {
        self.mock.cached()
    }
    fn capacity(&self) -> usize {
        self.mock.capacity()
    }
    fn truncate(&mut self, len: usize) {
        self.mock.truncate(len);
    }
    fn prefill_chunk(&self) -> usize {
        10
    }
    async fn prefill(&mut self, tokens: &[u32]) -> Result<()> {
        assert!(tokens.len() <= 10);
        let before = self.chunks.fetch_add(1, Ordering::Relaxed);
        while before >= 2 && !self.open.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.mock.prefill(tokens).await
    }
    async fn submit(&mut self, pending: u32, draft: &Draft) -> Result<()> {
        self.mock.submit(pending, draft).await
    }
    async fn finish(&mut self) -> Result<Verified> {
        self.mock.finish().await
    }
}

impl Queue for Gated {}

/// Records the progress of the prompt, and breaks off once a chunk is done.
struct Impatient(Vec<(usize, usize)>);

impl Sink for Impatient {
    fn room(&self) -> usize {
        9
    }
    fn push(&mut self, _id: u32, _origin: Origin, _last: bool) -> Result<ControlFlow<()>> {
        panic!("a token")
    }
    fn prefilled(&mut self, done: usize, of: usize) -> ControlFlow<()> {
        self.0.push((done, of));
        ControlFlow::Break(())
    }
}

/// After an abort, neither the caller nor the servers wait for the rest of the prompt.
#[test]
fn a_text_is_broken_off_while_its_prompt_is_read() {
    within(|| {
        for sp_degree in [1, 2] {
            let (chunks, open) = (Arc::new(AtomicIsize::new(0)), Arc::new(AtomicBool::new(false)));
            let build = || -> Build {
                let (chunks, open) = (chunks.clone(), open.clone());
                let mock = || Mock::new(10, 32, 0, usize::MAX);
                Box::new(move || Ok(Box::new(Gated { mock: mock(), chunks: chunks.clone(), open: open.clone() })))
            };
            let (mut servers, _) = ThreadInstances::start((0..sp_degree).map(|_| build()).collect(), None).unwrap();
            let run_options = || RunOptions {
                sampling: Sampling::default(),
                lookahead: 3,
                longest: None,
                guesses: Vec::new(),
                ends: Vec::new(),
                capacity: 200,
            };
            let prompt: Vec<u32> = (0..180).map(|at| at % 5).collect();
            let mut sink = Impatient(Vec::new());
            let stats =
                run(parallel::run(&mut servers, &prompt, run_options(), &mut Tuner::default(), &mut sink)).unwrap();
            assert_eq!(sink.0, [(10, 179)], "{stats:?}");
            assert_eq!(stats.num_emitted_tokens, 0);
            open.store(true, Ordering::Relaxed);
            let mut sink = Collect::new(4);
            let read = chunks.load(Ordering::Relaxed);
            run(parallel::run(&mut servers, &[3, 1], run_options(), &mut Tuner::default(), &mut sink)).unwrap();
            assert_eq!(sink.ids.len(), 4);
            // Plus a chunk that had begun.
            assert!(chunks.load(Ordering::Relaxed) <= read + sp_degree, "{chunks:?} chunks after {read}");
        }
    });
}

/// From files and options to text: stop strings, sampling, chats of several turns, wrong options.
#[test]
fn generations_are_those_of_a_session() {
    within(|| {
        let files = |which: &str| Folder::open(path("models/tales").join(which)).unwrap();
        let load = |sp_degree| LoadOptions::new().sp_degree(sp_degree).max_context(512);
        let device = gpu();
        let (one, two, any) = (load(1), load(2), GpuOptions::default());
        let mut session = run(Session::load(
            &device,
            Box::new(files("target")),
            Some(Box::new(files("draft"))),
            &one,
            &mut |_, _| (),
        ))
        .unwrap();
        let refused = run(Session::load(&device, Box::new(files("target")), None, &two, &mut |_, _| ()));
        assert!(matches!(refused.err(), Some(Error::BadOption { option, .. }) if option == "sp_degree"));
        let beside = one.clone().device(DeviceChoice::Webgpu).draft_device(DeviceChoice::Cpu);
        let refused = run(Session::load(
            &device,
            Box::new(files("target")),
            Some(Box::new(files("draft"))),
            &beside,
            &mut |_, _| (),
        ));
        assert!(matches!(refused.err(), Some(Error::BadOption { option, .. }) if option == "draft_device"));
        let mut with_cpu = run(Parallel::load(&any, files("target"), Some(files("draft")), &beside)).unwrap();
        let cpu = two.clone().device(DeviceChoice::Cpu);
        let mut on_cpu = run(Parallel::load(&any, files("target"), Some(files("draft")), &cpu)).unwrap();
        let mut parallel = run(Parallel::load(&any, files("target"), Some(files("draft")), &two)).unwrap();
        let prompt = Prompt::Text(Tales::cases()[0].prompt.clone());
        let options = GenerateOptions::new().max_new_tokens(24);
        let mut whole = String::new();
        for sampled in [false, true] {
            let options = options.clone().do_sample(sampled).seed(sampled.then_some(3));
            let expected = run(session.generate(&prompt, &options, &mut |_| ControlFlow::Continue(()))).unwrap();
            let mut streamed = String::new();
            let mut hear = |progress: Progress<'_>| {
                if let Progress::Token(token) = progress {
                    streamed += &token.text;
                }
                ControlFlow::Continue(())
            };
            let found = run(parallel.generate(&prompt, &options, &mut hear)).unwrap();
            assert_eq!((&found.text, &found.token_ids), (&expected.text, &expected.token_ids));
            assert_eq!((found.finish_reason, &streamed), (expected.finish_reason, &found.text));
            assert_eq!(found.stats.seed, expected.stats.seed);
            assert_eq!(found.stats.distributed.map(|distributed| distributed.sp_degree), Some(2));
            whole = if sampled { whole } else { found.text };
            for others in [&mut with_cpu, &mut on_cpu] {
                let mut accepted = 0;
                // On a busy machine all drafts of a text may be late.
                while accepted == 0 {
                    let found = run(others.generate(&prompt, &options, &mut |_| ControlFlow::Continue(()))).unwrap();
                    assert_eq!((&found.text, &found.token_ids), (&expected.text, &expected.token_ids));
                    assert!(found.stats.warnings.is_empty(), "{:?}", found.stats);
                    accepted = found.stats.num_accepted_draft_tokens;
                }
            }
        }
        let mut distributed = |options: &GenerateOptions| {
            let wrote = run(parallel.generate(&prompt, options, &mut |_| ControlFlow::Continue(())));
            wrote.unwrap().stats.distributed.unwrap()
        };
        let mut measured = distributed(&options);
        while measured.drafter_latency == 0.0 {
            measured = distributed(&options);
        }
        assert!(measured.target_latency > 0.0, "{measured:?}");
        let constant = options.clone().num_assistant_tokens_schedule(Schedule::Constant);
        assert_eq!(distributed(&constant).lookahead, constant.drafting.num_assistant_tokens);
        let middle: String = whole.chars().skip(whole.chars().count() / 2).take(4).collect();
        let options = options.stop(vec![middle]);
        let expected = run(session.generate(&prompt, &options, &mut |_| ControlFlow::Continue(()))).unwrap();
        let found = run(parallel.generate(&prompt, &options, &mut |_| ControlFlow::Continue(()))).unwrap();
        assert_eq!((found.text, found.token_ids), (expected.text, expected.token_ids));
        let mut count = 0;
        let aborted = run(parallel.generate(&prompt, &options, &mut |_| {
            count += 1;
            if count == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }));
        assert_eq!(aborted.unwrap().token_ids, expected_start(&mut session, &prompt, 3));
        let rejection = GenerateOptions::new().do_sample(true).acceptance(foretoken::Acceptance::Rejection);
        let refused = run(parallel.generate(&prompt, &rejection, &mut |_| ControlFlow::Continue(())));
        assert!(matches!(refused, Err(Error::BadOption { option, .. }) if option == "acceptance"));
        let told = GenerateOptions::new().logprobs(true);
        let refused = run(parallel.generate(&prompt, &told, &mut |_| ControlFlow::Continue(())));
        assert!(matches!(refused, Err(Error::BadOption { option, .. }) if option == "logprobs"));
    });
}

/// Greedy, and with noise and biases, which belong to the target's ids.
#[test]
fn a_draft_model_with_another_tokenizer_drafts_for_several_targets() {
    within(|| {
        let files = |folder: &Path| Folder::open(folder).unwrap();
        let (foreign, target) = (Foreign::new(1_500), path("models/tales/target"));
        let one = LoadOptions::new().max_context(512).device(DeviceChoice::Webgpu);
        let mut session = run(Session::load(&gpu(), Box::new(files(&target)), None, &one, &mut |_, _| ())).unwrap();
        let prompt = Prompt::Text(Tales::cases()[0].prompt.clone());
        let options = GenerateOptions::new().max_new_tokens(24);
        let drawn = options.clone().do_sample(true).seed(3).temperature(0.7).logit_bias([(1, 3.0), (4_090, -4.0)]);
        for (load, split) in [
            (one.clone().sp_degree(2), "sp_degree 2"),
            (one.clone().draft_device(DeviceChoice::Cpu), "draft_device cpu"),
        ] {
            let assistant = Some(files(foreign.folder()));
            let mut parallel = run(Parallel::load(&GpuOptions::default(), files(&target), assistant, &load)).unwrap();
            for options in [&options, &drawn] {
                let expected = run(session.generate(&prompt, options, &mut |_| ControlFlow::Continue(()))).unwrap();
                let found = run(parallel.generate(&prompt, options, &mut |_| ControlFlow::Continue(()))).unwrap();
                assert_eq!(found.token_ids, expected.token_ids, "{:?}", found.stats);
                assert!(found.stats.num_draft_tokens > 0, "{:?}", found.stats);
                assert!(found.stats.warnings.iter().any(|warning| warning.contains("another tokenizer")));
            }
            let mut say = |options: GenerateOptions| {
                run(parallel.generate(&prompt, &options, &mut |_| ControlFlow::Continue(())))
            };
            let expected = say(options.clone()).unwrap();
            let found = say(options.clone().prediction(expected.text)).unwrap();
            assert_eq!(found.token_ids, expected.token_ids);
            assert_eq!(found.stats.num_accepted_draft_tokens, 15, "the prediction drafts: {:?}", found.stats);
            let form = options.clone().response_format(foretoken::ResponseFormat::json_object());
            for refused in [options.clone().logprobs(true), form] {
                let words = say(refused).unwrap_err().to_string();
                assert!(words.ends_with(&format!("with {split}")), "{words}");
            }
        }
    });
}

fn expected_start(session: &mut Session, prompt: &Prompt, count: usize) -> Vec<u32> {
    let options = GenerateOptions::new().max_new_tokens(count);
    run(session.generate(prompt, &options, &mut |_| ControlFlow::Continue(()))).unwrap().token_ids
}

/// A target and a drafter on a simulated clock. A forward takes 100 seconds plus one per row, a draft step one second. So the
/// drafter's reports come first.
struct Clockwork {
    commands: VecDeque<(Role, Command)>,
    reports: VecDeque<Report>,
    /// The text in the cache of the target, and of the drafter.
    copies: [Vec<u32>; 2],
    /// Draft tokens until the drafter stops proposing.
    drafts: usize,
    forwards: usize,
}

impl Clockwork {
    fn execute(&mut self, to: Role, command: Command) {
        let copy = &mut self.copies[usize::from(to == Role::Drafter)];
        match command {
            Command::Verify { task, feed, rows } => {
                let reused = feed.keep.min(copy.len());
                copy.truncate(feed.keep);
                copy.extend(feed.tokens);
                let ids = (copy.len() - rows..copy.len()).map(|at| Mock::token(&copy[..=at], 10)).collect();
                let seconds = 100.0 + (copy.len() - reused) as f64;
                self.forwards += 1;
                self.reports.push_back(Report::Verified {
                    server: 0,
                    task,
                    ids,
                    reused,
                    seconds,
                    traffic: Traffic::default(),
                });
            }
            Command::Draft { task, feed, most } => {
                copy.truncate(feed.keep);
                copy.extend(feed.tokens);
                for _ in 0..most.min(self.drafts) {
                    copy.push(Mock::token(copy, 7));
                    self.drafts -= 1;
                    let ids = copy[copy.len() - 1..].to_vec();
                    self.reports.push_back(Report::Drafted { task, ids, seconds: 1.0 });
                }
            }
            Command::Begin { .. } => self.reports.push_back(Report::Free { server: 0 }),
            Command::Cancel { .. } => {}
        }
    }
}

impl Instances for Clockwork {
    fn sp_degree(&self) -> usize {
        1
    }
    fn has_drafter(&self) -> bool {
        true
    }
    fn begin(&mut self, sampling: &Sampling, _: &Sampling) {
        self.send(Role::Target(0), Command::Begin { text: 1, sampling: sampling.clone() });
    }
    fn send(&mut self, to: Role, command: Command) {
        self.commands.push_back((to, command));
    }
    fn report(&mut self, within: Option<f64>) -> Later<'_, Result<Option<Report>>> {
        Box::pin(async move {
            while self.reports.is_empty() {
                let first = self.commands.iter().position(|(to, _)| *to == Role::Drafter).unwrap_or(0);
                match self.commands.remove(first) {
                    Some((to, command)) => self.execute(to, command),
                    None => {
                        assert!(within.is_some(), "nobody has anything to do");
                        return Ok(None);
                    }
                }
            }
            Ok(self.reports.pop_front())
        })
    }
}

/// If the target began at once with its single known token, it would need another forward for the draft.
#[test]
fn an_idle_target_waits_for_a_drafter_that_is_fast_and_not_for_one_that_says_nothing() {
    within(|| {
        for (drafts, more) in [(usize::MAX, 5), (40, 120)] {
            let (commands, reports, copies) = (VecDeque::new(), VecDeque::new(), [Vec::new(), Vec::new()]);
            let mut instances = Clockwork { commands, reports, copies, drafts, forwards: 0 };
            let options = RunOptions {
                sampling: Sampling::default(),
                lookahead: 5,
                longest: Some(31),
                guesses: vec![Guess::Model],
                ends: Vec::new(),
                capacity: 200,
            };
            let mut sink = Collect::new(120);
            let mut expected = vec![3, 1, 4];
            while expected.len() < 123 {
                expected.push(Mock::token(&expected, 10));
            }
            let stats =
                run(parallel::run(&mut instances, &expected[..3], options, &mut Tuner::default(), &mut sink)).unwrap();
            assert_eq!(sink.ids, expected[3..]);
            let rounds = stats.num_spec_steps;
            assert!(instances.forwards <= rounds + more, "{} forwards, {stats:?}", instances.forwards);
            assert!(stats.num_accepted_draft_tokens > 0);
        }
    });
}

/// Translates target tokens into two digits each, the tokens of the draft model.
struct Digits;

impl Translate for Digits {
    fn for_draft(&mut self, text: &[u32]) -> Result<Vec<u32>> {
        Ok(text.iter().flat_map(|id| [id / 10, id % 10]).collect())
    }

    fn for_target(&self, drafted: &[u32]) -> Result<Vec<u32>> {
        let digits = drafted.iter().position(|&id| id > 9).unwrap_or(drafted.len());
        Ok(drafted[..digits].chunks_exact(2).map(|pair| 10 * pair[0] + pair[1]).collect())
    }
}

/// Returns scripted reports, and records its commands.
#[derive(Clone, Default)]
struct Script(Rc<RefCell<(Vec<Command>, VecDeque<Report>)>>);

impl Instances for Script {
    fn sp_degree(&self) -> usize {
        1
    }
    fn has_drafter(&self) -> bool {
        true
    }
    fn begin(&mut self, sampling: &Sampling, drafting: &Sampling) {
        assert_eq!((sampling.seed, drafting.seed), (7, 0));
    }
    fn send(&mut self, to: Role, command: Command) {
        assert_eq!(to, Role::Drafter);
        self.0.borrow_mut().0.push(command);
    }
    fn report(&mut self, _: Option<f64>) -> Later<'_, Result<Option<Report>>> {
        Box::pin(std::future::ready(Ok(self.0.borrow_mut().1.pop_front())))
    }
}

/// Drafts these tokens, one second each. Returns the translated reports and the new commands.
fn drafted(
    instances: &mut Translated,
    script: &Script,
    task: TaskId,
    drafted: &[u32],
) -> (Vec<(Vec<u32>, f64)>, Vec<Command>) {
    let report = |&id| Report::Drafted { task, ids: vec![id], seconds: 1.0 };
    script.0.borrow_mut().1.extend(drafted.iter().map(report));
    let mut found = Vec::new();
    while let Some(report) = pollster::block_on(instances.report(Some(60.0))).unwrap() {
        match report {
            Report::Drafted { task: other, ids, seconds } if other == task => found.push((ids, seconds)),
            other => panic!("{other:?}"),
        }
    }
    (found, std::mem::take(&mut script.0.borrow_mut().0))
}

fn draft(task: TaskId, keep: usize, tokens: &[u32], most: usize) -> Command {
    Command::Draft { task, feed: Feed { keep, tokens: tokens.to_vec() }, most }
}

#[test]
fn a_token_is_reported_when_what_follows_cannot_change_it() {
    let script = Script::default();
    let mut instances = Translated::new(Box::new(script.clone()), Box::new(Digits));
    let sampling = Sampling { seed: 7, ..Sampling::default() };
    instances.begin(&sampling, &sampling);
    instances.send(Role::Drafter, draft(1, 0, &[12], 2));
    let (found, commands) = drafted(&mut instances, &script, 1, &[3, 4]);
    assert_eq!((found, commands), (vec![], vec![draft(1, 0, &[1, 2], 3)]));
    // The requested tokens have come, and are not enough.
    let (found, commands) = drafted(&mut instances, &script, 1, &[5]);
    assert_eq!((found, commands), (vec![(vec![34], 3.0)], vec![draft(1, 5, &[], 2)]));
    // Once all requested tokens are there, the draft is cancelled.
    let (found, commands) = drafted(&mut instances, &script, 1, &[6, 7, 8]);
    assert_eq!((found, commands), (vec![(vec![56], 2.0)], vec![Command::Cancel { task: 1 }]));

    // The draft continues where it was, and a word that was not reported yet counts.
    instances.send(Role::Drafter, draft(2, 3, &[], 5));
    let (found, commands) = drafted(&mut instances, &script, 2, &[8, 9, 10]);
    assert_eq!((found, commands), (vec![(vec![78], 2.0)], vec![draft(2, 7, &[], 6)]));
    // Tokens that have no translation end a draft.
    let (found, commands) = drafted(&mut instances, &script, 2, &[10; 6]);
    assert_eq!((found, commands), (vec![(vec![], 0.0)], vec![Command::Cancel { task: 2 }]));

    // If the target continues differently, the drafter gets the difference.
    instances.send(Role::Drafter, draft(3, 2, &[51], 5));
    let (found, commands) = drafted(&mut instances, &script, 3, &[]);
    assert_eq!((found, commands), (vec![], vec![draft(3, 5, &[1], 6)]));
}

mod messages {
    use foretoken::Error;
    use foretoken::dsi::Feed;
    use foretoken::internals::parallel::{Command, Report};
    use foretoken::internals::sample::{Bias, Processors, Sampling};

    #[test]
    fn orders_and_reports_are_the_same_after_a_journey_as_json() {
        let biases = vec![Bias::ban(3), Bias { after: vec![1, 2], ..Bias::always(7, -1.5) }];
        let sampling = Sampling { processors: Processors { biases, ..Default::default() }, ..Default::default() };
        let feed = Feed { keep: 3, tokens: vec![4, 5] };
        for command in [
            Command::Begin { text: 1, sampling },
            Command::Verify { task: 1, feed: feed.clone(), rows: 2 },
            Command::Draft { task: 2, feed, most: 5 },
            Command::Cancel { task: 2 },
        ] {
            let text = serde_json::to_string(&command).unwrap();
            assert_eq!(serde_json::from_str::<Command>(&text).unwrap(), command, "{text}");
        }
        let reason = || "it fell off".to_owned();
        let errors = [
            Error::DeviceLost { reason: reason() },
            Error::GpuBlocked { reason: reason() },
            Error::WebGpuUnavailable { reason: reason() },
            Error::OutOfGpuMemory { what: "the model".into(), need: 3, limit: None },
            Error::NonFiniteLogits { model: "target".into(), position: 7 },
            Error::BadOption { option: "logit_bias".into(), value: "many".into(), allowed: "few".into() },
            Error::NotFound { path: "a".into(), reason: reason() },
        ];
        for error in errors {
            let report = Report::Gone { server: 1, error };
            let text = serde_json::to_string(&report).unwrap();
            assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report, "{text}");
        }
        let other = r#"{"failed": {"error": {"code": "network", "message": "no answer", "detail": null}}}"#;
        let reason = "no answer".to_owned();
        assert_eq!(
            serde_json::from_str::<Report>(other).unwrap(),
            Report::Failed { error: Error::Internal { reason } }
        );
    }
}
