//! START HERE. A prompt becomes text: prefill, then rounds of draft, verify, accept, emit, until something ends it.

mod emit;
mod prompts;
pub(crate) mod setup;
mod shift;

use crate::decode::{Draft, Engine, Target};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::options::GenerateOptions;
use crate::speculate::{Accepted, Drafter, Origin, Round, Stats, accept};
use crate::text::Tokenizer;
pub(crate) use emit::Emitter;
pub use emit::Sink;
pub use prompts::Prompt;
pub(crate) use prompts::Prompts;
use serde::Serialize;
pub(crate) use setup::Learned;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::Rc;
use web_time::Instant;

/// A loaded model pair and the text that it has seen.
pub struct Session {
    pub(crate) engine: Engine,
    pub(crate) prompts: Prompts,
    pub(crate) learned: Learned,
    pub(crate) origin: Box<dyn Origination>,
    /// What the user should know about the models.
    pub(crate) warnings: Vec<String>,
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

    /// What the user should know of the loading, in words; the statistics of each text repeat it.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The target's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.prompts.tokenizer
    }

    /// The tokens of a prompt.
    ///
    /// # Errors
    /// [`Error::BadOption`] for an empty prompt, [`Error::BadTemplate`], [`Error::BadTokenizer`].
    pub fn encode(&self, prompt: &Prompt) -> Result<Vec<u32>> {
        self.prompts.encode(prompt)
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
        let (prompt, num_dropped_messages) = self.prompts.fit(prompt, options)?;
        let ends = self.engine.target().spec().eos_token_id.clone();
        let sampling = setup::sampling(options, self.engine.target().spec(), prompt.len())?;
        let mut out = Emitter::new(&self.prompts.tokenizer, &prompt, &ends, options, on_token);
        let prediction = match &options.prediction {
            Some(text) => self.prompts.tokenizer.encode(text, false)?,
            None => Vec::new(),
        };
        let mut run = Run::new(&prompt);
        run.overlap = options.overlap;
        run.stats.num_dropped_messages = num_dropped_messages;
        run.stats.seed = options.do_sample.then_some(sampling.seed);
        run.stats.warnings.extend_from_slice(&self.warnings);
        run.stats.warnings.extend(setup::idle(options));
        let mut lost_at = None;
        loop {
            let engine = &mut self.engine;
            engine.sample_by(&sampling)?;
            let has_draft_model = engine.draft().is_some();
            let first = run.stats.num_spec_steps == 0;
            let read = engine.cached().iter().zip(&prompt).take_while(|(cached, token)| cached == token).count();
            let read = has_draft_model.then_some(read.min(engine.draft_cached()));
            let mut drafter = self.learned.drafter(options, &prediction, &run, &ends, read);
            if first {
                run.stats.warnings.extend(setup::missing(options, has_draft_model));
            }
            let ended = rounds(engine, &mut *drafter, &mut run, &ends, &mut out).await;
            drop(drafter);
            run.stats.speculating = self.learned.speculating(options);
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
    /// Whether host work of a round is done while the device computes another.
    pub overlap: bool,
    began: Instant,
}

impl Run {
    /// Nothing is emitted yet; `prompt` is not empty.
    pub fn new(prompt: &[u32]) -> Self {
        let stats = Stats { num_prompt_tokens: prompt.len(), ..Stats::default() };
        Self { tokens: prompt.to_vec(), stats, overlap: true, began: Instant::now() }
    }
}

/// A round of which the sink has not heard.
struct Unheard {
    round: Accepted,
    /// The tokens that it emits.
    ids: Vec<u32>,
    /// Who proposed the accepted ones.
    origin: Origin,
    /// Whether its last token ends the text.
    is_last: bool,
}

impl Unheard {
    fn tell(mut self, run: &mut Run, target: &mut impl Target, sink: &mut impl Sink) -> Result<bool> {
        let count = self.ids.len();
        for (i, &id) in self.ids.iter().enumerate() {
            let origin = if i < self.round.accepted { self.origin } else { Origin::Target };
            let flow = sink.push(id, origin, self.is_last && i + 1 == count);
            if flow.as_ref().is_ok_and(ControlFlow::is_continue) {
                continue;
            }
            run.tokens.truncate(run.tokens.len() - count + i + 1);
            // All but the last one, which is pending.
            target.truncate(run.tokens.len() - 1);
            self.is_last = flow?.is_break();
            self.round.accepted = i;
            break;
        }
        run.stats.add_round(&self.round);
        if run.stats.num_spec_steps == 1 {
            run.stats.times.first_token = seconds(run.began);
        }
        Ok(!self.is_last)
    }
}

/// Tells the sink of a round that it has not heard of, and counts it. Returns whether the text goes on. Where the sink wants
/// no more, run and target forget what is behind that, submitted rounds included.
fn emit(unheard: &mut Option<Unheard>, run: &mut Run, target: &mut impl Target, sink: &mut impl Sink) -> Result<bool> {
    let Some(round) = unheard.take() else { return Ok(true) };
    let started = Instant::now();
    let goes_on = round.tell(run, target, sink);
    run.stats.times.emit += seconds(started);
    goes_on
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

/// The loop: prefill, then draft, verify, accept, emit. It knows neither GPU nor text, so tests run it on mocks.
/// After an error of the target, it can be called again with another target that computes the same.
///
/// As soon as a round is accepted the next one is submitted; the accepted tokens go to the sink while the device computes,
/// and the commands of the round after are encoded. A drafter whose draft does not depend on them lets the next round be
/// submitted even before its beginning is known. A sink that then wants no more costs the device those rounds, and nobody
/// waits for them. Drafting stays before the submission: a lookup takes less than a microsecond, and drafts for a round
/// whose beginning is not known are guesses upon guesses.
///
/// `ends` are the tokens that end a text.
///
/// # Errors
/// [`Error::ContextFull`] before anything is computed; what target and sink report. The sink has heard of all tokens that
/// `run` then holds.
pub async fn rounds<T: Target>(
    target: &mut T,
    drafter: &mut (impl Drafter + ?Sized),
    run: &mut Run,
    ends: &[u32],
    sink: &mut impl Sink,
) -> Result<()> {
    let capacity = target.capacity();
    let first = run.stats.num_spec_steps == 0;
    if first && run.tokens.len() >= capacity {
        return Err(Error::ContextFull { need: run.tokens.len(), limit: capacity });
    }

    // Prefill: all but the last token, which is pending; what an earlier call cached stays.
    let started = Instant::now();
    let head = &run.tokens[..run.tokens.len() - 1];
    let reused = target.cached().iter().zip(head).take_while(|(cached, token)| cached == token).count();
    target.truncate(reused);
    if first {
        run.stats.num_cached_tokens = reused;
        run.stats.num_cached_draft_tokens = target.draft_cached();
    }
    let mut prefilled = head.len() - reused;
    target.prefill(&head[reused..]).await?;
    run.stats.times.prefill += seconds(started);

    let mut unheard: Option<Unheard> = None;
    let mut draft = Draft::Tokens(Vec::new());
    let mut proposed = 0;
    // Whether the next round is on its way already.
    let mut repeated = false;
    let mut finished = Instant::now();
    loop {
        if !run.overlap && !emit(&mut unheard, run, target, sink)? {
            break;
        }
        // Positions left bound the round as the wanted tokens do: the pending token and the draft must be cached.
        let (owed, ended) = unheard.as_ref().map_or((0, false), |unheard| (unheard.ids.len(), unheard.is_last));
        let before = target.cached().len();
        let room = sink.room().saturating_sub(owed).min(capacity - before);
        if room == 0 || ended {
            target.truncate(before);
            emit(&mut unheard, run, target, sink)?;
            break;
        }

        let (mut began, mut beside, mut submitted, mut waited) = (finished, finished, Ok(()), 0.0);
        let ahead = repeated;
        if !ahead {
            let started = Instant::now();
            draft = drafter.draft(&run.tokens, room);
            proposed = draft.len();
            draft = draft.cut(room - 1);
            began = Instant::now();
            run.stats.times.draft += (began - started).as_secs_f64();
            submitted = target.submit(run.tokens[run.tokens.len() - 1], &draft).await;
            beside = Instant::now();
            if prefilled > 0 {
                // The device still computes the prompt.
                waited = (beside - began).as_secs_f64();
            }
        }
        if !emit(&mut unheard, run, target, sink)? {
            break;
        }
        submitted?;
        if run.overlap {
            // Only where its draft would not be cut, whatever this round brings.
            let repeats = drafter.repeats(&run.tokens, room) && room >= 2 * (proposed + 1);
            repeated = target.prepare(repeats);
            let hidden = seconds(beside);
            // Where the device was done before, how much of it was hidden is not known.
            let computing = target.is_computing();
            run.stats.times.hidden += if computing { hidden } else { 0.0 };
            if repeated {
                let started = Instant::now();
                target.repeat();
                let submitting = seconds(started);
                match (computing, target.is_computing()) {
                    (true, true) => run.stats.times.hidden += submitting,
                    // Some drivers take no submission as long as they compute another: that is no work.
                    (true, false) => waited += submitting,
                    (false, _) => {}
                }
            }
        }
        run.stats.times.host += seconds(finished) - waited;
        let verified = target.finish().await?;
        finished = Instant::now();
        let verifying = (finished - began).as_secs_f64();
        run.stats.times.verify += verifying;
        if prefilled == 0 {
            // A draft model with another tokenizer was waited for before.
            run.stats.times.host -= verified.waited;
        }

        let mut round = accept(&verified.draft, &verified.ids, room, |id| ends.contains(&id));
        if let Draft::Tokens(_) = draft {
            round.drafted = proposed;
        }
        run.tokens.extend_from_slice(&verified.ids[..=round.accepted]);
        target.keep(before + 1 + round.accepted);
        drafter.learn(&Round {
            drafted: round.drafted,
            accepted: round.accepted,
            rows: verified.ids.len(),
            caught_up: verified.caught_up,
            prefilled: std::mem::take(&mut prefilled),
            ahead,
            seconds: verifying,
        });
        let mut ids = verified.ids;
        ids.truncate(round.accepted + 1);
        let is_last = round.ended || ids.len() == room;
        unheard = Some(Unheard { round, ids, origin: drafter.origin(), is_last });
        run.stats.times.emit += seconds(finished);
    }
    run.stats.times.host += seconds(finished);
    let times = &mut run.stats.times;
    times.total = seconds(run.began);
    let first = run.stats.per_step_accepted.first().map_or(0, |first| first + 1);
    let later = run.stats.num_emitted_tokens.saturating_sub(first);
    if later > 0 {
        times.tokens_per_second = later as f64 / (times.total - times.first_token);
    }
    Ok(())
}
