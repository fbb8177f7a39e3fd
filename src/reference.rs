//! The oracle: every kernel as plain CPU code, and the whole forward pass of a model made of it.
//!
//! One function per file of `shaders/`, of the same name; where two shaders compute one thing (rows and tile, blocks and
//! prefill) one function serves both. Numbers are stored as f32 and added up in f64, so that what separates a kernel
//! from its twin is the kernel's rounding alone. Nothing here is fused, tiled or reordered: the tensors are those of the
//! checkpoint, as they lie there, which makes [`Model`] an independent check of all that the GPU does differently. It is
//! written to be read, and slow: for tests and small models.

use crate::error::Result;
use crate::model::{Activation, Mlp, ModelSpec, rotary_table};
use crate::options::KvDtype;
use crate::sample::{Processors, accepts, recovered};
use crate::weights::{Source, Weights};
use half::f16;

/// Sizes and rules of an attention layer.
#[derive(Debug, Clone, Copy)]
pub struct Heads {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; query heads that follow each other share one.
    pub kv_heads: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// Leading elements of a head that rotate; even.
    pub rotary: usize,
    /// Which of them rotate together.
    pub pairs: Pairs,
    /// Positions that a row sees, itself included.
    pub window: usize,
    /// Factor for the scores.
    pub scale: f32,
}

impl Heads {
    fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }

    fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}

/// Which elements of a head rotate together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairs {
    /// i and i + rotary / 2: the checkpoints' order.
    Halves,
    /// 2i and 2i + 1: the kernels' order, into which the loader brings the rows of the projections.
    Neighbours,
}

/// The KV cache of a layer, by position.
#[derive(Debug, Clone)]
pub struct Kv {
    /// What elements are rounded to as they are appended.
    pub dtype: KvDtype,
    /// Keys [positions, kv_heads, head_dim].
    pub k: Vec<f32>,
    /// Values [positions, kv_heads, head_dim].
    pub v: Vec<f32>,
}

impl Kv {
    /// An empty one.
    pub fn new(dtype: KvDtype) -> Self {
        Self { dtype, k: Vec::new(), v: Vec::new() }
    }

    /// Appends `k` and `v`, each [positions, kv_heads, head_dim], rounded to the cache's dtype.
    pub fn append(&mut self, k: &[f32], v: &[f32]) {
        let dtype = self.dtype;
        let round = |x: &f32| match dtype {
            KvDtype::F32 => *x,
            KvDtype::F16 => f16::from_f32(*x).to_f32(),
        };
        self.k.extend(k.iter().map(round));
        self.v.extend(v.iter().map(round));
    }
}

/// Rows of `table` [vocab, width] for `ids` [rows], times `scale`: [rows, width].
pub fn embed(table: &[f32], width: usize, ids: &[u32], scale: f32) -> Vec<f32> {
    ids.iter().flat_map(|id| &table[*id as usize * width..][..width]).map(|x| x * scale).collect()
}

/// `x / rms(x) * gain` for each row of x [rows, width], gain [width]: [rows, width].
pub fn norm_rms(x: &[f32], gain: &[f32], eps: f64) -> Vec<f32> {
    let width = gain.len();
    let mut y = Vec::with_capacity(x.len());
    for row in x.chunks_exact(width) {
        let scale = 1.0 / (dot(row, row) / width as f64 + eps).sqrt();
        y.extend(row.iter().zip(gain).map(|(x, gain)| (f64::from(*x) * scale * f64::from(*gain)) as f32));
    }
    y
}

/// `x W^T` for x [rows, cols], w [outs, cols]: [rows, outs]. Twin of matmul_rows and matmul_tile, which differ in how
/// many rows they are for, with the epilogue `store`.
pub fn matmul(x: &[f32], w: &[f32], cols: usize) -> Vec<f32> {
    x.chunks_exact(cols).flat_map(|x| w.chunks_exact(cols).map(move |w| dot(x, w) as f32)).collect()
}

/// Epilogue of the projections back into the residual stream: `y += result + bias` for y and result [rows, width],
/// bias [width].
pub fn residual(y: &mut [f32], result: &[f32], bias: &[f32]) {
    for ((y, result), bias) in y.iter_mut().zip(result).zip(bias.iter().cycle()) {
        *y = (f64::from(*y) + f64::from(*result) + f64::from(*bias)) as f32;
    }
}

/// Epilogue of the gated MLP: `activation(gate + gate_bias) * (up + up_bias)` for gate and up [rows, width], biases
/// [width]: [rows, width].
pub fn gate(gate: &[f32], gate_bias: &[f32], up: &[f32], up_bias: &[f32], activation: Activation) -> Vec<f32> {
    let activate = |v: f64| match activation {
        Activation::Silu => v / (1.0 + (-v).exp()),
    };
    let gates = add(gate, gate_bias).map(f64::from);
    let ups = add(up, up_bias).map(f64::from);
    gates.zip(ups).map(|(gate, up)| (activate(gate) * up) as f32).collect()
}

/// Epilogue of the fused projection qkv [rows, heads + 2 kv_heads, head_dim]: adds the bias of a row, rotates q and k by
/// table [positions, rotary / 2, 2] of (cos, sin), appends k and v to the cache, and returns q [rows, heads, head_dim].
/// The rows' positions are those behind the cached ones.
pub fn rotary(qkv: &[f32], bias: &[f32], table: &[f32], heads: &Heads, kv: &mut Kv) -> Vec<f32> {
    let mut q = Vec::new();
    let biased: Vec<f32> = add(qkv, bias).collect();
    for row in biased.chunks_exact(heads.q_width() + 2 * heads.kv_width()) {
        let position = kv.k.len() / heads.kv_width();
        let (row_q, row_kv) = row.split_at(heads.q_width());
        let (k, v) = row_kv.split_at(heads.kv_width());
        q.extend(rotate(row_q, table, position, heads));
        kv.append(&rotate(k, table, position, heads), v);
    }
    q
}

/// What [`rotary`] does, for models that first normalise each head of q and k: gains [2, head_dim] of q and of k.
pub fn qk_norm(
    qkv: &[f32],
    bias: &[f32],
    gains: &[f32],
    eps: f64,
    table: &[f32],
    heads: &Heads,
    kv: &mut Kv,
) -> Vec<f32> {
    let mut normed: Vec<f32> = add(qkv, bias).collect();
    let (q_gain, k_gain) = gains.split_at(heads.head_dim);
    for row in normed.chunks_exact_mut(bias.len()) {
        let (q, row_kv) = row.split_at_mut(heads.q_width());
        let (k, _) = row_kv.split_at_mut(heads.kv_width());
        q.copy_from_slice(&norm_rms(q, q_gain, eps));
        k.copy_from_slice(&norm_rms(k, k_gain, eps));
    }
    rotary(&normed, &vec![0.0; bias.len()], table, heads, kv)
}

/// Softmax attention of q [rows, heads, head_dim], whose rows are the last positions of the cache: [rows, heads,
/// head_dim]. Twin of attention with attention_merge, and of attention_prefill.
pub fn attention(q: &[f32], kv: &Kv, heads: &Heads) -> Vec<f32> {
    let (head_dim, q_width, kv_width) = (heads.head_dim, heads.q_width(), heads.kv_width());
    let before = kv.k.len() / kv_width - q.len() / q_width;
    let mut out = Vec::with_capacity(q.len());
    for (row, q) in q.chunks_exact(q_width).enumerate() {
        let end = before + row + 1;
        let seen = end.saturating_sub(heads.window)..end;
        for (head, q) in q.chunks_exact(head_dim).enumerate() {
            let first = head / (heads.heads / heads.kv_heads) * head_dim;
            let at = |position: usize| position * kv_width + first..position * kv_width + first + head_dim;
            let score = |position| dot(q, &kv.k[at(position)]) * f64::from(heads.scale);
            let scores: Vec<f64> = seen.clone().map(score).collect();
            let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut sum = 0.0;
            let mut values = vec![0.0; head_dim];
            for (position, score) in seen.clone().zip(scores) {
                let p = (score - top).exp();
                sum += p;
                values.iter_mut().zip(&kv.v[at(position)]).for_each(|(value, v)| *value += p * f64::from(*v));
            }
            out.extend(values.into_iter().map(|value| (value / sum) as f32));
        }
    }
    out
}

/// The biases and penalties of a row's logits [vocab], which follows the tokens of `history`.
pub fn adjust(logits: &mut [f32], processors: &Processors, history: &[u32]) {
    processors.adjust(logits, history);
}

/// Temperature, top-k, top-p and min-p of a row's logits [vocab]. Removed ones are negative infinity.
pub fn filter(logits: &mut [f32], processors: &Processors) {
    processors.filter(logits);
}

/// The id of the largest of a row's first `vocab` logits plus noise by position in a row and id, the lowest of those that
/// tie, for logits [rows, stride]: [rows]. A row with a logit that is not finite gives `u32::MAX`.
pub fn sample(logits: &[f32], stride: usize, vocab: usize, noise: impl Fn(usize, usize) -> f32) -> Vec<u32> {
    let row = |(at, row): (usize, &[f32])| {
        let scores: Vec<f32> = (0..vocab).map(|id| row[id] + noise(at, id)).collect();
        let best = (0..vocab).reduce(|best, id| if scores[id] > scores[best] { id } else { best });
        best.filter(|_| row[..vocab].iter().all(|logit| logit.is_finite())).map_or(u32::MAX, |best| best as u32)
    };
    logits.chunks_exact(stride).enumerate().map(row).collect()
}

/// The token of a row by rejection sampling: `draft` with the distribution that it was drawn from, if there is one, is
/// accepted by a uniform number, or a token drawn by exponential noise [vocab], from distributions [vocab].
pub fn reject(p: &[f32], draft: Option<(u32, &[f32])>, uniform: f32, noise: &[f32]) -> u32 {
    let from = match draft {
        Some((x, q)) if accepts(p[x as usize], q[x as usize], uniform) => return x,
        Some((_, q)) => &recovered(p, q),
        None => p,
    };
    let scores: Vec<f32> = from.iter().zip(noise).map(|(p, wait)| p / wait).collect();
    (0..scores.len()).reduce(|best, id| if scores[id] > scores[best] { id } else { best }).unwrap_or(0) as u32
}

/// The text behind a round: of `text`, which ends with the pending token, the draft tokens [k] that agree with the target's
/// ids [k + 1], and the target's own token.
pub fn follow(text: &[u32], drafts: &[u32], ids: &[u32]) -> Vec<u32> {
    let accepted = drafts.iter().zip(ids).take_while(|(draft, id)| draft == id).count();
    [text, &ids[..=accepted]].concat()
}

/// Heads [n, head_dim] at a position, rotated. Elements from `rotary` on stay as they are.
fn rotate(values: &[f32], table: &[f32], position: usize, heads: &Heads) -> Vec<f32> {
    let half = heads.rotary / 2;
    let mut turned = values.to_vec();
    for head in turned.chunks_exact_mut(heads.head_dim) {
        for i in 0..half {
            let (a, b) = match heads.pairs {
                Pairs::Halves => (i, i + half),
                Pairs::Neighbours => (2 * i, 2 * i + 1),
            };
            let at = (position * half + i) * 2;
            let (cos, sin) = (f64::from(table[at]), f64::from(table[at + 1]));
            let (x, y) = (f64::from(head[a]), f64::from(head[b]));
            head[a] = (x * cos - y * sin) as f32;
            head[b] = (x * sin + y * cos) as f32;
        }
    }
    turned
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// Rows plus a bias [width] each.
fn add<'a>(rows: &'a [f32], bias: &'a [f32]) -> impl Iterator<Item = f32> + 'a {
    rows.iter().zip(bias.iter().cycle()).map(|(x, bias)| x + bias)
}

/// A whole model: its tensors by the names of the checkpoint, all in f32.
pub struct Model {
    spec: ModelSpec,
    /// [vocab, hidden].
    embedding: Vec<f32>,
    layers: Vec<Layer>,
    /// [hidden].
    final_norm: Vec<f32>,
    /// [vocab, hidden]; none: the embedding.
    head: Option<Vec<f32>>,
}

/// Biases that a model lacks are zeros.
struct Layer {
    /// [hidden].
    attention_norm: Vec<f32>,
    /// Projections to q, k and v, stacked: [heads + 2 kv_heads, head_dim, hidden].
    qkv: Vec<f32>,
    qkv_bias: Vec<f32>,
    /// Gains of q and of k [2, head_dim], where heads are normalised.
    qk_norm: Option<Vec<f32>>,
    /// [hidden, heads, head_dim].
    o: Vec<f32>,
    o_bias: Vec<f32>,
    /// [hidden].
    mlp_norm: Vec<f32>,
    /// [intermediate, hidden].
    gate: Vec<f32>,
    gate_bias: Vec<f32>,
    /// [intermediate, hidden].
    up: Vec<f32>,
    up_bias: Vec<f32>,
    /// [hidden, intermediate].
    down: Vec<f32>,
    down_bias: Vec<f32>,
}

impl Model {
    /// Reads the tensors.
    ///
    /// # Errors
    /// [`Error::BadWeights`](crate::Error::BadWeights), and what the source reports.
    pub async fn load<S: Source>(spec: ModelSpec, weights: &Weights<S>) -> Result<Self> {
        let names = spec.architecture.names();
        let read = Reader(weights);
        let hidden = spec.hidden_size;
        let mut layers = Vec::new();
        for layer in 0..spec.layers.len() {
            layers.push(Layer::load(&spec, &read, &format!("{}.{layer}", names.layers)).await?);
        }
        let head = if spec.tie_word_embeddings {
            None
        } else {
            Some(read.tensor(names.head, &[spec.vocab_size, hidden]).await?)
        };
        let embedding = read.tensor(names.embedding, &[spec.vocab_size, hidden]).await?;
        let final_norm = read.tensor(names.final_norm, &[hidden]).await?;
        Ok(Self { spec, embedding, layers, final_norm, head })
    }

    /// Logits after each token of a text [tokens, vocab], flattened, with a KV cache of the given dtype.
    pub fn logits(&self, tokens: &[u32], kv_dtype: KvDtype) -> Vec<f32> {
        let spec = &self.spec;
        let hidden = spec.hidden_size;
        let Mlp::Gated { activation, .. } = spec.mlp;
        let mut x = embed(&self.embedding, hidden, tokens, spec.embedding_scale);
        for (layer, facts) in self.layers.iter().zip(&spec.layers) {
            let rope = facts.rope.map(|rope| &spec.ropes[rope]);
            let table = rope.map_or_else(Vec::new, |rope| rotary_table(rope, tokens.len()));
            let heads = Heads {
                heads: spec.num_attention_heads,
                kv_heads: spec.num_key_value_heads,
                head_dim: spec.head_dim,
                rotary: rope.map_or(0, |rope| rope.rotary_dim),
                pairs: Pairs::Halves,
                window: facts.window.unwrap_or(usize::MAX),
                scale: spec.attention_scale,
            };
            let mut kv = Kv::new(kv_dtype);

            let normed = norm_rms(&x, &layer.attention_norm, spec.norm_eps);
            let qkv = matmul(&normed, &layer.qkv, hidden);
            let q = match &layer.qk_norm {
                Some(gains) => qk_norm(&qkv, &layer.qkv_bias, gains, spec.norm_eps, &table, &heads, &mut kv),
                None => rotary(&qkv, &layer.qkv_bias, &table, &heads, &mut kv),
            };
            let attended = attention(&q, &kv, &heads);
            residual(&mut x, &matmul(&attended, &layer.o, spec.q_width()), &layer.o_bias);

            let normed = norm_rms(&x, &layer.mlp_norm, spec.norm_eps);
            let gates = matmul(&normed, &layer.gate, hidden);
            let ups = matmul(&normed, &layer.up, hidden);
            let gated = gate(&gates, &layer.gate_bias, &ups, &layer.up_bias, activation);
            residual(&mut x, &matmul(&gated, &layer.down, spec.intermediate_size), &layer.down_bias);
        }
        let normed = norm_rms(&x, &self.final_norm, spec.norm_eps);
        matmul(&normed, self.head.as_ref().unwrap_or(&self.embedding), hidden)
    }
}

impl Layer {
    async fn load<S: Source>(spec: &ModelSpec, read: &Reader<'_, S>, prefix: &str) -> Result<Self> {
        let names = spec.architecture.names();
        let Mlp::Gated { bias: mlp_bias, .. } = spec.mlp;
        let (hidden, inner, head_dim) = (spec.hidden_size, spec.intermediate_size, spec.head_dim);
        let name = |suffix: &str| format!("{prefix}.{suffix}");
        let (mut qkv, mut qkv_bias) = (Vec::new(), Vec::new());
        for (part, width) in [(names.q, spec.q_width()), (names.k, spec.kv_width()), (names.v, spec.kv_width())] {
            qkv.extend(read.weight(&name(part), width, hidden).await?);
            qkv_bias.extend(read.bias(&name(part), width, spec.qkv_bias).await?);
        }
        let mut qk_norm = None;
        if spec.qk_norm {
            let q_gain = read.tensor(&name(names.q_norm), &[head_dim]).await?;
            let k_gain = read.tensor(&name(names.k_norm), &[head_dim]).await?;
            qk_norm = Some([q_gain, k_gain].concat());
        }
        Ok(Self {
            attention_norm: read.tensor(&name(names.attention_norm), &[hidden]).await?,
            qkv,
            qkv_bias,
            qk_norm,
            o: read.weight(&name(names.o), hidden, spec.q_width()).await?,
            o_bias: read.bias(&name(names.o), hidden, spec.output_bias).await?,
            mlp_norm: read.tensor(&name(names.mlp_norm), &[hidden]).await?,
            gate: read.weight(&name(names.gate), inner, hidden).await?,
            gate_bias: read.bias(&name(names.gate), inner, mlp_bias).await?,
            up: read.weight(&name(names.up), inner, hidden).await?,
            up_bias: read.bias(&name(names.up), inner, mlp_bias).await?,
            down: read.weight(&name(names.down), hidden, inner).await?,
            down_bias: read.bias(&name(names.down), hidden, mlp_bias).await?,
        })
    }
}

/// Reads tensors of the shape that the spec implies.
struct Reader<'a, S>(&'a Weights<S>);

impl<S: Source> Reader<'_, S> {
    async fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let shape: Vec<u64> = shape.iter().map(|size| *size as u64).collect();
        self.0.expect(name, &shape)?;
        self.0.read_f32(name).await
    }

    async fn weight(&self, projection: &str, outs: usize, cols: usize) -> Result<Vec<f32>> {
        self.tensor(&format!("{projection}.weight"), &[outs, cols]).await
    }

    async fn bias(&self, projection: &str, outs: usize, there: bool) -> Result<Vec<f32>> {
        if there { self.tensor(&format!("{projection}.bias"), &[outs]).await } else { Ok(vec![0.0; outs]) }
    }
}
