//! A target on servers, as a [`Target`].

use super::client::{Sent, ServerClient};
use super::dialect::Dialect;
use super::endpoint::Endpoint;
use super::stream::Stream;
use super::transport::Transport;
use super::vocabulary::VocabularyProbe;
use crate::error::{Error, Result};
use crate::gpu::DeviceInfo;
use crate::sample::{Draw, Processors, Sampling};
use crate::target::{Draft, MAX_DRAFT, Queue, Target, Verified};
use async_trait::async_trait;
use std::rc::Rc;

/// A target on servers. Tokens sent earlier count as cached. Forgetting them is free; the server manages its own cache.
///
/// If another plain round follows a plain round, the server streams tokens ([`Queue::repeat`]). The following rounds take these tokens
/// until a different request is needed.
pub struct ServerTarget {
    client: ServerClient,
    info: DeviceInfo,
    vocab: u32,
    capacity: usize,
    cached: Vec<u32>,
    round: Option<ServerRound>,
    /// `true`: a plain round follows the submitted one.
    repeats: bool,
}

/// A submitted round. The request of a plain one is sent when it is known what follows it.
struct ServerRound {
    pending: u32,
    draft: Vec<u32>,
    sent: Option<Sent>,
    /// Stream of tokens from the server, beginning with this round's token.
    stream: Option<Stream>,
}

impl ServerTarget {
    /// Connects to servers: detects their API and compares the tokenizer. `context`: maximum tokens of a text.
    ///
    /// # Errors
    /// [`Error::Network`], [`Error::Unauthorized`], [`Error::Overloaded`]; [`Error::NotFound`] for a model that the server lacks;
    /// [`Error::TokenizerMismatch`].
    pub async fn connect(
        transport: Rc<dyn Transport>,
        endpoint: Endpoint,
        probe: VocabularyProbe,
        context: Option<usize>,
    ) -> Result<Self> {
        let vocab = probe.vocab_size();
        Ok(Self::new(ServerClient::connect(transport, endpoint, probe).await?, vocab, context))
    }

    /// Creates another target on the servers, which starts with server number `replica`.
    pub async fn beginning_with(&self, replica: usize) -> Result<Self> {
        Ok(Self::new(self.client.beginning_with(replica).await?, self.vocab, Some(self.capacity)))
    }

    fn new(client: ServerClient, vocab: u32, context: Option<usize>) -> Self {
        // The token that the server writes needs a position too.
        let longest = client.longest.map(|longest| longest.saturating_sub(1));
        let capacity = [context, longest].into_iter().flatten().min().unwrap_or(4096);
        let (url, dialect) = client.place();
        let info = DeviceInfo {
            name: url.into(),
            backend: dialect.map_or("", Dialect::name).into(),
            driver: String::new(),
            max_buffer_size: 0,
            max_binding_size: 0,
            software: false,
        };
        Self { client, info, vocab, capacity, cached: Vec::new(), round: None, repeats: false }
    }

    /// Returns the server's address and engine, in place of a device.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Returns warnings about the servers, for the user.
    pub fn warnings(&self) -> &[String] {
        &self.client.warnings
    }

    /// Aborts the round in flight.
    fn break_off(&mut self) {
        self.repeats = false;
        let under_way = self.round.take().is_some_and(|round| round.sent.is_some() || round.stream.is_some());
        self.client.traffic.num_aborted += usize::from(under_way);
    }

    /// Returns the cached tokens, followed by those of a round.
    fn text(&self, pending: u32, draft: &[u32]) -> Vec<u32> {
        [&self.cached[..], &[pending], draft].concat()
    }
}

/// Returns the error for an option that a server cannot apply exactly.
pub(super) fn refused(option: &'static str, value: &str, allowed: &str) -> Error {
    let allowed =
        format!("{allowed}: a target on a server tells its most likely tokens only, and nothing is approximated");
    Error::BadOption { option: option.into(), value: value.into(), allowed }
}

#[async_trait(?Send)]
impl Target for ServerTarget {
    /// Checks that a server supports this sampling: it reports only its most likely tokens, so other changes to logits could only be
    /// guessed.
    fn sample_by(&mut self, sampling: &Sampling) -> Result<()> {
        let Sampling { processors, draw, logprobs, .. } = sampling;
        let Processors {
            biases, repetition_penalty, presence_penalty, frequency_penalty, no_repeat_ngram_size, ..
        } = processors;
        let asked: [(_, _, &str, _); 7] = [
            ("do_sample", *draw != Draw::Greedy, "true", "false"),
            ("logprobs", logprobs.is_some(), "true", "false"),
            ("logit_bias", !biases.is_empty(), "a bias", "none, and neither bad_words_ids nor min_new_tokens"),
            ("repetition_penalty", *repetition_penalty != 1.0, &repetition_penalty.to_string(), "1"),
            ("presence_penalty", *presence_penalty != 0.0, &presence_penalty.to_string(), "0"),
            ("frequency_penalty", *frequency_penalty != 0.0, &frequency_penalty.to_string(), "0"),
            ("no_repeat_ngram_size", *no_repeat_ngram_size != 0, &no_repeat_ngram_size.to_string(), "0"),
        ];
        match asked.into_iter().find(|(_, asked, ..)| *asked) {
            Some((option, _, value, allowed)) => Err(refused(option, value, allowed)),
            None => Ok(()),
        }
    }

    fn cached(&self) -> &[u32] {
        &self.cached
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn truncate(&mut self, len: usize) {
        self.break_off();
        self.cached.truncate(len);
    }

    /// Only records the tokens. The server reads them with the first round.
    async fn prefill(&mut self, tokens: &[u32]) -> Result<()> {
        self.break_off();
        self.check_room(tokens.len())?;
        self.cached.extend_from_slice(tokens);
        Ok(())
    }

    async fn submit(&mut self, pending: u32, draft: &Draft) -> Result<()> {
        self.break_off();
        let mut draft = match draft {
            Draft::Tokens(tokens) => tokens.clone(),
            Draft::Model(_) => Vec::new(),
        };
        draft.truncate(MAX_DRAFT);
        self.check_room(1 + draft.len())?;
        let sent = if draft.is_empty() { None } else { self.client.send(&self.text(pending, &draft), draft.len() + 1) };
        self.round = Some(ServerRound { pending, draft, sent, stream: None });
        Ok(())
    }

    async fn finish(&mut self) -> Result<Verified> {
        let Some(ServerRound { pending, draft, sent, stream }) = &mut self.round else {
            return Ok(Verified::default());
        };
        let (before, text) = (self.cached.len(), [&self.cached[..], &[*pending], draft].concat());
        let written = match stream {
            Some(stream) => stream.next().await,
            None => None,
        };
        let ids = match written {
            Some(id) => vec![id],
            None => {
                *stream = None;
                self.client.verify(&text, draft.len() + 1, sent).await?
            }
        };
        if let Some(id) = ids.iter().find(|id| **id >= self.vocab) {
            let (url, reason) =
                (self.client.place().0.into(), format!("it wrote token {id}, which the tokenizer does not have"));
            return Err(Error::TokenizerMismatch { url, reason });
        }
        let mut draft = std::mem::take(draft);
        draft.truncate(ids.len() - 1);
        let stream = stream.take();
        self.round = None;
        self.cached = text;
        self.cached.truncate(before + 1 + draft.len());
        if std::mem::take(&mut self.repeats) {
            self.round = Some(ServerRound { pending: ids[ids.len() - 1], draft: Vec::new(), sent: None, stream });
        } else {
            self.client.traffic.num_aborted += usize::from(stream.is_some());
        }
        let traffic = std::mem::take(&mut self.client.traffic);
        Ok(Verified { draft, ids, traffic, ..Verified::default() })
    }
}

impl Queue for ServerTarget {
    fn prepare(&mut self, repeats: bool) -> bool {
        let Some(ServerRound { pending, draft, sent: None, stream }) = &self.round else { return false };
        let repeats = repeats && draft.is_empty() && self.cached.len() + 2 <= self.capacity;
        if stream.is_some() {
            return repeats;
        }
        let text = self.text(*pending, draft);
        let (sent, stream) = match repeats {
            true => (None, self.client.stream(&text, self.capacity + 1 - text.len())),
            false => (self.client.send(&text, draft.len() + 1), None),
        };
        if let Some(round) = &mut self.round {
            (round.sent, round.stream) = (sent, stream);
        }
        repeats
    }

    fn repeat(&mut self) {
        self.repeats = true;
    }

    fn is_computing(&mut self) -> bool {
        self.round.is_some()
    }

    fn is_far(&self) -> bool {
        true
    }

    fn keep(&mut self, len: usize) {
        if len != self.cached.len() {
            self.truncate(len);
        }
    }
}
