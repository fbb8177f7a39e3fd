//! Duration of a forward by the number of rows in its batch.

use crate::LATENCIES;
use foretoken::{Error, Result};
use serde::Serialize;
use std::str::FromStr;

/// Measured points (rows, milliseconds), interpolated linearly. Below the first point a forward takes as long as there. Beyond the last
/// one, the last line continues.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve(Vec<(usize, f64)>);

impl Curve {
    /// # Errors
    /// [`Error::BadOption`] for no points, and for points that do not increase.
    pub fn new(points: Vec<(usize, f64)>) -> Result<Self> {
        let fits = |&(rows, latency): &(usize, f64)| rows > 0 && LATENCIES.contains(&latency);
        let goes_up = |pair: &[(usize, f64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        if points.is_empty() || !points.iter().all(fits) || !points.windows(2).all(goes_up) {
            let value: Vec<String> = points.iter().map(|(rows, latency)| format!("{rows}:{latency}")).collect();
            return Err(bad(&value.join(",")));
        }
        Ok(Self(points))
    }

    /// Returns the milliseconds of a forward of `rows` rows.
    pub fn at(&self, rows: usize) -> f64 {
        let Self(points) = self;
        let beyond = points.partition_point(|point| point.0 < rows);
        match &points[..(beyond + 1).min(points.len())] {
            [.., from, to] => {
                let slope = (to.1 - from.1) / (to.0 - from.0) as f64;
                from.1 + slope * (rows as f64 - from.0 as f64)
            }
            rest => rest[0].1,
        }
    }
}

impl FromStr for Curve {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let point = |point: &str| {
            let (rows, latency) = point.split_once(':')?;
            Some((rows.trim().parse().ok()?, latency.trim().parse().ok()?))
        };
        let points: Option<Vec<_>> = text.split(',').map(point).collect();
        Self::new(points.ok_or_else(|| bad(text))?)
    }
}

fn bad(value: &str) -> Error {
    let allowed = "ROWS:MS,ROWS:MS,... with more rows from point to point, in no less time".into();
    Error::BadOption { option: "curve".into(), value: value.into(), allowed }
}

#[cfg(test)]
mod tests;
