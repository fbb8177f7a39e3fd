//! Ratios of latencies over a grid of drafter latencies and acceptances.

use super::offline::{Lookaheads, Means, best_means, means};
use super::{Cell, Draws, Latency, check, lookahead_for};
use foretoken::Result;
use serde::Serialize;

/// A ratio of two latencies; below 1 the first schedule is faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ratio {
    /// Sequential speculation to plain decoding.
    SiPlain,
    /// Distributed speculation to sequential speculation.
    DsiSi,
    /// Distributed speculation to plain decoding.
    DsiPlain,
    /// Distributed speculation to the faster of the other two.
    DsiBest,
}

impl Ratio {
    /// All ratios, in display order.
    pub const ALL: [Self; 4] = [Self::SiPlain, Self::DsiSi, Self::DsiPlain, Self::DsiBest];

    /// Returns the ratio of some means.
    pub fn of_means(self, means: &Means) -> f64 {
        match self {
            Self::SiPlain => means.si / means.plain,
            Self::DsiSi => means.dsi / means.si,
            Self::DsiPlain => means.dsi / means.plain,
            Self::DsiBest => means.dsi / means.plain.min(means.si),
        }
    }

    /// Returns the title in figures.
    pub fn title(self) -> &'static str {
        match self {
            Self::SiPlain => "SI / plain",
            Self::DsiSi => "DSI / SI",
            Self::DsiPlain => "DSI / plain",
            Self::DsiBest => "DSI / best of both",
        }
    }
}

/// Resolution and common settings of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GridOptions {
    /// Drafter latencies: `1 / columns` to 1, in target latencies.
    pub columns: usize,
    /// Acceptances: 0 to 1.
    pub rows: usize,
    /// Lookahead of all schedules. `None`: a good one for each.
    pub lookahead: Option<usize>,
    /// Target servers.
    pub sp_degree: usize,
    /// Tokens of a text.
    pub tokens: usize,
    /// Texts per cell.
    pub repeats: usize,
    /// Seed of the draws, which all cells share.
    pub seed: u64,
}

impl Default for GridOptions {
    fn default() -> Self {
        Self { columns: 20, rows: 21, lookahead: None, sp_degree: 7, tokens: 50, repeats: 20, seed: 1 }
    }
}

/// Mean latencies by cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Grid {
    /// Settings of the grid.
    pub options: GridOptions,
    /// Drafter latencies, in target latencies.
    pub drafter_latencies: Vec<f64>,
    /// Acceptances.
    pub acceptances: Vec<f64>,
    /// Means in target latencies, one row of cells per acceptance.
    pub cells: Vec<Means>,
}

impl Grid {
    /// Returns whether the servers keep up with the drafter of a column (equation 1 of the paper). With a good lookahead for each schedule,
    /// no column is left out.
    pub fn keeps_up(&self, column: usize) -> bool {
        let least = lookahead_for(1.0, self.drafter_latencies[column], self.options.sp_degree);
        self.options.lookahead.is_none_or(|lookahead| lookahead >= least)
    }
}

/// Simulates every cell of a grid.
///
/// # Errors
/// [`Error::BadOption`](foretoken::Error::BadOption).
pub fn grid(options: GridOptions) -> Result<Grid> {
    let GridOptions { columns, rows, lookahead, sp_degree, tokens, repeats, seed } = options;
    check("columns", columns as f64, 2.0..=100.0)?;
    check("rows", rows as f64, 2.0..=101.0)?;
    let drafter_latencies: Vec<f64> = (1..=columns).map(|column| column as f64 / columns as f64).collect();
    let acceptances: Vec<f64> = (0..rows).map(|row| row as f64 / (rows - 1) as f64).collect();
    let cell = |acceptance, drafter| {
        let (target, drafter) = (Latency::even(1.0), Latency::even(drafter));
        Cell { target, drafter, acceptance, lookahead: lookahead.unwrap_or(1), sp_degree, tokens }
    };
    cell(0.0, 1.0).validate()?;
    let draws = Draws::new(tokens, repeats, seed)?;
    let mut cells = Vec::new();
    for &acceptance in &acceptances {
        for &drafter in &drafter_latencies {
            let cell = cell(acceptance, drafter);
            cells.push(match lookahead {
                Some(lookahead) => means(&cell, Lookaheads::all(lookahead), &draws)?,
                None => best_means(&cell, &draws)?.1,
            });
        }
    }
    Ok(Grid { options, drafter_latencies, acceptances, cells })
}
