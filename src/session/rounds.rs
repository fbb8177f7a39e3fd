//! The decode loop: prefill, then rounds of draft, verify, accept and emit.

use super::{Sink, unless_cancelled};
use crate::error::{Error, Result};
use crate::speculate::{Accepted, Drafter, Origin, Round, Stats, accept};
use crate::target::{Draft, Logprobs, Queue, Verified};
use std::ops::ControlFlow;
use web_time::Instant;

/// State of a generation: sufficient to continue it on another device.
#[derive(Debug, Clone)]
pub struct Run {
    /// The prompt and the emitted tokens. The last one is pending.
    pub tokens: Vec<u32>,
    /// Statistics so far.
    pub stats: Stats,
    /// `true`: host work of a round overlaps with the device work of another.
    pub overlap: bool,
    /// Tokens that were read for this attempt.
    pub(super) num_read: usize,
    began: Instant,
}

impl Run {
    /// Starts a run with no emitted tokens; `prompt` must not be empty.
    pub fn new(prompt: &[u32]) -> Self {
        let stats = Stats { num_prompt_tokens: prompt.len(), ..Stats::default() };
        Self { tokens: prompt.to_vec(), stats, overlap: true, num_read: 0, began: Instant::now() }
    }

    /// Reads the first `len` tokens; those cached by an earlier call are reused. After an abort, the tokens read stay cached.
    pub(super) async fn read_beginning(
        &mut self,
        target: &mut dyn Queue,
        len: usize,
        sink: &mut impl Sink,
    ) -> Result<ControlFlow<()>> {
        let started = Instant::now();
        let (head, of) = (&self.tokens[..len], self.tokens.len() - 1);
        let reused = target.keep_shared(head);
        if self.stats.num_spec_steps == 0 {
            self.stats.num_cached_tokens = reused - self.num_read.min(reused);
            self.stats.num_cached_draft_tokens = target.draft_cached();
        }
        target.reserve(of - reused).await?;
        let (mut submitted, mut flow) = (reused, ControlFlow::Continue(()));
        for chunk in head[reused..].chunks(target.prefill_chunk().max(1)) {
            match interruptible(sink, target.ends_when_dropped(), target.prefill(chunk)).await {
                ControlFlow::Continue(read) => read?,
                ControlFlow::Break(()) => {
                    target.truncate(target.cached().len());
                    flow = ControlFlow::Break(());
                    break;
                }
            }
            // This chunk may still be running on the device, so only the chunks before it are reported.
            let done = submitted;
            submitted += chunk.len();
            if done > reused {
                flow = sink.prefilled(done, of);
            }
            if flow.is_break() {
                break;
            }
        }
        self.stats.times.prefill += seconds(started);
        self.num_read += submitted - reused;
        Ok(flow)
    }

    /// Computes the total time and the speed of the run.
    pub(super) fn end(&mut self) {
        let times = &mut self.stats.times;
        times.total = seconds(self.began);
        let first = self.stats.per_step_accepted.first().map_or(0, |first| first + 1);
        let later = self.stats.num_emitted_tokens.saturating_sub(first);
        if later > 0 {
            times.tokens_per_second = later as f64 / (times.total - times.first_token);
        }
    }
}

/// An accepted round that was not yet passed to the sink.
struct Unemitted {
    round: Accepted,
    /// Tokens that the round emits.
    ids: Vec<u32>,
    /// Log-probabilities of `ids`, if requested.
    logprobs: Vec<Logprobs>,
    /// Source of the accepted tokens.
    origin: Origin,
    /// True if its last token ends the text.
    is_last: bool,
}

impl Unemitted {
    /// Passes the round to the sink and counts it. Returns true if the text continues. If the sink breaks, truncates run and target after
    /// the last token it took; submitted rounds are dropped.
    fn emit(mut self, run: &mut Run, target: &mut dyn Queue, sink: &mut impl Sink) -> Result<bool> {
        let count = self.ids.len();
        let mut logprobs = self.logprobs.into_iter();
        for (i, &id) in self.ids.iter().enumerate() {
            let origin = if i < self.round.accepted { self.origin } else { Origin::Target };
            logprobs.next().into_iter().for_each(|logprobs| sink.push_logprobs(logprobs));
            let flow = sink.push(id, origin, self.is_last && i + 1 == count);
            if flow.as_ref().is_ok_and(ControlFlow::is_continue) {
                continue;
            }
            run.tokens.truncate(run.tokens.len() - count + i + 1);
            // All but the last token, which is pending.
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

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

/// Awaits the work of a target. If dropping it `ends` it, the sink may break the wait.
async fn interruptible<T>(sink: &mut impl Sink, ends: bool, work: impl Future<Output = T>) -> ControlFlow<(), T> {
    if ends { unless_cancelled(sink, work).await } else { ControlFlow::Continue(work.await) }
}

/// Runs the decode loop: prefill, then draft, verify, accept and emit. It depends on neither GPU nor text, so tests run it on
/// mocks. After an error of the target, it can be called again with another target that computes the same.
///
/// `ends` are the tokens that end a text.
///
/// # Errors
/// [`Error::ContextFull`] before anything is computed; [`Error::Internal`] if a target's result does not match the draft; errors
/// of target and sink. On return, all emitted tokens in `run` were passed to the sink.
pub async fn rounds(
    target: &mut dyn Queue,
    drafter: &mut dyn Drafter,
    run: &mut Run,
    ends: &[u32],
    sink: &mut impl Sink,
) -> Result<()> {
    let capacity = target.capacity();
    if run.stats.num_spec_steps == 0 && run.tokens.len() >= capacity {
        return Err(Error::ContextFull { need: run.tokens.len() + 1, limit: capacity });
    }
    let mut rounds = RoundLoop {
        target,
        drafter,
        run,
        ends,
        sink,
        unemitted: None,
        draft: Draft::Tokens(Vec::new()),
        proposed: 0,
        prefilled: 0,
        prefill_seconds: 0.0,
        repeated: false,
        finished: Instant::now(),
    };
    match rounds.run_rounds().await {
        Exit::Complete | Exit::Aborted => rounds.run.end(),
        Exit::Failed(error) => return Err(error),
    }
    Ok(())
}

/// Reason for the end of the decode loop.
enum Exit {
    /// A token ended the text, no room is left, or the sink needs no more tokens.
    Complete,
    /// The sink broke while the target read or answered.
    Aborted,
    /// An error of target or sink.
    Failed(Error),
}

impl From<Error> for Exit {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The decode loop. Each round takes the steps propose, submit, overlap, finish and accept.
///
/// As soon as a round is accepted, the next one is submitted. While the device computes it, the accepted tokens go to the sink,
/// and the commands of the round after it are encoded. If the next draft does not depend on the current round's tokens, the next
/// round is submitted even before its first token is known. If the sink then breaks, these rounds are not awaited. Drafting stays
/// before the submission: a draft for a round whose first token is unknown would guess from a guess.
struct RoundLoop<'a, S> {
    target: &'a mut dyn Queue,
    drafter: &'a mut dyn Drafter,
    run: &'a mut Run,
    ends: &'a [u32],
    sink: &'a mut S,
    /// The previous round, if the sink has not received its tokens yet.
    unemitted: Option<Unemitted>,
    /// Draft of the current round, and of the next one if that is submitted ahead.
    draft: Draft,
    /// Tokens of the draft before its limits.
    proposed: usize,
    /// Tokens that the target read in this call before the current round; 0 after the first one.
    prefilled: usize,
    /// Seconds for which it did.
    prefill_seconds: f64,
    /// True if the next round was already submitted.
    repeated: bool,
    /// End of the previous round.
    finished: Instant,
}

/// A round in progress.
struct Current {
    /// Cached tokens before it.
    before: usize,
    /// Tokens still wanted.
    room: usize,
    /// True if it was submitted before the previous round was read.
    ahead: bool,
    /// Tokens that the draft model read before it.
    caught_up: usize,
    /// Result of the submission, reported after the previous round's tokens.
    submitted: Result<()>,
    /// Begin of its time: its submission, or the end of the previous round.
    began: Instant,
    /// End of its submission.
    submitted_at: Instant,
    /// Seconds of its submission that are not host work.
    waited: f64,
}

impl<S: Sink> RoundLoop<'_, S> {
    async fn run_rounds(&mut self) -> Exit {
        if let Err(exit) = self.prefill().await {
            return exit;
        }
        self.finished = Instant::now();
        loop {
            match self.round().await {
                Ok(()) => {}
                Err(Exit::Failed(error)) => return Exit::Failed(error),
                Err(exit) => {
                    self.run.stats.times.host += seconds(self.finished);
                    return exit;
                }
            }
        }
    }

    /// Reads all but the last token, which is pending.
    async fn prefill(&mut self) -> Result<(), Exit> {
        let began = Instant::now();
        let Self { target, run, sink, .. } = self;
        let flow = run.read_beginning(*target, run.tokens.len() - 1, *sink).await?;
        (self.prefilled, self.prefill_seconds) = (run.num_read, seconds(began));
        if flow.is_break() { Err(Exit::Aborted) } else { Ok(()) }
    }

    async fn round(&mut self) -> Result<(), Exit> {
        let mut round = self.begin()?;
        if !round.ahead {
            self.propose(&mut round).await?;
            self.submit(&mut round).await?;
        }
        self.overlap(&mut round)?;
        let verified = self.finish(&round).await?;
        self.accept(&round, verified)
    }

    /// Returns the limits of the next round: the tokens to emit, and the free positions for the pending token and the draft.
    fn begin(&mut self) -> Result<Current, Exit> {
        if !self.run.overlap {
            self.emit()?;
        }
        let owed = self.unemitted.as_ref().map_or(0, |unemitted| unemitted.ids.len());
        let ended = self.unemitted.as_ref().is_some_and(|unemitted| unemitted.is_last);
        let before = self.target.cached().len();
        let room = self.sink.room().saturating_sub(owed).min(self.target.capacity().saturating_sub(before));
        if room == 0 || ended {
            self.target.truncate(before);
            self.emit()?;
            return Err(Exit::Complete);
        }
        let (ahead, finished) = (self.repeated, self.finished);
        Ok(Current {
            before,
            room,
            ahead,
            caught_up: 0,
            submitted: Ok(()),
            began: finished,
            submitted_at: finished,
            waited: 0.0,
        })
    }

    /// Gets a draft that fits. Plain decoding replaces a draft whose kernels are not compiled yet.
    async fn propose(&mut self, round: &mut Current) -> Result<(), Exit> {
        let started = Instant::now();
        let draft = self.drafter.draft(&self.run.tokens, round.room);
        self.run.stats.times.draft += seconds(started);
        self.target.end_drafts_below(self.drafter.least_acceptance());
        self.proposed = draft.len();
        self.draft = draft.cut(round.room - 1);
        let started = Instant::now();
        if !self.draft.is_empty() && !self.target.ready(&self.draft).await? {
            (self.draft, self.proposed) = (Draft::Tokens(Vec::new()), 0);
        }
        round.waited += seconds(started);
        Ok(())
    }

    /// Submits the round. Before that, the draft model reads what it missed: all before the first round, else a chunk, so that the text goes
    /// on. As long as it misses more, it drafts nothing.
    async fn submit(&mut self, round: &mut Current) -> Result<(), Exit> {
        round.began = Instant::now();
        let pending = self.run.tokens[self.run.tokens.len() - 1];
        while let Draft::Model(1..) = self.draft {
            let read = self.target.catch_up(pending).await;
            if read == Ok(0) {
                break;
            }
            self.emit()?;
            round.caught_up += read?;
            if self.sink.prefilled(round.before, round.before).is_break() {
                return Err(Exit::Aborted);
            }
            if self.run.stats.num_spec_steps > 0 {
                break;
            }
        }
        round.submitted = self.target.submit(pending, &self.draft).await;
        round.submitted_at = Instant::now();
        if self.prefilled + round.caught_up > 0 {
            // The device may still be computing the prompt.
            round.waited += (round.submitted_at - round.began).as_secs_f64();
        }
        Ok(())
    }

    /// Emits the previous round and prepares the next one while the device computes. Submits the next one too if its draft is known.
    fn overlap(&mut self, round: &mut Current) -> Result<(), Exit> {
        self.emit()?;
        std::mem::replace(&mut round.submitted, Ok(()))?;
        if !self.run.overlap {
            return Ok(());
        }
        // Repeat only if the next draft fits whatever this round returns.
        let fits = round.room >= 2 * (self.proposed + 1);
        // A draft model that still reads may have drafted nothing.
        let repeats = self.drafter.repeats(&self.run.tokens, round.room) && fits && round.caught_up == 0;
        self.repeated = self.target.prepare(repeats);
        let hidden = seconds(round.submitted_at);
        let times = &mut self.run.stats.times;
        // If the device had already finished, the hidden part of this work is unknown.
        let computing = self.target.is_computing();
        times.hidden += if computing { hidden } else { 0.0 };
        if self.repeated {
            let started = Instant::now();
            self.target.repeat();
            let submitting = seconds(started);
            match (computing, self.target.is_computing()) {
                (true, true) => times.hidden += submitting,
                // Some drivers block a submission while another is running: that is waiting, not host work.
                (true, false) => round.waited += submitting,
                (false, _) => {}
            }
        }
        Ok(())
    }

    /// Awaits the round. If dropping it ends its work, the sink may break the wait.
    async fn finish(&mut self, round: &Current) -> Result<Verified, Exit> {
        self.run.stats.times.host += seconds(self.finished) - round.waited;
        let ends = self.target.ends_when_dropped();
        let ControlFlow::Continue(verified) = interruptible(self.sink, ends, self.target.finish()).await else {
            self.target.truncate(round.before);
            return Err(Exit::Aborted);
        };
        let verified = verified?;
        verified.check(&self.draft)?;
        self.finished = Instant::now();
        let stats = &mut self.run.stats;
        stats.add_traffic(&verified.traffic);
        stats.times.verify += (self.finished - round.began).as_secs_f64();
        if self.prefilled + round.caught_up == 0 {
            // The wait for a draft model with another tokenizer is not host work.
            stats.times.host -= verified.waited;
        }
        Ok(verified)
    }

    /// Keeps the accepted draft tokens and one token of the target, and reports the result to the drafter.
    fn accept(&mut self, current: &Current, verified: Verified) -> Result<(), Exit> {
        let Verified { draft, mut ids, logprobs, .. } = verified;
        let mut round = accept(&draft, &ids, current.room, |id| self.ends.contains(&id));
        if let Draft::Tokens(_) = self.draft {
            round.drafted = self.proposed;
        }
        if let Some(count) = self.sink.completes(&self.run.tokens, &ids[..=round.accepted])? {
            (round.accepted, round.ended) = (count - 1, true);
        }
        let rows = ids.len();
        ids.truncate(round.accepted + 1);
        self.run.tokens.extend_from_slice(&ids);
        self.target.keep(current.before + ids.len());
        self.drafter.learn(&Round {
            drafted: round.drafted,
            accepted: round.accepted,
            rows,
            caught_up: current.caught_up,
            prefilled: std::mem::take(&mut self.prefilled),
            prefill_seconds: std::mem::take(&mut self.prefill_seconds),
            ahead: current.ahead,
            seconds: (self.finished - current.began).as_secs_f64(),
        });
        let is_last = round.ended || ids.len() == current.room;
        self.unemitted = Some(Unemitted { round, ids, logprobs, origin: self.drafter.origin(), is_last });
        self.run.stats.times.emit += seconds(self.finished);
        Ok(())
    }

    /// Emits the previous round, unless that was done already.
    fn emit(&mut self) -> Result<(), Exit> {
        let Some(round) = self.unemitted.take() else { return Ok(()) };
        let started = Instant::now();
        let goes_on = round.emit(self.run, self.target, self.sink);
        self.run.stats.times.emit += seconds(started);
        if goes_on? { Ok(()) } else { Err(Exit::Complete) }
    }
}
