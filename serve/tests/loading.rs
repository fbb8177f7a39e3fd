//! Models in memory, queues, clients that leave, and the end of the server.

use super::{DRAFT, Received, Running, TARGET};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;

/// A text that takes long, unless it is cancelled.
fn long(model: &str) -> Value {
    json!({ "model": model, "prompt": "Once", "min_new_tokens": 900, "max_tokens": 900, "stream": true })
}

/// Sends a request for a stream. Returns the connection after the first event.
fn streaming(server: &Running, body: &Value) -> BufReader<TcpStream> {
    let body = body.to_string();
    let head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let stream = server.connect(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()));
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while !line.starts_with("data: {") {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the stream ended");
    }
    reader
}

fn loaded(server: &Running) -> Vec<bool> {
    let list = server.get("/v1/models").json();
    list["data"].as_array().unwrap().iter().map(|model| model["loaded"] == true).collect()
}

fn complete(server: &Running, model: &str) -> Received {
    server.post("/v1/completions", &json!({ "model": model, "prompt": "Once", "max_tokens": 2 }))
}

#[test]
fn models_are_loaded_on_demand_and_stay_without_a_budget() {
    let server = Running::start(&["--model", TARGET, "--assistant-model", "none", "--model", DRAFT]);
    assert_eq!(loaded(&server), [false, false]);
    assert_eq!(complete(&server, "draft").json()["model"], "draft");
    assert_eq!(loaded(&server), [false, true]);
    let first = server.answer("/v1/completions", &json!({ "prompt": "Once", "max_tokens": 2 }));
    assert_eq!((&first["model"], loaded(&server)), (&json!("target"), vec![true, true]));
}

#[test]
fn the_least_recently_used_model_is_freed_for_another() {
    // The prompt cache does not count here. Each model needs more than half of the budget, and less than all.
    let server =
        Running::start(&["--model", TARGET, "--model", DRAFT, "--prompt-cache-bytes", "0", "--memory-budget", "1"]);
    let refused = complete(&server, "draft");
    assert_eq!(refused.refusal(), (503, "out-of-gpu-memory".into(), String::new()));
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    let need = |model: &str| -> u64 {
        let message = complete(&server, model).json()["error"]["message"].as_str().unwrap().to_owned();
        message.split(": ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{message}"))
    };
    assert!(message.contains("--memory-budget"), "{message}");
    let budget = need("target") + need("draft") - 1;
    drop(server);
    let server = Running::start(&[
        "--model",
        TARGET,
        "--model",
        DRAFT,
        "--prompt-cache-bytes",
        "0",
        "--memory-budget",
        &budget.to_string(),
    ]);
    for (model, expected) in
        [("draft", [false, true]), ("target", [true, false]), ("target", [true, false]), ("draft", [false, true])]
    {
        assert_eq!(complete(&server, model).status, 200);
        assert_eq!(loaded(&server), expected, "{model}");
    }
    // A text in progress ends before its model is freed.
    let mut stream = streaming(&server, &long("draft"));
    assert_eq!(complete(&server, "target").status, 200);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stream, &mut rest).unwrap();
    assert!(rest.contains("data: [DONE]"), "{rest}");
}

#[test]
fn a_full_queue_refuses_and_a_client_that_leaves_makes_room() {
    let server = Running::start(&["--model", DRAFT, "--max-queue", "1"]);
    let stream = streaming(&server, &long("draft"));
    let refused = complete(&server, "draft");
    // Unless the machine is so busy that the text has ended.
    if refused.status != 200 {
        assert_eq!(refused.refusal(), (429, "rate_limit_exceeded".into(), String::new()));
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    drop(stream);
    while complete(&server, "draft").status == 429 {
        std::thread::yield_now();
    }
    // A client may also leave before its answer begins.
    for _ in 0..3 {
        drop(server.connect(
            "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 17\r\n\r\n{\"prompt\": \"Once\"}",
        ));
    }
    while complete(&server, "draft").status == 429 {
        std::thread::yield_now();
    }
    assert_eq!(complete(&server, "draft").status, 200);
}

#[test]
fn a_stopped_server_ends_the_requests_in_progress() {
    let mut server = Running::start(&["--model", DRAFT]);
    let body = json!({ "prompt": "Once", "min_new_tokens": 60, "max_tokens": 60, "stream": true });
    let mut stream = streaming(&server, &body);
    drop(server.stop.take());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stream, &mut rest).unwrap();
    assert!(rest.contains("data: [DONE]"), "{rest}");
    server.thread.take().unwrap().join().unwrap();
    assert!(TcpStream::connect(server.address).is_err());
}

#[test]
fn a_model_that_cannot_be_loaded_is_an_error_and_the_others_still_answer() {
    let place = tempfile::tempdir().unwrap();
    let broken = place.path().join("broken");
    std::fs::create_dir(&broken).unwrap();
    std::fs::write(broken.join("config.json"), "{").unwrap();
    let server = Running::start(&["--model", DRAFT, "--model", broken.to_str().unwrap()]);
    assert_eq!(complete(&server, "broken").refusal().0, 500);
    assert_eq!(complete(&server, "broken").refusal().0, 500);
    assert_eq!(complete(&server, "draft").status, 200);
}
