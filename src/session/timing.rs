//! What rounds take on a device, measured at load.

use crate::error::Result;
use crate::target::{Draft, Queue, Timings};
use std::time::Duration;
use web_time::Instant;

/// Plain rounds in a row that are timed at least.
const TIMES: usize = 3;
/// How long rounds of a kind are timed: ten ticks of a coarse clock.
const ENOUGH: Duration = Duration::from_millis(10);
/// How much longer loading may take, about. Where that is not enough, some are guessed.
const MOST: Duration = Duration::from_millis(100);
/// Waiting that is believed, in plain rounds: a busy machine makes any of it, and rounds that wait are rarely timed again.
const MOST_WAITING: f64 = 0.5;

/// Times rounds: those over 8 rows and, where there is a draft model, with a draft step; until 100 ms have passed also those over 2, 4
/// and 16 rows; plain ones, also those submitted ahead. What is not ready is not timed, so no compilation is; in a browser it begins
/// now, beside the first text. Nothing is cached afterwards. `step` is a guess of what a draft step takes, in plain rounds.
///
/// WebAssembly becomes fast as it runs. So plain rounds, with which all others are compared, come first and count when they come
/// again, and where rounds are quick 16 rows come before 8, which the same loops compute.
///
/// # Errors
/// [`crate::Error::NonFiniteLogits`], and what the device reports.
pub(super) async fn time_rounds(target: &mut impl Queue, has_draft_model: bool, step: f64) -> Result<Timings> {
    let began = Instant::now();
    let (plain, one) = (Draft::Tokens(Vec::new()), Draft::Model(1));
    let is_quick = time(target, &plain).await? < ENOUGH.as_secs_f64();
    let sixteen = if is_quick { time_ready(target, 16).await? } else { None };
    let eight = time_ready(target, 8).await?;
    let mut few = [(4, None), (2, None)];
    for (rows, seconds) in &mut few {
        if began.elapsed() < MOST {
            *seconds = time_ready(target, *rows).await?;
        }
    }
    let drafts = has_draft_model && 1 < target.capacity() && target.ready(&one).await?;
    let both = if drafts { Some(time(target, &one).await?) } else { None };
    let waited = time(target, &plain).await?;
    let ahead = time_ahead(target).await?.filter(|ahead| *ahead > 0.0).unwrap_or(waited);
    target.truncate(0);
    let mut timings = Timings { far: target.is_far(), ..Timings::guess(step) };
    // A coarse clock may say that no time passed.
    if ahead > 0.0 {
        timings.plain = Some(ahead);
        // The way to a server is no noise.
        let most = if timings.far { [f64::MAX; 2] } else { [MOST_WAITING, 1.0] };
        timings.waiting = (waited / ahead - 1.0).clamp(0.0, most[0]);
        timings.timed = eight.is_some();
        for (rows, seconds) in [(8, eight), (16, sixteen)].into_iter().chain(few) {
            // Noise may make nothing of a forward, or more than as many plain rounds.
            let forward = seconds.map(|seconds| (seconds / ahead - timings.waiting).clamp(1.0, rows as f64));
            forward.into_iter().for_each(|forward| timings.set_rows(rows, forward));
        }
        if let Some(both) = both {
            timings.step = (both / ahead - timings.waiting - timings.rows[1]).clamp(step / 4.0, most[1]);
        }
    }
    Ok(timings)
}

/// Seconds of a round over so many rows; none where its kernels are not ready, or there is no room for it.
async fn time_ready(target: &mut impl Queue, rows: usize) -> Result<Option<f64>> {
    let draft = Draft::Tokens(vec![0; rows - 1]);
    if rows > target.capacity() || !target.ready(&draft).await? {
        return Ok(None);
    }
    time(target, &draft).await.map(Some)
}

/// Seconds of a round that is waited for: the mean of some that take long enough for a coarse clock, behind one that finds caches
/// cold. One that takes long is enough.
async fn time(target: &mut impl Queue, draft: &Draft) -> Result<f64> {
    let began = Instant::now();
    target.truncate(0);
    target.verify(0, draft).await?;
    if began.elapsed() > ENOUGH {
        return Ok(began.elapsed().as_secs_f64());
    }
    let (began, mut rounds) = (Instant::now(), 0);
    while began.elapsed() < ENOUGH {
        target.truncate(0);
        target.verify(0, draft).await?;
        rounds += 1;
    }
    Ok(began.elapsed().as_secs_f64() / f64::from(rounds))
}

/// Seconds of a plain round that is submitted before the one before it is read; none where that cannot be. Firefox reports
/// several at a time, so it is the mean of some.
async fn time_ahead(target: &mut impl Queue) -> Result<Option<f64>> {
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
