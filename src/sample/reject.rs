//! Speculative sampling as published (Leviathan et al. 2023, theorem 1; Chen et al. 2023). A draft token drawn from q is accepted as
//! often as p allows. Otherwise a token is drawn from the excess of p over q, so that tokens follow p.

/// Accepts a draft token with probability min(1, p(x) / q(x)), by a uniform number in [0, 1).
pub fn accepts(p_x: f32, q_x: f32, uniform: f32) -> bool {
    uniform * q_x < p_x
}

/// Returns the distribution [vocab] after a rejected draft token: max(p - q, 0), normalised; p if that is zero, which only rounding
/// causes.
pub fn recovered(p: &[f32], q: &[f32]) -> Vec<f32> {
    let rest: Vec<f32> = p.iter().zip(q).map(|(p, q)| (p - q).max(0.0)).collect();
    let sum: f64 = rest.iter().map(|&rest| f64::from(rest)).sum();
    if sum == 0.0 {
        return p.to_vec();
    }
    rest.into_iter().map(|rest| (f64::from(rest) / sum) as f32).collect()
}
