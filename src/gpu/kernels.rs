//! Every kernel: which WGSL files it is made of. A variant is another fragment that defines the same functions.

use crate::model::{Activation, Table};
use crate::options::KvDtype;
use crate::weights::Dtype;

/// What a matmul does with its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Epilogue {
    /// y = result.
    Store,
    /// y += result + bias.
    Residual,
    /// y = activation(gate) * up, rows alternating.
    Gate(Activation),
    /// y = activation(result + bias).
    Activate(Activation),
    /// Bias, rotation, q and the KV cache.
    Rotary(KvDtype),
}

/// A kernel and its variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Token ids or positions -> embedding rows.
    Embed(Dtype, Table),
    /// RMS norm of rows.
    NormRms,
    /// RMS norm of rows, added to others.
    PostNorm,
    /// Layer norm of rows.
    NormLayer,
    /// x W^T for up to the given number of rows per workgroup: 1, 2, 4, 8 or 16.
    MatmulRows(Dtype, u32, Epilogue),
    /// x W^T for many rows.
    MatmulTile(Dtype, Epilogue),
    /// Norm of each head of q and k, rotation, append.
    QkNorm(KvDtype),
    /// Attention for few rows, block by block.
    Attention(KvDtype),
    /// Joins the blocks of [`Kernel::Attention`].
    AttentionMerge,
    /// Attention for many rows.
    AttentionPrefill(KvDtype),
    /// Biases and penalties of single logits.
    Adjust,
    /// Temperature, and which tokens remain.
    Filter,
    /// Logits -> token ids, with noise or without.
    Sample(Noise),
    /// Logits of target and draft model -> token ids, by rejection sampling.
    Reject,
    /// Moves the text on behind a round that the CPU has not read.
    Follow,
    /// Reads a buffer once, to measure the memory.
    Probe,
    /// Fills a buffer with pseudo-random weights.
    Fill(Dtype),
}

/// What is added to logits before the largest is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Noise {
    /// Nothing: greedy.
    None,
    /// Keyed Gumbel noise.
    Gumbel,
}

macro_rules! shader {
    ($file:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/shaders/", $file))
    };
}

impl Kernel {
    /// Row counts that have a variant of their own.
    pub const ROWS: [u32; 5] = [1, 2, 4, 8, 16];

    /// The WGSL text: fragments first, then the kernel.
    pub fn source(self) -> String {
        let step = shader!("lib/step.wgsl");
        let mac = shader!("lib/mac.wgsl");
        let matmul = shader!("lib/matmul.wgsl");
        let heads = shader!("lib/heads.wgsl");
        let fold = shader!("lib/fold.wgsl");
        let sum = shader!("lib/sum_threads.wgsl");
        let sampling = shader!("lib/sampling.wgsl");
        let random = shader!("lib/random.wgsl");
        let best = shader!("lib/best.wgsl");
        let parts: Vec<&str> = match self {
            Self::Embed(dtype, table) => {
                let table = match table {
                    Table::Tokens => shader!("lib/embed_tokens.wgsl"),
                    Table::Positions => shader!("lib/embed_positions.wgsl"),
                };
                vec![step, weight(dtype), table, shader!("embed.wgsl")]
            }
            Self::NormRms => vec![step, sum, shader!("lib/norm_set.wgsl"), shader!("norm_rms.wgsl")],
            Self::PostNorm => vec![step, sum, shader!("lib/norm_add.wgsl"), shader!("norm_rms.wgsl")],
            Self::NormLayer => vec![step, sum, shader!("norm_layer.wgsl")],
            Self::MatmulRows(dtype, count, epilogue) => {
                let mut parts = vec![step, weight(dtype), mac, matmul];
                parts.extend(rows(count));
                parts.extend(epilogue.parts());
                parts.push(shader!("matmul_rows.wgsl"));
                parts
            }
            Self::MatmulTile(dtype, epilogue) => {
                let mut parts = vec![step, weight(dtype), mac, matmul];
                parts.extend(epilogue.parts());
                parts.push(shader!("matmul_tile.wgsl"));
                parts
            }
            Self::QkNorm(kv) => {
                vec![step, heads, sum, kv_store(kv), shader!("lib/rotary.wgsl"), shader!("qk_norm.wgsl")]
            }
            Self::Attention(kv) => {
                let block = shader!("lib/attention_block.wgsl");
                vec![step, mac, heads, kv_load(kv), block, shader!("attention.wgsl")]
            }
            Self::AttentionMerge => vec![step, heads, fold, shader!("attention_merge.wgsl")],
            Self::AttentionPrefill(kv) => {
                let block = shader!("lib/attention_block.wgsl");
                vec![step, mac, heads, kv_load(kv), fold, block, shader!("attention_prefill.wgsl")]
            }
            Self::Adjust => vec![step, sampling, shader!("adjust.wgsl")],
            Self::Filter => {
                vec![step, sampling, shader!("lib/max_threads.wgsl"), shader!("lib/find.wgsl"), shader!("filter.wgsl")]
            }
            Self::Sample(noise) => {
                let mut parts = vec![step, sampling, sum, best];
                parts.extend(match noise {
                    Noise::None => vec![shader!("lib/noise_none.wgsl")],
                    Noise::Gumbel => vec![random, shader!("lib/noise_gumbel.wgsl")],
                });
                parts.push(shader!("sample.wgsl"));
                parts
            }
            Self::Reject => {
                vec![step, sampling, random, sum, shader!("lib/max_threads.wgsl"), best, shader!("reject.wgsl")]
            }
            Self::Follow => vec![step, shader!("follow.wgsl")],
            Self::Probe => vec![shader!("probe.wgsl")],
            Self::Fill(dtype) => vec![fill(dtype), shader!("fill.wgsl")],
        };
        parts.join("\n")
    }

    /// Every kernel in every variant.
    pub fn all() -> Vec<Self> {
        let kvs = [KvDtype::F32, KvDtype::F16];
        let dtypes = [Dtype::F32, Dtype::F16, Dtype::Bf16];
        let mut epilogues = vec![Epilogue::Store, Epilogue::Residual];
        epilogues.extend(Activation::ALL.into_iter().flat_map(|f| [Epilogue::Gate(f), Epilogue::Activate(f)]));
        epilogues.extend(kvs.map(Epilogue::Rotary));
        let mut all = vec![Self::NormRms, Self::PostNorm, Self::NormLayer, Self::AttentionMerge, Self::Probe];
        all.extend([Self::Adjust, Self::Filter, Self::Reject, Self::Follow]);
        all.extend([Noise::None, Noise::Gumbel].map(Self::Sample));
        all.extend(kvs.into_iter().flat_map(|kv| [Self::QkNorm(kv), Self::Attention(kv), Self::AttentionPrefill(kv)]));
        for dtype in dtypes {
            all.extend([Table::Tokens, Table::Positions].map(|table| Self::Embed(dtype, table)));
            all.push(Self::Fill(dtype));
            for &epilogue in &epilogues {
                all.push(Self::MatmulTile(dtype, epilogue));
                all.extend(Self::ROWS.map(|rows| Self::MatmulRows(dtype, rows, epilogue)));
            }
        }
        all
    }
}

impl Epilogue {
    fn parts(self) -> Vec<&'static str> {
        match self {
            Self::Store => vec![shader!("lib/out_store.wgsl")],
            Self::Residual => vec![shader!("lib/out_residual.wgsl")],
            Self::Gate(function) => vec![activation(function), shader!("lib/out_gate.wgsl")],
            Self::Activate(function) => vec![activation(function), shader!("lib/out_activate.wgsl")],
            Self::Rotary(kv) => vec![
                shader!("lib/heads.wgsl"),
                kv_store(kv),
                shader!("lib/rotary.wgsl"),
                shader!("lib/out_rotary.wgsl"),
            ],
        }
    }
}

fn weight(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => shader!("lib/weight_f32.wgsl"),
        Dtype::F16 => shader!("lib/weight_f16.wgsl"),
        Dtype::Bf16 => shader!("lib/weight_bf16.wgsl"),
        // Until there is a `Format`.
        _ => "",
    }
}

fn activation(function: Activation) -> &'static str {
    match function {
        Activation::Silu => shader!("lib/silu.wgsl"),
        Activation::Gelu => shader!("lib/gelu.wgsl"),
        Activation::GeluTanh => shader!("lib/gelu_tanh.wgsl"),
        Activation::Relu => shader!("lib/relu.wgsl"),
    }
}

fn fill(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => shader!("lib/fill_f32.wgsl"),
        Dtype::F16 => shader!("lib/fill_f16.wgsl"),
        Dtype::Bf16 => shader!("lib/fill_bf16.wgsl"),
        _ => "",
    }
}

fn rows(count: u32) -> Vec<&'static str> {
    let quad = shader!("lib/quad.wgsl");
    match count {
        1 => vec![shader!("lib/rows_1.wgsl")],
        2 => vec![shader!("lib/rows_2.wgsl")],
        4 => vec![quad, shader!("lib/rows_4.wgsl")],
        8 => vec![quad, shader!("lib/rows_8.wgsl")],
        _ => vec![quad, shader!("lib/rows_16.wgsl")],
    }
}

fn kv_store(kv: KvDtype) -> &'static str {
    match kv {
        KvDtype::F32 => shader!("lib/kv_store_f32.wgsl"),
        KvDtype::F16 => shader!("lib/kv_store_f16.wgsl"),
    }
}

fn kv_load(kv: KvDtype) -> &'static str {
    match kv {
        KvDtype::F32 => shader!("lib/kv_load_f32.wgsl"),
        KvDtype::F16 => shader!("lib/kv_load_f16.wgsl"),
    }
}
