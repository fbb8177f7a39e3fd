//! What rounds take on a device, measured at load.

use crate::error::Result;
use crate::target::{Draft, Queue, Timings};
use std::time::Duration;
use web_time::Instant;

/// Rounds of a kind that are timed; the shortest counts.
const TIMES: usize = 3;
/// How much longer loading may take, about. Where a round alone takes so long, it is timed once, and what is not timed is guessed.
const MOST: Duration = Duration::from_millis(100);

/// Times rounds: plain ones, also those submitted ahead, those over 8 rows, and until 100 ms have passed those over 2, 4 and 16
/// rows and, where there is a draft model, a draft step. What is not ready is not timed, so nothing is compiled meanwhile. Nothing
/// is cached afterwards. `step` is a guess of what a draft step takes, in plain rounds.
///
/// # Errors
/// [`crate::Error::NonFiniteLogits`], and what the device reports.
pub(super) async fn time_rounds(target: &mut impl Queue, has_draft_model: bool, step: f64) -> Result<Timings> {
    let began = Instant::now();
    let mut timings = Timings::guess(step);
    let waited = time(target, &Draft::Tokens(Vec::new())).await?;
    let ahead = time_ahead(target).await?.filter(|ahead| *ahead > 0.0).unwrap_or(waited);
    // A coarse clock may say that no time passed.
    if ahead > 0.0 {
        timings.plain = Some(ahead);
        timings.waiting = f64::max(waited / ahead - 1.0, 0.0);
        for drafted in [7, 1, 3, 15] {
            let draft = Draft::Tokens(vec![0; drafted]);
            if drafted >= target.capacity() || drafted != 7 && began.elapsed() > MOST || !target.ready(&draft).await? {
                continue;
            }
            let forward = time(target, &draft).await? / ahead - timings.waiting;
            timings.set_rows(drafted + 1, forward.max(1.0));
            if drafted == 1 && has_draft_model {
                let both = time(target, &Draft::Model(drafted)).await? / ahead - timings.waiting;
                // Noise may make nothing of it.
                timings.step = f64::max(both - timings.rows[1], step / 4.0);
            }
        }
    }
    target.truncate(0);
    Ok(timings)
}

/// Seconds of a round that is waited for.
async fn time(target: &mut impl Queue, draft: &Draft) -> Result<f64> {
    let (mut shortest, start) = (f64::INFINITY, Instant::now());
    for time in 0..TIMES {
        if time > 0 && start.elapsed() > MOST / 4 {
            break;
        }
        target.truncate(0);
        let began = Instant::now();
        target.verify(0, draft).await?;
        shortest = shortest.min(began.elapsed().as_secs_f64());
    }
    Ok(shortest)
}

/// Seconds of a plain round that is submitted before the one before it is read; none where that cannot be.
async fn time_ahead(target: &mut impl Queue) -> Result<Option<f64>> {
    let (mut shortest, start) = (f64::INFINITY, Instant::now());
    for time in 0..TIMES {
        if time > 0 && start.elapsed() > MOST / 2 {
            break;
        }
        target.truncate(0);
        target.submit(0, &Draft::Tokens(Vec::new())).await?;
        if !target.prepare(true) {
            return Ok(None);
        }
        target.repeat();
        target.finish().await?;
        let began = Instant::now();
        target.keep(1);
        target.finish().await?;
        shortest = shortest.min(began.elapsed().as_secs_f64());
    }
    Ok(Some(shortest))
}
