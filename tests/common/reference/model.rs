//! A model's forward pass, made of the reference functions.

use super::mlp::{ExpertWeights, Mlp, MlpWeights};
use super::{
    DeltaVectors, Heads, Kv, Pairs, activate, delta_net, embed, gate_heads, gate_normed, gate_then_norm, head, matmul,
    norm_layer, norm_rms, qk_norm, residual, rotary, short_conv,
};
use foretoken::KvDtype;
use foretoken::Result;
use foretoken::internals::model::{
    AttentionGate, AttentionSpec, DeltaNames, LayerSpec, Mixer, ModelSpec, Names, NormKind, QkNorm, Residual,
    rotary_table,
};
use foretoken::internals::weights::Weights;

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
    /// [vocab].
    head_bias: Vec<f32>,
    layer_inputs: Option<LayerInputs>,
}

/// Weights that make the inputs of all layers.
struct LayerInputs {
    /// [vocab, layers, layer input].
    embedding: Vec<f32>,
    /// [layers, layer input, hidden].
    projection: Projection,
    /// [layer input].
    gain: Vec<f32>,
}

/// Weights with which a layer adds its own input.
struct LayerInput {
    /// [layer input, hidden].
    gate: Projection,
    /// [hidden, layer input].
    output: Projection,
    norm: Norm,
}

/// Weights of a layer. Missing biases are zeros.
struct Layer {
    attention_norm: Option<Norm>,
    mixer: MixerWeights,
    /// [hidden, heads, head_dim], or [hidden, hidden].
    o: Projection,
    post_attention_norm: Option<Norm>,
    mlp_norm: Option<Norm>,
    mlp: MlpWeights,
    post_mlp_norm: Option<Norm>,
    input: Option<LayerInput>,
    /// Factor of the residual stream after the layer.
    scale: f32,
}

/// Weights of a mixer before its output projection.
enum MixerWeights {
    Attention {
        /// q, k and v, stacked: [heads + 2 kv_heads, head_dim, hidden].
        qkv: Projection,
        /// Gains of q, then of k, if they are normalised.
        qk_norm: Option<Vec<f32>>,
        /// Gates [heads or heads x head_dim, hidden], if there are any.
        gate: Option<Projection>,
        /// [heads].
        sinks: Vec<f32>,
    },
    DeltaNet {
        /// q, k, v, write strengths, decays and gates, stacked.
        input: Projection,
        vectors: DeltaVectors,
    },
    ShortConv {
        /// b, c and x, stacked: [3, hidden, hidden].
        input: Projection,
        /// [hidden, taps].
        weights: Vec<f32>,
    },
}

/// Gain and bias, each [width].
struct Norm(Vec<f32>, Vec<f32>);

/// `x W^T + bias`.
pub(super) struct Projection {
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
    pub cols: usize,
}

impl Projection {
    pub fn times(&self, x: &[f32]) -> Vec<f32> {
        matmul(x, &self.weight, self.cols)
    }

    pub fn rows(&self, rows: impl Iterator<Item = usize> + Clone) -> Self {
        let weight = rows.clone().flat_map(|row| &self.weight[row * self.cols..][..self.cols]).copied().collect();
        Self { weight, bias: rows.map(|row| self.bias[row]).collect(), cols: self.cols }
    }
}

impl Model {
    /// Loads the tensors.
    ///
    /// # Errors
    /// [`Error::BadWeights`](foretoken::Error::BadWeights), and errors of the source.
    pub async fn load(spec: ModelSpec, weights: &Weights) -> Result<Self> {
        let names = spec.names();
        let has_bias = spec.norm == NormKind::Layer && spec.norm_bias;
        let read = WeightReader { weights, names, has_gain: spec.norm_gain, has_bias };
        let hidden = spec.hidden_size;
        let mut layers = Vec::new();
        for layer in 0..spec.layers.len() {
            layers.push(Layer::load(&spec, &read, layer).await?);
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
        let head_bias = if spec.head_bias {
            read.tensor(names.head, "bias", &[spec.vocab_size]).await?
        } else {
            vec![0.0; spec.vocab_size]
        };
        let (width, all) = (spec.layer_input_size, spec.layers.len() * spec.layer_input_size);
        let layer_inputs = match width {
            0 => None,
            _ => Some(LayerInputs {
                embedding: read.tensor(names.layer_embedding, "weight", &[spec.vocab_size, all]).await?,
                projection: read.projection(&[names.layer_inputs.into()], &[all], hidden, false).await?,
                gain: read.gain(names.layer_input_norm, width).await?,
            }),
        };
        Ok(Self { spec, embedding, positions, layers, final_norm, head, head_bias, layer_inputs })
    }

    /// Returns the logits after each of at most `max_position_embeddings` tokens [tokens, vocab], flattened. The KV cache has the given
    /// dtype.
    pub fn logits(&self, tokens: &[u32], kv_dtype: KvDtype) -> Vec<f32> {
        let spec = &self.spec;
        let hidden = spec.hidden_size;
        let mut x = embed(&self.embedding, hidden, tokens, spec.embedding_scale);
        if spec.embedding_norm {
            x = norm_rms(&x, &vec![1.0; hidden], spec.norm_eps);
        }
        if let Some(positions) = &self.positions {
            residual(&mut x, &positions[..tokens.len() * hidden], &vec![0.0; hidden], 1.0);
        }
        let inputs = self.layer_inputs.as_ref().map(|inputs| self.inputs(inputs, &x, tokens));
        let mut kvs = Vec::new();
        for (index, layer) in self.layers.iter().enumerate() {
            let normed = self.normed(&x, layer.attention_norm.as_ref());
            kvs.push(Kv::new(kv_dtype));
            let mixed = self.mixed(index, &normed, &mut kvs);
            let before = x.clone();
            self.add_to_stream(&mut x, mixed, &layer.o.bias, layer.post_attention_norm.as_ref());
            let mlp_input = match spec.residual {
                Residual::Parallel => self.normed(&before, layer.mlp_norm.as_ref()),
                Residual::ParallelOneNorm => normed,
                _ => self.normed(&x, layer.mlp_norm.as_ref()),
            };
            let mlp = layer.mlp.times(&mlp_input, &x, spec);
            self.add_to_stream(&mut x, mlp, &layer.mlp.bias(hidden), layer.post_mlp_norm.as_ref());
            if let Some((own, inputs)) = layer.input.as_ref().zip(inputs.as_ref()) {
                let width = spec.layer_input_size;
                let mut gated = activate(&own.gate.times(&x), &own.gate.bias, spec.mlp.activation);
                let rows = inputs.chunks_exact(width * self.layers.len());
                for (gates, inputs) in gated.chunks_exact_mut(width).zip(rows) {
                    gates.iter_mut().zip(&inputs[index * width..]).for_each(|(gate, input)| *gate *= input);
                }
                self.add_to_stream(&mut x, own.output.times(&gated), &own.output.bias, Some(&own.norm));
            }
            x.iter_mut().for_each(|x| *x *= layer.scale);
        }
        let normed = self.norm(&x, &self.final_norm);
        let logits = matmul(&normed, self.head.as_ref().unwrap_or(&self.embedding), hidden);
        head(&logits, &self.head_bias, spec.logit_scale, spec.logit_cap)
    }

    /// Returns the inputs of all layers [tokens, layers, layer input].
    fn inputs(&self, weights: &LayerInputs, embedded: &[f32], tokens: &[u32]) -> Vec<f32> {
        let width = self.spec.layer_input_size;
        let mut projected = weights.projection.times(embedded);
        let scale = (self.spec.hidden_size as f64).powf(-0.5) as f32;
        projected.iter_mut().for_each(|x| *x *= scale);
        let normed = norm_rms(&projected, &weights.gain, self.spec.norm_eps);
        let of_tokens = embed(&weights.embedding, width * self.layers.len(), tokens, (width as f32).sqrt());
        normed.iter().zip(&of_tokens).map(|(a, b)| (a + b) * std::f32::consts::FRAC_1_SQRT_2).collect()
    }

    /// Normalises rows if there is a norm.
    fn normed(&self, x: &[f32], norm: Option<&Norm>) -> Vec<f32> {
        norm.map_or_else(|| x.to_vec(), |norm| self.norm(x, norm))
    }

    fn norm(&self, x: &[f32], norm: &Norm) -> Vec<f32> {
        match self.spec.norm {
            NormKind::Rms => norm_rms(x, &norm.0, self.spec.norm_eps),
            NormKind::Layer => norm_layer(x, &norm.0, &norm.1, self.spec.norm_eps),
        }
    }

    /// Adds the output of attention or MLP, normalised if there is a norm.
    fn add_to_stream(&self, x: &mut [f32], mut output: Vec<f32>, bias: &[f32], norm: Option<&Norm>) {
        let Some(norm) = norm else { return residual(x, &output, bias, self.spec.residual_scale) };
        let zeros = vec![0.0; output.len()];
        residual(&mut output, &zeros, bias, 1.0);
        residual(x, &self.norm(&output, norm), &vec![0.0; bias.len()], self.spec.residual_scale);
    }

    /// Returns the mixer's output for the residual stream, without its bias. `kvs` has an empty cache for the layer.
    fn mixed(&self, index: usize, normed: &[f32], kvs: &mut [Kv]) -> Vec<f32> {
        let layer = &self.layers[index];
        let mixed = match (&layer.mixer, &self.spec.layers[index].mixer) {
            (MixerWeights::Attention { qkv, qk_norm, gate, sinks }, Mixer::Attention(attention)) => {
                let q = self.query(attention, qkv, qk_norm.as_deref(), normed, &mut kvs[index]);
                let kv = &kvs[attention.kv_layer.unwrap_or(index)];
                let mut heads = super::attention(&q, kv, &self.heads(attention), sinks);
                if let Some(gate) = gate {
                    let gates = gate.times(normed);
                    let each = heads.len() / gates.len();
                    gate_heads(&mut heads, &gates, each);
                }
                heads
            }
            (MixerWeights::ShortConv { input, weights }, _) => {
                short_conv(&input.times(normed), weights, self.spec.hidden_size)
            }
            (MixerWeights::DeltaNet { input, vectors }, Mixer::DeltaNet(delta)) => {
                let projected = input.times(normed);
                let mut mixed = delta_net(&projected, vectors, delta);
                let (first, width) = (delta.input_width(), delta.input_width() + delta.value_width());
                let gates: Vec<f32> = projected.chunks_exact(width).flat_map(|row| &row[first..]).copied().collect();
                match delta.replaces {
                    true => gate_normed(&mut mixed, &gates, &vectors.gain, self.spec.norm_eps),
                    false => gate_then_norm(&mut mixed, &gates, &vectors.gain, delta.key_heads, self.spec.norm_eps),
                }
                mixed
            }
            _ => Vec::new(),
        };
        layer.o.times(&mixed)
    }

    /// Returns the rotated query, and appends k and v to the cache.
    fn query(
        &self,
        attention: &AttentionSpec,
        qkv: &Projection,
        gains: Option<&[f32]>,
        normed: &[f32],
        kv: &mut Kv,
    ) -> Vec<f32> {
        let (spec, heads) = (&self.spec, self.heads(attention));
        let rope = attention.rope.map(|rope| &spec.ropes[rope]);
        let table = rope.map_or_else(Vec::new, |rope| rotary_table(rope, spec.max_position_embeddings));
        let (mut rows, mut bias, mut gains) = (qkv.times(normed), qkv.bias.clone(), gains.map(<[f32]>::to_vec));
        if attention.kv_layer.is_some() {
            // Zeros in the place of k and v, which are not used.
            let missing = vec![0.0; 2 * attention.kv_heads * attention.head_dim];
            rows = rows.chunks_exact(bias.len()).flat_map(|row| [row, &missing].concat()).collect();
            bias.extend(&missing);
            gains.iter_mut().for_each(|gains| gains.extend(vec![1.0; attention.head_dim]));
        }
        match spec.qk_norm.zip(gains) {
            Some((norm, gains)) => qk_norm(&rows, &bias, (norm, &gains, spec.norm_eps), &table, &heads, kv),
            None => rotary(&rows, &bias, &table, &heads, kv),
        }
    }

    fn heads(&self, attention: &AttentionSpec) -> Heads {
        let spec = &self.spec;
        let rope = attention.rope.map(|rope| &spec.ropes[rope]);
        Heads {
            heads: attention.heads,
            kv_heads: attention.kv_heads,
            head_dim: attention.head_dim,
            rotary: rope.map_or(0, |rope| rope.rotary_dim),
            pairs: if spec.names().neighbours || spec.interleaved_rotation { Pairs::Neighbours } else { Pairs::Halves },
            window: attention.window.unwrap_or(usize::MAX),
            scale: spec.attention_scale,
            cap: spec.attention_cap,
            q_table: rope.map_or(0, |rope| (rope.tables() - 1) * spec.max_position_embeddings * rope.rotary_dim),
            sees_pass: false,
        }
    }
}

impl Layer {
    async fn load(spec: &ModelSpec, read: &WeightReader<'_>, index: usize) -> Result<Self> {
        let names = read.names;
        let LayerSpec { mixer, intermediate_size, expert_size } = &spec.layers[index];
        let hidden = spec.hidden_size;
        let prefix = format!("{}.{index}", names.layers);
        let name = |suffix: &str| format!("{prefix}.{suffix}");
        let all = |tensors: &[&str]| tensors.iter().map(|tensor| name(tensor)).collect::<Vec<_>>();
        let (mixer, o, cols) = match mixer {
            Mixer::Attention(attention) => {
                let AttentionSpec { heads, kv_heads, head_dim, .. } = *attention;
                let widths = [attention.q_width(), attention.kv_width(), attention.kv_width()];
                let mut tensors = all(names.qkv);
                if attention.values_are_keys {
                    tensors[2] = tensors[1].clone();
                }
                if attention.kv_layer.is_some() {
                    tensors.truncate(1);
                }
                let mut gate = None;
                let mut qkv = if spec.attention_gate == Some(AttentionGate::Elements) {
                    // Each head of q is followed by its gates.
                    let doubled = [2 * widths[0], widths[1], widths[2]];
                    let all = read.projection(&tensors, &doubled, hidden, spec.qkv_bias).await?;
                    let half = |half: usize| {
                        (0..heads).flat_map(move |head| (0..head_dim).map(move |i| (2 * head + half) * head_dim + i))
                    };
                    gate = Some(all.rows(half(1)));
                    all.rows(half(0).chain(doubled[0]..doubled.iter().sum()))
                } else {
                    read.projection(&tensors, &widths, hidden, spec.qkv_bias).await?
                };
                if names.interleaved {
                    // Each KV head is stored as its query heads, then k, then v.
                    let group = heads / kv_heads;
                    let rows = (group + 2) * head_dim;
                    let pick = |within: std::ops::Range<usize>| {
                        (0..kv_heads).flat_map(move |kv_head| within.clone().map(move |i| kv_head * rows + i))
                    };
                    let (k, v) = (group * head_dim, (group + 1) * head_dim);
                    qkv = qkv.rows(pick(0..k).chain(pick(k..v)).chain(pick(v..rows)));
                }
                let mut qk_norm = None;
                if let Some(norm) = spec.qk_norm {
                    let [q, k] = if norm == QkNorm::Width { [widths[0], widths[1]] } else { [head_dim; 2] };
                    let mut gains = read.gain(&name(names.q_norm), q).await?;
                    if attention.kv_layer.is_none() {
                        gains.extend(read.gain(&name(names.k_norm), k).await?);
                    }
                    qk_norm = Some(gains);
                }
                if spec.attention_gate == Some(AttentionGate::Heads) {
                    gate = Some(read.projection(&[name(names.attention_gate)], &[heads], hidden, false).await?);
                }
                let sinks = match spec.attention_sinks {
                    true => read.weights.read_f32(&name(names.sinks)).await?,
                    false => vec![f32::MIN; heads],
                };
                (MixerWeights::Attention { qkv, qk_norm, gate, sinks }, names.o, attention.q_width())
            }
            Mixer::ShortConv { taps } => {
                let input = read.projection(&[name(names.conv_in)], &[3 * hidden], hidden, false).await?;
                let weights = read.convolution(&name(names.conv), hidden, *taps).await?;
                (MixerWeights::ShortConv { input, weights }, names.conv_out, hidden)
            }
            Mixer::DeltaNet(delta) => {
                let DeltaNames { qkv, write, decay, gate, conv, skip, rates, rate_elements, bias, norm, out, tiled } =
                    names.delta;
                let heads = delta.value_heads;
                let (conv_width, values, keys) =
                    (delta.conv_width(), delta.value_width(), delta.key_heads * delta.key_dim);
                let mut rates = read.weights.read_f32(&name(rates)).await?;
                rates.iter_mut().for_each(|rate| *rate = rate_elements.from_stored(*rate));
                let decay_bias = read.weights.read_f32(&name(bias)).await?;
                let taps = read.convolution(&name(conv), conv_width, delta.taps).await?;
                let (input, vectors) = if delta.replaces {
                    let widths = [conv_width, heads, heads, values];
                    let input = read.projection(&all(&[qkv, write, decay, gate]), &widths, hidden, false).await?;
                    let (conv_bias, skip) = (vec![0.0; conv_width], vec![0.0; heads]);
                    let gain = read.tensor(&name(norm), "weight", &[delta.value_dim]).await?;
                    (input, DeltaVectors { taps, conv_bias, decay: [rates, decay_bias], skip, gain, tiled })
                } else {
                    // Gates, v, k, q and decays; the convolution has v, k, q.
                    let all = read.projection(&[name(qkv)], &[values + conv_width + heads], hidden, false).await?;
                    let decays = values + conv_width..values + conv_width + heads;
                    let order = |v: usize| {
                        (v + values + keys..v + values + 2 * keys)
                            .chain(v + values..v + values + keys)
                            .chain(v..v + values)
                    };
                    let input = all.rows(order(values).chain(decays.clone()).chain(decays).chain(0..values));
                    let conv_bias = read.weights.read_f32(&format!("{}.bias", name(conv))).await?;
                    let taps = order(0).flat_map(|row| taps[row * delta.taps..][..delta.taps].to_vec()).collect();
                    let conv_bias = order(0).map(|row| conv_bias[row]).collect();
                    let skip = read.weights.read_f32(&name(skip)).await?;
                    let gain = read.weights.read_f32(&format!("{}.weight", name(norm))).await?;
                    (input, DeltaVectors { taps, conv_bias, decay: [rates, decay_bias], skip, gain, tiled })
                };
                (MixerWeights::DeltaNet { input, vectors }, out, delta.value_width())
            }
        };
        let (has_mlp, has_experts) = (*intermediate_size > 0, *expert_size > 0);
        let mlp = MlpWeights {
            mlp: if has_mlp {
                Some(Mlp::load(spec, read, &prefix, *intermediate_size, has_experts).await?)
            } else {
                None
            },
            experts: if has_experts {
                Some(ExpertWeights::load(spec, read, &prefix, *expert_size).await?)
            } else {
                None
            },
            gains: if spec.experts.is_some_and(|experts| experts.with_mlp) {
                Some(read.gains_of_branches(&prefix, hidden).await?)
            } else {
                None
            },
        };
        let norm = async |has_norm: bool, tensor: &str| -> Result<Option<Norm>> {
            if has_norm { read.norm(&name(tensor), hidden).await.map(Some) } else { Ok(None) }
        };
        let has_attention_norm = spec.residual != Residual::OnlyPostNorms;
        let has_mlp_norm = has_attention_norm && spec.residual != Residual::ParallelOneNorm;
        Ok(Self {
            attention_norm: norm(has_attention_norm, names.attention_norm).await?,
            mixer,
            o: read.projection(&[name(o)], &[hidden], cols, spec.output_bias).await?,
            post_attention_norm: norm(spec.residual.has_post_norms(), names.post_attention_norm).await?,
            mlp_norm: norm(has_mlp_norm, names.mlp_norm).await?,
            mlp,
            post_mlp_norm: norm(spec.residual.has_post_norms(), names.post_mlp_norm).await?,
            input: match spec.layer_input_size {
                0 => None,
                width => Some(LayerInput {
                    gate: read.projection(&[name(names.layer_gate)], &[width], hidden, false).await?,
                    output: read.projection(&[name(names.layer_output)], &[hidden], width, false).await?,
                    norm: read.norm(&name(names.layer_output_norm), hidden).await?,
                }),
            },
            scale: if spec.layer_scale { read.weights.read_f32(&name(names.layer_scale)).await?[0] } else { 1.0 },
        })
    }
}

/// Reader of tensors; checks that each has the shape that the spec implies.
pub(super) struct WeightReader<'a> {
    pub weights: &'a Weights,
    pub names: &'static Names,
    /// `true`: norms have gains.
    has_gain: bool,
    /// `true`: norms have biases.
    has_bias: bool,
}

impl WeightReader<'_> {
    async fn tensor(&self, name: &str, suffix: &str, shape: &[usize]) -> Result<Vec<f32>> {
        self.shaped(&format!("{name}.{suffix}"), shape).await
    }

    /// Reads a tensor, named with its suffix.
    pub async fn shaped(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let shape: Vec<u64> = shape.iter().map(|size| *size as u64).collect();
        self.weights.expect(name, &shape)?;
        self.weights.read_f32(name).await
    }

    /// Reads an expert's rows: a tensor of its own, or its part of one of all.
    pub async fn of_expert(&self, name: &str, expert: usize, [experts, rows, cols]: [usize; 3]) -> Result<Vec<f32>> {
        if name.contains('*') {
            return self.shaped(&name.replace('*', &expert.to_string()), &[rows, cols]).await;
        }
        let is_transposed = self.names.experts.transposed;
        let shape = if is_transposed { [experts, cols, rows] } else { [experts, rows, cols] };
        let all = self.shaped(name, &shape).await?;
        let own = &all[expert * rows * cols..][..rows * cols];
        let columns = (0..rows).flat_map(|row| own.iter().skip(row).step_by(rows));
        Ok(if is_transposed { columns.copied().collect() } else { own.to_vec() })
    }

    /// Reads an expert's bias, if experts have any.
    pub async fn bias_of_expert(&self, name: &str, expert: usize, [experts, rows]: [usize; 2]) -> Result<Vec<f32>> {
        Ok(self.shaped(name, &[experts, rows]).await?[expert * rows..][..rows].to_vec())
    }

    /// Reads the weights of a convolution [width, 1, taps] or [width, taps].
    async fn convolution(&self, name: &str, width: usize, taps: usize) -> Result<Vec<f32>> {
        match self.tensor(name, "weight", &[width, 1, taps]).await {
            Ok(weights) => Ok(weights),
            Err(_) => self.tensor(name, "weight", &[width, taps]).await,
        }
    }

    pub async fn gain(&self, name: &str, width: usize) -> Result<Vec<f32>> {
        if !self.has_gain {
            return Ok(vec![1.0; width]);
        }
        let mut gain = self.tensor(name, "weight", &[width]).await?;
        if self.names.gains_from_one {
            gain.iter_mut().for_each(|gain| *gain += 1.0);
        }
        Ok(gain)
    }

    async fn norm(&self, name: &str, width: usize) -> Result<Norm> {
        let bias = if self.has_bias { self.tensor(name, "bias", &[width]).await? } else { vec![0.0; width] };
        Ok(Norm(self.gain(name, width).await?, bias))
    }

    /// Reads a projection: one tensor per entry of `widths` (outputs), or one for all.
    pub async fn projection(
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
