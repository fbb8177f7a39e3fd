//! A client for servers of the same model: detects their API, retries, and switches to another server after a failure.

use super::dialect::{Dialect, ServerAnswer, words};
use super::endpoint::Endpoint;
use super::stream::Stream;
use super::transport::{Incoming, Piece, Request, Transport};
use super::tries::{MALFORMED, Tries};
use super::vocabulary::VocabularyProbe;
use crate::error::{Error, Result};
use crate::http::is_transient;
use crate::target::Traffic;
use serde_json::Value;
use std::rc::Rc;

/// Maximum bytes of an answer. vLLM describes each token of a text in at most 200 bytes.
const LARGEST: usize = 256 << 20;

/// The failure of a try.
pub(super) enum RequestFailure {
    /// A transient failure.
    Transient {
        reason: String,
        /// `true`: the server is overloaded. `after`: seconds after which to retry, if the server gives them.
        overloaded: bool,
        after: Option<f64>,
    },
    /// The answer does not follow the server's protocol.
    Malformed(String),
    /// The server refuses the request, with a status and a message.
    Refused(u16, String),
    /// A permanent failure.
    Permanent(Error),
}

impl From<String> for RequestFailure {
    fn from(reason: String) -> Self {
        Self::Transient { reason, overloaded: false, after: None }
    }
}

/// One of several servers.
#[derive(Clone)]
struct Replica {
    url: String,
    /// API of the server. `None`: not detected yet.
    dialect: Option<Dialect>,
    /// `true`: it reports how many tokens came from its cache.
    tells_cached: bool,
}

/// A request in flight.
pub(super) struct Sent {
    replica: usize,
    dialect: Dialect,
    incoming: Box<dyn Incoming>,
}

/// A client of the servers of an endpoint.
#[derive(Clone)]
pub(super) struct ServerClient {
    transport: Rc<dyn Transport>,
    endpoint: Endpoint,
    probe: VocabularyProbe,
    replicas: Vec<Replica>,
    /// Index of the current server.
    at: usize,
    /// Tokens of the longest text, if a server reports it.
    pub longest: Option<usize>,
    pub traffic: Traffic,
    /// Warnings about the servers, for the user.
    pub warnings: Vec<String>,
}

impl ServerClient {
    /// Connects to the first server that answers.
    pub async fn connect(transport: Rc<dyn Transport>, endpoint: Endpoint, probe: VocabularyProbe) -> Result<Self> {
        let replica = |url: &String| Replica { url: url.clone(), dialect: None, tells_cached: true };
        let replicas = endpoint.urls.iter().map(replica).collect();
        let (traffic, warnings) = (Traffic::default(), Vec::new());
        let client = Self { transport, endpoint, probe, replicas, at: 0, longest: None, traffic, warnings };
        client.beginning_with(0).await
    }

    /// Connects to the first server that answers, starting with number `replica`.
    pub async fn beginning_with(&self, replica: usize) -> Result<Self> {
        let mut client = Self { at: replica % self.replicas.len(), traffic: Traffic::default(), ..self.clone() };
        // At startup, the user should not wait long for an error.
        let mut tries = Tries::new(client.replicas.len(), client.endpoint.patience.min(5.0));
        loop {
            match client.check_server().await {
                Ok(()) => return Ok(client),
                Err(failed) => client.recover(failed, &mut tries).await?,
            }
        }
    }

    /// Returns the current server and its API.
    pub fn place(&self) -> (&str, Option<Dialect>) {
        let Replica { url, dialect, .. } = &self.replicas[self.at];
        (url, *dialect)
    }

    /// Sends a verification. `None`: the server's API is not detected yet.
    pub fn send(&mut self, text: &[u32], rows: usize) -> Option<Sent> {
        let Replica { dialect, tells_cached, .. } = self.replicas[self.at];
        let dialect = dialect?;
        Some(self.send_body(dialect, dialect.verification(&self.endpoint.model, text, rows, tells_cached)))
    }

    fn send_body(&mut self, dialect: Dialect, body: Value) -> Sent {
        self.traffic.num_requests += 1;
        Sent { replica: self.at, dialect, incoming: self.post(dialect.path(), Some(body)) }
    }

    /// Starts a stream of tokens after a text. `None`: the server's API is not detected yet.
    pub fn stream(&mut self, text: &[u32], most: usize) -> Option<Stream> {
        let dialect = self.replicas[self.at].dialect?;
        let sent = self.send_body(dialect, dialect.continuation(&self.endpoint.model, text, most));
        Some(Stream::new(dialect, sent.incoming))
    }

    /// Returns the most likely token after each of the last `rows` tokens of a text. Ids after the first disagreement with the text may be
    /// missing. `sent` is the request from [`Self::send`], then the current one.
    pub async fn verify(&mut self, text: &[u32], rows: usize, sent: &mut Option<Sent>) -> Result<Vec<u32>> {
        let mut tries = Tries::new(self.replicas.len(), self.endpoint.patience);
        loop {
            let asked = self.try_once(text, rows, sent).await;
            *sent = None;
            match asked {
                Ok(ids) => return Ok(ids),
                Err(failed) => self.recover(failed, &mut tries).await?,
            }
            self.traffic.num_retries += 1;
        }
    }

    /// Makes one try.
    async fn try_once(
        &mut self,
        text: &[u32],
        rows: usize,
        sent: &mut Option<Sent>,
    ) -> Result<Vec<u32>, RequestFailure> {
        if sent.is_none() {
            self.check_server().await?;
            *sent = self.send(text, rows);
        }
        let Some(Sent { replica, dialect, incoming }) = sent else { return Err("it was not met".to_owned().into()) };
        let (replica, dialect, first) = (*replica, *dialect, text.len() - rows);
        let reads_cache = dialect == Dialect::Vllm && rows > 1 && self.replicas[replica].tells_cached;
        match self.whole(&mut **incoming).await {
            Ok(answer) => {
                let ServerAnswer { ids, cached } =
                    dialect.parse_answer(&answer, text.len(), rows).map_err(RequestFailure::Malformed)?;
                self.traffic.num_prompt_tokens += text.len();
                self.traffic.num_cached_tokens += cached.unwrap_or(0);
                if !reads_cache || cached.is_some_and(|cached| cached <= first) {
                    return Ok(ids);
                }
                self.replicas[replica].tells_cached = cached.is_some();
            }
            // For cached positions vLLM returns arbitrary memory contents, and fails if those are numbers that JSON lacks.
            Err(RequestFailure::Refused(400, _)) if reads_cache => {}
            Err(failed) => return Err(failed),
        }
        // Generate from the cache instead, at little cost: as far as the result agrees with the text, it equals a verification.
        let body = dialect.generation(&self.endpoint.model, &text[..=first], rows);
        let Sent { incoming, .. } = sent.insert(self.send_body(dialect, body));
        let mut ids = dialect.written(&self.whole(&mut **incoming).await?, rows).map_err(RequestFailure::Malformed)?;
        let agreed = ids.iter().zip(&text[first + 1..]).take_while(|(id, draft)| id == draft).count();
        ids.truncate(agreed + 1);
        Ok(ids)
    }

    /// Checks that the server has the model, detects its API, and compares the tokenizer.
    async fn check_server(&mut self) -> Result<(), RequestFailure> {
        if self.replicas[self.at].dialect.is_some() {
            return Ok(());
        }
        let models = self.get("/v1/models", None).await?;
        let models: Value = serde_json::from_slice(&models)
            .map_err(|_| RequestFailure::Malformed("its list of models is not JSON".into()))?;
        let names = |model: &Value| model["id"].as_str().map(str::to_owned);
        let listed = models["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(model) = listed.iter().find(|one| one["id"] == *self.endpoint.model) else {
            let names = listed.iter().filter_map(names).collect::<Vec<_>>().join(", ");
            let reason = format!("the server has no such model; it has: {names}");
            return Err(RequestFailure::Permanent(Error::NotFound { path: self.endpoint.model.clone(), reason }));
        };
        let longest = model["max_model_len"].as_u64().map(|longest| longest as usize);
        let dialect = match model["owned_by"].as_str() {
            Some("sglang") => Dialect::Sglang,
            _ => self.find_dialect().await?,
        };
        self.check_vocabulary().await?;
        // Each text must fit all servers.
        self.longest = [self.longest, longest].into_iter().flatten().min();
        self.replicas[self.at].dialect = Some(dialect);
        Ok(())
    }

    /// Returns the first API that the server supports.
    async fn find_dialect(&mut self) -> Result<Dialect, RequestFailure> {
        let mut reason = String::new();
        for dialect in [Dialect::Vllm, Dialect::Completions, Dialect::Sglang] {
            // Every model has token 0.
            let body = dialect.verification(&self.endpoint.model, &[0, 0], 2, true);
            let told = match self.get(dialect.path(), Some(body)).await {
                Ok(answer) => dialect.parse_answer(&answer, 2, 2),
                Err(RequestFailure::Refused(_, words)) => Err(words),
                Err(failed) => return Err(failed),
            };
            match told {
                Ok(ServerAnswer { cached, .. }) => {
                    self.replicas[self.at].tells_cached = cached.is_some();
                    let missing = match dialect {
                        Dialect::Completions => "--enable-scale-out --enable-prompt-tokens-details",
                        Dialect::Vllm if cached.is_none() => "--enable-prompt-tokens-details",
                        _ => return Ok(dialect),
                    };
                    let url = self.place().0;
                    self.warnings.push(format!(
                        "{url} reads the whole text again for each draft: start vLLM with {missing}, and it goes on from its prefix cache"
                    ));
                    return Ok(dialect);
                }
                Err(words) => reason = words,
            }
        }
        let reason =
            format!("it does not return log-probabilities of a prompt's tokens, as vLLM and SGLang do ({reason})");
        Err(RequestFailure::Permanent(Error::Network { url: self.place().0.into(), reason }))
    }

    async fn check_vocabulary(&mut self) -> Result<(), RequestFailure> {
        let told = match self.get("/tokenize", Some(self.probe.question(&self.endpoint.model))).await {
            Ok(answer) => self.probe.difference(&answer),
            Err(RequestFailure::Refused(..)) => None,
            Err(failed) => return Err(failed),
        };
        let url = self.place().0.to_owned();
        match told {
            Some(None) => {}
            Some(Some(difference)) => {
                return Err(RequestFailure::Permanent(Error::TokenizerMismatch { url, reason: difference }));
            }
            None => self.warnings.push(format!(
                "{url} has no endpoint that tokenizes: it was not checked that its vocabulary equals this one"
            )),
        }
        Ok(())
    }

    /// Returns a whole answer. With a body the request is a POST.
    async fn get(&self, path: &str, body: Option<Value>) -> Result<Vec<u8>, RequestFailure> {
        let mut incoming = self.post(path, body);
        self.whole(&mut *incoming).await
    }

    fn post(&self, path: &str, body: Option<Value>) -> Box<dyn Incoming> {
        let Endpoint { api_key, timeout, .. } = &self.endpoint;
        let body = body.map(|body| body.to_string());
        let url = format!("{}{path}", self.place().0);
        self.transport.send(Request { url, key: api_key.clone(), body, timeout: *timeout })
    }

    async fn whole(&self, incoming: &mut dyn Incoming) -> Result<Vec<u8>, RequestFailure> {
        let (mut status, mut after, mut body) = (0, None, Vec::new());
        while let Some(piece) = incoming.next().await? {
            match piece {
                Piece::Head { status: found, retry_after } => (status, after) = (found, retry_after),
                Piece::Bytes(bytes) if body.len() + bytes.len() > LARGEST => {
                    return Err(RequestFailure::Malformed(format!("its answer is larger than {LARGEST} bytes")));
                }
                Piece::Bytes(bytes) => body.extend(bytes),
            }
        }
        if (200..300).contains(&status) { Ok(body) } else { Err(self.refusal(status, after, &body)) }
    }

    /// Classifies an answer without success status.
    fn refusal(&self, status: u16, after: Option<f64>, body: &[u8]) -> RequestFailure {
        let mut words = words(&serde_json::from_slice(body).unwrap_or(Value::Null));
        // A server may quote the request.
        if let Some(key) = &self.endpoint.api_key {
            words = words.replace(key.expose(), "...");
        }
        let url = self.place().0.to_owned();
        match (status, &self.endpoint.api_key) {
            (401 | 403, None) => RequestFailure::Permanent(Error::Unauthorized {
                url,
                reason: "it requires a key (FORETOKEN_API_KEY, api_key)".into(),
            }),
            (401 | 403, Some(_)) => {
                RequestFailure::Permanent(Error::Unauthorized { url, reason: "it refuses the key".into() })
            }
            (300..=399, _) => {
                RequestFailure::Refused(status, "it redirects to another address: use that address".into())
            }
            _ if is_transient(status) => {
                let overloaded = matches!(status, 429 | 503);
                RequestFailure::Transient {
                    reason: format!("the server answered {status} ({words})"),
                    overloaded,
                    after,
                }
            }
            _ => RequestFailure::Refused(status, words),
        }
    }

    /// Handles a failure: pauses, or switches to another server. Fails if a retry makes no sense.
    async fn recover(&mut self, failed: RequestFailure, tries: &mut Tries) -> Result<()> {
        let url = self.place().0.to_owned();
        let (reason, overloaded, after) = match failed {
            RequestFailure::Permanent(error) => return Err(error),
            RequestFailure::Refused(404, reason) => return Err(Error::NotFound { path: url, reason }),
            RequestFailure::Refused(status, words) => {
                return Err(Error::Network { url, reason: format!("the server answered {status}: {words}") });
            }
            RequestFailure::Malformed(reason) if tries.count_malformed() => {
                let reason = format!("{reason}, {MALFORMED} times: check that this is the address of vLLM or SGLang");
                return Err(Error::Network { url, reason });
            }
            RequestFailure::Malformed(reason) => (reason, false, None),
            RequestFailure::Transient { reason, overloaded, after } => (reason, overloaded, after),
        };
        self.at = (self.at + 1) % self.replicas.len();
        match tries.next(after) {
            None => Ok(()),
            Some(Ok(pause)) => {
                self.transport.pause(pause).await;
                Ok(())
            }
            Some(Err(count)) if overloaded => {
                let reason = format!("{reason}, {count} times: try later, or use another server");
                Err(Error::Overloaded { url, reason, retry_after: after })
            }
            Some(Err(count)) => Err(Error::Network {
                url,
                reason: format!("{reason}, {count} times: check that the server runs and can be reached from here"),
            }),
        }
    }
}
