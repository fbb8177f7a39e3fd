//! START HERE. A prompt becomes text: prefill, then rounds of draft, verify, accept, emit, until something ends it.

use crate::decode::{Draft, Engine, Target};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::options::{GenerateOptions, Speculation};
use crate::speculate::{DraftModel, Drafter, Lookahead, NoDrafter, Origin, PromptLookup, Stats, accept};
use crate::text::{ChatTemplate, Message, StopStrings, TextStream, Tokenizer};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::Rc;
use web_time::Instant;

/// A loaded model pair and the text that it has seen.
pub struct Session {
    pub(crate) engine: Engine,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) template: Option<ChatTemplate>,
    pub(crate) lookahead: Option<Lookahead>,
    pub(crate) origin: Box<dyn Origination>,
}

/// What to continue.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Prompt {
    /// Text as it is; special tokens written in it count as such.
    Text(String),
    /// Token ids.
    Tokens(Vec<u32>),
    /// Messages, put in words by the model's chat template.
    Chat(Vec<Message>),
}

/// A generated token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// The text that it completes: empty in the middle of a character, or while a stop string may be beginning.
    pub text: String,
    /// Who proposed it.
    pub origin: Origin,
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// An end-of-text token or a stop string.
    Stop,
    /// `max_new_tokens`, or the context is full.
    Length,
    /// The caller broke off.
    Aborted,
}

/// A finished generation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Generation {
    /// The text, without what ended it.
    pub text: String,
    /// All generated tokens, the one that ended it included.
    pub token_ids: Vec<u32>,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// What it did.
    pub stats: Stats,
}

impl Session {
    /// The models and their device.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The tokenizer that target and draft model share.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The tokens of a prompt.
    ///
    /// # Errors
    /// [`Error::BadOption`] for an empty prompt, [`Error::BadTemplate`], [`Error::BadTokenizer`].
    pub fn encode(&self, prompt: &Prompt) -> Result<Vec<u32>> {
        let mut tokens = match prompt {
            Prompt::Text(text) => self.tokenizer.encode(text, true)?,
            Prompt::Tokens(tokens) => tokens.clone(),
            Prompt::Chat(messages) => match &self.template {
                Some(template) => template.encode(&self.tokenizer, messages)?,
                None => return Err(Error::BadTemplate { reason: "the model has none; use a plain prompt".into() }),
            },
        };
        let spec = self.engine.target().spec();
        if tokens.is_empty() {
            tokens.extend(spec.bos_token_id);
        }
        let vocab = spec.vocab_size;
        let bad = |value: String, allowed: String| Err(Error::BadOption { option: "prompt".into(), value, allowed });
        match tokens.iter().find(|&&id| id as usize >= vocab) {
            Some(id) => bad(format!("token {id}"), format!("token ids below {vocab}")),
            None if tokens.is_empty() => bad("an empty prompt".into(), "one token or more".into()),
            None => Ok(tokens),
        }
    }

    /// Continues a prompt. `on_token` hears of each token and may break off. When the device is lost, the models are set
    /// up again on a new one and the text goes on: it is the same as without the loss.
    ///
    /// # Errors
    /// [`Error::BadOption`], [`Error::ContextFull`], [`Error::GpuBlocked`], and what text and device report. The session
    /// stays usable.
    pub async fn generate(
        &mut self,
        prompt: &Prompt,
        options: &GenerateOptions,
        on_token: &mut dyn FnMut(&Token) -> ControlFlow<()>,
    ) -> Result<Generation> {
        options.validate()?;
        let prompt = self.encode(prompt)?;
        let ends = self.engine.target().spec().eos_token_id.clone();
        let mut out = Emitter::new(&self.tokenizer, &prompt, &ends, options, on_token);
        let lookup = options.prompt_lookup_num_tokens;
        let mut run = Run::new(&prompt);
        let mut lost_at = None;
        loop {
            let engine = &mut self.engine;
            let ended = match (options.speculation, lookup, engine.draft()) {
                (Speculation::Auto, Some(num_tokens), _) => {
                    let (longest, rule) = (options.max_matching_ngram_size, options.prompt_lookup_rule);
                    let mut lookup = PromptLookup::new(num_tokens, longest, rule, &ends);
                    rounds(engine, &mut lookup, &mut run, &ends, &mut out).await
                }
                (Speculation::Auto, None, Some(_)) if options.num_assistant_tokens > 0 => {
                    let (schedule, start) = (options.num_assistant_tokens_schedule, options.num_assistant_tokens);
                    let kept = self.lookahead.take().filter(|kept| kept.is(schedule, start));
                    let lookahead = self.lookahead.insert(kept.unwrap_or_else(|| Lookahead::new(schedule, start)));
                    if run.stats.num_spec_steps == 0 {
                        lookahead.begin();
                    }
                    rounds(engine, &mut DraftModel(lookahead), &mut run, &ends, &mut out).await
                }
                _ => rounds(engine, &mut NoDrafter, &mut run, &ends, &mut out).await,
            };
            match ended {
                // A device that is lost again before it did anything would be lost for ever.
                Err(Error::DeviceLost { reason }) if lost_at != Some(run.tokens.len()) => {
                    lost_at = Some(run.tokens.len());
                    self.engine = self.origin.engine(self.engine.gpu().reopen().await?).await?;
                    let emitted = run.stats.num_emitted_tokens;
                    let warning = format!("the GPU was lost after {emitted} tokens and set up again ({reason})");
                    run.stats.warnings.push(warning);
                }
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        if self.engine.target().has_one_variant() {
            run.stats.warnings.push(
                "this device's driver computes a row differently alone and in a batch; one kernel variant serves all \
                 row counts, which keeps the text exact and makes prompts slower"
                    .into(),
            );
        }
        Ok(out.finish(run.stats))
    }
}

/// Where a session's engine comes from, and comes from again after its device was lost.
pub(crate) trait Origination {
    /// The same models on another device.
    fn engine(&self, gpu: Rc<Gpu>) -> Pin<Box<dyn Future<Output = Result<Engine>> + '_>>;
}

/// A text in progress: all that another device needs in order to go on with it.
#[derive(Debug, Clone)]
pub struct Run {
    /// The prompt and what was emitted. The last one is pending.
    pub tokens: Vec<u32>,
    /// What was done so far.
    pub stats: Stats,
    began: Instant,
}

impl Run {
    /// Nothing is emitted yet; `prompt` is not empty.
    pub fn new(prompt: &[u32]) -> Self {
        let stats = Stats { num_prompt_tokens: prompt.len(), ..Stats::default() };
        Self { tokens: prompt.to_vec(), stats, began: Instant::now() }
    }
}

/// The loop: prefill, then draft, verify, accept, emit. It knows neither GPU nor text, so tests run it on mocks.
/// After an error of the target, it can be called again with another target that computes the same.
///
/// `ends` are the tokens that end a text.
///
/// # Errors
/// [`Error::ContextFull`] before anything is computed; what target and sink report.
pub async fn rounds<T: Target>(
    target: &mut T,
    drafter: &mut impl Drafter,
    run: &mut Run,
    ends: &[u32],
    sink: &mut impl Sink,
) -> Result<()> {
    let Run { tokens, stats, began } = run;
    let seconds = |since: Instant| since.elapsed().as_secs_f64();
    let capacity = target.capacity();
    let first = stats.num_spec_steps == 0;
    if first && tokens.len() >= capacity {
        return Err(Error::ContextFull { need: tokens.len(), limit: capacity });
    }

    // Prefill: all but the last token, which is pending; what an earlier call cached stays.
    let started = Instant::now();
    let head = &tokens[..tokens.len() - 1];
    let reused = target.cached().iter().zip(head).take_while(|(cached, token)| cached == token).count();
    target.truncate(reused);
    if first {
        stats.num_cached_tokens = reused;
    }
    target.prefill(&head[reused..]).await?;
    stats.times.prefill += seconds(started);

    let mut ended = false;
    while !ended {
        // Positions left bound the round as the wanted tokens do: the pending token and the draft must be cached.
        let room = sink.room().min(capacity - target.cached().len());
        if room == 0 {
            break;
        }

        let started = Instant::now();
        let draft = drafter.draft(tokens, room);
        let proposed = draft.len();
        let draft = draft.cut(room - 1);
        stats.times.draft += seconds(started);

        let started = Instant::now();
        let before = target.cached().len();
        let pending = tokens[tokens.len() - 1];
        let verified = target.verify(pending, &draft).await?;
        stats.times.verify += seconds(started);

        let started = Instant::now();
        let mut round = accept(&verified.draft, &verified.ids, room, |id| ends.contains(&id));
        if let Draft::Tokens(_) = draft {
            round.drafted = proposed;
        }
        ended = round.ended;
        let last = (ended || round.accepted + 1 == room).then_some(round.accepted);
        for (i, &id) in verified.ids[..=round.accepted].iter().enumerate() {
            tokens.push(id);
            let origin = if i < round.accepted { drafter.origin() } else { Origin::Target };
            if sink.push(id, origin, last == Some(i))?.is_break() {
                ended = true;
                round.accepted = i;
                break;
            }
        }
        target.truncate(before + 1 + round.accepted);
        drafter.learn(round.drafted, round.accepted);
        stats.add_round(&round);
        stats.times.emit += seconds(started);
        if stats.num_spec_steps == 1 {
            stats.times.first_token = seconds(*began);
        }
    }
    stats.times.total = seconds(*began);
    let later = stats.num_emitted_tokens.saturating_sub(stats.per_step_accepted.first().map_or(0, |first| first + 1));
    if later > 0 {
        stats.times.tokens_per_second = later as f64 / (stats.times.total - stats.times.first_token);
    }
    Ok(())
}

/// Where emitted tokens go.
pub trait Sink {
    /// Tokens still wanted.
    fn room(&self) -> usize;

    /// Takes a token; `last` when nothing follows it. Breaks when no more are wanted.
    ///
    /// # Errors
    /// What decoding its text reports.
    fn push(&mut self, id: u32, origin: Origin, last: bool) -> Result<ControlFlow<()>>;
}

/// Tokens -> text, stop strings, the caller.
struct Emitter<'a> {
    tokenizer: &'a Tokenizer,
    on_token: &'a mut dyn FnMut(&Token) -> ControlFlow<()>,
    stream: TextStream,
    stops: StopStrings,
    max_new_tokens: usize,
    text: String,
    token_ids: Vec<u32>,
    ends: &'a [u32],
    ended_by: Option<FinishReason>,
}

impl<'a> Emitter<'a> {
    fn new(
        tokenizer: &'a Tokenizer,
        prompt: &[u32],
        ends: &'a [u32],
        options: &GenerateOptions,
        on_token: &'a mut dyn FnMut(&Token) -> ControlFlow<()>,
    ) -> Self {
        Self {
            tokenizer,
            on_token,
            stream: TextStream::new(prompt),
            stops: StopStrings::new(options.stop.clone()),
            max_new_tokens: options.max_new_tokens,
            text: String::new(),
            token_ids: Vec::new(),
            ends,
            ended_by: None,
        }
    }

    fn finish(self, stats: Stats) -> Generation {
        let finish_reason = self.ended_by.unwrap_or(FinishReason::Length);
        Generation { text: self.text, token_ids: self.token_ids, finish_reason, stats }
    }
}

impl Sink for Emitter<'_> {
    fn room(&self) -> usize {
        self.max_new_tokens - self.token_ids.len()
    }

    fn push(&mut self, id: u32, origin: Origin, last: bool) -> Result<ControlFlow<()>> {
        self.token_ids.push(id);
        let mut fresh = String::new();
        if self.ends.contains(&id) {
            self.ended_by = Some(FinishReason::Stop);
        } else {
            fresh = self.stream.push(self.tokenizer, id)?;
        }
        if last {
            fresh += &self.stream.finish(self.tokenizer)?;
        }
        let (mut text, stopped) = self.stops.push(&fresh);
        if last && !stopped {
            text += &self.stops.finish();
        }
        self.text.push_str(&text);
        // Whatever ends a round is the target's own token: it decided that the text ends here.
        let token = Token { id, text, origin: if stopped { Origin::Target } else { origin } };
        let flow = (self.on_token)(&token);
        if stopped {
            self.ended_by = Some(FinishReason::Stop);
            return Ok(ControlFlow::Break(()));
        }
        if flow.is_break() {
            self.ended_by = Some(FinishReason::Aborted);
        }
        Ok(flow)
    }
}
