//! JavaScript bindings for the simulator: numbers in, means and figures out, without a GPU.

use crate::{Exception, to_value};
use foretoken_simulate::heatmap::{GridOptions, Ratio, grid};
use foretoken_simulate::offline::{Lookaheads, means};
use foretoken_simulate::{Cell, Draws, Latency, Traces, picture};
use serde_json::json;
use wasm_bindgen::prelude::*;

/// Number of texts for means: small enough to redraw while a slider moves.
const REPEATS: usize = 100;

/// Returns `{picture, means, lookaheads}`: an SVG of one text by plain decoding, sequential and distributed speculation, both with the given
/// lookahead; the mean latencies `{plain, si, dsi, pearl}`; and the lookaheads of the means. Latencies are in milliseconds; in the means,
/// sequential speculation has its best lookahead.
///
/// # Errors
/// `bad-option`.
#[wasm_bindgen(js_name = simulateCell)]
pub fn cell(
    target_latency: f64,
    drafter_latency: f64,
    acceptance: f64,
    lookahead: usize,
    sp_degree: usize,
    tokens: usize,
) -> Result<JsValue, Exception> {
    let (target, drafter) = (Latency::even(target_latency), Latency::even(drafter_latency));
    let cell = Cell { target, drafter, acceptance, lookahead, sp_degree, tokens };
    cell.validate()?;
    let picture = picture::timeline(&Traces::new(&cell, &Draws::new(tokens, 1, 1)?)?, "ms");
    let lookaheads = Lookaheads { dsi: lookahead, ..Lookaheads::good(&cell) };
    let means = means(&cell, lookaheads, &Draws::new(tokens, REPEATS, 1)?)?;
    Ok(to_value(&json!({ "picture": picture, "means": means, "lookaheads": lookaheads })))
}

/// Returns the four heatmaps for `sp_degree` servers as SVG, `columns` of them in a row.
///
/// # Errors
/// `bad-option`.
#[wasm_bindgen(js_name = simulateHeatmaps)]
pub fn heatmaps(sp_degree: usize, tokens: usize, columns: usize) -> Result<String, Exception> {
    let options = GridOptions { sp_degree, tokens, ..GridOptions::default() };
    Ok(picture::heatmaps(&grid(options)?, &Ratio::ALL, columns))
}
