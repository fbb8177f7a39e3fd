//! A model's forward pass, made of the reference functions.

use super::{
    Heads, Kv, Pairs, activate, attention, embed, gate, matmul, norm_layer, norm_rms, qk_norm, residual, rotary,
};
use crate::error::Result;
use crate::model::{ModelSpec, Names, NormKind, Residual, rotary_table};
use crate::options::KvDtype;
use crate::weights::{Source, Weights};

/// Model with the checkpoint's tensors, all in f32.
pub struct Model {
    spec: ModelSpec,
    /// [vocab, hidden].
    embedding: Vec<f32>,
    /// [positions, hidden], for learned positions.
    positions: Option<Vec<f32>>,
    layers: Vec<Layer>,
    final_norm: Norm,
    /// [vocab, hidden]; `None`: the embedding.
    head: Option<Vec<f32>>,
}

/// Weights of a layer. Missing biases are zeros, or empty in a norm.
struct Layer {
    attention_norm: Norm,
    /// q, k and v, stacked: [heads + 2 kv_heads, head_dim, hidden].
    qkv: Projection,
    /// Gains of q and k [2, head_dim], if heads are normalised.
    qk_norm: Option<Vec<f32>>,
    /// [hidden, heads, head_dim].
    o: Projection,
    post_attention_norm: Option<Norm>,
    mlp_norm: Norm,
    /// [intermediate, hidden], if the MLP is gated.
    gate: Option<Projection>,
    /// [intermediate, hidden].
    up: Projection,
    /// [hidden, intermediate].
    down: Projection,
    post_mlp_norm: Option<Norm>,
}

/// Gain and bias, each [width].
struct Norm(Vec<f32>, Vec<f32>);

/// `x W^T + bias`.
struct Projection {
    weight: Vec<f32>,
    bias: Vec<f32>,
    cols: usize,
}

impl Projection {
    fn times(&self, x: &[f32]) -> Vec<f32> {
        matmul(x, &self.weight, self.cols)
    }

    fn rows(&self, rows: impl Iterator<Item = usize> + Clone) -> Self {
        let weight = rows.clone().flat_map(|row| &self.weight[row * self.cols..][..self.cols]).copied().collect();
        Self { weight, bias: rows.map(|row| self.bias[row]).collect(), cols: self.cols }
    }
}

impl Model {
    /// Loads the tensors.
    ///
    /// # Errors
    /// [`Error::BadWeights`](crate::Error::BadWeights), and errors of the source.
    pub async fn load<S: Source>(spec: ModelSpec, weights: &Weights<S>) -> Result<Self> {
        let names = spec.names();
        let read = WeightReader { weights, names, norm: spec.norm };
        let hidden = spec.hidden_size;
        let mut layers = Vec::new();
        for layer in 0..spec.layers.len() {
            layers.push(Layer::load(&spec, &read, &format!("{}.{layer}", names.layers)).await?);
        }
        let head = if spec.tie_word_embeddings {
            None
        } else {
            Some(read.tensor(names.head, "weight", &[spec.vocab_size, hidden]).await?)
        };
        let positions = if spec.learned_positions {
            Some(read.tensor(names.positions, "weight", &[spec.max_position_embeddings, hidden]).await?)
        } else {
            None
        };
        let embedding = read.tensor(names.embedding, "weight", &[spec.vocab_size, hidden]).await?;
        let final_norm = read.norm(names.final_norm, hidden).await?;
        Ok(Self { spec, embedding, positions, layers, final_norm, head })
    }

    /// Returns the logits after each of at most `max_position_embeddings` tokens [tokens, vocab], flattened. The KV cache has the given
    /// dtype.
    pub fn logits(&self, tokens: &[u32], kv_dtype: KvDtype) -> Vec<f32> {
        let spec = &self.spec;
        let hidden = spec.hidden_size;
        let mut x = embed(&self.embedding, hidden, tokens, spec.embedding_scale);
        if let Some(positions) = &self.positions {
            residual(&mut x, &positions[..tokens.len() * hidden], &vec![0.0; hidden]);
        }
        for (index, layer) in self.layers.iter().enumerate() {
            let attended = self.attention(index, &self.norm(&x, &layer.attention_norm), kv_dtype);
            match spec.residual {
                Residual::Parallel => {
                    let mlp = self.mlp(layer, &self.norm(&x, &layer.mlp_norm));
                    residual(&mut x, &attended, &layer.o.bias);
                    residual(&mut x, &mlp, &layer.down.bias);
                }
                Residual::Sequential => {
                    residual(&mut x, &attended, &layer.o.bias);
                    let mlp = self.mlp(layer, &self.norm(&x, &layer.mlp_norm));
                    residual(&mut x, &mlp, &layer.down.bias);
                }
                Residual::PostNorms => {
                    self.add_normed(&mut x, attended, &layer.o.bias, layer.post_attention_norm.as_ref());
                    let mlp = self.mlp(layer, &self.norm(&x, &layer.mlp_norm));
                    self.add_normed(&mut x, mlp, &layer.down.bias, layer.post_mlp_norm.as_ref());
                }
            }
        }
        let normed = self.norm(&x, &self.final_norm);
        matmul(&normed, self.head.as_ref().unwrap_or(&self.embedding), hidden)
    }

    fn norm(&self, x: &[f32], norm: &Norm) -> Vec<f32> {
        match self.spec.norm {
            NormKind::Rms => norm_rms(x, &norm.0, self.spec.norm_eps),
            NormKind::Layer => norm_layer(x, &norm.0, &norm.1, self.spec.norm_eps),
        }
    }

    fn add_normed(&self, x: &mut [f32], mut branch: Vec<f32>, bias: &[f32], norm: Option<&Norm>) {
        let zeros = vec![0.0; branch.len()];
        residual(&mut branch, &zeros, bias);
        let normed = norm.map_or_else(|| branch.clone(), |norm| self.norm(&branch, norm));
        residual(x, &normed, &vec![0.0; bias.len()]);
    }

    /// Returns the attention output for the residual stream, without its bias.
    fn attention(&self, index: usize, normed: &[f32], kv_dtype: KvDtype) -> Vec<f32> {
        let (spec, layer) = (&self.spec, &self.layers[index]);
        let facts = &spec.layers[index];
        let rope = facts.rope.map(|rope| &spec.ropes[rope]);
        let table = rope.map_or_else(Vec::new, |rope| rotary_table(rope, spec.max_position_embeddings));
        let heads = Heads {
            heads: spec.num_attention_heads,
            kv_heads: spec.num_key_value_heads,
            head_dim: spec.head_dim,
            rotary: rope.map_or(0, |rope| rope.rotary_dim),
            pairs: if spec.names().neighbours { Pairs::Neighbours } else { Pairs::Halves },
            window: facts.window.unwrap_or(usize::MAX),
            scale: spec.attention_scale,
        };
        let mut kv = Kv::new(kv_dtype);
        let qkv = layer.qkv.times(normed);
        let q = match &layer.qk_norm {
            Some(gains) => qk_norm(&qkv, &layer.qkv.bias, gains, spec.norm_eps, &table, &heads, &mut kv),
            None => rotary(&qkv, &layer.qkv.bias, &table, &heads, &mut kv),
        };
        layer.o.times(&attention(&q, &kv, &heads))
    }

    fn mlp(&self, layer: &Layer, normed: &[f32]) -> Vec<f32> {
        let activation = self.spec.mlp.activation;
        let ups = layer.up.times(normed);
        let inner = match &layer.gate {
            Some(gates) => gate(&gates.times(normed), &gates.bias, &ups, &layer.up.bias, activation),
            None => activate(&ups, &layer.up.bias, activation),
        };
        layer.down.times(&inner)
    }
}

impl Layer {
    async fn load<S: Source>(spec: &ModelSpec, read: &WeightReader<'_, S>, prefix: &str) -> Result<Self> {
        let names = read.names;
        let (hidden, inner, head_dim) = (spec.hidden_size, spec.intermediate_size, spec.head_dim);
        let name = |suffix: &str| format!("{prefix}.{suffix}");
        let all = |tensors: &[&str]| tensors.iter().map(|tensor| name(tensor)).collect::<Vec<_>>();
        let widths = [spec.q_width(), spec.kv_width(), spec.kv_width()];
        let mut qkv = read.projection(&all(names.qkv), &widths, hidden, spec.qkv_bias).await?;
        if names.interleaved {
            // Each KV head is stored as its query heads, then k, then v.
            let group = spec.num_attention_heads / spec.num_key_value_heads;
            let rows = (group + 2) * head_dim;
            let pick = |within: std::ops::Range<usize>| {
                (0..spec.num_key_value_heads).flat_map(move |kv_head| within.clone().map(move |i| kv_head * rows + i))
            };
            let (k, v) = (group * head_dim, (group + 1) * head_dim);
            qkv = qkv.rows(pick(0..k).chain(pick(k..v)).chain(pick(v..rows)));
        }
        let mut qk_norm = None;
        if spec.qk_norm {
            let q_gain = read.norm(&name(names.q_norm), head_dim).await?.0;
            let k_gain = read.norm(&name(names.k_norm), head_dim).await?.0;
            qk_norm = Some([q_gain, k_gain].concat());
        }
        let widths = if spec.mlp.gated { vec![inner; 2] } else { vec![inner] };
        let up = read.projection(&all(names.up), &widths, hidden, spec.mlp.bias).await?;
        let (gate, up) = if spec.mlp.gated { (Some(up.rows(0..inner)), up.rows(inner..2 * inner)) } else { (None, up) };
        let (mut post_attention_norm, mut post_mlp_norm) = (None, None);
        if spec.residual == Residual::PostNorms {
            post_attention_norm = Some(read.norm(&name(names.post_attention_norm), hidden).await?);
            post_mlp_norm = Some(read.norm(&name(names.post_mlp_norm), hidden).await?);
        }
        Ok(Self {
            attention_norm: read.norm(&name(names.attention_norm), hidden).await?,
            qkv,
            qk_norm,
            o: read.projection(&[name(names.o)], &[hidden], spec.q_width(), spec.output_bias).await?,
            post_attention_norm,
            mlp_norm: read.norm(&name(names.mlp_norm), hidden).await?,
            gate,
            up,
            down: read.projection(&[name(names.down)], &[hidden], inner, spec.mlp.bias).await?,
            post_mlp_norm,
        })
    }
}

/// Reader of tensors; checks that each has the shape that the spec implies.
struct WeightReader<'a, S> {
    weights: &'a Weights<S>,
    names: &'static Names,
    norm: NormKind,
}

impl<S: Source> WeightReader<'_, S> {
    async fn tensor(&self, name: &str, suffix: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let name = format!("{name}.{suffix}");
        let shape: Vec<u64> = shape.iter().map(|size| *size as u64).collect();
        self.weights.expect(&name, &shape)?;
        self.weights.read_f32(&name).await
    }

    async fn norm(&self, name: &str, width: usize) -> Result<Norm> {
        let mut gain = self.tensor(name, "weight", &[width]).await?;
        if self.names.gains_from_one {
            gain.iter_mut().for_each(|gain| *gain += 1.0);
        }
        let bias = match self.norm {
            NormKind::Rms => Vec::new(),
            NormKind::Layer => self.tensor(name, "bias", &[width]).await?,
        };
        Ok(Norm(gain, bias))
    }

    /// Reads a projection: one tensor per entry of `widths` (outputs), or one for all.
    async fn projection(
        &self,
        tensors: &[String],
        widths: &[usize],
        cols: usize,
        has_bias: bool,
    ) -> Result<Projection> {
        let all = [widths.iter().sum()];
        let widths = if tensors.len() == 1 { &all } else { widths };
        let (mut weight, mut bias) = (Vec::new(), Vec::new());
        for (tensor, outs) in tensors.iter().zip(widths) {
            if self.names.transposed {
                let columns = self.tensor(tensor, "weight", &[cols, *outs]).await?;
                weight.extend((0..*outs).flat_map(|out| columns.iter().skip(out).step_by(*outs)));
            } else {
                weight.extend(self.tensor(tensor, "weight", &[*outs, cols]).await?);
            }
            bias.extend(if has_bias { self.tensor(tensor, "bias", &[*outs]).await? } else { vec![0.0; *outs] });
        }
        Ok(Projection { weight, bias, cols })
    }
}
