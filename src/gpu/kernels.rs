//! Every kernel: which WGSL files it is made of. A variant is another fragment that defines the same functions.

use crate::model::{Activation, Table};
use crate::options::KvDtype;
use crate::weights::{Codes, Float, Format, Scales};

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
    Embed(Format, Table),
    /// RMS norm of rows.
    NormRms,
    /// RMS norm of rows, added to others.
    PostNorm,
    /// Layer norm of rows.
    NormLayer,
    /// x W^T for up to the given number of rows per workgroup, one of [`Kernel::rows`].
    MatmulRows(Format, u32, Epilogue),
    /// x W^T for many rows.
    MatmulTile(Format, Epilogue),
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
    Fill(Format),
    /// Asks the driver what it does with subnormal halves.
    Halves,
}

/// What a driver does with f16's subnormal numbers where it widens them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subnormals {
    /// They keep their values.
    Kept,
    /// They may become zero, so the kernels widen by hand.
    Flushed,
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

    /// Those that a format has. The sums of 16 rows leave no registers for chunks of 32 weights: they take two workgroups of 8,
    /// which follow each other, so that the second one finds the weights in a cache.
    pub fn rows(format: Format) -> &'static [u32] {
        if format.chunk() == 32 { &Self::ROWS[..4] } else { &Self::ROWS }
    }

    /// Rows and outputs of a workgroup of [`Kernel::MatmulTile`].
    pub const TILE: [u32; 2] = [8, 256];
    /// Outputs of a workgroup of [`Kernel::MatmulRows`].
    pub const OUTS: u32 = 32;

    /// The WGSL text for such a driver: fragments first, then the kernel.
    pub fn source(self, subnormals: Subnormals) -> String {
        let step = shader!("lib/step.wgsl");
        let mac = shader!("lib/mac.wgsl");
        let units = shader!("lib/units.wgsl");
        let matmul = |format: Format, count| {
            let shared = vec![step, mac, shader!("lib/matmul.wgsl"), units];
            [shared, weight(format, subnormals), chunk(format), rows(count)].concat()
        };
        let heads = shader!("lib/heads.wgsl");
        let fold = shader!("lib/fold.wgsl");
        let sum = shader!("lib/sum_threads.wgsl");
        let sampling = shader!("lib/sampling.wgsl");
        let random = shader!("lib/random.wgsl");
        let best = shader!("lib/best.wgsl");
        let parts: Vec<&str> = match self {
            Self::Embed(format, table) => {
                let table = match table {
                    Table::Tokens => shader!("lib/embed_tokens.wgsl"),
                    Table::Positions => shader!("lib/embed_positions.wgsl"),
                };
                [vec![step, units], weight(format, subnormals), vec![table, shader!("embed.wgsl")]].concat()
            }
            Self::NormRms => vec![step, sum, shader!("lib/norm_set.wgsl"), shader!("norm_rms.wgsl")],
            Self::PostNorm => vec![step, sum, shader!("lib/norm_add.wgsl"), shader!("norm_rms.wgsl")],
            Self::NormLayer => vec![step, sum, shader!("norm_layer.wgsl")],
            Self::MatmulRows(format, count, epilogue) => {
                [matmul(format, count), epilogue.parts(), vec![shader!("matmul_rows.wgsl")]].concat()
            }
            Self::MatmulTile(format, epilogue) => {
                let [count, _] = Self::TILE;
                [matmul(format, count), epilogue.parts(), vec![shader!("matmul_tile.wgsl")]].concat()
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
            Self::Fill(format) => vec![fill(format), shader!("fill.wgsl")],
            Self::Halves => vec![shader!("halves.wgsl")],
        };
        let constants = match self {
            Self::Embed(format, _) | Self::MatmulRows(format, ..) | Self::MatmulTile(format, _) => constants(format),
            _ => String::new(),
        };
        constants + &parts.join("\n")
    }

    /// Every kernel in every variant, but for sizes of groups, which change no more than a constant.
    pub fn all() -> Vec<Self> {
        let kvs = [KvDtype::F32, KvDtype::F16];
        let mut epilogues = vec![Epilogue::Store, Epilogue::Residual];
        epilogues.extend(Activation::ALL.into_iter().flat_map(|f| [Epilogue::Gate(f), Epilogue::Activate(f)]));
        epilogues.extend(kvs.map(Epilogue::Rotary));
        let mut all = vec![Self::NormRms, Self::PostNorm, Self::NormLayer, Self::AttentionMerge, Self::Probe, Self::Halves];
        all.extend([Self::Adjust, Self::Filter, Self::Reject, Self::Follow]);
        all.extend([Noise::None, Noise::Gumbel].map(Self::Sample));
        all.extend(kvs.into_iter().flat_map(|kv| [Self::QkNorm(kv), Self::Attention(kv), Self::AttentionPrefill(kv)]));
        let is_rare = |scales| matches!(scales, Scales::Pairs(Float::F32 | Float::Bf16, group) if group != 64);
        let is_rare = |format: &Format| matches!(format, Format::Quantised { scales, .. } if is_rare(*scales));
        for format in Format::all().into_iter().filter(|format| !is_rare(format)) {
            all.extend([Table::Tokens, Table::Positions].map(|table| Self::Embed(format, table)));
            all.push(Self::Fill(format));
            for &epilogue in &epilogues {
                all.push(Self::MatmulTile(format, epilogue));
                all.extend(Self::rows(format).iter().map(|&rows| Self::MatmulRows(format, rows, epilogue)));
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

/// What the fragments of weights leave open.
fn constants(format: Format) -> String {
    let chunk4 = format!("const CHUNK4 = {}u;\n", format.chunk() / 4);
    let Format::Quantised { center, scales, .. } = format else { return chunk4 };
    let group = match scales {
        Scales::Pairs(_, group) => usize::from(group),
        _ => 32,
    };
    format!("{chunk4}const CENTER = {center}.0;\nconst GROUP_CHUNKS = {}u;\n", group / format.chunk())
}

fn chunk(format: Format) -> Vec<&'static str> {
    vec![match format.chunk() / 4 {
        1 => shader!("lib/chunk_1.wgsl"),
        2 => shader!("lib/chunk_2.wgsl"),
        4 => shader!("lib/chunk_4.wgsl"),
        _ => shader!("lib/chunk_8.wgsl"),
    }]
}

fn weight(format: Format, subnormals: Subnormals) -> Vec<&'static str> {
    let f16 = match subnormals {
        Subnormals::Kept => shader!("lib/f16_native.wgsl"),
        Subnormals::Flushed => shader!("lib/f16_by_hand.wgsl"),
    };
    let (codes, scales) = match format {
        Format::Float(float) => {
            let load = shader!("lib/load_float.wgsl");
            return match float {
                Float::F32 => vec![load, shader!("lib/weight_f32.wgsl")],
                Float::F16 => vec![load, f16, shader!("lib/weight_f16.wgsl")],
                Float::Bf16 => vec![load, shader!("lib/weight_bf16.wgsl")],
            };
        }
        Format::Quantised { codes, scales, .. } => (codes, scales),
    };
    let alone = shader!("lib/codes_alone.wgsl");
    let codes = match codes {
        Codes::Four => vec![alone, shader!("lib/codes_4.wgsl")],
        Codes::Levels => vec![alone, shader!("lib/codes_levels.wgsl")],
        Codes::Five => vec![shader!("lib/codes_5.wgsl")],
        Codes::Six => vec![shader!("lib/codes_6.wgsl")],
        Codes::Eight => vec![alone, shader!("lib/codes_8.wgsl")],
    };
    let (per_chunk, per_half) = (shader!("lib/scales_per_chunk.wgsl"), shader!("lib/scales_per_half.wgsl"));
    let scales = match scales {
        Scales::Centered => vec![per_chunk, shader!("lib/scales_centered.wgsl")],
        Scales::Pairs(Float::F16, _) => vec![per_chunk, shader!("lib/scales_f16.wgsl")],
        Scales::Pairs(Float::Bf16, _) => vec![per_chunk, shader!("lib/scales_bf16.wgsl")],
        Scales::Pairs(Float::F32, _) => vec![per_chunk, shader!("lib/scales_f32.wgsl")],
        Scales::SixBits => vec![per_chunk, shader!("lib/scales_6.wgsl")],
        Scales::Signed => vec![per_half, shader!("lib/scales_signed.wgsl")],
        Scales::Nibbles => vec![per_half, shader!("lib/scales_nibbles.wgsl")],
    };
    [vec![f16, shader!("lib/weight_quantised.wgsl")], codes, scales].concat()
}

fn activation(function: Activation) -> &'static str {
    match function {
        Activation::Silu => shader!("lib/silu.wgsl"),
        Activation::Gelu => shader!("lib/gelu.wgsl"),
        Activation::GeluTanh => shader!("lib/gelu_tanh.wgsl"),
        Activation::Relu => shader!("lib/relu.wgsl"),
    }
}

fn fill(format: Format) -> &'static str {
    match format {
        Format::Float(Float::F32) => shader!("lib/fill_f32.wgsl"),
        Format::Float(Float::Bf16) => shader!("lib/fill_bf16.wgsl"),
        _ => shader!("lib/fill_f16.wgsl"),
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
