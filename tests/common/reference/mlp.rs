//! MLPs, and experts with their choice for each row.

use super::model::{Projection, WeightReader};
use super::{activate, gate, norm_rms};
use foretoken::Result;
use foretoken::internals::model::{Activation, ExpertScores, Experts, ModelSpec};

/// Returns the experts of a row and their weights, from the router's results.
pub fn route(results: &[f32], experts: &Experts, bias: &[f32], factors: &[f32]) -> Vec<(usize, f32)> {
    let (own, shared) = results.split_at(experts.count);
    let mut own = own.to_vec();
    if experts.scores == ExpertScores::Softmax {
        own.iter_mut().zip(bias).for_each(|(result, bias)| *result += bias);
    }
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    let scores: Vec<f32> = match experts.scores {
        ExpertScores::Sigmoid => own.iter().map(|x| sigmoid(*x)).collect(),
        ExpertScores::Softmax => {
            let largest = own.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let all: Vec<f32> = own.iter().map(|x| (x - largest).exp()).collect();
            let sum: f32 = all.iter().sum();
            all.iter().map(|x| x / sum).collect()
        }
    };
    let mut keys = match experts.scores {
        ExpertScores::Softmax => own,
        ExpertScores::Sigmoid => scores.iter().zip(bias).map(|(score, bias)| score + bias).collect(),
    };
    let mut chosen = Vec::new();
    for _ in 0..experts.chosen {
        let best = (0..keys.len()).rev().max_by(|a, b| keys[*a].total_cmp(&keys[*b])).unwrap();
        chosen.push(best);
        keys[best] = f32::NEG_INFINITY;
    }
    let sum: f32 = chosen.iter().map(|expert| scores[*expert]).sum();
    let divisor = match experts.normalised {
        true if experts.scores == ExpertScores::Sigmoid => sum + 1e-6,
        true => sum,
        false => 1.0,
    };
    let chosen = chosen.into_iter().map(|expert| (expert, scores[expert] / divisor * factors[expert]));
    chosen.chain(shared.iter().enumerate().map(|(i, x)| (experts.count + i, sigmoid(*x)))).collect()
}

/// Returns the places of each expert's choices, in order.
pub fn group(choices: &[(usize, f32)], experts: usize) -> Vec<Vec<usize>> {
    let places = |expert| (0..choices.len()).filter(move |place| choices[*place].0 == expert).collect();
    (0..experts).map(places).collect()
}

/// Adds the weighted sum of each row's experts, times `scale`, to rows. `bias` [experts, width], or [width] for all.
pub fn combine(x: &mut [f32], rows: &[f32], choices: &[(usize, f32)], bias: &[f32], scale: f32) {
    let width = rows.len() / choices.len();
    let of_all = bias.len() == width;
    let used = choices.len() / (x.len() / width);
    for (row, x) in x.chunks_mut(width).enumerate() {
        let mut sums = vec![0.0; width];
        for place in row * used..(row + 1) * used {
            let own = &rows[place * width..][..width];
            let (expert, weight) = choices[place];
            let bias = &bias[if of_all { 0 } else { expert * width }..];
            sums.iter_mut().zip(own.iter().zip(bias)).for_each(|(sum, (value, bias))| *sum += weight * (value + bias));
        }
        x.iter_mut().zip(sums).for_each(|(x, sum)| *x += scale * sum);
    }
}

/// Weights of an MLP.
pub(super) struct Mlp {
    /// [intermediate, hidden], if it is gated.
    gate: Option<Projection>,
    /// [intermediate, hidden].
    up: Projection,
    /// [hidden, intermediate].
    down: Projection,
}

/// Weights of experts.
pub(super) struct ExpertWeights {
    /// [experts and shared ones, hidden].
    router: Projection,
    /// Bias of the results or scores [experts].
    bias: Vec<f32>,
    /// Factors of the weights [experts].
    factors: Vec<f32>,
    each: Vec<Mlp>,
}

/// Weights of a layer's MLP, its experts, or both.
pub(super) struct MlpWeights {
    pub mlp: Option<Mlp>,
    pub experts: Option<ExpertWeights>,
    /// Gains of the norms after the MLP, of the router, before and after the experts, each [hidden], if there are both.
    pub gains: Option<[Vec<f32>; 4]>,
}

impl Mlp {
    /// Reads the MLP of the layer with this prefix, or the one that its experts share.
    pub async fn load(
        spec: &ModelSpec,
        read: &WeightReader<'_>,
        prefix: &str,
        inner: usize,
        is_shared: bool,
    ) -> Result<Self> {
        let (names, hidden) = (read.names, spec.hidden_size);
        let name = |suffix: &str| format!("{prefix}.{suffix}");
        let is_shared = is_shared && spec.experts.is_some_and(|experts| !experts.with_mlp);
        let (up, down) = match is_shared {
            true => (names.experts.shared_up, names.experts.shared_down),
            false => (names.up, names.down),
        };
        let widths = if spec.mlp.gated { vec![inner; 2] } else { vec![inner] };
        let up: Vec<_> = up.iter().map(|tensor| name(tensor)).collect();
        let up = read.projection(&up, &widths, hidden, spec.mlp.bias).await?;
        let down = read.projection(&[name(down)], &[hidden], inner, spec.mlp.bias).await?;
        Ok(mlp_of(up, down, spec.mlp.gated))
    }

    fn times(&self, x: &[f32], activation: Activation) -> Vec<f32> {
        let ups = self.up.times(x);
        let inner = match &self.gate {
            Some(gates) => gate(&gates.times(x), &gates.bias, &ups, &self.up.bias, activation),
            None => activate(&ups, &self.up.bias, activation),
        };
        self.down.times(&inner)
    }
}

fn mlp_of(up: Projection, down: Projection, gated: bool) -> Mlp {
    let half = up.bias.len() / 2;
    match gated {
        true => Mlp { gate: Some(up.rows(0..half)), up: up.rows(half..2 * half), down },
        false => Mlp { gate: None, up, down },
    }
}

impl ExpertWeights {
    /// Reads the experts of the layer with this prefix.
    pub async fn load(spec: &ModelSpec, read: &WeightReader<'_>, prefix: &str, inner: usize) -> Result<Self> {
        let (names, experts, hidden) = (&read.names.experts, spec.experts.unwrap(), spec.hidden_size);
        let name = |suffix: &str| format!("{prefix}.{suffix}");
        let mut weight = read.shaped(&name(names.router), &[experts.count, hidden]).await?;
        if experts.shared > 0 {
            // One row, or in GGUF files a vector.
            weight.extend(read.weights.read_f32(&name(names.shared_gate)).await?);
        }
        let router = Projection { bias: vec![0.0; experts.all()], weight, cols: hidden };
        let bias = match experts.bias {
            true => read.weights.read_f32(&name(names.bias)).await?,
            false => vec![0.0; experts.count],
        };
        let factors = match experts.with_mlp {
            true => read.weights.read_f32(&name(names.factors)).await?,
            false => vec![experts.scale; experts.count],
        };
        let mut each = Vec::new();
        for expert in 0..experts.count {
            let width = 2 * inner / names.up.len();
            let (mut weight, mut bias) = (Vec::new(), Vec::new());
            for tensor in names.up {
                weight.extend(read.of_expert(&name(tensor), expert, [experts.count, width, hidden]).await?);
            }
            for tensor in names.up_bias.iter().filter(|_| spec.mlp.bias) {
                bias.extend(read.bias_of_expert(&name(tensor), expert, [experts.count, width]).await?);
            }
            bias.resize(2 * inner, 0.0);
            let mut up = Projection { weight, bias, cols: hidden };
            if names.alternating {
                up = up.rows((0..2 * inner).step_by(2).chain((1..2 * inner).step_by(2)));
            }
            let weight = read.of_expert(&name(names.down), expert, [experts.count, hidden, inner]).await?;
            let bias = match spec.mlp.bias {
                true => read.bias_of_expert(&name(names.down_bias), expert, [experts.count, hidden]).await?,
                false => vec![0.0; hidden],
            };
            each.push(mlp_of(up, Projection { weight, bias, cols: inner }, true));
        }
        if experts.shared > 0 {
            let mut weight = Vec::new();
            for tensor in names.shared_up {
                weight.extend(read.shaped(&format!("{}.weight", name(tensor)), &[inner, hidden]).await?);
            }
            let up = Projection { weight, bias: vec![0.0; 2 * inner], cols: hidden };
            let weight = read.shaped(&format!("{}.weight", name(names.shared_down)), &[hidden, inner]).await?;
            each.push(mlp_of(up, Projection { weight, bias: vec![0.0; hidden], cols: inner }, true));
        }
        Ok(Self { router, bias, factors, each })
    }

    /// Returns the weighted sum of each row's experts; the router reads other rows.
    fn times(&self, routed: &[f32], rows: &[f32], spec: &ModelSpec) -> Vec<f32> {
        let hidden = spec.hidden_size;
        let mut sums = vec![0.0; rows.len()];
        for ((routed, row), sums) in routed.chunks(hidden).zip(rows.chunks(hidden)).zip(sums.chunks_mut(hidden)) {
            let results = self.router.times(routed);
            for (expert, weight) in route(&results, &spec.experts.unwrap(), &self.bias, &self.factors) {
                let own = self.each[expert].times(row, spec.mlp.activation);
                let own = own.into_iter().zip(&self.each[expert].down.bias);
                sums.iter_mut().zip(own).for_each(|(sum, (x, bias))| *sum += weight * (x + bias));
            }
        }
        sums
    }
}

impl WeightReader<'_> {
    /// Returns the gains of the norms around an MLP and the experts of its layer.
    pub async fn gains_of_branches(&self, prefix: &str, hidden: usize) -> Result<[Vec<f32>; 4]> {
        let names = &self.names.experts;
        let name = |suffix: &str| format!("{prefix}.{suffix}");
        let root = (hidden as f32).sqrt();
        let router = self.weights.read_f32(&name(names.router_gain)).await?;
        Ok([
            self.gain(&name(names.mlp_post_norm), hidden).await?,
            router.into_iter().map(|gain| gain / root).collect(),
            self.gain(&name(names.norm), hidden).await?,
            self.gain(&name(names.post_norm), hidden).await?,
        ])
    }
}

impl MlpWeights {
    /// Returns the bias that the results do not have yet.
    pub fn bias(&self, hidden: usize) -> Vec<f32> {
        match &self.mlp {
            Some(mlp) if self.experts.is_none() => mlp.down.bias.clone(),
            _ => vec![0.0; hidden],
        }
    }

    /// Returns the results without [`MlpWeights::bias`], of normed rows and the residual stream.
    pub fn times(&self, normed: &[f32], residual: &[f32], spec: &ModelSpec) -> Vec<f32> {
        let norm = |x: &[f32], gain: &[f32]| norm_rms(x, gain, spec.norm_eps);
        let of_mlp = self.mlp.as_ref().map(|mlp| mlp.times(normed, spec.mlp.activation));
        let Some(experts) = &self.experts else { return of_mlp.unwrap() };
        let Some([mlp_gain, router_gain, before, after]) = &self.gains else {
            let mut sums = experts.times(normed, normed, spec);
            sums.iter_mut().zip(of_mlp.unwrap_or_default()).for_each(|(sum, x)| *sum += x);
            return sums;
        };
        let of_mlp = of_mlp.unwrap();
        let of_experts = experts.times(&norm(residual, router_gain), &norm(residual, before), spec);
        let mut sums = norm(&of_mlp, mlp_gain);
        sums.iter_mut().zip(norm(&of_experts, after)).for_each(|(sum, x)| *sum += x);
        sums
    }
}
