//! Speculative sampling as published: a draft token drawn from q counts as often as p has it, and what p has beyond q
//! takes the place of the others, so that tokens follow p (Leviathan et al. 2023, theorem 1; Chen et al. 2023).

/// Whether a draft token counts: with probability min(1, p(x) / q(x)), by a uniform number in [0, 1).
pub fn accepts(p_x: f32, q_x: f32, uniform: f32) -> bool {
    uniform * q_x < p_x
}

/// What a rejected draft token's place is drawn from: max(p - q, 0), normalised; p where nothing is left, which happens by
/// rounding alone. Distributions over [vocab].
pub fn recovered(p: &[f32], q: &[f32]) -> Vec<f32> {
    let rest: Vec<f32> = p.iter().zip(q).map(|(p, q)| (p - q).max(0.0)).collect();
    let sum: f64 = rest.iter().map(|&rest| f64::from(rest)).sum();
    if sum == 0.0 {
        return p.to_vec();
    }
    rest.into_iter().map(|rest| (f64::from(rest) / sum) as f32).collect()
}
