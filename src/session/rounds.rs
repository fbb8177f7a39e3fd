//! The loop: prefill, then rounds of draft, verify, accept, emit.

use super::{Sink, unless_left};
use crate::error::{Error, Result};
use crate::speculate::{Accepted, Drafter, Origin, Round, Stats, accept};
use crate::target::{Draft, Logprobs, Queue, Verified};
use std::ops::ControlFlow;
use web_time::Instant;

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

    /// What the text took as a whole.
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

/// A round of which the sink has not heard.
struct Unemitted {
    round: Accepted,
    /// The tokens that it emits.
    ids: Vec<u32>,
    /// Theirs, where they are asked for.
    logprobs: Vec<Logprobs>,
    /// Who proposed the accepted ones.
    origin: Origin,
    /// Whether its last token ends the text.
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

/// The loop: prefill, then draft, verify, accept, emit. It knows neither GPU nor text, so tests run it on mocks.
/// After an error of the target, it can be called again with another target that computes the same.
///
/// `ends` are the tokens that end a text.
///
/// # Errors
/// [`Error::ContextFull`] before anything is computed; [`Error::Internal`] for a target that answers what it was not asked;
/// what target and sink report. The sink has heard of all tokens that `run` then holds.
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

/// Reads all but the last token, which is pending; what an earlier call cached stays. Returns how many tokens were read.
/// Breaks where the sink wants no more; then what was read stays cached.
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
        // The device may still compute this chunk.
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

/// The submitted round. A far one is given up where the sink wants no more before it comes.
async fn finish(target: &mut impl Queue, sink: &mut impl Sink) -> Result<ControlFlow<(), Verified>> {
    if !target.is_far() {
        return target.finish().await.map(ControlFlow::Continue);
    }
    match unless_left(sink, target.finish()).await {
        ControlFlow::Continue(verified) => verified.map(ControlFlow::Continue),
        ControlFlow::Break(()) => Ok(ControlFlow::Break(())),
    }
}

/// The rounds, after `prefilled` tokens were read.
///
/// As soon as a round is accepted the next one is submitted; the accepted tokens go to the sink while the device computes,
/// and the commands of the round after are encoded. A drafter whose draft does not depend on them lets the next round be
/// submitted even before its beginning is known. A sink that then wants no more costs the device those rounds, and nobody
/// waits for them. Drafting stays before the submission: a lookup takes less than a microsecond, and drafts for a round
/// whose beginning is not known are guesses upon guesses.
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
    // Whether the next round is on its way already.
    let mut repeated = false;
    let mut finished = Instant::now();
    'text: loop {
        if !run.overlap && !emit(&mut unemitted, run, target, sink)? {
            break;
        }
        // Positions left bound the round as the wanted tokens do: the pending token and the draft must be cached.
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
                // The device still computes the prompt.
                waited += (beside - began).as_secs_f64();
            }
        }
        if !emit(&mut unemitted, run, target, sink)? {
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
            // A draft model with another tokenizer was waited for before.
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
