//! Measures the cost of rounds on a device, at load.

use crate::error::Result;
use crate::target::{Draft, Queue, Timings, run_round};
use std::time::Duration;
use web_time::Instant;

/// Minimum number of consecutive plain rounds to time.
const TIMES: usize = 3;
/// Time for each kind of round: ten ticks of a coarse clock.
const ENOUGH: Duration = Duration::from_millis(10);
/// Time after which a round of 4 rows is guessed, and one of 2 rows if no draft model needs it.
const MOST: Duration = Duration::from_millis(100);
/// Upper bound for the measured wait, in plain rounds. A busy machine can cause any wait.
const MOST_WAITING: f64 = 0.5;

/// Times plain rounds, rounds of 8 rows, rounds with one draft step (if there is a draft model), and plain rounds submitted
/// ahead. Also times rounds of 4 and 2 rows until 100 ms have passed (2 rows for a draft model in any case), and of 16 rows if
/// plain rounds are quick. Skips kernels that are not compiled yet; in a browser their compilation starts now and continues during the first text. Leaves the cache
/// empty. `step`: estimated cost of a draft step, in plain rounds; `vocab`: tokens that may be read.
///
/// WebAssembly gets faster as it runs. So plain rounds, the unit for all others, run first, but count only when they are timed
/// again at the end. Quick rounds: 16 rows before 8, because both use the same loops.
///
/// # Errors
/// [`crate::Error::NonFiniteLogits`], and device errors.
pub(super) async fn time_rounds(
    target: &mut dyn Queue,
    has_draft_model: bool,
    step: f64,
    vocab: usize,
) -> Result<Timings> {
    let began = Instant::now();
    let (plain, one) = (Draft::Tokens(Vec::new()), Draft::Model(1));
    let is_quick = time(target, &plain).await? < ENOUGH.as_secs_f64();
    let sixteen = if is_quick { time_ready(target, 16, vocab).await? } else { None };
    let eight = time_ready(target, 8, vocab).await?;
    let drafts = has_draft_model && 2 < target.capacity() && target.ready(&one).await?;
    let mut few = [(4, None), (2, None)];
    for (rows, seconds) in &mut few {
        // The time of a draft step is that of a round with one, without its two rows.
        if began.elapsed() < MOST || drafts && *rows == 2 {
            *seconds = time_ready(target, *rows, vocab).await?;
        }
    }
    let both = if drafts { Some(time(target, &one).await?) } else { None };
    let waited = time(target, &plain).await?;
    let ahead = time_ahead(target).await?.filter(|ahead| *ahead > 0.0).unwrap_or(waited);
    target.truncate(0);
    let mut timings = Timings { far: target.is_far(), ..Timings::guess(step) };
    // A coarse clock may measure zero.
    if ahead > 0.0 {
        timings.plain = Some(ahead);
        // The round trip to a server is not noise, so it is not limited.
        let most = if timings.far { [f64::MAX; 2] } else { [MOST_WAITING, 1.0] };
        timings.waiting = (waited / ahead - 1.0).clamp(0.0, most[0]);
        for (rows, seconds) in [(8, eight), (16, sixteen)].into_iter().chain(few) {
            // Because of noise, a forward pass may measure less than one plain round, or more than `rows` plain rounds.
            let forward = seconds.map(|seconds| (seconds / ahead - timings.waiting).clamp(1.0, rows as f64));
            forward.into_iter().for_each(|forward| timings.set_rows(rows, forward));
        }
        if let Some(both) = both {
            timings.step = (both / ahead - timings.waiting - timings.rows[1]).clamp(step / 4.0, most[1]);
        }
    }
    Ok(timings)
}

/// Returns the seconds of a round of `rows` rows; `None` if its kernels are not ready or the cache has no room for it.
async fn time_ready(target: &mut dyn Queue, rows: usize, vocab: usize) -> Result<Option<f64>> {
    // Rows of equal tokens would use the same experts.
    let draft = Draft::Tokens((1..rows).map(|row| (row * vocab / rows) as u32).collect());
    if rows > target.capacity() || !target.ready(&draft).await? {
        return Ok(None);
    }
    time(target, &draft).await.map(Some)
}

/// Returns the seconds of an awaited round: the mean over enough rounds for a coarse clock, after one warm-up round. If the first
/// round is slow, it is the only one.
async fn time(target: &mut dyn Queue, draft: &Draft) -> Result<f64> {
    target.truncate(0);
    // A drafter on the device may need the hidden state of a token.
    let start = usize::from(matches!(draft, Draft::Model(_)));
    if start > 0 {
        run_round(target, 0, &Draft::Tokens(Vec::new())).await?;
    }
    let began = Instant::now();
    target.truncate(start);
    run_round(target, 0, draft).await?;
    if began.elapsed() > ENOUGH {
        return Ok(began.elapsed().as_secs_f64());
    }
    let (began, mut rounds) = (Instant::now(), 0);
    while began.elapsed() < ENOUGH {
        target.truncate(start);
        run_round(target, 0, draft).await?;
        rounds += 1;
    }
    Ok(began.elapsed().as_secs_f64() / f64::from(rounds))
}

/// Returns the seconds of a plain round that is submitted before the previous one is read; `None` if the device cannot do that.
/// It is a mean over several rounds, because Firefox reports several at a time.
async fn time_ahead(target: &mut dyn Queue) -> Result<Option<f64>> {
    target.truncate(0);
    target.submit(0, &Draft::Tokens(Vec::new())).await?;
    let (mut began, mut rounds) = (Instant::now(), 0);
    loop {
        let is_last = rounds >= TIMES && began.elapsed() > ENOUGH || rounds + 2 >= target.capacity();
        if !is_last {
            if !target.prepare(true) {
                return Ok(None);
            }
            target.repeat();
        }
        target.finish().await?;
        target.keep(rounds + 1);
        if is_last {
            return Ok(Some(began.elapsed().as_secs_f64() / rounds.max(1) as f64));
        }
        if rounds == 0 {
            began = Instant::now();
        }
        rounds += 1;
    }
}
