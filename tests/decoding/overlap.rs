//! Host work overlapped with the device's: the order of a round's parts has no observable effect.

use async_trait::async_trait;
use common::scenario::{Outcome, Scenario};
use common::{Tales, engine, gpu, path, run};
use foretoken::internals::sample::{Draw, Processors, Sampling};
use foretoken::internals::session::{Progress, Run, Session, Sink, rounds};
use foretoken::internals::speculate::{Drafter, Round};
use foretoken::internals::target::{Draft, Queue, Target, Verified, run_round};
use foretoken::internals::weights::Folder;
use foretoken::{
    Error, FinishReason, GenerateOptions, Generation, LoadOptions, LookupRule, Origin, Prompt, Result, Schedule,
    Speculation,
};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

fn samplings() -> [Sampling; 3] {
    let processors = Processors { temperature: 0.8, top_k: 40, repetition_penalty: 1.1, ..Processors::default() };
    let way = |draw| Sampling { processors: processors.clone(), draw, seed: 5, ..Sampling::default() };
    [Sampling::default(), way(Draw::Coupled), way(Draw::Rejection)]
}

/// Tokens, origins and rounds are the same with every drafter, greedy and sampled. A round is one submission and one readback and
/// creates nothing, in either order. Commands are ready for most rounds, and host work is hidden.
#[test]
fn overlapped_rounds_do_what_sequential_rounds_do() {
    let mut engine = engine(&gpu(), &path("models/tales/target"), Some(&path("models/tales/draft")), Tales::capacity());
    let ends = engine.target().spec().eos_token_id.clone();
    let cases = Tales::cases();
    let case = cases.iter().find(|case| case.greedy_ids.len() > 40).unwrap();
    for sampling in samplings() {
        engine.sample_by(&sampling).unwrap();
        let all = ["plain", "draft model", "lookup", "draft model, heuristic"];
        // Draws change no schedule.
        let due = if sampling.draw == Draw::Greedy { &all[..] } else { &all[1..3] };
        for &who in due {
            let mut both = [true, false].map(|overlap| {
                // For the second text all but the rounds is cached.
                let [_, written] = [(); 2].map(|()| {
                    let text = Scenario::new(&case.prompt_ids).ends(&ends).most(24).keeping_all();
                    let text = match who {
                        "plain" => text,
                        "lookup" => text.lookup(10, 2, LookupRule::Leftmost),
                        "draft model" => text.draft_model(Schedule::Constant, 5),
                        _ => text.draft_model(Schedule::Heuristic, 5),
                    };
                    let before = engine.gpu().counters();
                    let Outcome { tokens, stats, .. } = text.overlap(overlap).run(&mut engine);
                    (tokens, stats, engine.gpu().counters().since(&before))
                });
                written
            });
            let what = format!("{who}, {:?}: {}", sampling.draw, case.prompt);
            let times = [both[0].1.times, both[1].1.times];
            for (_, stats, _) in &mut both {
                stats.times = Default::default();
            }
            let [overlapped, sequential] = &both;
            assert_eq!((&overlapped.0, &overlapped.1), (&sequential.0, &sequential.1), "{what}");
            for (_, stats, counters) in &both {
                let rounds = stats.num_spec_steps as u64;
                let did = (counters.submits, counters.blocking_readbacks, counters.creates);
                assert_eq!(did, (rounds, rounds, 0), "{what}");
            }
            let (rounds, prepared) = (overlapped.1.num_spec_steps as u64, overlapped.2.prepared);
            // New lengths of drafts need new commands, and so does a new block of positions. A fixed schedule continues,
            // except in the last rounds, which may be cut.
            let (least, ahead) = match who {
                "plain" => (rounds - 2, rounds - 2),
                "draft model" => (rounds / 2, rounds / 2),
                "draft model, heuristic" => (1, 0),
                _ => (rounds / 4, 0),
            };
            assert!((least..=rounds).contains(&prepared), "{what}: {prepared} of {rounds} prepared");
            let went_ahead = overlapped.2.ahead;
            assert!(went_ahead >= ahead && (ahead > 0 || went_ahead == 0), "{what}: {went_ahead} of {rounds} ahead");
            assert!(sequential.2.prepared <= 2 && sequential.2.ahead == 0, "{what}: more than what was left over");
            let [overlapped, sequential] = times;
            assert!(overlapped.hidden > 0.0 && overlapped.hidden < overlapped.host, "{what}: {overlapped:?}");
            assert!(sequential.hidden == 0.0 && sequential.host > 0.0, "{what}: {sequential:?}");
            assert!(overlapped.host < overlapped.total, "{what}: {overlapped:?}");
        }
    }
}

/// An abandoned round leaves no trace.
#[test]
fn a_submitted_round_can_be_given_up() {
    let gpu = gpu();
    let mut engine = engine(&gpu, &path("models/tales/target"), Some(&path("models/tales/draft")), Tales::capacity());
    for sampling in samplings() {
        engine.sample_by(&sampling).unwrap();
        run(async {
            engine.truncate(0);
            engine.prefill(&[5, 6, 7, 8]).await.unwrap();
            for draft in [Draft::Tokens(vec![]), Draft::Tokens(vec![3, 4]), Draft::Model(4)] {
                let expected = run_round(&mut engine, 9, &draft).await.unwrap();
                engine.truncate(4);
                for wrong in [Draft::Model(3), Draft::Tokens(vec![1; 9]), draft.clone()] {
                    engine.submit(11, &wrong).await.unwrap();
                    engine.prepare(false);
                    engine.is_computing();
                    engine.submit(12, &wrong).await.unwrap();
                    engine.prepare(false);
                    if wrong == draft {
                        engine.truncate(4);
                    }
                    assert_eq!(engine.cached(), [5, 6, 7, 8]);
                    let again = run_round(&mut engine, 9, &draft).await.unwrap();
                    assert_eq!((again.draft, again.ids), (expected.draft.clone(), expected.ids.clone()), "{wrong:?}");
                    engine.truncate(4);
                }
            }
            assert_eq!(engine.finish().await.unwrap(), Verified::default());
        });
    }
    // Two rounds in the queue.
    for draft in [Draft::Tokens(vec![]), Draft::Model(3)] {
        run(async {
            let expected = run_round(&mut engine, 9, &draft).await.unwrap();
            engine.truncate(4);
            for waits in [0, 1] {
                engine.submit(9, &draft).await.unwrap();
                assert!(engine.prepare(true));
                engine.repeat();
                assert!(!engine.prepare(true), "two at most");
                for _ in 0..waits {
                    assert_eq!(engine.finish().await.unwrap().ids, expected.ids);
                    // It began after the tokens that the target agreed with.
                    engine.keep(5);
                }
                engine.truncate(4);
                assert_eq!(engine.finish().await.unwrap(), Verified::default(), "{draft:?}, {waits}");
                let again = run_round(&mut engine, 9, &draft).await.unwrap();
                assert_eq!((again.draft, again.ids), (expected.draft.clone(), expected.ids.clone()));
                engine.truncate(4);
            }
            engine.submit(9, &Draft::Tokens(vec![3])).await.unwrap();
            assert!(!engine.prepare(true), "what is verified behind known tokens is not known");
            engine.truncate(4);
        });
    }
    let allocated = gpu.counters().allocated;
    run(engine.submit(11, &Draft::Model(3))).unwrap();
    run(engine.submit(11, &Draft::Model(3))).unwrap();
    assert_eq!(gpu.counters().allocated, allocated);
    drop(engine);
    assert_eq!(gpu.counters().allocated, 0);
}

/// Loads the tales draft model, which is small, as target and as draft model.
fn session() -> Session {
    let source = Folder::open(path("models/tales/draft")).unwrap();
    let options = LoadOptions::new().max_context(128);
    run(Session::load(&gpu(), Box::new(source.clone()), Some(Box::new(source)), &options, &mut |_, _| ())).unwrap()
}

fn generate(session: &mut Session, options: &GenerateOptions, most: usize) -> Generation {
    let prompt = Prompt::Text("Once upon a time there was a king. Once upon a time".into());
    let mut heard = 0;
    let on_progress = &mut |_: Progress<'_>| {
        heard += 1;
        if heard == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    run(session.generate(&prompt, options, on_progress)).unwrap()
}

fn ways() -> [GenerateOptions; 3] {
    // The other schedules learn over calls.
    let num_assistant_tokens_schedule = Schedule::HeuristicTransient;
    let options =
        GenerateOptions::new().max_new_tokens(24).num_assistant_tokens_schedule(num_assistant_tokens_schedule);
    [
        options.clone().speculation(Speculation::Off),
        options.clone().num_assistant_tokens(4),
        options.prompt_lookup_num_tokens(6).do_sample(true).seed(4),
    ]
}

/// Returns everything that does not depend on the clock or on the cache.
fn seen(generation: Generation) -> impl PartialEq + std::fmt::Debug {
    let Generation { text, token_ids, finish_reason, stats, .. } = generation;
    let counts = (stats.num_spec_steps, stats.num_emitted_tokens, stats.per_step_drafted, stats.per_step_accepted);
    (text, token_ids, finish_reason, counts, stats.acceptance_histogram, stats.warnings)
}

/// After an abort at any token, with a round in flight, the session can be used at once.
#[test]
fn a_caller_may_break_off_at_every_token() {
    let mut session = session();
    for options in ways() {
        let sequential = options.clone().overlap(false);
        let whole = seen(generate(&mut session, &sequential, usize::MAX));
        for most in 1..=24 {
            let expected = seen(generate(&mut session, &sequential, most));
            assert_eq!(seen(generate(&mut session, &options, most)), expected, "after {most}");
            assert_eq!(seen(generate(&mut session, &options, usize::MAX)), whole, "after {most}");
        }
    }
}

/// If a character or a stop string is incomplete, the text still includes all its tokens.
#[test]
fn what_was_held_back_is_in_a_text_that_was_broken_off() {
    let mut session = session();
    let [options, ..] = ways();
    let whole = generate(&mut session, &options, usize::MAX);
    let prompt = Prompt::Text("Once upon a time there was a king. Once upon a time".into());
    // Half of a character, and the beginning of a stop string that is never completed.
    let character = session.encode(&Prompt::Text("\u{1F451}".into()), &GenerateOptions::new()).unwrap();
    assert!(character.len() > 1, "the crown is one token");
    let forced = options.clone().logit_bias([(character[0], 100.0)]);
    let stop = vec![whole.text.clone() + "!"];
    let held = options.stop(stop);
    for options in [held, forced] {
        for most in [1, 2, 3, 9] {
            let mut shown = String::new();
            let mut heard = 0;
            let broken_off = run(session.generate(&prompt, &options, &mut |progress| {
                if let Progress::Token(token) = progress {
                    shown += &token.text;
                    heard += 1;
                }
                if heard == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }))
            .unwrap();
            assert_eq!(broken_off.finish_reason, FinishReason::Aborted);
            let ended = options.clone().max_new_tokens(most);
            let ended = generate(&mut session, &ended, usize::MAX);
            assert_eq!((&broken_off.text, &broken_off.token_ids), (&ended.text, &ended.token_ids));
            assert!(shown.len() < broken_off.text.len(), "nothing was held back of {:?}", broken_off.text);
        }
    }
}

/// A stop string ends the text where it ends it sequentially, for all boundaries of rounds.
#[test]
fn stop_strings_end_overlapped_rounds_at_the_same_token() {
    let mut session = session();
    for options in ways() {
        let text = generate(&mut session, &options, usize::MAX).text;
        let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        for (i, &start) in starts.iter().enumerate().step_by(3) {
            let end = starts.get(i + 7).copied().unwrap_or(text.len());
            let stop = vec![text[start..end].to_owned()];
            let overlapped = options.clone().stop(stop);
            let sequential = overlapped.clone().overlap(false);
            let expected = seen(generate(&mut session, &sequential, usize::MAX));
            assert_eq!(seen(generate(&mut session, &overlapped, usize::MAX)), expected, "{:?}", overlapped.stop);
        }
    }
}

type Log = Rc<RefCell<Vec<String>>>;

/// Time by which a driver that accepts no submission during another one delays the first round after the prompt.
const HELD: Duration = Duration::from_millis(20);

/// A target that counts: its token after n is n + 1. It fails at a submission or when that is awaited.
struct Counting {
    cached: Vec<u32>,
    submitted: Option<Vec<u32>>,
    fails: Option<(&'static str, u32)>,
    /// Rounds before its kernels are ready.
    unready: usize,
    /// Chunks that its draft model still has to read.
    unread: usize,
    /// Changes its answers.
    spoils: fn(&mut Verified),
    log: Log,
}

impl Counting {
    fn new(log: &Log) -> Self {
        let (cached, log) = (Vec::new(), log.clone());
        Self { cached, submitted: None, fails: None, unready: 0, unread: 0, spoils: |_| (), log }
    }

    fn step(&self, step: &'static str, pending: u32) -> Result<()> {
        self.log.borrow_mut().push(format!("{step} {pending}"));
        match self.fails {
            Some(fails) if fails == (step, pending) => Err(Error::DeviceLost { reason: "gone".into() }),
            _ => Ok(()),
        }
    }
}

#[async_trait(?Send)]
impl Target for Counting {
    fn sample_by(&mut self, _sampling: &Sampling) -> Result<()> {
        Ok(())
    }
    fn cached(&self) -> &[u32] {
        &self.cached
    }
    fn capacity(&self) -> usize {
        100
    }
    fn truncate(&mut self, len: usize) {
        self.cached.truncate(len);
        self.submitted = None;
    }
    async fn prefill(&mut self, tokens: &[u32]) -> Result<()> {
        self.cached.extend_from_slice(tokens);
        Ok(())
    }
    async fn ready(&mut self, _draft: &Draft) -> Result<bool> {
        let ready = self.unready == 0;
        self.unready = self.unready.saturating_sub(1);
        Ok(ready)
    }
    async fn catch_up(&mut self, pending: u32) -> Result<usize> {
        if self.unread == 0 {
            return Ok(0);
        }
        self.unread -= 1;
        self.step("read", pending).map(|()| 16)
    }
    async fn submit(&mut self, pending: u32, draft: &Draft) -> Result<()> {
        let draft = match draft {
            Draft::Tokens(draft) => draft.clone(),
            Draft::Model(_) if self.unread > 0 => Vec::new(),
            Draft::Model(count) => (pending + 1..).take(*count).collect(),
        };
        self.submitted = Some([&[pending], &draft[..]].concat());
        if pending == 9 {
            std::thread::sleep(HELD);
        }
        self.step("submit", pending)
    }
    async fn finish(&mut self) -> Result<Verified> {
        let tokens = self.submitted.take().expect("a round was submitted");
        self.step("finish", tokens[0])?;
        self.cached.extend_from_slice(&tokens);
        let ids = tokens.iter().map(|id| id + 1).collect();
        // As if a draft model with another tokenizer had held the round.
        let waited = if tokens[0] == 9 { HELD.as_secs_f64() } else { 0.0 };
        let mut verified = Verified { draft: tokens[1..].to_vec(), ids, waited, ..Verified::default() };
        (self.spoils)(&mut verified);
        Ok(verified)
    }
}

impl Queue for Counting {
    fn prepare(&mut self, _repeats: bool) -> bool {
        self.log.borrow_mut().push("prepare".into());
        false
    }
}

/// Proposes the next number.
struct Next;

impl Drafter for Next {
    fn draft(&mut self, tokens: &[u32], _room: usize) -> Draft {
        Draft::Tokens(vec![tokens[tokens.len() - 1] + 1])
    }
    fn learn(&mut self, _round: &Round) {}
    fn origin(&self) -> Origin {
        Origin::Lookup
    }
}

/// Logs tokens; at one of them it stops, or fails.
struct Listener {
    heard: Vec<u32>,
    breaks: Option<u32>,
    fails: Option<u32>,
    log: Log,
}

impl Sink for Listener {
    fn room(&self) -> usize {
        6 - self.heard.len()
    }
    fn push(&mut self, id: u32, _origin: Origin, last: bool) -> Result<ControlFlow<()>> {
        self.heard.push(id);
        self.log.borrow_mut().push(if last { format!("last {id}") } else { format!("{id}") });
        if self.fails == Some(id) {
            return Err(Error::BadTokenizer { file: "tokenizer.json".into(), reason: "unreadable".into() });
        }
        Ok(if self.breaks == Some(id) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

struct Heard {
    ended: Result<()>,
    log: Vec<String>,
    text: Run,
    target: Counting,
}

fn listen(overlap: bool, fails: Option<(&'static str, u32)>, sink: (Option<u32>, Option<u32>)) -> Heard {
    listen_to(overlap, fails, sink, |_| ())
}

fn listen_to(
    overlap: bool,
    fails: Option<(&'static str, u32)>,
    sink: (Option<u32>, Option<u32>),
    spoils: fn(&mut Verified),
) -> Heard {
    let log = Log::default();
    let mut target = Counting { fails, spoils, ..Counting::new(&log) };
    let mut sink = Listener { heard: Vec::new(), breaks: sink.0, fails: sink.1, log: log.clone() };
    let mut text = Run::new(&[8, 9]);
    text.overlap = overlap;
    let ended = run(rounds(&mut target, &mut Next, &mut text, &[], &mut sink));
    assert_eq!(text.tokens[2..], sink.heard, "the sink has heard of all");
    let log = log.borrow().clone();
    Heard { ended, log, text, target }
}

/// [`Next`] with a record of learned rounds.
struct Learning(Vec<(usize, usize)>);

impl Drafter for Learning {
    fn draft(&mut self, tokens: &[u32], room: usize) -> Draft {
        Next.draft(tokens, room)
    }
    fn learn(&mut self, round: &Round) {
        self.0.push((round.drafted, round.rows));
    }
    fn origin(&self) -> Origin {
        Origin::Lookup
    }
}

/// If kernels are not compiled yet, the round becomes a plain one, and counts as such.
#[test]
fn what_is_not_ready_is_not_verified() {
    let log = Log::default();
    let mut target = Counting { unready: 2, ..Counting::new(&log) };
    let mut sink = Listener { heard: Vec::new(), breaks: None, fails: None, log };
    let (mut text, mut drafter) = (Run::new(&[8, 9]), Learning(Vec::new()));
    run(rounds(&mut target, &mut drafter, &mut text, &[], &mut sink)).unwrap();
    assert_eq!(drafter.0, [(0, 1), (0, 1), (1, 2), (1, 2)]);
    assert_eq!((sink.heard, text.stats.num_draft_tokens), (vec![10, 11, 12, 13, 14, 15], 2));
}

/// Drafts with a draft model after some plain rounds.
struct Late(usize);

impl Drafter for Late {
    fn draft(&mut self, _tokens: &[u32], _room: usize) -> Draft {
        let is_plain = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        if is_plain { Draft::Tokens(Vec::new()) } else { Draft::Model(2) }
    }
    fn learn(&mut self, _round: &Round) {}
    fn origin(&self) -> Origin {
        Origin::DraftModel
    }
}

/// A draft model reads a long prompt before the first round, or else a chunk before each, so that the text goes on.
#[test]
fn a_text_goes_on_while_the_draft_model_reads() {
    for (plain, expected) in [
        (0, "read 9, read 9, read 9, submit 9, finish 9, submit 12, 10, 11, 12, finish 12, 13, 14, last 15"),
        (
            1,
            "submit 9, finish 9, read 10, 10, submit 10, finish 10, read 11, 11, submit 11, finish 11, read 12, 12, \
             submit 12, finish 12, 13, 14, last 15",
        ),
    ] {
        let log = Log::default();
        let mut target = Counting { unread: 3, ..Counting::new(&log) };
        let mut sink = Listener { heard: Vec::new(), breaks: None, fails: None, log: log.clone() };
        let mut text = Run::new(&[8, 9]);
        run(rounds(&mut target, &mut Late(plain), &mut text, &[], &mut sink)).unwrap();
        let steps: Vec<_> = log.borrow().iter().filter(|step| *step != "prepare").cloned().collect();
        assert_eq!(steps.join(", "), expected);
    }
}

#[test]
fn the_next_round_is_submitted_before_the_sink_hears_of_the_last() {
    let overlapped = listen(true, None, (None, None));
    assert_eq!(overlapped.ended, Ok(()));
    let expected =
        "submit 9,prepare,finish 9,submit 11,10,11,prepare,finish 11,submit 13,12,13,prepare,finish 13,14,last 15";
    assert_eq!(overlapped.log.join(","), expected);
    let sequential = listen(false, None, (None, None));
    let expected = "submit 9,finish 9,10,11,submit 11,finish 11,12,13,submit 13,finish 13,14,last 15";
    assert_eq!(sequential.log.join(","), expected);
    assert_eq!(overlapped.text.tokens, sequential.text.tokens);
    for heard in [overlapped, sequential] {
        let times = heard.text.stats.times;
        let held = HELD.as_secs_f64();
        assert!(times.verify >= held && times.host >= 0.0 && times.host + held <= times.total, "{times:?}");
    }
}

/// Tokens accepted before the device was lost are emitted and counted before the error.
#[test]
fn a_failing_device_takes_no_accepted_token_with_it() {
    for overlap in [true, false] {
        for fails in [("submit", 11), ("finish", 11), ("submit", 13), ("finish", 13)] {
            let heard = listen(overlap, Some(fails), (None, None));
            assert_eq!(heard.ended, Err(Error::DeviceLost { reason: "gone".into() }));
            assert_eq!(heard.text.tokens.last(), Some(&fails.1));
            assert_eq!(heard.text.stats.num_emitted_tokens, heard.text.tokens.len() - 2);
            // A sink that has stopped gets no later error.
            let heard = listen(overlap, Some(fails), (Some(fails.1), None));
            assert_eq!(heard.ended, Ok(()));
        }
    }
}

/// An invalid answer of a target is an error, not a panic.
#[test]
fn an_answer_to_something_else_is_an_error() {
    let spoilt: [fn(&mut Verified); 6] = [
        |verified| verified.ids.clear(),
        |verified| verified.ids.truncate(1),
        |verified| verified.ids.push(7),
        |verified| *verified = Verified::default(),
        |verified| verified.draft[0] += 1,
        |verified| {
            verified.draft.push(7);
            verified.ids.push(7);
        },
    ];
    for overlap in [true, false] {
        for spoils in spoilt {
            let heard = listen_to(overlap, None, (None, None), spoils);
            let Err(Error::Internal { reason }) = heard.ended else { panic!("{:?}", heard.ended) };
            assert!(reason.contains("a target answered 1 draft tokens with"), "{reason}");
            assert_eq!(heard.text.tokens, [8, 9]);
        }
        // A shorter draft is valid.
        let shorter: fn(&mut Verified) = |verified| {
            verified.draft.clear();
            verified.ids.truncate(1);
        };
        assert_eq!(listen_to(overlap, None, (None, None), shorter).ended, Ok(()));
    }
}

/// The round in flight is abandoned, and tokens that were not emitted are dropped.
#[test]
fn a_sink_that_breaks_or_fails_ends_the_text_there() {
    for overlap in [true, false] {
        for at in 10..=15 {
            for (breaks, fails) in [(Some(at), None), (None, Some(at))] {
                let heard = listen(overlap, None, (breaks, fails));
                assert_eq!(heard.ended.is_err(), fails.is_some());
                assert_eq!(heard.text.tokens.last(), Some(&at));
                assert_eq!(heard.target.cached, (8..at).collect::<Vec<_>>());
                assert!(heard.target.submitted.is_none(), "a round is still on its way");
                if breaks.is_some() {
                    assert_eq!(heard.text.stats.num_emitted_tokens, at as usize - 9);
                }
            }
        }
    }
}
