//! Local servers that speak the protocols of vLLM and SGLang, with the tales target on this machine's CPU. They can misbehave on request.

use crate::path;
use foretoken::LoadOptions;
use foretoken::internals::backend::server::Dialect;
use foretoken::internals::backend::{Backend, Device};
use foretoken::internals::parallel::load_alone;
use foretoken::internals::text::Tokenizer;
use foretoken::internals::weights::Folder;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Condvar, LazyLock, Mutex};
use std::thread;
use std::time::Duration;

/// Tokens in a block of the prefix cache.
const BLOCK: usize = 16;

/// Returns the target's most likely token after each token of a text.
pub fn oracle(text: &[u32]) -> Vec<u32> {
    type Question = (Vec<u32>, Sender<Vec<u32>>);
    static ASK: LazyLock<Mutex<Sender<Question>>> = LazyLock::new(|| {
        let (ask, asked) = channel::<Question>();
        thread::spawn(move || {
            pollster::block_on(async {
                let files = Folder::open(path("models/tales/target")).unwrap();
                let options = LoadOptions::new();
                let mut engine =
                    load_alone(&Device::cpu(), Box::new(files), None, &options, &mut |_, _| ()).await.unwrap();
                let mut ids = Vec::new();
                for (text, answer) in asked {
                    answer_with(&mut *engine, &mut ids, &text).await;
                    let _ = answer.send(ids.clone());
                }
            });
        });
        Mutex::new(ask)
    });
    let (answer, answered) = channel();
    ASK.lock().unwrap().send((text.to_vec(), answer)).unwrap();
    answered.recv().unwrap()
}

async fn answer_with(engine: &mut dyn Backend, ids: &mut Vec<u32>, text: &[u32]) {
    let known = engine.cached_of(text);
    engine.truncate(known);
    ids.truncate(known);
    let logits = engine.logits(&text[known..], 32).await.unwrap();
    let vocab = engine.spec().unwrap().vocab_size;
    for row in logits.chunks(vocab) {
        // The lowest id wins a tie.
        let best = row.iter().enumerate().fold(0, |best, (id, logit)| if *logit > row[best] { id } else { best });
        ids.push(best as u32);
    }
}

#[derive(Debug, Clone)]
pub struct Asked {
    pub path: String,
    pub authorization: Option<String>,
    pub body: Value,
}

impl Asked {
    /// True if the request generates a text.
    pub fn generates(&self) -> bool {
        ["/inference/v1/generate", "/v1/completions", "/generate"].contains(&self.path.as_str())
    }
}

#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// Events sent one after the other, instead of a body.
    pub events: Vec<String>,
    /// Bytes of the body, or number of events, after which the connection is cut.
    pub cut: Option<usize>,
    /// Delay before the response.
    pub delay: Duration,
    /// Barrier awaited before the response: the requests that meet there are answered together.
    pub meets: Option<Arc<Barrier>>,
}

impl Answer {
    pub fn status(status: u16, words: &str) -> Self {
        let body = json!({ "error": { "message": words, "type": "Error", "param": null, "code": status } });
        Self { status, body: body.to_string().into(), ..Self::default() }
    }

    pub fn json(body: &Value) -> Self {
        Self { status: 200, body: body.to_string().into(), ..Self::default() }
    }
}

/// Replaces the response that the server would give.
pub type Misbehave = Box<dyn FnMut(&Asked, Answer) -> Answer + Send>;

pub fn honest() -> Misbehave {
    Box::new(|_, answer| answer)
}

pub struct Served {
    pub address: String,
    state: Arc<State>,
}

struct State {
    dialect: Dialect,
    /// Texts whose blocks are in the prefix cache.
    texts: Mutex<Vec<Vec<u32>>>,
    misbehave: Mutex<Misbehave>,
    log: Mutex<Vec<Asked>>,
    /// Number of requests whose client disconnected before the response.
    aborted: (Mutex<usize>, Condvar),
}

impl Served {
    pub fn new(dialect: Dialect, misbehave: Misbehave) -> Self {
        Self::at("127.0.0.1:0", dialect, misbehave)
    }

    pub fn at(address: &str, dialect: Dialect, misbehave: Misbehave) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (texts, log, aborted) = Default::default();
        let state = Arc::new(State { dialect, texts, misbehave: Mutex::new(misbehave), log, aborted });
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let state = shared.clone();
                thread::spawn(move || state.serve(stream.unwrap()));
            }
        });
        Self { address, state }
    }

    /// Returns the requests since the last call.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.state.log.lock().unwrap())
    }

    /// Waits for `count` requests whose client disconnected.
    pub fn wait_for_aborted(&self, count: usize) {
        let (aborted, changed) = &self.state.aborted;
        let (aborted, waited) = changed
            .wait_timeout_while(aborted.lock().unwrap(), Duration::from_secs(120), |aborted| *aborted < count)
            .unwrap();
        assert!(!waited.timed_out(), "{aborted} of {count} requests were broken off");
    }
}

impl State {
    fn serve(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some(asked) = read(&mut reader) {
            self.log.lock().unwrap().push(asked.clone());
            let honest = self.answer(&asked);
            let answer = (self.misbehave.lock().unwrap())(&asked, honest);
            if !answer.delay.is_zero() && is_gone_after(&stream, answer.delay) {
                *self.aborted.0.lock().unwrap() += 1;
                self.aborted.1.notify_all();
                return;
            }
            answer.meets.as_ref().map(|others| others.wait());
            if self.write(&mut stream, &answer).is_err() || answer.cut.is_some() {
                return;
            }
        }
    }

    fn write(&self, stream: &mut TcpStream, answer: &Answer) -> std::io::Result<()> {
        let mut head = format!("HTTP/1.1 {} .\r\nContent-Type: application/json\r\n", answer.status);
        answer.headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        if answer.events.is_empty() {
            head += &format!("Content-Length: {}\r\n\r\n", answer.body.len());
            stream.write_all(head.as_bytes())?;
            return stream.write_all(&answer.body[..answer.cut.unwrap_or(answer.body.len())]);
        }
        stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes())?;
        for event in &answer.events[..answer.cut.unwrap_or(answer.events.len())] {
            let event = format!("data: {event}\n\n");
            stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())?;
            stream.flush()?;
        }
        if answer.cut.is_none() { stream.write_all(b"0\r\n\r\n") } else { Ok(()) }
    }

    fn answer(&self, asked: &Asked) -> Answer {
        let body = &asked.body;
        let unknown = || Answer::status(404, "Not Found");
        match (asked.path.as_str(), self.dialect) {
            ("/v1/models", dialect) => {
                let owner = if dialect == Dialect::Sglang { "sglang" } else { "vllm" };
                Answer::json(&json!({ "data": [{ "id": "tales", "owned_by": owner, "max_model_len": 1024 }] }))
            }
            ("/tokenize", _) => Answer::json(&json!({ "tokens": tokenize(body["prompt"].as_str().unwrap()) })),
            ("/inference/v1/generate", Dialect::Vllm) => {
                let params = &body["sampling_params"];
                assert_eq!((&params["temperature"], &params["detokenize"]), (&json!(0), &json!(false)));
                let reads_cache = params["prompt_logprobs"].is_null() || params["skip_reading_prefix_cache"] == false;
                self.vllm(&body["token_ids"], &params["max_tokens"], &params["prompt_logprobs"], reads_cache, asked)
            }
            ("/v1/completions", Dialect::Vllm | Dialect::Completions) => {
                assert_eq!(body["return_token_ids"], true);
                let reads_cache = body["prompt_logprobs"].is_null();
                self.vllm(&body["prompt"], &body["max_tokens"], &body["prompt_logprobs"], reads_cache, asked)
            }
            ("/generate", Dialect::Sglang) => self.sglang(body),
            _ => unknown(),
        }
    }

    /// Returns the number of leading tokens that are cached, then caches the text.
    fn cache(&self, text: &[u32]) -> usize {
        let mut texts = self.texts.lock().unwrap();
        let shared = |one: &Vec<u32>| one.iter().zip(text).take_while(|(a, b)| a == b).count();
        let longest = texts.iter().map(shared).max().unwrap_or(0);
        texts.push(text.to_vec());
        // One token is always computed.
        longest.min(text.len() - 1) / BLOCK * BLOCK
    }

    fn vllm(&self, text: &Value, most: &Value, logprobs: &Value, reads_cache: bool, asked: &Asked) -> Answer {
        let (text, most) = (tokens(text), most.as_u64().unwrap() as usize);
        let cached = self.cache(&text);
        let cached = if reads_cache { cached } else { 0 };
        let by_tokens = asked.path.starts_with("/inference");
        let choice = |ids: &[u32], end: &Value| {
            let choice = json!({ "index": 0, "finish_reason": end, "stop_reason": null, "token_ids": ids });
            json!({ "choices": [choice] })
        };
        if asked.body["stream"] == true {
            let ids = continued(&text, most);
            let mut events: Vec<_> = ids.iter().map(|id| choice(&[*id], &Value::Null).to_string()).collect();
            events.push("[DONE]".into());
            return Answer { status: 200, events, ..Answer::default() };
        }
        let ids = continued(&text, most);
        let mut answer = choice(&ids, &json!("length"));
        answer["usage"] = json!({
            "prompt_tokens": text.len(),
            "completion_tokens": ids.len(),
            "prompt_tokens_details": { "cached_tokens": cached },
        });
        if !logprobs.is_null() {
            let known = oracle(&text);
            let mut places = vec![Value::Null];
            for (at, id) in text.iter().enumerate().skip(1) {
                // For cached positions vLLM reports arbitrary memory contents, which may look valid.
                if at <= cached && at % 3 == 0 {
                    places.push(json!({ "-77": { "logprob": 1e-41, "rank": 0, "decoded_token": null } }));
                    continue;
                }
                let best = if at <= cached { 1234 } else { known[at - 1] };
                let mut place = json!({ id.to_string(): { "logprob": -9.5, "rank": 77, "decoded_token": null } });
                place[best.to_string()] = json!({ "logprob": -0.5, "rank": 1, "decoded_token": null });
                places.push(place);
            }
            let to = if by_tokens { &mut answer } else { &mut answer["choices"][0] };
            to["prompt_logprobs"] = places.into();
        }
        Answer::json(&answer)
    }

    fn sglang(&self, body: &Value) -> Answer {
        let text = tokens(&body["input_ids"]);
        let most = body["sampling_params"]["max_new_tokens"].as_u64().unwrap() as usize;
        let cached = self.cache(&text);
        let ids = continued(&text, most);
        let about = |count: usize, cached: usize| json!({ "prompt_tokens": text.len(), "completion_tokens": count, "cached_tokens": cached });
        if body["stream"] == true {
            let event =
                |count: usize| json!({ "output_ids": ids[..count], "meta_info": about(count, cached) }).to_string();
            let events = (1..=ids.len()).map(event).chain(["[DONE]".into()]).collect();
            return Answer { status: 200, events, ..Answer::default() };
        }
        let mut meta = about(ids.len(), cached);
        if body["return_logprob"] == true {
            let start = body["logprob_start_len"].as_u64().unwrap() as usize;
            // The log-probabilities are computed, not cached.
            meta = about(ids.len(), cached.min(start));
            let known = oracle(&text);
            let place = |at: usize| json!([[-0.5, known[at - 1], null]]);
            let places: Vec<_> = std::iter::once(Value::Null).chain((start + 1..text.len()).map(place)).collect();
            meta["input_top_logprobs"] = places.into();
        }
        Answer::json(&json!({ "text": "", "output_ids": ids, "meta_info": meta }))
    }
}

fn tokens(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// Returns the target's continuation of a text, up to its end.
fn continued(text: &[u32], most: usize) -> Vec<u32> {
    let mut text = text.to_vec();
    let begin = text.len();
    // A stream of a whole context would take long, and no test reads it to the end.
    for _ in 0..most.min(48) {
        let next = *oracle(&text).last().unwrap();
        text.push(next);
        if [0, 2].contains(&next) {
            break;
        }
    }
    text.split_off(begin)
}

fn tokenize(text: &str) -> Vec<u32> {
    let file = path("models/tales/target/tokenizer.json");
    let tokenizer = Tokenizer::from_json("tokenizer.json", &std::fs::read(file).unwrap()).unwrap();
    tokenizer.encode(text, false).unwrap()
}

fn read(from: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    from.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut authorization, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        from.read_line(&mut line).ok().filter(|count| *count > 0)?;
        match line.trim_end().split_once(": ") {
            None => break,
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => authorization = Some(value.to_owned()),
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().unwrap(),
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
    Some(Asked { path, authorization, body })
}

/// True if the client disconnects within this time.
fn is_gone_after(stream: &TcpStream, time: Duration) -> bool {
    stream.set_read_timeout(Some(time)).unwrap();
    let gone = match stream.peek(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
    };
    stream.set_read_timeout(None).unwrap();
    gone
}
