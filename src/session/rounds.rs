//! The decode loop: prefill, then rounds of draft, verify, accept and emit.

use super::{Sink, unless_left};
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
    began: Instant,
}

impl Run {
    /// Starts a run with no emitted tokens; `prompt` must not be empty.
    pub fn new(prompt: &[u32]) -> Self {
        let stats = Stats { num_prompt_tokens: prompt.len(), ..Stats::default() };
        Self { tokens: prompt.to_vec(), stats, overlap: true, began: Instant::now() }
    }

    /// Computes the total time and the speed of the run.
    fn end(&mut self) {
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
    fn emit(mut self, run: &mut Run, target: &mut impl Queue, sink: &mut impl Sink) -> Result<bool> {
        let count = self.ids.len();
        let mut logprobs = self.logprobs.into_iter();
        for (i, &id) in self.ids.iter().enumerate() {
            let origin = if i < self.round.accepted { self.origin } else { Origin::Target };
            logprobs.next().into_iter().for_each(|logprobs| sink.told(logprobs));
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

/// Passes the pending round, if any, to the sink and counts it. Returns whether the text continues. If the sink breaks, truncates
/// run and target after the last token it took; submitted rounds are dropped.
fn emit(
    unemitted: &mut Option<Unemitted>,
    run: &mut Run,
    target: &mut impl Queue,
    sink: &mut impl Sink,
) -> Result<bool> {
    let Some(round) = unemitted.take() else { return Ok(true) };
    let started = Instant::now();
    let goes_on = round.emit(run, target, sink);
    run.stats.times.emit += seconds(started);
    goes_on
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

/// Runs the decode loop: prefill, then draft, verify, accept and emit. It depends on neither GPU nor text, so tests run it on
/// mocks. After an error of the target, it can be called again with another target that computes the same.
///
/// `ends` are the tokens that end a text.
///
/// # Errors
/// [`Error::ContextFull`] before anything is computed; [`Error::Internal`] if a target's result does not match the draft; errors
/// of target and sink. On return, all emitted tokens in `run` were passed to the sink.
pub async fn rounds<T: Queue>(
    target: &mut T,
    drafter: &mut (impl Drafter + ?Sized),
    run: &mut Run,
    ends: &[u32],
    sink: &mut impl Sink,
) -> Result<()> {
    let capacity = target.capacity();
    if run.stats.num_spec_steps == 0 && run.tokens.len() >= capacity {
        return Err(Error::ContextFull { need: run.tokens.len() + 1, limit: capacity });
    }
    if let ControlFlow::Continue(prefilled) = prefill(target, run, sink).await? {
        write(target, drafter, run, ends, sink, prefilled).await?;
    }
    run.end();
    Ok(())
}

/// Reads all but the last token, which is pending; tokens cached by an earlier call are reused. Returns the number of tokens
/// read. Breaks if the sink breaks; the tokens read stay cached.
async fn prefill(target: &mut impl Queue, run: &mut Run, sink: &mut impl Sink) -> Result<ControlFlow<(), usize>> {
    let started = Instant::now();
    let head = &run.tokens[..run.tokens.len() - 1];
    let reused = target.cached_of(head);
    target.truncate(reused);
    if run.stats.num_spec_steps == 0 {
        run.stats.num_cached_tokens = reused;
        run.stats.num_cached_draft_tokens = target.draft_cached();
    }
    target.reserve(head.len() - reused).await?;
    let (mut submitted, mut flow) = (reused, ControlFlow::Continue(()));
    for chunk in head[reused..].chunks(target.prefill_chunk().max(1)) {
        target.prefill(chunk).await?;
        // This chunk may still be running on the device, so only the chunks before it are reported.
        let done = submitted;
        submitted += chunk.len();
        if done > reused {
            flow = sink.prefilled(done, head.len());
        }
        if flow.is_break() {
            break;
        }
    }
    run.stats.times.prefill += seconds(started);
    Ok(flow.map_continue(|()| submitted - reused))
}

/// Awaits the submitted round. If the target is on a server, the sink may break the wait.
async fn finish(target: &mut impl Queue, sink: &mut impl Sink) -> Result<ControlFlow<(), Verified>> {
    if !target.is_far() {
        return target.finish().await.map(ControlFlow::Continue);
    }
    match unless_left(sink, target.finish()).await {
        ControlFlow::Continue(verified) => verified.map(ControlFlow::Continue),
        ControlFlow::Break(()) => Ok(ControlFlow::Break(())),
    }
}

/// Runs the rounds after a prefill of `prefilled` tokens.
///
/// As soon as a round is accepted, the next one is submitted. While the device computes it, the accepted tokens go to the sink,
/// and the commands of the round after it are encoded. If the next draft does not depend on the current round's tokens, the next
/// round is submitted even before its first token is known. If the sink then breaks, these rounds are wasted, but they are not
/// awaited. Drafting stays before the submission: a lookup takes less than a microsecond, and a draft for a round whose first
/// token is unknown would be a guess based on a guess.
async fn write<T: Queue>(
    target: &mut T,
    drafter: &mut (impl Drafter + ?Sized),
    run: &mut Run,
    ends: &[u32],
    sink: &mut impl Sink,
    mut prefilled: usize,
) -> Result<()> {
    let capacity = target.capacity();
    let mut unemitted: Option<Unemitted> = None;
    let mut draft = Draft::Tokens(Vec::new());
    let mut proposed = 0;
    // `true`: the next round was already submitted.
    let mut repeated = false;
    let mut finished = Instant::now();
    'text: loop {
        if !run.overlap && !emit(&mut unemitted, run, target, sink)? {
            break;
        }
        // A round is limited by the tokens to emit and by free positions: the pending token and the draft must fit the cache.
        let (owed, ended) = unemitted.as_ref().map_or((0, false), |unemitted| (unemitted.ids.len(), unemitted.is_last));
        let before = target.cached().len();
        let room = sink.room().saturating_sub(owed).min(capacity.saturating_sub(before));
        if room == 0 || ended {
            target.truncate(before);
            emit(&mut unemitted, run, target, sink)?;
            break;
        }

        let (mut began, mut beside, mut submitted, mut waited) = (finished, finished, Ok(()), 0.0);
        let mut caught_up = 0;
        let ahead = repeated;
        if !ahead {
            let started = Instant::now();
            draft = drafter.draft(&run.tokens, room);
            run.stats.times.draft += seconds(started);
            proposed = draft.len();
            draft = draft.cut(room - 1);
            let started = Instant::now();
            if !draft.is_empty() && !target.ready(&draft).await? {
                (draft, proposed) = (Draft::Tokens(Vec::new()), 0);
            }
            waited += seconds(started);
            began = Instant::now();
            let pending = run.tokens[run.tokens.len() - 1];
            while let Draft::Model(1..) = draft {
                let read = target.catch_up(pending).await;
                if read == Ok(0) {
                    break;
                }
                if !emit(&mut unemitted, run, target, sink)? {
                    break 'text;
                }
                caught_up += read?;
                if sink.prefilled(before, before).is_break() {
                    break 'text;
                }
            }
            submitted = target.submit(pending, &draft).await;
            beside = Instant::now();
            if prefilled + caught_up > 0 {
                // The device may still be computing the prompt.
                waited += (beside - began).as_secs_f64();
            }
        }
        if !emit(&mut unemitted, run, target, sink)? {
            break;
        }
        submitted?;
        if run.overlap {
            // Repeat only if the next draft fits whatever this round returns.
            let repeats = drafter.repeats(&run.tokens, room) && room >= 2 * (proposed + 1);
            repeated = target.prepare(repeats);
            let hidden = seconds(beside);
            // If the device had already finished, the hidden part of this work is unknown.
            let computing = target.is_computing();
            run.stats.times.hidden += if computing { hidden } else { 0.0 };
            if repeated {
                let started = Instant::now();
                target.repeat();
                let submitting = seconds(started);
                match (computing, target.is_computing()) {
                    (true, true) => run.stats.times.hidden += submitting,
                    // Some drivers block a submission while another is running: that is waiting, not host work.
                    (true, false) => waited += submitting,
                    (false, _) => {}
                }
            }
        }
        run.stats.times.host += seconds(finished) - waited;
        let ControlFlow::Continue(verified) = finish(target, sink).await? else {
            target.truncate(before);
            break;
        };
        verified.check(&draft)?;
        run.stats.add_traffic(&verified.traffic);
        finished = Instant::now();
        let verifying = (finished - began).as_secs_f64();
        run.stats.times.verify += verifying;
        if prefilled + caught_up == 0 {
            // The wait for a draft model with another tokenizer is not host work.
            run.stats.times.host -= verified.waited;
        }

        let mut round = accept(&verified.draft, &verified.ids, room, |id| ends.contains(&id));
        if let Draft::Tokens(_) = draft {
            round.drafted = proposed;
        }
        if let Some(count) = sink.completes(&run.tokens, &verified.ids[..=round.accepted])? {
            (round.accepted, round.ended) = (count - 1, true);
        }
        run.tokens.extend_from_slice(&verified.ids[..=round.accepted]);
        target.keep(before + 1 + round.accepted);
        drafter.learn(&Round {
            drafted: round.drafted,
            accepted: round.accepted,
            rows: verified.ids.len(),
            caught_up,
            prefilled: std::mem::take(&mut prefilled),
            ahead,
            seconds: verifying,
        });
        let mut ids = verified.ids;
        ids.truncate(round.accepted + 1);
        let is_last = round.ended || ids.len() == room;
        unemitted = Some(Unemitted { round, ids, logprobs: verified.logprobs, origin: drafter.origin(), is_last });
        run.stats.times.emit += seconds(finished);
    }
    run.stats.times.host += seconds(finished);
    Ok(())
}
