//! The end of `foretoken serve`: signals of a terminal and of service managers.

use crate::command;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};

/// Starts a server with the small tales model. Returns it with its address.
fn start() -> (Child, String) {
    let args = ["serve", "--model", "models/tales/draft", "--device", "cpu", "--port", "0", "--json"];
    let mut child = command(&args).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = serde_json::from_str::<Value>(&line).unwrap()["url"].as_str().unwrap().to_owned();
    let address = url.strip_prefix("http://").and_then(|url| url.strip_suffix("/v1")).unwrap();
    (child, address.to_owned())
}

fn send(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// Starts a streamed text of at least `tokens` tokens, and waits for its first event.
fn stream(address: &str, tokens: usize) -> BufReader<TcpStream> {
    let body = serde_json::json!({ "prompt": "Once upon a time", "max_tokens": tokens, "min_new_tokens": tokens, "stream": true });
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("POST /v1/completions HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while !line.starts_with("data: ") {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the server sent no event");
    }
    reader
}

#[test]
fn a_server_ends_by_itself_after_sigterm_as_after_ctrl_c() {
    for signal in ["-TERM", "-INT"] {
        let (mut child, address) = start();
        send(signal, &child);
        assert_eq!(child.wait().unwrap().code(), Some(0), "{signal}");
        assert!(TcpStream::connect(&address).is_err(), "{signal}");
    }
}

#[test]
fn a_request_in_progress_is_answered_after_sigterm() {
    let (mut child, address) = start();
    let mut reader = stream(&address, 40);
    send("-TERM", &child);
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("data: [DONE]"), "{rest}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_second_signal_ends_the_requests_in_progress() {
    let (mut child, address) = start();
    let mut reader = stream(&address, 900);
    for signal in ["-INT", "-TERM"] {
        send(signal, &child);
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut rest = Vec::new();
    // The server may reset the connection.
    let _ = reader.read_to_end(&mut rest);
    assert!(!String::from_utf8_lossy(&rest).contains("data: [DONE]"));
}
