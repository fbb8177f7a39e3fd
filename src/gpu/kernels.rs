//! Table of all kernels and the WGSL files of each. Variants use different fragments that define the same functions.

use super::fragments::{
    activation, arithmetic_of, chunk, constants, fill, kv_load, kv_store, repeated, rows, shader, weight, weight2,
};
use crate::model::Activation;
use crate::options::{Arithmetic, KvDtype};
use crate::weights::{Dtype, Float, Format, Scales};

/// Use of a matmul's results; as in `shaders/lib/matmul.wgsl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Epilogue {
    /// y = result.
    Store,
    /// y += (result + bias) scale.
    Residual,
    /// y = activation(gate) * up, rows alternating.
    Gate,
    /// y = activation(result + bias).
    Activate,
    /// Bias, rotation, q and the KV cache.
    Rotary,
    /// y = (result + bias) scale, with a bound.
    Head,
}

/// Properties shared by a model's epilogues. A kernel contains all of them; each dispatch selects one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epilogues {
    /// Activation of the MLP.
    pub activation: Activation,
    /// Type of the KV cache.
    pub kv: KvDtype,
    /// `true`: rows are those of experts.
    pub experts: bool,
}

/// A kernel and its variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Token ids or positions -> embedding rows.
    Embed(Format),
    /// RMS norm of rows.
    NormRms,
    /// RMS norm of rows, added to others.
    AddNorm,
    /// Layer norm of rows.
    NormLayer,
    /// Rows -> rows of another buffer.
    Copy,
    /// Normed row and Markov row -> whether a draft goes on.
    Confide,
    /// Rows -> 8-bit codes, for matmuls with [`Arithmetic::Int8`].
    Quantise,
    /// x W^T for up to the given number of rows per workgroup, one of [`Kernel::ROWS`]; lanes are threads.
    MatmulRows(Format, Arithmetic, u32, Epilogues),
    /// x W^T for [`Kernel::TILE`] rows; each thread has all lanes.
    MatmulTile(Format, Arithmetic, Epilogues),
    /// x W^T for up to [`Kernel::TILE`] rows, without lanes, for CPUs. Floats use another kernel, which is faster there.
    MatmulSerial(Format, Arithmetic, u32, Epilogues),
    /// Norm of each head of q and k, rotation, append.
    QkNorm(KvDtype),
    /// Attention over a block of positions.
    Attention {
        /// Type of the KV cache.
        kv: KvDtype,
        /// Most query vectors of a workgroup, one of [`Kernel::VECTORS`].
        vectors: u32,
        /// Threads of a workgroup.
        threads: u32,
        /// `true`: for CPUs.
        serial: bool,
    },
    /// Joining of [`Kernel::Attention`]'s blocks if several workgroups computed them.
    AttentionMerge,
    /// Short convolution over positions.
    ShortConv,
    /// Gated delta net or Mamba-2, with this many elements per head of q and k.
    DeltaNet(u32),
    /// Gates of heads, after a norm in delta nets, and before one in Mamba-2.
    GateHeads,
    /// Router's results -> experts of each row.
    Route,
    /// Experts of each row -> rows of each expert.
    Group,
    /// Weighted sums of the experts' rows.
    Combine,
    /// Removal of tokens that a constraint does not allow.
    Mask,
    /// Biases and penalties of single logits.
    Adjust,
    /// Largest of each 16 logits, and of each segment.
    Survey,
    /// Surveyed logits -> a bound below which no token remains.
    Bound,
    /// List of the tokens above the bound.
    Gather,
    /// Selection of the remaining tokens from the list.
    Filter,
    /// Logits -> token ids, with noise or without, by segment.
    Sample(Noise),
    /// Best of the segments -> token ids.
    Settle(Noise),
    /// Logits of the remaining tokens -> token ids, with noise.
    SampleKept,
    /// Logits of target and draft model -> best draws of each segment, for rejection sampling.
    Reject(Tokens),
    /// Best draws of the segments -> token ids.
    RejectSettle,
    /// Copy of the logits before [`Kernel::Adjust`].
    Keep,
    /// Logits and token ids -> log-probabilities.
    Logprobs,
    /// Advance of the text by a round that the CPU has not read.
    Follow,
    /// One read of a buffer, to measure memory bandwidth.
    Probe,
    /// Pseudo-random weights for a buffer.
    Fill(Format),
    /// Test of the driver's treatment of subnormal halves.
    Halves,
}

/// Treatment of subnormal f16 numbers by a driver that widens them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subnormals {
    /// Values are preserved.
    Kept,
    /// Values may become zero, so kernels convert explicitly.
    Flushed,
}

/// Noise added to logits before the largest is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Noise {
    /// No noise: greedy.
    None,
    /// Keyed Gumbel noise.
    Gumbel,
}

/// Tokens that rejection sampling considers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tokens {
    /// All tokens.
    All,
    /// Tokens that [`Kernel::Filter`] keeps.
    Kept,
}

impl Kernel {
    /// Numbers of rows that have their own variant.
    pub const ROWS: [u32; 5] = [1, 2, 4, 8, 16];
    /// Numbers of query vectors that have their own variant.
    pub const VECTORS: [u32; 4] = [1, 2, 4, 8];
    /// Fewest threads of an attention workgroup on GPUs: one for each four positions of a block.
    const THREADS: u32 = 64;
    /// Logits of a segment; as in `shaders/lib/sampling.wgsl`.
    pub const SEGMENT: usize = 4096;
    /// Most rows of a workgroup whose threads read whole rows of weights.
    pub const TILE: u32 = 8;

    /// Returns the matmul for up to `rows` rows, one of [`Kernel::ROWS`]; `None`: for more. With chunks of 32 weights, sums of 16
    /// rows leave no registers; of two workgroups of 8 rows, the second finds the weights in a cache. CPUs (`serial`) gain nothing from lanes.
    pub fn matmul(
        format: Format,
        arithmetic: Arithmetic,
        rows: Option<u32>,
        epilogues: Epilogues,
        serial: bool,
    ) -> Self {
        match rows {
            rows if serial => {
                let rows = rows.map_or(Self::TILE, |rows| rows.min(Self::TILE));
                Self::MatmulSerial(format, arithmetic, rows, epilogues)
            }
            Some(16) if format.chunk() == 32 || epilogues.experts => Self::MatmulRows(format, arithmetic, 8, epilogues),
            Some(rows) => Self::MatmulRows(format, arithmetic, rows, epilogues),
            None => Self::MatmulTile(format, arithmetic, epilogues),
        }
    }

    /// Returns attention for each of [`Kernel::VECTORS`], or all but the most. GPUs use at least one thread per four elements of a head;
    /// workgroup memory has no room for the values of the most vectors with large heads. CPUs (`serial`) use one thread per eight
    /// elements, at least four; SwiftShader compiles the kernel for the most vectors for more than a second.
    pub fn attentions(kv: KvDtype, head_dim: u32, serial: bool) -> Vec<Self> {
        let threads = match serial {
            true => head_dim.div_ceil(8).next_power_of_two().max(4),
            false => (head_dim / 4).next_power_of_two().max(Self::THREADS),
        };
        let has_most = !serial && threads == Self::THREADS;
        let counts = &Self::VECTORS[..Self::VECTORS.len() - usize::from(!has_most)];
        counts.iter().map(|&vectors| Self::Attention { kv, vectors, threads, serial }).collect()
    }

    /// Returns the rows and outputs of a matmul's workgroup.
    pub fn tile(self) -> Option<[u32; 2]> {
        match self {
            Self::MatmulRows(_, _, rows, _) => Some([rows, 32]),
            Self::MatmulTile(..) => Some([Self::TILE, 256]),
            Self::MatmulSerial(Format::Float(_), _, rows, _) => Some([rows, 128]),
            Self::MatmulSerial(_, _, rows, _) => Some([rows, 256]),
            _ => None,
        }
    }

    /// Returns the WGSL source for a driver: fragments first, then the kernel.
    pub fn source(self, subnormals: Subnormals) -> String {
        let step = shader!("lib/step.wgsl");
        let units = shader!("lib/units.wgsl");
        let of_matmul = shader!("lib/matmul.wgsl");
        let matmul = |format: Format, arithmetic, epilogues: Epilogues| {
            let shared = vec![step, of_matmul, units, shader!("lib/raws.wgsl")];
            [shared, epilogues.rows(), weight(format, subnormals), arithmetic_of(arithmetic, format)].concat()
        };
        let experts = shader!("lib/experts.wgsl");
        let heads = shader!("lib/heads.wgsl");
        let fold = shader!("lib/fold.wgsl");
        let norm = shader!("lib/norm.wgsl");
        let sum = shader!("lib/sum_threads.wgsl");
        let block = shader!("lib/sampling_block.wgsl");
        let sampling = concat!(shader!("lib/sampling_block.wgsl"), shader!("lib/sampling.wgsl"));
        let random = shader!("lib/random.wgsl");
        let best = shader!("lib/best.wgsl");
        let max = shader!("lib/max_threads.wgsl");
        let find = shader!("lib/find.wgsl");
        let finish = shader!("lib/finish.wgsl");
        let segments = shader!("lib/segments.wgsl");
        let reject = shader!("lib/reject.wgsl");
        let parts: Vec<&str> = match self {
            Self::Embed(format) => {
                [vec![step, units], weight(format, subnormals), vec![shader!("embed.wgsl")]].concat()
            }
            Self::NormRms => vec![step, norm, sum, shader!("lib/norm_set.wgsl"), shader!("norm_rms.wgsl")],
            Self::AddNorm => vec![step, norm, sum, shader!("lib/norm_add.wgsl"), shader!("norm_rms.wgsl")],
            Self::NormLayer => vec![step, norm, sum, shader!("norm_layer.wgsl")],
            Self::Confide => vec![step, block, sum, shader!("confide.wgsl")],
            Self::Copy => vec![step, norm, shader!("copy.wgsl")],
            Self::Quantise => vec![step, shader!("quantise.wgsl")],
            Self::MatmulRows(format, arithmetic, _, epilogues) => {
                let kernel = vec![shader!("matmul_rows.wgsl")];
                [matmul(format, arithmetic, epilogues), epilogues.parts(), kernel].concat()
            }
            Self::MatmulSerial(Format::Float(float), _, _, epilogues) => {
                let shared = [vec![step, of_matmul, units, shader!("lib/lane_none.wgsl")], epilogues.rows()].concat();
                let sums = vec![shader!("lib/serial_sums.wgsl")];
                let kernel = vec![shader!("lib/serial_epilogues.wgsl"), shader!("matmul_serial.wgsl")];
                [shared, weight2(float, subnormals), sums, epilogues.functions(), kernel].concat()
            }
            Self::MatmulTile(format, arithmetic, epilogues) | Self::MatmulSerial(format, arithmetic, _, epilogues) => {
                let sum = match self {
                    Self::MatmulTile(..) => shader!("lib/sum_by_lanes.wgsl"),
                    _ => shader!("lib/sum_in_order.wgsl"),
                };
                let kernel = vec![sum, shader!("matmul_tile.wgsl")];
                [matmul(format, arithmetic, epilogues), epilogues.parts(), kernel].concat()
            }
            Self::QkNorm(kv) => {
                vec![step, heads, sum, kv_store(kv), shader!("lib/rotary.wgsl"), shader!("qk_norm.wgsl")]
            }
            Self::Attention { kv, serial, .. } => {
                let block = match serial {
                    false => shader!("lib/attention_block.wgsl"),
                    true => shader!("lib/attention_block_serial.wgsl"),
                };
                let (query, softmax) = (shader!("lib/query.wgsl"), shader!("lib/softmax.wgsl"));
                vec![step, heads, query, kv_load(kv), fold, softmax, block, shader!("attention.wgsl")]
            }
            Self::AttentionMerge => vec![step, heads, fold, shader!("attention_merge.wgsl")],
            Self::ShortConv => vec![step, shader!("short_conv.wgsl")],
            Self::DeltaNet(_) => vec![step, shader!("lib/delta_inputs.wgsl"), shader!("delta_net.wgsl")],
            Self::GateHeads => vec![step, sum, shader!("gate_heads.wgsl")],
            Self::Route => vec![step, experts, shader!("route.wgsl")],
            Self::Group => vec![step, experts, shader!("group.wgsl")],
            Self::Combine => vec![step, experts, shader!("combine.wgsl")],
            Self::Mask => vec![step, sampling, shader!("mask.wgsl")],
            Self::Adjust => vec![step, sampling, shader!("adjust.wgsl")],
            Self::Survey => vec![step, sampling, segments, sum, max, shader!("filter_survey.wgsl")],
            Self::Bound => vec![step, sampling, sum, max, find, shader!("filter_bound.wgsl")],
            Self::Gather => vec![step, sampling, segments, shader!("filter_gather.wgsl")],
            Self::Filter => vec![step, sampling, sum, find, shader!("filter.wgsl")],
            Self::Sample(noise) => {
                let kernel = shader!("sample.wgsl");
                [vec![step, sampling, segments, sum, max, best, finish], noise.parts(), vec![kernel]].concat()
            }
            Self::Settle(noise) => {
                let kernel = shader!("sample_settle.wgsl");
                [vec![step, sampling, sum, max, best, finish], noise.parts(), vec![kernel]].concat()
            }
            Self::SampleKept => {
                let kernel = shader!("sample_kept.wgsl");
                [vec![step, sampling, best, finish], Noise::Gumbel.parts(), vec![kernel]].concat()
            }
            Self::Reject(tokens) => {
                let tokens = match tokens {
                    Tokens::All => shader!("lib/tokens_all.wgsl"),
                    Tokens::Kept => shader!("lib/tokens_kept.wgsl"),
                };
                vec![step, sampling, random, best, reject, tokens, shader!("reject.wgsl")]
            }
            Self::RejectSettle => vec![step, sampling, random, best, reject, shader!("reject_settle.wgsl")],
            Self::Keep => vec![step, sampling, segments, shader!("logprobs_keep.wgsl")],
            Self::Logprobs => vec![step, sampling, best, shader!("logprobs.wgsl")],
            Self::Follow => vec![step, shader!("follow.wgsl")],
            Self::Probe => vec![shader!("probe.wgsl")],
            Self::Fill(format) => vec![fill(format), shader!("fill.wgsl")],
            Self::Halves => vec![shader!("halves.wgsl")],
        };
        let varying = match self {
            Self::Embed(format) => vec![constants(format)],
            Self::MatmulTile(format, arithmetic, _) => {
                [constants(format), rows(Self::TILE)].into_iter().chain(chunk(format, arithmetic, true)).collect()
            }
            Self::MatmulSerial(format @ Format::Float(_), _, count, _) => {
                vec![constants(format), repeated(shader!("lib/serial_rows.wgsl"), "ROWS", count)]
            }
            Self::MatmulRows(format, arithmetic, count, _) | Self::MatmulSerial(format, arithmetic, count, _) => {
                let chunk = chunk(format, arithmetic, matches!(self, Self::MatmulSerial(..)));
                [constants(format), rows(count)].into_iter().chain(chunk).collect()
            }
            Self::Attention { vectors, threads, serial, .. } => {
                let columns = if serial { 2 * threads } else { threads };
                let sizes = format!("const THREADS = {threads}u;\nconst COLUMNS = {columns}u;");
                vec![sizes, repeated(shader!("lib/vectors.wgsl"), "VECTORS", vectors)]
            }
            Self::DeltaNet(key_dim) => vec![format!("const KEY_DIM = {key_dim}u;")],
            _ => Vec::new(),
        };
        varying.iter().map(String::as_str).chain(parts).collect::<Vec<_>>().join("\n")
    }

    /// Returns every kernel in every variant, except group sizes, which change only a constant. Weight formats and epilogues are
    /// independent, so not all are combined.
    pub fn all() -> Vec<Self> {
        let kvs = [KvDtype::F32, KvDtype::F16];
        let mut all = vec![
            Self::NormRms,
            Self::AddNorm,
            Self::NormLayer,
            Self::Copy,
            Self::Confide,
            Self::AttentionMerge,
            Self::Probe,
            Self::Halves,
        ];
        all.extend([
            Self::Quantise,
            Self::ShortConv,
            Self::DeltaNet(128),
            Self::GateHeads,
            Self::Route,
            Self::Group,
            Self::Combine,
            Self::Mask,
            Self::Keep,
            Self::Logprobs,
            Self::Adjust,
            Self::Survey,
            Self::Bound,
            Self::Gather,
            Self::Filter,
            Self::RejectSettle,
            Self::Follow,
        ]);
        all.extend([Noise::None, Noise::Gumbel].map(Self::Sample));
        all.extend([Self::Settle(Noise::None), Self::Settle(Noise::Gumbel), Self::SampleKept]);
        all.extend([Tokens::All, Tokens::Kept].map(Self::Reject));
        for kv in kvs {
            all.push(Self::QkNorm(kv));
            all.extend([64, 512].map(|head_dim| Self::attentions(kv, head_dim, false)).concat());
            all.extend([64, 128, 512].map(|head_dim| Self::attentions(kv, head_dim, true)).concat());
        }
        let mut add_matmuls = |format: Format, epilogues| {
            let arithmetics = [Some(Arithmetic::F32), Some(Arithmetic::Int8).filter(|_| format.multiplies_codes())];
            for arithmetic in arithmetics.into_iter().flatten() {
                for serial in [false, true] {
                    let counts = Self::ROWS.into_iter().map(Some).chain([None]);
                    let matmuls = counts.map(|rows| Self::matmul(format, arithmetic, rows, epilogues, serial));
                    let mut matmuls: Vec<_> = matmuls.collect();
                    matmuls.dedup();
                    all.extend(matmuls);
                }
            }
        };
        for activation in Activation::ALL {
            for kv in kvs {
                add_matmuls(Format::Float(Float::F16), Epilogues { activation, kv, experts: false });
            }
        }
        let is_rare = |scales| matches!(scales, Scales::Pairs(Float::F32 | Float::Bf16, group) if group != 64);
        let is_rare = |format: &Format| matches!(format, Format::Quantised { scales, .. } if is_rare(*scales));
        let formats: Vec<_> = Format::all().into_iter().filter(|format| !is_rare(format)).collect();
        for &format in formats.iter().filter(|format| **format != Format::Float(Float::F16)) {
            add_matmuls(format, Epilogues { activation: Activation::Silu, kv: KvDtype::F16, experts: false });
        }
        for format in [Format::Float(Float::F32), Format::of_dtype(Dtype::Q4K)] {
            add_matmuls(format, Epilogues { activation: Activation::Silu, kv: KvDtype::F16, experts: true });
        }
        for format in formats {
            all.extend([Self::Embed(format), Self::Fill(format)]);
        }
        all
    }
}

impl Noise {
    fn parts(self) -> Vec<&'static str> {
        match self {
            Self::None => vec![shader!("lib/noise_none.wgsl")],
            Self::Gumbel => vec![shader!("lib/random.wgsl"), shader!("lib/noise_gumbel.wgsl")],
        }
    }
}

impl Epilogues {
    fn parts(self) -> Vec<&'static str> {
        [self.functions(), vec![shader!("lib/scales.wgsl"), shader!("lib/epilogues.wgsl")]].concat()
    }

    /// Returns the fragments for the rows of a matmul.
    fn rows(self) -> Vec<&'static str> {
        match self.experts {
            false => vec![shader!("lib/rows_all.wgsl")],
            true => vec![shader!("lib/experts.wgsl"), shader!("lib/rows_of_experts.wgsl")],
        }
    }

    /// Returns the epilogues' fragments.
    fn functions(self) -> Vec<&'static str> {
        let others = vec![shader!("lib/heads.wgsl"), kv_store(self.kv), shader!("lib/rotary.wgsl")];
        [activation(self.activation), others].concat()
    }
}
