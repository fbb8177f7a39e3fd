//! Targets on servers generate the text of the target itself, with every drafter and despite faults of the servers.

use common::foreign::Foreign;
use common::served::{Answer, Asked, Misbehave, Served, honest};
use common::{path, run, within};
use foretoken::internals::backend::Device;
use foretoken::internals::backend::server::{Dialect, Endpoint, Http, Key};
use foretoken::internals::parallel;
use foretoken::internals::session::{Executor, Generator, Progress, Session};
use foretoken::internals::weights::Folder;
use foretoken::{
    DeviceChoice, DoSample, DrafterChoice, Error, GenerateOptions, Generation, LoadOptions, Prompt, ResponseFormat,
    Result, Schedule, Speculation,
};
use serde_json::{Value, json};
use std::ops::{ControlFlow, Range};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, LazyLock};
use std::time::Duration;

const PROMPT: &str = "Once upon a time there was a little fox who lived in a wood. The fox said";
const DIALECTS: [Dialect; 3] = [Dialect::Vllm, Dialect::Completions, Dialect::Sglang];

fn folder(part: &str) -> Folder {
    Folder::open(path("models/tales").join(part)).unwrap()
}

fn generate<E: Executor + ?Sized>(writer: &mut Generator<E>, options: &GenerateOptions) -> Result<Generation> {
    run(writer.generate(&Prompt::Text(PROMPT.into()), options, &mut |_| ControlFlow::Continue(())))
}

fn options(count: usize) -> GenerateOptions {
    GenerateOptions::new().max_new_tokens(count)
}

fn expected(count: usize) -> Vec<u32> {
    static WHOLE: LazyLock<Vec<u32>> = LazyLock::new(|| {
        let load = LoadOptions::new();
        let mut session =
            run(Session::load(Device::cpu(), Box::new(folder("target")), None, &load, &mut |_, _| ())).unwrap();
        generate(&mut session, &options(64).speculation(Speculation::Off)).unwrap().token_ids
    });
    WHOLE[..count].to_vec()
}

/// Patience and timeout are short, because these servers answer at once.
fn endpoint(servers: &[&Served]) -> Endpoint {
    let endpoint = Endpoint::new(servers.iter().map(|served| &served.address), "tales").unwrap();
    Endpoint { patience: 20.0, timeout: 20.0, ..endpoint }
}

fn connect(endpoint: &Endpoint, with_assistant: bool) -> Result<Box<Generator>> {
    connect_by(endpoint, with_assistant.then(|| folder("draft")), &LoadOptions::new().device(DeviceChoice::Cpu))
}

/// Connects with up to `sp_degree` requests in flight. The draft model computes on the CPU meanwhile.
fn connect_several(endpoint: &Endpoint, with_assistant: bool, sp_degree: usize) -> Result<Box<Generator>> {
    let load = LoadOptions::new().sp_degree(sp_degree).draft_device(DeviceChoice::Cpu);
    connect_by(endpoint, with_assistant.then(|| folder("draft")), &load)
}

fn connect_by(endpoint: &Endpoint, assistant: Option<Folder>, load: &LoadOptions) -> Result<Box<Generator>> {
    let transport = Rc::new(Http::default());
    run(parallel::connect(transport, endpoint.clone(), Box::new(folder("target")), assistant, load, &mut |_, _| ()))
}

/// Replaces the responses to requests number `times` for a text, counted from 0 since `armed`.
fn at(
    times: Range<usize>,
    armed: &Arc<AtomicBool>,
    mut instead: impl FnMut(Answer) -> Answer + Send + 'static,
) -> Misbehave {
    let (mut count, armed) = (0, armed.clone());
    Box::new(move |asked, answer| {
        if !asked.generates() || !armed.load(Ordering::Relaxed) {
            return answer;
        }
        count += 1;
        if times.contains(&(count - 1)) { instead(answer) } else { answer }
    })
}

#[test]
fn recorded_answers_are_read() {
    let file = |name: &str| std::fs::read(path("tests/golden/servers").join(name)).unwrap();
    // The last 4 of 40 tokens; at first nothing was cached, then two blocks of 16.
    let fresh = Dialect::Vllm.parse_answer(&file("vllm_verified.json"), 40, 4).unwrap();
    let again = Dialect::Vllm.parse_answer(&file("vllm_cached.json"), 40, 4).unwrap();
    assert_eq!((fresh.cached, again.cached), (Some(0), Some(32)));
    assert_eq!(fresh.ids, again.ids);
    // The results for cached positions differ from the first ones.
    let all = |name: &str| Dialect::Vllm.parse_answer(&file(name), 40, 40).map(|answer| answer.ids);
    assert_ne!(all("vllm_verified.json"), all("vllm_cached.json"));
    let completion = Dialect::Completions.parse_answer(&file("vllm_completions.json"), 4, 4).unwrap();
    assert_eq!((completion.ids.len(), completion.ids[3]), (4, 261));
    let sglang = Dialect::Sglang.parse_answer(&file("sglang_verified.json"), 6, 3).unwrap();
    assert_eq!((sglang.ids, sglang.cached), (vec![420, 390, 724], Some(3)));
    for (dialect, name, ids) in [
        (Dialect::Vllm, "vllm_stream.txt", vec![261, 420, 390]),
        (Dialect::Completions, "vllm_completions_stream.txt", vec![261, 420, 390]),
        (Dialect::Sglang, "sglang_stream.txt", vec![261, 420, 390]),
    ] {
        let text = String::from_utf8(file(name)).unwrap();
        let (mut found, mut ended) = (Vec::new(), false);
        for event in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            match dialect.fresh(event, found.len()).unwrap() {
                Some(fresh) => found.extend(fresh),
                None => ended = true,
            }
        }
        assert_eq!((found, ended), (ids, true), "{name}");
    }
    // Results of another length than requested are refused, and so is garbage.
    let other_length = Dialect::Vllm.parse_answer(&file("vllm_verified.json"), 39, 4).unwrap_err();
    assert!(other_length.contains("it read 40 tokens"), "{other_length}");
    for garbage in [
        &b"<html>"[..],
        b"{}",
        b"[]",
        b"{\"choices\": [{\"token_ids\": [1, 2]}]}",
        b"{\"choices\": [{\"token_ids\": [-1]}]}",
    ] {
        for dialect in DIALECTS {
            assert!(dialect.parse_answer(garbage, 4, 1).is_err() && dialect.parse_answer(garbage, 4, 2).is_err());
        }
    }
}

#[test]
fn texts_are_those_of_the_target_whoever_drafts() {
    for dialect in DIALECTS {
        let served = Served::new(dialect, honest());
        let mut writer = connect(&endpoint(&[&served]), true).unwrap();
        assert_eq!(writer.device().backend.starts_with("vLLM"), dialect != Dialect::Sglang);
        let prediction = writer.tokenizer().decode(&expected(20), true).unwrap();
        let count = 40;
        for (name, options) in [
            ("off", options(count).speculation(Speculation::Off)),
            ("no overlap", options(count).speculation(Speculation::Off).overlap(false)),
            ("adaptive", options(count)),
            ("lookup", options(count).drafter(DrafterChoice::Lookup).num_assistant_tokens_schedule(Schedule::Constant)),
            ("model", options(count).num_assistant_tokens_schedule(Schedule::Constant)),
            (
                "prediction",
                options(count)
                    .drafter(DrafterChoice::Prediction)
                    .prediction(Some(prediction))
                    .num_assistant_tokens_schedule(Schedule::Constant),
            ),
        ] {
            served.asked();
            let generation = generate(&mut writer, &options).unwrap();
            assert_eq!(generation.token_ids, expected(count), "{dialect:?} {name}");
            let asked = served.asked();
            let traffic = generation.stats.traffic.unwrap();
            assert_eq!(traffic.num_retries, 0, "{dialect:?} {name}: {traffic:?}");
            match name {
                // The server's own decoding is one request.
                "off" => assert_eq!(asked.len(), 1),
                "no overlap" => assert_eq!(asked.len(), count),
                "model" | "prediction" => {
                    let steps = generation.stats.num_spec_steps;
                    assert!(generation.stats.num_accepted_draft_tokens > 10 && steps < count, "{:?}", generation.stats);
                    // A verification is one request, unless the server has cached some of the requested positions.
                    assert!((steps..2 * steps).contains(&asked.len()), "{} for {steps}", asked.len());
                }
                _ => {}
            }
        }
    }
}

#[test]
fn what_a_server_has_cached_is_not_believed() {
    let served = Served::new(Dialect::Vllm, honest());
    let mut writer = connect(&endpoint(&[&served]), true).unwrap();
    let options = options(48).num_assistant_tokens(9).num_assistant_tokens_schedule(Schedule::Constant);
    for again in [false, true] {
        served.asked();
        let generation = generate(&mut writer, &options).unwrap();
        assert_eq!(generation.token_ids, expected(48), "{again}");
        let traffic = generation.stats.traffic.unwrap();
        assert!(traffic.num_cached_tokens * 2 > traffic.num_prompt_tokens, "{traffic:?}");
        assert_eq!(traffic.num_retries, 0);
        // The second time some requested positions are cached; the server continues from there.
        let goes_on = |asked: &Asked| asked.body["sampling_params"]["max_tokens"] != 1;
        assert_eq!(served.asked().iter().any(goes_on), again);
    }
}

/// vLLM returns this error if memory contains a number that JSON lacks.
#[test]
fn what_a_server_cannot_say_of_its_cache_is_asked_otherwise() {
    let armed = Arc::new(AtomicBool::new(false));
    let words = "Out of range float values are not JSON compliant";
    let refuse = move |answer: Answer| {
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if body["prompt_logprobs"].is_null() { answer } else { Answer::status(400, words) }
    };
    let served = Served::new(Dialect::Vllm, at(1..usize::MAX, &armed, refuse));
    let mut writer = connect(&endpoint(&[&served]), true).unwrap();
    armed.store(true, Ordering::Relaxed);
    let options = options(30).num_assistant_tokens_schedule(Schedule::Constant);
    let generation = generate(&mut writer, &options).unwrap();
    assert_eq!(generation.token_ids, expected(30));
    assert!(generation.stats.num_accepted_draft_tokens > 5, "{:?}", generation.stats);
}

#[test]
fn a_server_that_does_not_tell_what_it_cached_reads_everything() {
    let quiet: Misbehave = Box::new(|_, answer| {
        let mut body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if body.is_null() {
            return answer;
        }
        if let Some(usage) = body.get_mut("usage") {
            usage["prompt_tokens_details"] = Value::Null;
        }
        Answer { body: body.to_string().into(), ..answer }
    });
    let served = Served::new(Dialect::Vllm, quiet);
    let mut writer = connect(&endpoint(&[&served]), true).unwrap();
    assert!(writer.warnings().iter().any(|warning| warning.contains("--enable-prompt-tokens-details")));
    let options = options(40).overlap(false).num_assistant_tokens_schedule(Schedule::Constant);
    for _ in 0..2 {
        assert_eq!(generate(&mut writer, &options).unwrap().token_ids, expected(40));
    }
}

#[test]
fn failures_that_pass_cost_time_and_nothing_else() {
    let cut = |answer: Answer| Answer { cut: Some(answer.body.len() / 2), ..answer };
    let garbage = |answer: Answer| Answer { body: b"<html>oops".to_vec(), ..answer };
    let other_length = |answer: Answer| {
        let mut body: Value = serde_json::from_slice(&answer.body).unwrap();
        body["choices"][0]["token_ids"] = json!([5, 6, 7]);
        Answer { body: body.to_string().into(), ..answer }
    };
    let fewer_places = |answer: Answer| {
        let mut body: Value = serde_json::from_slice(&answer.body).unwrap();
        body["prompt_logprobs"].as_array_mut().into_iter().for_each(|places| places.truncate(3));
        body["choices"][0]["token_ids"] = json!([]);
        Answer { body: body.to_string().into(), ..answer }
    };
    let busy = |_| Answer { headers: vec![("Retry-After", "0".into())], ..Answer::status(429, "busy") };
    type Fault = (&'static str, fn(Answer) -> Answer);
    let faults: [Fault; 7] = [
        ("cut", cut),
        ("garbage", garbage),
        ("lengths", other_length),
        ("places", fewer_places),
        ("429", busy),
        ("500", |_| Answer::status(500, "oops")),
        ("503", |_| Answer::status(503, "starting")),
    ];
    for (name, fault) in faults {
        assert_eq!(retries(1..3, fault), 2, "{name}");
    }
}

#[test]
fn a_server_that_says_nothing_is_asked_again() {
    // The delay is far longer than the timeout, even on a busy machine.
    assert_eq!(retries(1..2, |answer| Answer { delay: Duration::from_secs(3600), ..answer }), 1);
}

/// Returns the number of retries with these faulty responses. The text must still be the right one.
fn retries(which: Range<usize>, fault: fn(Answer) -> Answer) -> usize {
    let armed = Arc::new(AtomicBool::new(false));
    let served = Served::new(Dialect::Vllm, at(which, &armed, fault));
    let mut writer = connect(&Endpoint { timeout: 20.0, ..endpoint(&[&served]) }, true).unwrap();
    armed.store(true, Ordering::Relaxed);
    let options = options(24).overlap(false).num_assistant_tokens_schedule(Schedule::Constant);
    let generation = generate(&mut writer, &options).unwrap();
    assert_eq!(generation.token_ids, expected(24));
    generation.stats.traffic.unwrap().num_retries
}

#[test]
fn a_stream_that_is_cut_goes_on() {
    for dialect in DIALECTS {
        let armed = Arc::new(AtomicBool::new(false));
        let served =
            Served::new(dialect, at(0..3, &armed, |answer| Answer { cut: Some(5.min(answer.events.len())), ..answer }));
        let mut writer = connect(&endpoint(&[&served]), false).unwrap();
        armed.store(true, Ordering::Relaxed);
        let generation = generate(&mut writer, &options(40).speculation(Speculation::Off)).unwrap();
        assert_eq!(generation.token_ids, expected(40), "{dialect:?}");
    }
}

#[test]
fn another_server_takes_over() {
    for sp_degree in [1, 2] {
        let armed = Arc::new(AtomicBool::new(false));
        let dies = Served::new(Dialect::Vllm, at(2..usize::MAX, &armed, |answer| Answer { cut: Some(0), ..answer }));
        let other = Served::new(Dialect::Sglang, honest());
        let mut writer = connect_several(&endpoint(&[&dies, &other]), true, sp_degree).unwrap();
        armed.store(true, Ordering::Relaxed);
        let options = options(40).num_assistant_tokens_schedule(Schedule::Constant);
        let generation = generate(&mut writer, &options).unwrap();
        assert_eq!(generation.token_ids, expected(40));
        assert!(generation.stats.traffic.unwrap().num_retries > 0);
        assert!(dies.asked().iter().any(Asked::generates));
        let asked = other.asked();
        assert!(asked.iter().any(|asked| asked.path == "/tokenize") && asked.iter().any(Asked::generates));
    }
}

#[test]
fn a_server_that_comes_back_goes_on_with_the_text() {
    let reserved = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = reserved.local_addr().unwrap().to_string();
    let only = Endpoint { patience: 60.0, ..Endpoint::new([format!("http://{address}")], "tales").unwrap() };
    drop(reserved);
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        Served::at(&address, Dialect::Vllm, honest())
    });
    let mut writer = connect(&only, false).unwrap();
    assert_eq!(generate(&mut writer, &options(10)).unwrap().token_ids, expected(10));
    assert!(late.join().unwrap().asked().len() > 1);
}

#[track_caller]
fn fails<T>(result: Result<T>, code: &str, says: &[&str]) -> Error {
    let error = result.err().expect("an error");
    assert_eq!(error.code(), code, "{error}");
    for part in says {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    for shown in [error.to_string(), format!("{error:?}"), error.to_json().to_string()] {
        assert!(!shown.contains("very-secret"), "{shown}");
    }
    error
}

#[test]
fn what_does_not_pass_is_an_error_that_says_what_to_do() {
    let served = |instead: fn(&Asked) -> Option<Answer>| {
        Served::new(Dialect::Vllm, Box::new(move |asked, answer| instead(asked).unwrap_or(answer)))
    };
    let locked = served(|asked| {
        let told = format!("the key {:?} is wrong", asked.authorization);
        (asked.authorization.as_deref() != Some("Bearer very-secret")).then(|| Answer::status(401, &told))
    });
    fails(connect(&endpoint(&[&locked]), false), "unauthorized", &["FORETOKEN_API_KEY"]);
    let with_key =
        |served: &Served, key: &str| Endpoint { api_key: Some(Key::new(key).unwrap()), ..endpoint(&[served]) };
    fails(connect(&with_key(&locked, "very-secret-too"), false), "unauthorized", &["refuses"]);
    let mut writer = connect(&with_key(&locked, "very-secret"), false).unwrap();
    assert_eq!(generate(&mut writer, &options(4)).unwrap().token_ids, expected(4));
    assert!(
        locked.asked().iter().all(|asked| !asked.path.contains("secret") && !asked.body.to_string().contains("secret"))
    );

    let echoes = served(|asked| asked.generates().then(|| Answer::status(400, "Bearer very-secret is odd")));
    fails(connect(&with_key(&echoes, "very-secret"), false), "network", &["vLLM and SGLang", "... is odd"]);

    let fine = Served::new(Dialect::Vllm, honest());
    let other = Endpoint { model: "novels".into(), ..endpoint(&[&fine]) };
    fails(connect(&other, false), "not-found", &["novels", "tales"]);

    let differs = served(|asked| (asked.path == "/tokenize").then(|| Answer::json(&json!({ "tokens": [5, 6, 7] }))));
    fails(connect(&endpoint(&[&differs]), false), "tokenizer-mismatch", &["5 there"]);
    let silent = served(|asked| (asked.path == "/tokenize").then(|| Answer::status(404, "none")));
    assert!(connect(&endpoint(&[&silent]), false).unwrap().warnings()[0].contains("vocabulary"));

    let elsewhere = Served::new(Dialect::Vllm, honest());
    let to = elsewhere.address.clone();
    let redirects = Served::new(
        Dialect::Vllm,
        Box::new(move |_, _| Answer { headers: vec![("Location", to.clone())], ..Answer::status(307, "") }),
    );
    fails(connect(&with_key(&redirects, "very-secret"), false), "network", &["redirects"]);
    assert!(elsewhere.asked().is_empty());

    // A response that is malformed each time ends the retries long before `patience` is over.
    let malformed: [fn(Answer) -> Answer; 2] =
        [|answer| Answer { body: b"<html>".to_vec(), ..answer }, |answer| Answer { body: b"{}".to_vec(), ..answer }];
    for malformed in malformed {
        let armed = Arc::new(AtomicBool::new(false));
        let odd = Served::new(Dialect::Vllm, at(0..usize::MAX, &armed, malformed));
        let mut writer = connect(&Endpoint { patience: 1e9, ..endpoint(&[&odd]) }, false).unwrap();
        armed.store(true, Ordering::Relaxed);
        odd.asked();
        let written = generate(&mut writer, &options(4).speculation(Speculation::Off).overlap(false));
        fails(written, "network", &["3 times", "address"]);
        let asked = odd.asked().len();
        assert!((3..=4).contains(&asked), "{asked} requests");
    }

    let full =
        served(|_| Some(Answer { headers: vec![("Retry-After", "1000".into())], ..Answer::status(429, "busy") }));
    let error = fails(connect(&endpoint(&[&full]), false), "overloaded", &["429", "busy"]);
    assert_eq!(error.detail()["retry_after"], 1000.0);

    let armed = Arc::new(AtomicBool::new(false));
    let dies = Served::new(Dialect::Vllm, at(2..usize::MAX, &armed, |answer| Answer { cut: Some(0), ..answer }));
    let mut writer = connect(&Endpoint { patience: 0.6, ..endpoint(&[&dies]) }, true).unwrap();
    armed.store(true, Ordering::Relaxed);
    let mut heard = Vec::new();
    let written = run(writer.generate(&Prompt::Text(PROMPT.into()), &options(40).overlap(false), &mut |progress| {
        if let Progress::Token(token) = progress {
            heard.push(token.id);
        }
        ControlFlow::Continue(())
    }));
    fails(written, "network", &["times", "check"]);
    assert_eq!(heard, expected(heard.len()));
    assert!(!heard.is_empty());
}

/// An abort does not wait for silent servers. Requests in flight are cancelled, and the next text is generated.
#[test]
fn a_text_is_left_while_its_servers_are_silent() {
    for sp_degree in [1, 2] {
        let (told, asked) = std::sync::mpsc::channel();
        let armed = Arc::new(AtomicBool::new(false));
        let silent = move |answer: Answer| {
            told.send(()).unwrap();
            Answer { delay: Duration::from_secs(3600), ..answer }
        };
        let served = Served::new(Dialect::Vllm, at(0..usize::MAX, &armed, silent));
        let files = |part: &str| path("models/tales").join(part).to_string_lossy().into_owned();
        let load = LoadOptions::new().sp_degree(sp_degree).device(DeviceChoice::Cpu);
        let engine = foretoken::Engine::builder(files("target")).assistant_model(files("draft")).options(load);
        let engine = engine.target_url(&served.address).target_model("tales").load().unwrap();
        armed.store(true, Ordering::Relaxed);
        let writing = engine.generate(PROMPT, options(40));
        let cancel = writing.cancel_token();
        (0..sp_degree).for_each(|_| asked.recv().unwrap());
        cancel.cancel();
        let generation = writing.wait().unwrap();
        assert_eq!((generation.finish_reason, generation.token_ids.len()), (foretoken::FinishReason::Aborted, 0));
        served.wait_for_aborted(sp_degree);
        armed.store(false, Ordering::Relaxed);
        assert_eq!(engine.generate(PROMPT, options(12)).wait().unwrap().token_ids, expected(12));
    }
}

#[test]
fn nothing_is_approximated() {
    let served = Served::new(Dialect::Vllm, honest());
    let mut writer = connect(&endpoint(&[&served]), false).unwrap();
    for (name, options) in [
        ("do_sample", options(4).do_sample(DoSample::Yes)),
        ("logprobs", options(4).logprobs(true)),
        ("repetition_penalty", options(4).repetition_penalty(Some(1.2))),
        ("presence_penalty", options(4).presence_penalty(0.5)),
        ("logit_bias", options(4).min_new_tokens(2)),
        ("response_format", options(4).response_format(Some(ResponseFormat::json_object()))),
    ] {
        fails(generate(&mut writer, &options), "bad-option", &[name, "approximated"]);
    }
    let prompt = Prompt::Text(PROMPT.into());
    fails(run(writer.embed(&prompt, foretoken::Pooling::Mean, true)), "bad-option", &["embeddings"]);
    fails(run(writer.score(&prompt, &[" a".into()])), "bad-option", &["logprobs"]);
    assert_eq!(generate(&mut writer, &options(4)).unwrap().token_ids, expected(4));
}

#[test]
fn several_requests_are_under_way_and_those_that_nobody_wants_are_broken_off() {
    // Slow enough that a draft is rejected while later drafts are being verified.
    let slow: Misbehave = Box::new(|asked, answer| {
        let delay = if asked.generates() { Duration::from_millis(40) } else { Duration::ZERO };
        Answer { delay, ..answer }
    });
    let served = Served::new(Dialect::Vllm, slow);
    for sp_degree in [1, 2, 4] {
        let mut writer = connect_several(&endpoint(&[&served]), true, sp_degree).unwrap();
        for options in [options(40), options(40).drafter(DrafterChoice::Lookup)] {
            let generation = generate(&mut writer, &options).unwrap();
            assert_eq!(generation.token_ids, expected(40), "{sp_degree}");
            assert!(generation.stats.traffic.unwrap().num_requests > 0);
        }
        fails(generate(&mut writer, &options(4).do_sample(DoSample::Yes)), "bad-option", &["do_sample"]);
    }
    served.wait_for_aborted(1);
}

#[test]
fn a_draft_model_with_another_tokenizer_drafts_for_any_number_of_requests() {
    let served = Served::new(Dialect::Vllm, honest());
    // Only other ids; then rarer words in more tokens; then all but the shortest words.
    for merges in [usize::MAX, 1_500, 300] {
        let foreign = Foreign::new(merges);
        let cpu = LoadOptions::new().device(DeviceChoice::Cpu);
        let beside = |sp_degree| LoadOptions::new().sp_degree(sp_degree).draft_device(DeviceChoice::Cpu);
        for load in [cpu, beside(1), beside(2), beside(4)] {
            let assistant = Folder::open(foreign.folder()).unwrap();
            let mut writer = connect_by(&endpoint(&[&served]), Some(assistant), &load).unwrap();
            assert!(writer.warnings().iter().any(|warning| warning.contains("another tokenizer")));
            for schedule in [Schedule::Constant, Schedule::Adaptive] {
                let options = options(40).num_assistant_tokens_schedule(schedule);
                let generation = generate(&mut writer, &options).unwrap();
                let what = format!("{merges} {schedule:?} {load:?}: {:?}", generation.stats);
                assert_eq!(generation.token_ids, expected(40), "{what}");
                if schedule == Schedule::Constant {
                    assert!(generation.stats.num_accepted_draft_tokens > 5, "{what}");
                }
            }
        }
    }
}

/// With requests one after the other, the second would never come.
#[test]
fn requests_are_under_way_at_the_same_time() {
    within(|| {
        let armed = Arc::new(AtomicBool::new(false));
        let both = Arc::new(Barrier::new(2));
        let meet = move |answer| Answer { meets: Some(both.clone()), ..answer };
        let served = [Served::new(Dialect::Vllm, at(0..2, &armed, meet)), Served::new(Dialect::Vllm, honest())];
        for endpoint in [endpoint(&[&served[0]]), endpoint(&[&served[0], &served[1]])] {
            armed.store(false, Ordering::Relaxed);
            let mut writer = connect_several(&endpoint, true, 3).unwrap();
            armed.store(endpoint.urls.len() == 1, Ordering::Relaxed);
            served.iter().for_each(|served| drop(served.asked()));
            assert_eq!(generate(&mut writer, &options(40)).unwrap().token_ids, expected(40));
            let asked = served.each_ref().map(|served| served.asked().iter().any(Asked::generates));
            assert_eq!(asked, [true, endpoint.urls.len() == 2], "servers are asked in turn");
        }
    });
}

#[test]
fn several_requests_fail_as_one_does() {
    let served = |fault: fn(Answer) -> Answer| {
        let armed = Arc::new(AtomicBool::new(false));
        (Served::new(Dialect::Vllm, at(3..usize::MAX, &armed, fault)), armed)
    };
    let busy = |_| Answer { headers: vec![("Retry-After", "1000".into())], ..Answer::status(429, "busy") };
    type Fault = (&'static str, fn(Answer) -> Answer);
    let faults: [Fault; 4] = [
        ("unauthorized", |_| Answer::status(401, "gone")),
        ("network", |answer| Answer { cut: Some(0), ..answer }),
        ("overloaded", busy),
        ("not-found", |_| Answer::status(404, "gone")),
    ];
    for (code, fault) in faults {
        for sp_degree in [1, 3] {
            let (served, armed) = served(fault);
            let endpoint = Endpoint { patience: 0.6, ..endpoint(&[&served]) };
            let mut writer = connect_several(&endpoint, true, sp_degree).unwrap();
            armed.store(true, Ordering::Relaxed);
            let options = options(40).num_assistant_tokens_schedule(Schedule::Constant);
            fails(generate(&mut writer, &options), code, &[&served.address]);
            // The next text uses the server in its new state.
            armed.store(false, Ordering::Relaxed);
            assert_eq!(generate(&mut writer, &options).unwrap().token_ids, expected(40), "{code} {sp_degree}");
        }
    }
}

/// Runs with a real server of the tales target, started by `node scripts/vllm.mjs serve models/tales/target tales`.
#[test]
fn a_real_vllm_writes_what_it_writes_by_itself() {
    let Ok(url) = std::env::var("FORETOKEN_VLLM") else { return eprintln!("FORETOKEN_VLLM is not set") };
    let endpoint = Endpoint::new([&url], "tales").unwrap();
    let mut writer = connect(&endpoint, true).unwrap();
    let own = generate(&mut writer, &options(200).speculation(Speculation::Off)).unwrap();
    assert_eq!(own.stats.traffic.unwrap().num_requests, 1);
    eprintln!("vLLM by itself: {:.1} tokens/s", own.stats.times.tokens_per_second);
    for (name, options) in [
        ("adaptive", options(200)),
        ("draft model", options(200).num_assistant_tokens_schedule(Schedule::Constant)),
        ("lookup", options(200).drafter(DrafterChoice::Lookup).num_assistant_tokens_schedule(Schedule::Constant)),
    ] {
        for _ in 0..2 {
            let generation = generate(&mut writer, &options).unwrap();
            assert_eq!(generation.token_ids, own.token_ids, "{name}");
            let (stats, traffic) = (&generation.stats, generation.stats.traffic.unwrap());
            eprintln!("{name}: {:.1} tokens/s, {traffic:?}", stats.times.tokens_per_second);
        }
    }
    for sp_degree in [1, 2, 4] {
        let mut writer = connect_several(&endpoint, true, sp_degree).unwrap();
        for _ in 0..2 {
            let generation = generate(&mut writer, &options(200)).unwrap();
            assert_eq!(generation.token_ids, own.token_ids, "{sp_degree}");
            let (stats, traffic) = (&generation.stats, generation.stats.traffic.unwrap());
            eprintln!("SP {sp_degree}: {:.1} tokens/s, {traffic:?}", stats.times.tokens_per_second);
        }
    }
}

mod endpoint {
    use foretoken::internals::backend::server::{Endpoint, Key};

    #[test]
    fn addresses_are_checked_and_their_secrets_not_shown() {
        let url = |url: &str| Endpoint::new([url], "m").map(|endpoint| endpoint.urls[0].clone());
        assert_eq!(url("http://host:8000/"), Ok("http://host:8000".into()));
        assert_eq!(url("https://host/serving/v1/"), Ok("https://host/serving".into()));
        for bad in ["", "host:8000", "ftp://host", "http://", "http://u:secret@host", "http://host/?key=secret"] {
            let error = url(bad).unwrap_err();
            assert_eq!(error.code(), "bad-option", "{bad}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert!(Endpoint::new(Vec::<String>::new(), "m").is_err());
    }

    #[test]
    fn a_key_is_shown_nowhere() {
        let endpoint =
            Endpoint { api_key: Some(Key::new(" secret ").unwrap()), ..Endpoint::new(["http://a"], "m").unwrap() };
        assert_eq!(endpoint.api_key.as_ref().map(Key::expose), Some("secret"));
        assert!(!format!("{endpoint:?}").contains("secret"));
        let error = Key::new("sec\nret").unwrap_err();
        assert!(!error.to_string().contains("ret\""), "{error}");
        assert!(!format!("{error:?}").contains("sec\\nret"), "{error:?}");
    }
}
