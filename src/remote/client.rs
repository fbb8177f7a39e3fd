//! Asks servers that serve the same: finds out how, tries again, and turns to another one where one fails.

use super::Endpoint;
use super::dialect::{Answer, Dialect, words};
use super::stream::Stream;
use super::transport::{Incoming, Piece, Request, Transport};
use super::tries::{MALFORMED, Tries};
use super::vocabulary::Probe;
use crate::error::{Error, Result};
use crate::target::Traffic;
use serde_json::Value;
use std::rc::Rc;

/// Most bytes of an answer. vLLM tells of each token of a text, in 200 bytes at most.
const LARGEST: usize = 256 << 20;

/// A try that failed.
pub(super) enum Failed {
    /// It may pass by itself.
    Passing {
        reason: String,
        /// Whether the server has too much to do, and when it wants to be asked again.
        overloaded: bool,
        after: Option<f64>,
    },
    /// The server answers, but not as its protocol says.
    Malformed(String),
    /// The server refuses, with a status and its words.
    Refused(u16, String),
    /// For good.
    Finally(Error),
}

impl From<String> for Failed {
    fn from(reason: String) -> Self {
        Self::Passing { reason, overloaded: false, after: None }
    }
}

/// One of several servers.
#[derive(Clone)]
struct Replica {
    url: String,
    /// How it is asked, once it was met.
    dialect: Option<Dialect>,
    /// Whether it tells what it had cached.
    tells_cached: bool,
}

/// A request on its way.
pub(super) struct Sent {
    replica: usize,
    dialect: Dialect,
    incoming: Box<dyn Incoming>,
}

/// Asks the servers of an endpoint.
#[derive(Clone)]
pub(super) struct Client {
    transport: Rc<dyn Transport>,
    endpoint: Endpoint,
    probe: Probe,
    replicas: Vec<Replica>,
    /// The one that is asked.
    at: usize,
    /// Tokens that fit, where a server tells.
    pub longest: Option<usize>,
    pub traffic: Traffic,
    /// What the user should know of the servers, in words.
    pub warnings: Vec<String>,
}

impl Client {
    /// Meets the first server that answers.
    pub async fn connect(transport: Rc<dyn Transport>, endpoint: Endpoint, probe: Probe) -> Result<Self> {
        let replica = |url: &String| Replica { url: url.clone(), dialect: None, tells_cached: true };
        let replicas = endpoint.urls.iter().map(replica).collect();
        let (traffic, warnings) = (Traffic::default(), Vec::new());
        let client = Self { transport, endpoint, probe, replicas, at: 0, longest: None, traffic, warnings };
        client.beginning_with(0).await
    }

    /// The same, of the first server that answers from this one on.
    pub async fn beginning_with(&self, replica: usize) -> Result<Self> {
        let mut client = Self { at: replica % self.replicas.len(), traffic: Traffic::default(), ..self.clone() };
        // Who starts a program does not want to wait for long.
        let mut tries = Tries::new(client.replicas.len(), client.endpoint.patience.min(5.0));
        loop {
            match client.meet().await {
                Ok(()) => return Ok(client),
                Err(failed) => client.overcome(failed, &mut tries).await?,
            }
        }
    }

    /// The server that is asked, and how.
    pub fn place(&self) -> (&str, Option<Dialect>) {
        let Replica { url, dialect, .. } = &self.replicas[self.at];
        (url, *dialect)
    }

    /// Sends a verification to a server that was met.
    pub fn send(&mut self, text: &[u32], rows: usize) -> Option<Sent> {
        let Replica { dialect, tells_cached, .. } = self.replicas[self.at];
        let dialect = dialect?;
        Some(self.send_body(dialect, dialect.verification(&self.endpoint.model, text, rows, tells_cached)))
    }

    fn send_body(&mut self, dialect: Dialect, body: Value) -> Sent {
        self.traffic.num_requests += 1;
        Sent { replica: self.at, dialect, incoming: self.post(dialect.path(), Some(body)) }
    }

    /// Lets the server write behind a text, if it was met.
    pub fn stream(&mut self, text: &[u32], most: usize) -> Option<Stream> {
        let dialect = self.replicas[self.at].dialect?;
        let sent = self.send_body(dialect, dialect.continuation(&self.endpoint.model, text, most));
        Some(Stream::new(dialect, sent.incoming))
    }

    /// The most likely token behind each of the last `rows` tokens of a text; those behind one that the text has otherwise may be
    /// missing. `sent` is [`Self::send`] for them, then what is on its way.
    pub async fn verify(&mut self, text: &[u32], rows: usize, sent: &mut Option<Sent>) -> Result<Vec<u32>> {
        let mut tries = Tries::new(self.replicas.len(), self.endpoint.patience);
        loop {
            let asked = self.ask(text, rows, sent).await;
            *sent = None;
            match asked {
                Ok(ids) => return Ok(ids),
                Err(failed) => self.overcome(failed, &mut tries).await?,
            }
            self.traffic.num_retries += 1;
        }
    }

    /// One try.
    async fn ask(&mut self, text: &[u32], rows: usize, sent: &mut Option<Sent>) -> Result<Vec<u32>, Failed> {
        if sent.is_none() {
            self.meet().await?;
            *sent = self.send(text, rows);
        }
        let Some(Sent { replica, dialect, incoming }) = sent else { return Err("it was not met".to_owned().into()) };
        let (replica, dialect, first) = (*replica, *dialect, text.len() - rows);
        let reads_cache = dialect == Dialect::Vllm && rows > 1 && self.replicas[replica].tells_cached;
        match self.whole(&mut **incoming).await {
            Ok(answer) => {
                let Answer { ids, cached } = dialect.read(&answer, text.len(), rows).map_err(Failed::Malformed)?;
                self.traffic.num_prompt_tokens += text.len();
                self.traffic.num_cached_tokens += cached.unwrap_or(0);
                if !reads_cache || cached.is_some_and(|cached| cached <= first) {
                    return Ok(ids);
                }
                self.replicas[replica].tells_cached = cached.is_some();
            }
            // Of what it has cached vLLM tells what happens to be in memory: numbers that JSON lacks make it fail.
            Err(Failed::Refused(400, _)) if reads_cache => {}
            Err(failed) => return Err(failed),
        }
        // It writes on from its cache at little cost: as far as it agrees with the text, that is the same.
        let body = dialect.generation(&self.endpoint.model, &text[..=first], rows);
        let Sent { incoming, .. } = sent.insert(self.send_body(dialect, body));
        let mut ids = dialect.written(&self.whole(&mut **incoming).await?, rows).map_err(Failed::Malformed)?;
        let agreed = ids.iter().zip(&text[first + 1..]).take_while(|(id, draft)| id == draft).count();
        ids.truncate(agreed + 1);
        Ok(ids)
    }

    /// Finds out whether the server has the model, how it is asked, and whether it means the same by a token.
    async fn meet(&mut self) -> Result<(), Failed> {
        if self.replicas[self.at].dialect.is_some() {
            return Ok(());
        }
        let models = self.get("/v1/models", None).await?;
        let models: Value =
            serde_json::from_slice(&models).map_err(|_| Failed::Malformed("its list of models is no JSON".into()))?;
        let names = |model: &Value| model["id"].as_str().map(str::to_owned);
        let listed = models["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(model) = listed.iter().find(|one| one["id"] == *self.endpoint.model) else {
            let names = listed.iter().filter_map(names).collect::<Vec<_>>().join(", ");
            let reason = format!("the server has no such model; it has: {names}");
            return Err(Failed::Finally(Error::NotFound { path: self.endpoint.model.clone(), reason }));
        };
        let longest = model["max_model_len"].as_u64().map(|longest| longest as usize);
        let dialect = match model["owned_by"].as_str() {
            Some("sglang") => Dialect::Sglang,
            _ => self.find_dialect().await?,
        };
        self.check_vocabulary().await?;
        // All texts must fit all servers that were met.
        self.longest = [self.longest, longest].into_iter().flatten().min();
        self.replicas[self.at].dialect = Some(dialect);
        Ok(())
    }

    /// The first way of asking that the server knows.
    async fn find_dialect(&mut self) -> Result<Dialect, Failed> {
        let mut reason = String::new();
        for dialect in [Dialect::Vllm, Dialect::Completions, Dialect::Sglang] {
            // Two tokens that every model has.
            let body = dialect.verification(&self.endpoint.model, &[0, 0], 2, true);
            let told = match self.get(dialect.path(), Some(body)).await {
                Ok(answer) => dialect.read(&answer, 2, 2),
                Err(Failed::Refused(_, words)) => Err(words),
                Err(failed) => return Err(failed),
            };
            match told {
                Ok(Answer { cached, .. }) => {
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
            format!("it does not tell what the model finds of a prompt's tokens, as vLLM and SGLang do ({reason})");
        Err(Failed::Finally(Error::Network { url: self.place().0.into(), reason }))
    }

    async fn check_vocabulary(&mut self) -> Result<(), Failed> {
        let told = match self.get("/tokenize", Some(self.probe.question(&self.endpoint.model))).await {
            Ok(answer) => self.probe.difference(&answer),
            Err(Failed::Refused(..)) => None,
            Err(failed) => return Err(failed),
        };
        let url = self.place().0.to_owned();
        match told {
            Some(None) => {}
            Some(Some(difference)) => {
                return Err(Failed::Finally(Error::TokenizerMismatch { url, reason: difference }));
            }
            None => self
                .warnings
                .push(format!("{url} does not tell how it tokenizes: nobody checked that its vocabulary is this one")),
        }
        Ok(())
    }

    /// A whole answer; with a body to what is posted.
    async fn get(&self, path: &str, body: Option<Value>) -> Result<Vec<u8>, Failed> {
        let mut incoming = self.post(path, body);
        self.whole(&mut *incoming).await
    }

    fn post(&self, path: &str, body: Option<Value>) -> Box<dyn Incoming> {
        let Endpoint { api_key, timeout, .. } = &self.endpoint;
        let body = body.map(|body| body.to_string());
        let url = format!("{}{path}", self.place().0);
        self.transport.send(Request { url, key: api_key.clone(), body, timeout: *timeout })
    }

    async fn whole(&self, incoming: &mut dyn Incoming) -> Result<Vec<u8>, Failed> {
        let (mut status, mut after, mut body) = (0, None, Vec::new());
        while let Some(piece) = incoming.next().await? {
            match piece {
                Piece::Head { status: found, retry_after } => (status, after) = (found, retry_after),
                Piece::Bytes(bytes) if body.len() + bytes.len() > LARGEST => {
                    return Err(Failed::Malformed(format!("its answer is larger than {LARGEST} bytes")));
                }
                Piece::Bytes(bytes) => body.extend(bytes),
            }
        }
        if (200..300).contains(&status) { Ok(body) } else { Err(self.refusal(status, after, &body)) }
    }

    /// What an answer means that brings nothing.
    fn refusal(&self, status: u16, after: Option<f64>, body: &[u8]) -> Failed {
        let mut words = words(&serde_json::from_slice(body).unwrap_or(Value::Null));
        // A server may quote what it was sent.
        if let Some(key) = &self.endpoint.api_key {
            words = words.replace(key.expose(), "...");
        }
        let url = self.place().0.to_owned();
        match (status, &self.endpoint.api_key) {
            (401 | 403, None) => Failed::Finally(Error::Unauthorized {
                url,
                reason: "it wants a key (FORETOKEN_API_KEY, api_key)".into(),
            }),
            (401 | 403, Some(_)) => Failed::Finally(Error::Unauthorized { url, reason: "it refuses the key".into() }),
            (300..=399, _) => Failed::Refused(status, "it redirects to another address: name that one".into()),
            // What a server cannot do does not pass.
            (408 | 425 | 429 | 500 | 502..=504 | 506.., _) => {
                let overloaded = matches!(status, 429 | 503);
                Failed::Passing { reason: format!("the server answered {status} ({words})"), overloaded, after }
            }
            _ => Failed::Refused(status, words),
        }
    }

    /// After a failure: waits, or turns to another server. Fails where that makes no sense any more.
    async fn overcome(&mut self, failed: Failed, tries: &mut Tries) -> Result<()> {
        let url = self.place().0.to_owned();
        let (reason, overloaded, after) = match failed {
            Failed::Finally(error) => return Err(error),
            Failed::Refused(404, reason) => return Err(Error::NotFound { path: url, reason }),
            Failed::Refused(status, words) => {
                return Err(Error::Network { url, reason: format!("the server answered {status}: {words}") });
            }
            Failed::Malformed(reason) if tries.count_malformed() => {
                let reason = format!("{reason}, {MALFORMED} times: check that this is the address of vLLM or SGLang");
                return Err(Error::Network { url, reason });
            }
            Failed::Malformed(reason) => (reason, false, None),
            Failed::Passing { reason, overloaded, after } => (reason, overloaded, after),
        };
        self.at = (self.at + 1) % self.replicas.len();
        match tries.next(after) {
            None => Ok(()),
            Some(Ok(pause)) => {
                self.transport.pause(pause).await;
                Ok(())
            }
            Some(Err(count)) if overloaded => {
                let reason = format!("{reason}, {count} times: ask again later, or another server");
                Err(Error::Overloaded { url, reason, retry_after: after })
            }
            Some(Err(count)) => Err(Error::Network {
                url,
                reason: format!("{reason}, {count} times: check that the server runs and is reached from here"),
            }),
        }
    }
}
