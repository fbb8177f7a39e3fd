//! A Hub of one repository and the server that it redirects to, both on this machine. Both can misbehave on request.

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
pub const REPOSITORY: &str = "owner/tales";

#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    pub token: Option<String>,
    pub range: Option<(usize, usize)>,
}

#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// Number of bytes of the body after which the connection is cut.
    pub cut: Option<usize>,
}

impl Answer {
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(header, _)| *header != name);
        self
    }
}

type Respond = Box<dyn FnMut(&Request) -> Answer + Send>;

pub struct Server {
    pub address: String,
    log: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    fn start(respond: Respond) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let (seen, respond) = (log.clone(), Arc::new(Mutex::new(respond)));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, respond) = (seen.clone(), respond.clone());
                thread::spawn(move || serve(stream.unwrap(), &seen, &respond));
            }
        });
        Self { address, log }
    }

    /// Returns the requests since the last call.
    pub fn asked(&self) -> Vec<Request> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    /// Returns only their addresses.
    pub fn paths(&self) -> Vec<String> {
        self.asked().into_iter().map(|request| request.path).collect()
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<Request>>, respond: &Mutex<Respond>) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let header = |name: &str| {
        let mut headers = head.lines().filter_map(|line| line.split_once(": "));
        headers.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    let range = header("range").map(|range| {
        let (start, end) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        (start.parse().unwrap(), end.parse::<usize>().unwrap() + 1)
    });
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let request = Request { path, token: header("authorization"), range };
    log.lock().unwrap().push(request.clone());
    let answer = respond.lock().unwrap()(&request);
    let mut text =
        format!("HTTP/1.1 {} .\r\nConnection: close\r\nContent-Length: {}\r\n", answer.status, answer.body.len());
    answer.headers.iter().for_each(|(name, value)| text += &format!("{name}: {value}\r\n"));
    let body = &answer.body[..answer.cut.unwrap_or(answer.body.len())];
    // The client may have closed the connection already.
    let _ = stream
        .write_all(text.as_bytes())
        .and_then(|()| stream.write_all(b"\r\n"))
        .and_then(|()| stream.write_all(body));
}

/// The repository `owner/tales` at `main`, with its large files on another server.
pub struct Fake {
    pub hub: Server,
    pub store: Server,
}

/// Replaces the response that a server would give.
pub type Misbehave = Box<dyn FnMut(&Request, Answer) -> Answer + Send>;

pub fn honest() -> Misbehave {
    Box::new(|_, answer| answer)
}

impl Fake {
    pub fn new(files: &[(&str, Vec<u8>)], mut of_hub: Misbehave, mut of_store: Misbehave) -> Self {
        let files: BTreeMap<String, Vec<u8>> =
            files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone())).collect();
        let stored = files.clone();
        let store = Server::start(Box::new(move |request| {
            let (name, signature) = request.path[1..].split_once('?').unwrap();
            assert_eq!(signature, "signature=secret");
            let answer = part(&stored[name], request.range);
            of_store(request, answer)
        }));
        let address = store.address.clone();
        let hub = Server::start(Box::new(move |request| {
            let answer = answer(&files, &address, request);
            of_hub(request, answer)
        }));
        Self { hub, store }
    }
}

fn answer(files: &BTreeMap<String, Vec<u8>>, store: &str, request: &Request) -> Answer {
    if let Some(revision) = request.path.strip_prefix(&format!("/api/models/{REPOSITORY}/revision/")) {
        return match revision.split_once('?').unwrap() {
            ("main" | "refs%2Fpr%2F1" | COMMIT, "blobs=true") => {
                Answer { status: 200, body: listing(files).to_string().into(), ..Answer::default() }
            }
            _ => Answer::status(404).with("X-Error-Code", "RevisionNotFound"),
        };
    }
    match request.path.strip_prefix(&format!("/{REPOSITORY}/resolve/{COMMIT}/")) {
        Some(name) if is_large(name) => {
            Answer::status(302).with("Location", format!("{store}/{name}?signature=secret"))
        }
        // Redirects within the Hub, as the real one does.
        Some(name) => Answer::status(307).with("Location", format!("/cached/{name}")),
        None => match request.path.strip_prefix("/cached/") {
            Some(name) => part(&files[name], request.range),
            None => Answer::status(401).with("X-Error-Message", "Invalid username or password."),
        },
    }
}

fn is_large(name: &str) -> bool {
    [".safetensors", ".gguf", ".bin"].iter().any(|end| name.ends_with(end))
}

fn listing(files: &BTreeMap<String, Vec<u8>>) -> Value {
    let siblings = files.iter().map(|(name, bytes)| {
        let lfs = is_large(name).then(|| json!({ "sha256": digest_of(name, bytes), "size": bytes.len() }));
        let blob_id = if lfs.is_some() { "0".repeat(40) } else { digest_of(name, bytes) };
        json!({ "rfilename": name, "size": bytes.len(), "blobId": blob_id, "lfs": lfs })
    });
    json!({ "id": REPOSITORY, "sha": COMMIT, "siblings": siblings.collect::<Vec<_>>() })
}

pub fn digest_of(name: &str, bytes: &[u8]) -> String {
    let found = if is_large(name) {
        digest(&SHA256, bytes)
    } else {
        digest(&SHA1_FOR_LEGACY_USE_ONLY, &[format!("blob {}\0", bytes.len()).as_bytes(), bytes].concat())
    };
    found.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn part(bytes: &[u8], range: Option<(usize, usize)>) -> Answer {
    match range {
        None => Answer { status: 200, body: bytes.into(), ..Answer::default() },
        Some((start, end)) => Answer { status: 206, body: bytes[start..end].into(), ..Answer::default() }
            .with("Content-Range", format!("bytes {start}-{}/{}", end - 1, bytes.len())),
    }
}

/// Omits headers that servers need not send.
pub fn taciturn() -> Misbehave {
    Box::new(|_, answer| answer.without("Content-Range"))
}
