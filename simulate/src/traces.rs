//! One text by plain decoding, sequential and distributed speculation with the same lookahead, step by step.

use super::offline::{Span, Watch, dsi};
use super::{Cell, Draws, Pass, plain, si};
use foretoken::Result;

/// Spans and emitted tokens of one schedule, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// Periods of work. In schedules with rounds, the target is server 0, and a block is drafted in one span.
    pub spans: Vec<Span>,
    /// Time of each token. `true`: an accepted draft token.
    pub emitted: Vec<(f64, bool)>,
}

impl Watch for Trace {
    fn span(&mut self, span: Span) {
        self.spans.push(span);
    }

    fn emitted(&mut self, now: f64, accepted: bool) {
        self.emitted.push((now, accepted));
    }
}

impl Trace {
    fn of_rounds(tokens: usize, schedule: impl FnOnce(&mut dyn FnMut(Pass))) -> Self {
        let (mut passes, mut trace, mut now) = (Vec::new(), Self::default(), 0.0);
        schedule(&mut |pass| passes.push(pass));
        for (at, &Pass { position, drafts, draft, verify, .. }) in passes.iter().enumerate() {
            let mut work = |server, time, count| {
                let span = Span { server, from: now, to: now + time, position, count, cancelled: false };
                trace.span(span);
                now = span.to;
            };
            if drafts > 0 {
                work(None, draft, drafts);
            }
            work(Some(0), verify, drafts + 1);
            let end = passes.get(at + 1).map_or(tokens, |next| next.position);
            (position + 1..=end).for_each(|known| trace.emitted(now, known < end));
        }
        trace
    }

    /// Returns the time of the last token.
    pub fn latency(&self) -> f64 {
        self.emitted.last().map_or(0.0, |&(time, _)| time)
    }

    /// Returns the number of tokens that are emitted at a time.
    pub fn tokens_at(&self, time: f64) -> usize {
        // Sums of latencies are equal up to rounding.
        self.emitted.partition_point(|&(emitted, _)| emitted <= time * (1.0 + 1e-9))
    }
}

/// Traces of all schedules for the same text.
#[derive(Debug, Clone, PartialEq)]
pub struct Traces {
    /// Latencies, acceptance, and lookahead of all.
    pub cell: Cell,
    /// Plain decoding.
    pub plain: Trace,
    /// Sequential speculation.
    pub si: Trace,
    /// Distributed speculation.
    pub dsi: Trace,
}

impl Traces {
    /// Simulates the first text of some draws.
    ///
    /// # Errors
    /// [`Error::BadOption`](foretoken::Error::BadOption).
    pub fn new(cell: &Cell, draws: &Draws) -> Result<Self> {
        cell.validate()?;
        let text = draws.agreements(cell.acceptance).next().unwrap_or_default();
        let mut distributed = Trace::default();
        dsi(cell, cell.patience(), &text, &mut distributed)?;
        Ok(Self {
            cell: *cell,
            plain: Trace::of_rounds(cell.tokens, |wait| plain(cell, wait)),
            si: Trace::of_rounds(cell.tokens, |wait| si(cell, &text, wait)),
            dsi: distributed,
        })
    }

    /// Returns the end of the time axis: that of the slowest schedule, but at most twice the time of plain decoding.
    pub fn end(&self) -> f64 {
        let plain = self.plain.latency();
        self.si.latency().clamp(plain, 2.0 * plain).max(self.dsi.latency())
    }

    /// Returns times from 0 to the end of the axis, at most 13, a round number of target forwards apart.
    pub fn ticks(&self) -> Vec<f64> {
        let forwards = self.end() / self.cell.target.tpot;
        let power = 10f64.powf((forwards / 10.0).log10().floor());
        let fits = |step: &f64| forwards / step <= 12.0;
        let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * power).into_iter().find(fits).unwrap_or(forwards);
        let count = (forwards / step * (1.0 + 1e-9)) as usize;
        (0..=count).map(|at| at as f64 * step * self.cell.target.tpot).collect()
    }
}
