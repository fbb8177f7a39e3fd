//! Requests that are no requests: whatever arrives, the server still answers.

use super::{DRAFT, Received, Running};
use serde_json::{Value, json};
use std::net::{Shutdown, TcpStream};

/// Seeded random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0 * 48271 % 2147483647;
        self.0 as usize % most
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// Returns a value of a wrong type or size.
fn odd_value(random: &mut Random) -> String {
    let deep = format!("{}1{}", "[".repeat(300), "]".repeat(300));
    let odd = [
        "null",
        "true",
        "-1",
        "0",
        "1e999",
        "-0.5",
        "1e300",
        "18446744073709551616",
        "123456789012345678901234567890",
        "\"\"",
        "\"\\ud800\"",
        "\"\u{1f98a}\"",
        "[]",
        "[[]]",
        "[null]",
        "{}",
        "{\"a\":{}}",
        "[{\"role\":5}]",
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]",
        "{\"type\":\"json_schema\"}",
        "{\"type\":\"regex\",\"regex\":\"(((\"}",
        "{\"type\":\"grammar\",\"grammar\":\"start: x\"}",
        &deep,
    ];
    random.one(&odd).to_owned()
}

const FIELDS: [&str; 26] = [
    "messages",
    "prompt",
    "input",
    "model",
    "stream",
    "stream_options",
    "n",
    "stop",
    "seed",
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "response_format",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "logprobs",
    "top_logprobs",
    "prediction",
    "logit_bias",
    "bad_words_ids",
    "chat_template_kwargs",
    "documents",
    "encoding_format",
    "unknown",
];

/// Returns a body that is JSON, with odd values.
fn odd_body(random: &mut Random) -> Vec<u8> {
    let mut body = String::from(
        "{\"max_tokens\":2,\"prompt\":\"Once\",\"input\":\"Once\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]",
    );
    for _ in 0..1 + random.below(3) {
        body += &format!(",\"{}\":{}", random.one(&FIELDS), odd_value(random));
    }
    (body + "}").into_bytes()
}

/// Returns the bytes of a request that is broken in some way, and whether its end is missing.
fn broken(random: &mut Random) -> (Vec<u8>, bool) {
    let paths = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"];
    let mut path = random.one(&paths).to_owned();
    let (mut method, mut host, mut headers) = ("POST", "localhost", String::new());
    let mut body = odd_body(random);
    match random.below(9) {
        0 => body.truncate(random.below(body.len())),
        1 => {
            let at = random.below(body.len());
            body[at] = 0x80 + random.below(128) as u8;
        }
        2 => {
            path = random
                .one(&["/", "/v1", "/v1/models/%ff%", "//", "/v1/chat/completions/", "*", "/%00", "/v1/\u{e9}"])
                .to_owned()
        }
        3 => method = random.one(&["GET", "PUT", "HEAD", "OPTIONS", "TRACE", "CONNECT", "P\u{0}ST", ""]),
        4 => host = random.one(&["", "evil.example", "a b", "localhost:99999", "[::1", "localhost@x", "\u{e9}"]),
        5 => {
            headers = random
                .one(&[
                    "Authorization: Bearer\r\n",
                    "Content-Type: text/plain\r\n",
                    "Origin: null\r\n",
                    "Expect: 100-continue\r\n",
                    "Content-Encoding: gzip\r\n",
                    "Transfer-Encoding: chunked\r\n",
                    "Upgrade: h2c\r\n",
                    "no colon\r\n",
                    ": empty\r\n",
                    "X: \u{0}\r\n",
                ])
                .to_owned();
            headers += &"X-Many: 1\r\n".repeat(random.below(150));
        }
        6 => body = (0..random.below(200)).map(|_| random.below(256) as u8).collect(),
        _ => {}
    }
    let (mut is_cut, mut length) = (false, body.len().to_string());
    match random.below(12) {
        0 => length = "-1".into(),
        1 => length = "99999999999999999999".into(),
        2 => (is_cut, length) = (true, (body.len() + 5).to_string()),
        3 => length = body.len().saturating_sub(3).to_string(),
        _ => {}
    }
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    let mut request = [head.as_bytes(), &body].concat();
    if random.below(10) == 0 {
        request.truncate(random.below(request.len()));
        is_cut = true;
    }
    (request, is_cut)
}

#[test]
fn a_thousand_broken_requests_leave_the_server_whole() {
    let server = Running::start(&["--model", DRAFT, "--client-timeout", "20"]);
    let whole = json!({ "prompt": "Once upon a time", "max_tokens": 4 });
    let before = server.answer("/v1/completions", &whole)["choices"].clone();
    let mut random = Random(11);
    let mut answered = 0;
    // Connections that the client neither ends nor reads.
    let mut open: Vec<TcpStream> = Vec::new();
    for round in 0..1000 {
        let (request, is_cut) = broken(&mut random);
        let Ok(mut stream) = TcpStream::connect(server.address) else { panic!("round {round}: no connection") };
        // The server may have closed the connection already.
        let _ = std::io::Write::write_all(&mut stream, &request);
        if random.below(20) == 0 {
            open.push(stream);
            continue;
        }
        if is_cut {
            // The server waits for no more.
            let _ = stream.shutdown(Shutdown::Write);
        }
        if let Some(received) = Received::from_stream(&mut stream) {
            answered += 1;
            let shown = String::from_utf8_lossy(&request);
            assert!(received.status < 500, "round {round}: {shown}\n{received:?}");
            if received.status >= 400 && !received.body.is_empty() {
                let error: Value = received.json();
                assert!(error["error"]["message"].is_string(), "round {round}: {shown}\n{error}");
            }
        }
    }
    assert!(answered > 100, "{answered} answers");
    assert_eq!(server.answer("/v1/completions", &whole)["choices"], before);
    drop(open);
    assert_eq!(server.answer("/v1/completions", &whole)["choices"], before);
}
