//! Routes, hosts, origins, keys and limits.

use super::{DRAFT, Received, Running, flags, options};
use foretoken_serve::ApiServer;
use serde_json::json;

#[test]
fn routes_methods_and_models_are_found_or_refused() {
    let server = Running::start(&["--model", DRAFT]);
    assert_eq!(server.get("/health").json(), json!({ "status": "ok" }));
    let list = server.get("/v1/models").json();
    let [model] = &list["data"].as_array().unwrap()[..] else { panic!("{list}") };
    assert_eq!((&model["id"], &model["loaded"], &model["object"]), (&json!("draft"), &json!(false), &json!("model")));
    assert_eq!(server.get("/v1/models/draft").json(), *model);
    assert_eq!(server.get("/v1/models/%64raft").json(), *model);
    assert_eq!(server.get("/v1/models/other").refusal(), (404, "model_not_found".into(), "model".into()));
    assert_eq!(server.get("/v2").refusal(), (404, "unknown_url".into(), String::new()));
    for (method, path, allowed) in [
        ("DELETE", "/v1/models", "GET"),
        ("POST", "/v1/models/draft", "GET"),
        ("GET", "/v1/completions", "POST"),
        ("POST", "/health", "GET"),
    ] {
        let refused = server.request(method, path, "", b"");
        assert_eq!((refused.status, refused.header("allow")), (405, Some(&*allowed.to_lowercase())), "{path}");
    }
    let other = server.post("/v1/completions", &json!({ "model": "other", "prompt": "Once" }));
    assert_eq!(other.refusal(), (404, "model_not_found".into(), "model".into()));
}

#[test]
fn only_requests_with_the_key_are_answered() {
    let server = Running::start(&["--model", DRAFT, "--api-key", "secret-1"]);
    assert_eq!(server.get("/health").status, 200);
    for headers in
        ["", "Authorization: secret-1\r\n", "Authorization: Bearer secret-2\r\n", "Authorization: Bearer secret-11\r\n"]
    {
        let refused = server.request("GET", "/v1/models", headers, b"");
        assert_eq!(refused.refusal(), (401, "invalid_api_key".into(), String::new()), "{headers}");
        assert_eq!(refused.header("www-authenticate"), Some("bearer"));
    }
    assert_eq!(server.request("GET", "/v1/models", "Authorization: Bearer secret-1\r\n", b"").status, 200);
}

#[test]
fn only_known_hosts_and_origins_are_answered() {
    let server =
        Running::start(&["--model", DRAFT, "--allowed-host", "box.lan", "--cors-origin", "https://app.example"]);
    let port = server.address.port();
    let with_host = |host: &str| {
        let request = format!("GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        Received::from_stream(&mut server.connect(request)).unwrap()
    };
    for host in [format!("127.0.0.1:{port}"), "LOCALHOST".into(), "[::1]".into(), "box.lan:80".into()] {
        assert_eq!(with_host(&host).status, 200, "{host}");
    }
    for host in ["evil.example", "127.0.0.2", "localhost.evil.example"] {
        assert_eq!(with_host(host).refusal().1, "host_not_allowed", "{host}");
    }
    assert_eq!(with_host("").refusal().0, 400);
    let from = |origin: &str| server.request("GET", "/health", &format!("Origin: {origin}\r\n"), b"");
    assert_eq!(from("https://app.example").header("access-control-allow-origin"), Some("https://app.example"));
    let own = from(&format!("http://127.0.0.1:{port}"));
    assert_eq!((own.status, own.header("access-control-allow-origin")), (200, None));
    for origin in ["null", "https://app.example.evil", "http://app.example"] {
        assert_eq!(from(origin).refusal().1, "origin_not_allowed", "{origin}");
    }
    let preflight = server.request("OPTIONS", "/v1/models", "Origin: https://app.example\r\n", b"");
    assert_eq!((preflight.status, preflight.header("access-control-allow-methods")), (204, Some("get, post")));
    assert_eq!(server.request("OPTIONS", "/v1/models", "", b"").status, 405);
}

#[test]
fn large_and_slow_requests_are_refused() {
    let server = Running::start(&["--model", DRAFT, "--max-request-bytes", "100", "--client-timeout", "1"]);
    let large = server.request("POST", "/v1/completions", "", &[b' '; 101]);
    assert_eq!(large.refusal(), (413, "request_too_large".into(), String::new()));
    let head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nConnection: close\r\n\r\n{";
    let late = Received::from_stream(&mut server.connect(head)).unwrap();
    assert_eq!(late.refusal(), (408, "timeout".into(), String::new()));
    // A head that does not end closes the connection.
    let cut = Received::from_stream(&mut server.connect("GET /health HTTP/1.1\r\nHost: local"));
    assert!(cut.is_none_or(|cut| cut.status == 408));
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn bad_flags_are_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (args, words) in [
        (&["--cors-origin", "*"][..], "cors_origin: *"),
        (&["--cors-origin", "https://a.example/path"], "cors_origin"),
        (&["--allowed-host", "http://a"], "allowed_host"),
        (&["--max-queue", "0"], "max_queue"),
        (&["--client-timeout", "0"], "client_timeout"),
        (&["--api-key", "a b"], "api_key: the given one"),
        (&["--model", DRAFT], "draft twice"),
        (&["--model", "no/such/place"], "no/such/place"),
        (&["--assistant-model", DRAFT, "--assistant-model", DRAFT], "assistant_model"),
        (&["--host", "256.0.0.1"], "256.0.0.1"),
    ] {
        let args = [&["--model", DRAFT], args].concat();
        let error = ApiServer::bind(&flags(&args), options()).err().unwrap();
        assert!(error.to_string().contains(words), "{error}");
    }
    let mut taken = flags(&["--model", DRAFT]);
    taken.port = port.parse().unwrap();
    assert!(ApiServer::bind(&taken, options()).err().unwrap().to_string().contains("a free port"));
}
