//! The public handle: used from any thread, blocking or awaited, cancelled, and in conversations.

use common::{path, run};
use foretoken::internals::session::Generator;
use foretoken::{
    CancelToken, DeviceChoice, DrafterChoice, Embedding, Engine, Error, FinishReason, GenerateOptions, Generation,
    LoadOptions, Message, Pooling, Prompt, ResponseFormat, Schedule, WeightsRule,
};
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

fn on_cpu() -> LoadOptions {
    LoadOptions::new().device(DeviceChoice::Cpu)
}

fn engine() -> Engine {
    let model = |part: &str| path("models/tales").join(part).display().to_string();
    Engine::builder(model("target")).assistant_model(model("draft")).options(on_cpu()).load().unwrap()
}

fn few(max_new_tokens: usize) -> GenerateOptions {
    GenerateOptions::new().max_new_tokens(max_new_tokens)
}

#[test]
fn tokens_come_blocking_and_awaited_on_any_thread() {
    fn anywhere<T: Send + 'static>(value: T) -> T {
        value
    }
    let engine = anywhere(engine());
    let whole = engine.generate("Once upon a time", few(24)).wait().unwrap();
    assert_eq!((whole.token_ids.len(), whole.finish_reason), (24, FinishReason::Length));
    let mut writing = anywhere(engine.generate("Once upon a time", few(24)));
    let text: String = writing.by_ref().map(|token| token.unwrap().text).collect();
    assert_eq!(text, whole.text);
    assert_eq!(writing.generation().unwrap().token_ids, whole.token_ids);
    assert!(writing.next().is_none());
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let engine = engine.clone();
            thread::spawn(move || run(engine.generate("Once upon a time", few(24)).complete()).unwrap().text)
        })
        .collect();
    assert!(threads.into_iter().all(|thread| thread.join().unwrap() == whole.text));
    let ids = engine.tokenize("Once upon a time", GenerateOptions::new()).wait().unwrap();
    assert_eq!(run(engine.detokenize(ids.clone(), true)).unwrap(), "Once upon a time");
    assert_eq!(engine.generate(ids, few(24)).wait().unwrap().text, whole.text);
}

/// Special tokens are not in the text, but may be stop texts.
#[test]
fn a_special_token_may_be_a_stop_text() {
    let engine = engine();
    let start = engine.tokenize("<|im_start|>", GenerateOptions::new()).wait().unwrap();
    assert_eq!(start.len(), 1);
    // It stops wherever it occurs: after one token, and with drafts.
    let biased = |most| few(most).logit_bias([(start[0], 100.0)]).min_new_tokens(3);
    let whole = engine.generate("Once upon a time", biased(6)).wait().unwrap();
    assert_eq!((whole.token_ids.as_slice(), whole.text.as_str()), (&[start[0]; 6][..], ""));
    for skips in [true, false] {
        let stopping = biased(6).stop(["<|im_start|>", "other"].map(String::from)).skip_special_tokens(skips);
        let stopped = engine.generate("Once upon a time", stopping).wait().unwrap();
        assert_eq!((stopped.token_ids.as_slice(), stopped.text.as_str()), (&start[..], ""));
        assert_eq!(stopped.finish_reason, FinishReason::Stop);
    }
    let form = few(20).response_format(ResponseFormat::grammar(&format!("start: \"a man\" <[{}]> \" and\"", start[0])));
    let stopped = engine.generate("Once upon a time there was", form.stop(["<|im_start|>".into()])).wait().unwrap();
    assert_eq!((stopped.text.as_str(), stopped.finish_reason), ("a man", FinishReason::Stop));
}

#[test]
fn a_text_ends_when_it_is_cancelled_or_dropped() {
    let engine = engine();
    let mut writing = engine.generate("Once upon a time", few(400));
    let cancel = writing.cancel_token();
    writing.next().unwrap().unwrap();
    thread::spawn(move || cancel.cancel()).join().unwrap();
    let written = writing.wait().unwrap();
    assert_eq!(written.finish_reason, FinishReason::Aborted);
    assert!(written.token_ids.len() < 400);
    drop(engine.generate("Once upon a time", few(400)));
    assert_eq!(engine.generate("Once upon a time", few(3)).wait().unwrap().token_ids.len(), 3);
}

#[test]
fn the_progress_of_a_long_prompt_is_reported_before_the_first_token() {
    let options = on_cpu().prefill_chunk(8);
    let engine = Engine::builder(path("models/tales/draft").display().to_string()).options(options).load().unwrap();
    let prompt = "Once upon a time there was a king who had a daughter, and she was so fair that the sun wondered";
    let count = engine.tokenize(prompt, GenerateOptions::new()).wait().unwrap().len();
    let mut progress = Vec::new();
    let writing = engine.generate(prompt, few(2)).on_progress(|each| progress.push((each.loaded, each.total)));
    assert_eq!(writing.wait().unwrap().token_ids.len(), 2);
    assert!(progress.len() >= count / 8 && progress.is_sorted(), "{progress:?} of {count}");
    assert!(progress.iter().all(|&(loaded, total)| loaded <= total && (count - 1..=count).contains(&total)));
}

/// Whatever is being read when the token is cancelled: nothing yet, the draft model or the target.
#[test]
fn a_load_that_is_cancelled_ends_with_an_error_and_a_later_cancel_changes_nothing() {
    let model = |part: &str| path("models/tales").join(part).display().to_string();
    let load = |after: Option<u64>| {
        let cancel = CancelToken::default();
        let (token, calls) = (cancel.clone(), Arc::new(AtomicU64::new(0)));
        if after == Some(0) {
            cancel.cancel();
        }
        let counted = calls.clone();
        let builder = Engine::builder(model("target")).assistant_model(model("draft")).options(on_cpu());
        let builder = builder.cancel_token(cancel.clone()).on_progress(move |_, _| {
            if Some(counted.fetch_add(1, Ordering::SeqCst) + 1) == after {
                token.cancel();
            }
        });
        (builder.load(), cancel, calls.load(Ordering::SeqCst))
    };
    let (loaded, cancel, calls) = load(None);
    let engine = loaded.unwrap();
    cancel.cancel();
    assert_eq!(engine.generate("Once", few(3)).wait().unwrap().token_ids.len(), 3);
    assert!(calls > 2, "{calls} reports");
    for after in [0, 1, calls / 2, calls] {
        let error = load(Some(after)).0.err().unwrap();
        assert_eq!(error.code(), "aborted", "after {after} reports: {error}");
    }
}

#[test]
fn a_conversation_keeps_what_was_said() {
    let engine = engine();
    let mut chat = engine.chat(few(8)).with_messages([Message::new("system", "You tell tales.")]);
    let answer = chat.send("Tell me a tale about a fox.").wait().unwrap();
    let said = |chat: &foretoken::Chat| -> Vec<(String, String)> {
        chat.messages().iter().map(|message| (message.role().to_owned(), message.content().to_owned())).collect()
    };
    let first = said(&chat);
    assert_eq!(first.len(), 3);
    assert_eq!(first[2], ("assistant".into(), answer.text.clone()));
    let mut branch = chat.clone();
    assert_eq!(branch.regenerate().unwrap().wait().unwrap().text, answer.text);
    assert_eq!(said(&branch), first);
    // The written part of an answer stays; a message without an answer is removed.
    let begun = branch.send("And then?").next().unwrap().unwrap().text;
    assert_eq!(said(&branch)[4], ("assistant".into(), begun));
    chat.truncate(1);
    assert!(matches!(chat.regenerate().map(drop), Err(Error::BadOption { .. })));
    let mut refused = engine.chat(few(0));
    assert!(matches!(refused.send("x").wait(), Err(Error::BadOption { .. })));
    assert!(refused.messages().is_empty());
}

#[test]
fn what_cannot_be_loaded_says_why() {
    let missing = Engine::load("./models/none").map(drop).unwrap_err();
    assert!(matches!(&missing, Error::NotFound { path, .. } if path == "./models/none"), "{missing}");
    let model = path("models/tales/draft").display().to_string();
    let options = LoadOptions::new().max_context(1);
    assert!(matches!(Engine::builder(&model).options(options).load(), Err(Error::BadOption { .. })));
    let broken = Engine::builder(&model).options(on_cpu()).on_progress(|_, _| panic!("on purpose")).load();
    assert!(matches!(broken, Err(Error::Internal { .. })));
}

#[test]
fn an_empty_list_is_no_prompt() {
    let engine = engine();
    let refused = |prompt: Prompt| engine.generate(prompt, few(2)).wait().unwrap_err().to_string();
    for list in [Prompt::Tokens(Vec::new()), Prompt::Chat(Vec::new())] {
        let words = refused(list);
        assert!(words.starts_with("prompt: an empty list is not allowed; allowed: "), "{words}");
    }
    // A prompt may be empty.
    assert_eq!(engine.generate("", few(2)).wait().unwrap().token_ids.len(), 2);
    let more = few(2).continue_final_message(true);
    let words = engine.generate("Once", more).wait().unwrap_err().to_string();
    assert_eq!(
        words,
        "continue_final_message: true is not allowed; allowed: none, unless the prompt is a list of messages"
    );
}

#[test]
fn texts_are_placed_and_continuations_weighed() {
    let engine = engine();
    let text = "The fox went into the wood.";
    let place = |pooling| engine.embed(text, pooling, true).wait().unwrap();
    let (mean, last) = (place(Pooling::Mean), place(Pooling::Last));
    let length = |place: &Embedding| place.embedding.iter().map(|x| x * x).sum::<f32>().sqrt();
    assert!((length(&mean) - 1.0).abs() < 1e-5 && (length(&last) - 1.0).abs() < 1e-5);
    assert_ne!(mean.embedding, last.embedding);
    let scores = engine.score("Once upon a", [" time", " stone"]).wait().unwrap();
    assert!(scores[0].logprob > scores[1].logprob, "{scores:?}");
}

#[test]
fn several_targets_write_the_same_text() {
    let one = engine();
    let model = |part: &str| path("models/tales").join(part).display().to_string();
    let beside = LoadOptions::new().device(DeviceChoice::Cpu).draft_device(DeviceChoice::Cpu);
    let several = Engine::builder(model("target")).assistant_model(model("draft")).options(beside).load().unwrap();
    let written = several.generate("Once upon a time", few(24)).wait().unwrap();
    assert!(written.stats.distributed.is_some());
    assert_eq!(written.token_ids, one.generate("Once upon a time", few(24)).wait().unwrap().token_ids);
    assert!(matches!(several.embed("Once", Pooling::Mean, true).wait(), Err(Error::BadOption { .. })));
}

fn read_error(json: Value) -> Error {
    serde_json::from_value(json).unwrap()
}

#[test]
fn an_error_is_read_as_it_was_written() {
    let text = || "words".to_owned();
    let [reason, file, url, path, what] = std::array::from_fn(|_| text());
    let all = [
        Error::WebGpuUnavailable { reason },
        Error::OutOfGpuMemory { what, need: 1 << 40, limit: Some(3) },
        Error::DeviceLost { reason: text() },
        Error::GpuBlocked { reason: text() },
        Error::BadWeights { file: file.clone(), rule: WeightsRule::Other { message: text() } },
        Error::BadConfig { file: file.clone(), key: "key".into(), reason: text() },
        Error::UnsupportedArchitecture { architecture: text(), supported: "others".into() },
        Error::BadTokenizer { file: file.clone(), reason: text() },
        Error::BadTemplate { reason: text() },
        Error::ContextFull { need: 9, limit: 8 },
        Error::BadOption { option: "top_k".into(), value: text(), allowed: "1".into() },
        Error::Network { url: url.clone(), reason: text() },
        Error::Unauthorized { url: url.clone(), reason: text() },
        Error::Overloaded { url: url.clone(), reason: text(), retry_after: Some(1.5) },
        Error::TokenizerMismatch { url, reason: text() },
        Error::Integrity { file, reason: text() },
        Error::NotFound { path, reason: text() },
        Error::NonFiniteLogits { model: "target".into(), position: 7 },
        Error::Internal { reason: text() },
    ];
    for error in &all {
        assert_eq!(read_error(error.to_json()), *error);
    }
    let codes: BTreeSet<_> = all.iter().map(Error::code).collect();
    assert_eq!(codes.len(), all.len());
    // A rule is restored as its message.
    let rule = WeightsRule::MissingTensor { tensor: "lm_head".into() };
    let bad = Error::BadWeights { file: "model.safetensors".into(), rule };
    assert_eq!(read_error(bad.to_json()).to_json(), bad.to_json());
}

#[test]
fn the_option_that_helps_is_named() {
    let full = |what: &str| Error::OutOfGpuMemory { what: what.into(), need: 8, limit: Some(4) }.to_string();
    let advice = |what: &str| full(what).rsplit_once(": ").unwrap().1.to_owned();
    for what in ["the KV cache of a layer", "the attention blocks", "the rotary tables", "all that is loaded"] {
        assert_eq!(advice(what), "lower max_context, or take a smaller model");
    }
    assert_eq!(advice("the MLP rows"), "lower prefill_chunk, or take a smaller model");
    assert_eq!(advice("the activations"), "lower prefill_chunk, or take a smaller model");
    for what in ["the logits", "the sampler", "the weights", "16 rows of lm_head"] {
        assert_eq!(advice(what), "take a smaller model");
    }
}

#[test]
fn an_unknown_code_is_internal() {
    let unknown = json!({ "code": "from-the-future", "message": "new words", "detail": null });
    assert_eq!(read_error(unknown), Error::Internal { reason: "new words".into() });
}

#[test]
fn a_repeated_question_is_drafted_from_what_the_engine_remembers() {
    let write = |memory: usize, drafter: DrafterChoice, schedule: Schedule| {
        let model = path("models/tales/target").display().to_string();
        let engine = Engine::builder(model).options(on_cpu().lookup_memory(memory)).load().unwrap();
        let options = few(40).drafter(drafter).num_assistant_tokens_schedule(schedule);
        let [first, other, again] = ["Once upon a time", "The fox went", "Once upon a time"]
            .map(|prompt| engine.generate(prompt, options.clone()).wait().unwrap());
        assert_eq!(again.token_ids, first.token_ids, "the memory changes no text");
        assert_ne!(other.token_ids, first.token_ids);
        (first, again)
    };
    let accepted = |text: &Generation| text.stats.num_accepted_draft_tokens;
    let (first, again) = write(1000, DrafterChoice::Suffix, Schedule::Constant);
    assert!(accepted(&again) > 30 && accepted(&again) > 2 * accepted(&first), "{:?} {:?}", first.stats, again.stats);
    assert_eq!(again.stats.speculating, None);
    let (first, again) = write(0, DrafterChoice::Suffix, Schedule::Constant);
    assert_eq!(accepted(&again), accepted(&first), "nothing is remembered");
    let (first, again) = write(1000, DrafterChoice::Auto, Schedule::Adaptive);
    assert!(accepted(&again) > accepted(&first), "{:?} {:?}", first.stats, again.stats);
    let rounds = again.stats.speculating.unwrap().rounds;
    assert!(rounds.suffix > 0, "{rounds:?}");
}

fn load_draft() -> Engine {
    let model = path("models/tales/draft").display().to_string();
    Engine::builder(model).options(on_cpu()).load().unwrap()
}

struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        thread::sleep(Duration::from_millis(50));
        self.0.store(true, Ordering::SeqCst);
    }
}

thread_local! {
    static KEPT: Cell<Option<Ends>> = const { Cell::new(None) };
}

#[test]
fn the_thread_ends_with_the_last_engine_or_text() {
    let engine = load_draft();
    let has_ended = flag_of_end(&engine);
    let mut text = engine.generate("Once", GenerateOptions::new());
    drop(engine);
    text.next().unwrap().unwrap();
    assert!(!has_ended.load(Ordering::SeqCst));
    drop(text);
    assert!(has_ended.load(Ordering::SeqCst));
}

/// Keeps a value on the engine's thread; returns a flag that is set when the thread has ended.
fn flag_of_end(engine: &Engine) -> Arc<AtomicBool> {
    let has_ended = Arc::new(AtomicBool::new(false));
    let ends = Ends(has_ended.clone());
    let keep = move |_: &mut Generator| {
        KEPT.set(Some(ends));
        Ok(())
    };
    engine.call(keep).wait().unwrap();
    has_ended
}

#[test]
fn closing_ends_the_text_and_joins_the_thread_and_later_calls_are_refused() {
    let engine = load_draft();
    let other = engine.clone();
    let has_ended = flag_of_end(&engine);
    // Long enough to be closed before it ends by itself, unless the machine is very busy.
    let mut text = engine.generate("Once", GenerateOptions::new().min_new_tokens(900).max_new_tokens(900));
    let waiting = other.tokenize("Once", GenerateOptions::new());
    text.next().unwrap().unwrap();
    engine.close();
    assert!(has_ended.load(Ordering::SeqCst));
    let refused = |error: Error| assert!(matches!(error, Error::Aborted { .. }), "{error}");
    match (text.wait(), waiting.wait()) {
        (Ok(text), _) => assert_eq!(text.token_ids.len(), 900, "no part of a text is taken for all of it"),
        (text, waiting) => {
            [text.map(drop), waiting.map(drop)].into_iter().for_each(|ended| refused(ended.unwrap_err()))
        }
    }
    refused(other.tokenize("Once", GenerateOptions::new()).wait().unwrap_err());
    refused(other.generate("Once", GenerateOptions::new()).wait().unwrap_err());
    // Once more, and with a clone.
    engine.close();
    other.close();
}

#[test]
fn a_panic_of_the_thread_is_reported() {
    let engine = load_draft();
    let broken = engine.call::<()>(|_| panic!("on purpose"));
    assert!(matches!(broken.wait(), Err(Error::Internal { .. })));
    assert!(matches!(engine.generate("Once", GenerateOptions::new()).wait(), Err(Error::Internal { .. })));
}
