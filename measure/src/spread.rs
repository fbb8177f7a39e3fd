//! Mean and standard deviation of measured values.

use serde::Serialize;
use std::fmt::{self, Display};

/// Mean and standard deviation.
#[derive(Clone, Copy, Serialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Standard deviation of a sample (divisor n - 1); 0 for a single value.
    pub deviation: f64,
}

impl Spread {
    /// Computes both; of no values, both are NaN.
    pub fn of_values(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self { mean, deviation: (squares / (count - 1.0).max(1.0)).sqrt() }
    }
}

impl Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(1);
        let text = match self.deviation {
            0.0 => format!("{:.digits$}", self.mean),
            deviation => format!("{:.digits$} ± {deviation:.digits$}", self.mean),
        };
        // Padded as a whole. The precision of a text would cut it.
        write!(f, "{text:>width$}", width = f.width().unwrap_or(0))
    }
}
