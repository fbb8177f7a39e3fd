//! The server, as clients use it: over sockets, with the tales pair on the CPU.

mod access;
mod answers;
mod broken;
mod loading;

use clap::Parser;
use foretoken::{DeviceChoice, LoadOptions};
use foretoken_serve::{ApiServer, ServeFlags};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::thread::{JoinHandle, spawn};
use tokio::sync::oneshot;

/// Target of the tales pair.
const TARGET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/tales/target");
/// Draft model of the tales pair.
const DRAFT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/tales/draft");

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    flags: ServeFlags,
}

/// Returns the flags of a command line.
fn flags(args: &[&str]) -> ServeFlags {
    Line::try_parse_from([&["serve", "--port", "0"], args].concat()).unwrap().flags
}

fn options() -> LoadOptions {
    LoadOptions::new().device(DeviceChoice::Cpu).max_context(1024)
}

/// A server on a thread. Dropping it stops it, and waits for its end.
struct Running {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(args: &[&str]) -> Self {
        let flags = flags(args);
        let (sender, address) = channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let server = ApiServer::bind(&flags, options()).unwrap();
                sender.send(server.address()).unwrap();
                server.serve(stopped, std::future::pending::<()>()).await;
            });
        });
        Self { address: address.recv().unwrap(), stop: Some(stop), thread: Some(thread) }
    }

    /// Sends a request as it is. Returns the connection.
    fn connect(&self, request: impl AsRef<[u8]>) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(request.as_ref()).unwrap();
        stream
    }

    /// Sends a request with more header lines. Returns its response.
    fn request(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Received {
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n",
            self.address
        );
        Received::from_stream(&mut self.connect([head.as_bytes(), body].concat())).unwrap()
    }

    fn get(&self, path: &str) -> Received {
        self.request("GET", path, "", b"")
    }

    fn post(&self, path: &str, body: &Value) -> Received {
        self.request("POST", path, "", body.to_string().as_bytes())
    }

    /// Posts a body that is accepted. Returns the answer.
    fn answer(&self, path: &str, body: &Value) -> Value {
        let received = self.post(path, body);
        assert_eq!(received.status, 200, "{body}: {}", received.body);
        received.json()
    }

    /// Posts a body to be streamed. Returns the events.
    fn events(&self, path: &str, body: &Value) -> Vec<Value> {
        let mut body = body.clone();
        body["stream"] = true.into();
        let received = self.post(path, &body);
        assert_eq!((received.status, received.header("content-type")), (200, Some("text/event-stream")));
        let events: Vec<_> = received.body.split_terminator("\n\n").collect();
        assert_eq!(events.last(), Some(&"data: [DONE]"), "{}", received.body);
        let parsed = |event: &&str| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
        events[..events.len() - 1].iter().map(parsed).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// A response.
#[derive(Debug)]
struct Received {
    status: u16,
    head: String,
    body: String,
}

impl Received {
    /// Reads a response to its end; `None`: the server closed the connection without one.
    fn from_stream(stream: &mut TcpStream) -> Option<Self> {
        let mut bytes = Vec::new();
        // A reset ends the response too.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let head = head.to_ascii_lowercase();
        let body = if head.contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
        Some(Self { status, head, body })
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| *found == name).map(|(_, value)| value).next()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the error of a refusal: the status, the code and the field.
    fn refusal(&self) -> (u16, String, String) {
        let error = &self.json()["error"];
        assert!(!error["message"].as_str().unwrap().is_empty() && error["type"].is_string(), "{self:?}");
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        (self.status, text("code"), text("param"))
    }
}

fn unchunked(mut rest: &str) -> String {
    let mut out = String::new();
    while let Some((length, more)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        out.push_str(more.get(..length).unwrap_or(more));
        rest = more.get(length + 2..).unwrap_or_default();
    }
    out
}

/// Returns the text of streamed chunks.
fn text_of(events: &[Value]) -> String {
    let choices = events.iter().flat_map(|event| event["choices"].as_array().unwrap());
    choices.filter_map(|choice| choice["delta"]["content"].as_str().or(choice["text"].as_str())).collect()
}
