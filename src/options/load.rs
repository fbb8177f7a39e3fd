//! Options of loading.

use super::choice::choice;
use super::declare::{Options, options, read};
use super::value::bad;
use crate::error::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;

impl LoadOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads options by name from an object, without groups. Missing and null options keep their defaults.
    ///
    /// # Errors
    /// [`Error::BadOption`](crate::Error::BadOption) for an unknown name, or a value of another type.
    pub fn from_json(given: Value) -> Result<Self> {
        read(&given)
    }

    /// Returns true if models compute in parallel: several targets, or a target and its draft model.
    pub(crate) fn is_parallel(&self, has_assistant: bool) -> bool {
        self.sp_degree > 1 || has_assistant && self.draft_device == DeviceChoice::Cpu
    }

    /// Returns the option that requested parallel models, and its value.
    pub(crate) fn parallel_option(sp_degree: usize) -> (&'static str, String) {
        if sp_degree > 1 { ("sp_degree", sp_degree.to_string()) } else { ("draft_device", "cpu".into()) }
    }

    /// Checks that every value is in its range.
    ///
    /// # Errors
    /// [`Error::BadOption`](crate::Error::BadOption) with the allowed range.
    pub fn validate(&self) -> Result<()> {
        if self.use_mtp == UseMtp::Yes && self.sp_degree > 1 {
            return bad("use_mtp", "true", "auto or false, with sp_degree above 1");
        }
        if cfg!(target_arch = "wasm32") && self.sp_degree > 1 && self.device == DeviceChoice::Cpu {
            return bad("device", "cpu", "webgpu, with sp_degree above 1 in a page, whose workers share no memory");
        }
        self.validate_elsewhere()
    }

    /// As [`Self::validate`], for a target on servers: then `device` applies to the draft model only.
    #[doc(hidden)]
    pub fn validate_elsewhere(&self) -> Result<()> {
        self.check()?;
        self.context.check()
    }
}

options! {
    /// Options of loading a model and its draft model. The group is a field; the methods set all options.
    pub struct LoadOptions set by LoadOptions {
        /// Device of the models; in a page, `sp_degree` above 1 requires GPUs.
        device: DeviceChoice = DeviceChoice::Auto,
        /// Device of the draft model. `auto`: the target's device. `cpu`: the CPU, at the same time as the target.
        draft_device: DeviceChoice [["auto", "cpu"]] = DeviceChoice::Auto,
        /// GGUF file to load if there are several; `*` matches any characters, as in `*Q4_K_M.gguf`.
        file: Option<String> = None => "the only one",
        /// GGUF file of the draft model, same syntax.
        assistant_file: Option<String> = None => "the only one",
        /// Draft with the MTP layer of the checkpoint (multi-token prediction).
        use_mtp: UseMtp = UseMtp::Auto,
        /// Number of tokens of earlier prompts and texts that the suffix lookup remembers, at 40 bytes each; 0: none. They are never
        /// stored on disk.
        lookup_memory: usize [0..=1_048_576] = 65_536,
        /// Storage format of the weights on the GPU.
        dtype: WeightDtype = WeightDtype::Auto,
        /// Arithmetic for products of quantised weights.
        arithmetic: ArithmeticChoice = ArithmeticChoice::Auto,
        /// Number of threads for models on the CPU. A page can use several only if it is cross-origin isolated.
        threads: Option<usize> [1..=64] = None => "one per core; in a page at most 4",
        /// Number of target instances that verify in parallel (distributed speculative inference), each with its own device,
        /// weights and KV cache. For a target on servers: number of concurrent requests.
        sp_degree: usize [1..=8] = 1,
    } with {
        /// Length of the context, and its storage.
        context: ContextOptions,
    }
}

options! {
    /// Length of the context, and its storage.
    pub struct ContextOptions set by LoadOptions.context {
        /// Maximum positions of the KV cache: tokens of prompt and text together.
        max_context: Option<usize> [2..=1_048_576] = None => "the model's maximum, at most 4096",
        /// Element type of the KV cache.
        kv_dtype: Option<KvDtype> = None => "f16; f32 if the checkpoint has matrices in f32 or bf16",
        /// Number of prompt tokens that are read at a time. The text is always the same.
        prefill_chunk: usize [1..=4096] = 64,
        /// Maximum bytes of cached keys and values of earlier texts, so that alternating conversations need no new prefill; 0:
        /// none. Texts are not kept if there is no memory for them.
        prompt_cache_bytes: u64 = 256 << 20 => "256 MiB",
    }
}

choice! {
    /// Device of a model.
    pub enum DeviceChoice for "device", default Auto {
        /// The GPU; the CPU if there is no GPU, or only a slower software adapter.
        Auto = "auto",
        /// Any GPU adapter, including software adapters.
        Webgpu = "webgpu",
        /// The CPU.
        Cpu = "cpu",
    }
}

choice! {
    /// Use of a checkpoint's MTP layer. In JSON, `true` and `false` are booleans.
    pub enum UseMtp for "use_mtp", default Auto {
        /// Use it if the checkpoint has one and there is no assistant model.
        Auto = "auto",
        /// Use it; loading fails without one.
        Yes = "true",
        /// Ignore it.
        No = "false",
    }
}

choice! {
    /// Storage format of weights on the GPU. Quantised formats apply to float matrices whose rows are whole blocks of 32; other
    /// tensors stay as they are.
    pub enum WeightDtype for "dtype", default Auto {
        /// As in the checkpoint.
        Auto = "auto",
        /// 4 bytes, exact.
        F32 = "f32",
        /// 2 bytes, rounded to nearest.
        F16 = "f16",
        /// 8 bits, and a scale per 32 weights (Q8_0). The loss is hardly measurable.
        Q8 = "q8",
        /// 4 bits, and a scale and a minimum per 32 weights (Q4_1).
        ///
        /// Loses clearly less than Q4_0, for half a bit more per weight.
        Q4 = "q4",
    }
}

choice! {
    /// Requested arithmetic for products of quantised weights.
    pub enum ArithmeticChoice for "arithmetic", default Auto {
        /// `int8` if clearly faster on this device, so another device may produce another text. `f32` if several instances compute
        /// in parallel.
        ///
        /// The speed is measured at load on a GPU, and known for the CPU.
        Auto = "auto",
        /// Weights are widened to 32-bit floats.
        F32 = "f32",
        /// Activations are rounded to 8-bit integers.
        Int8 = "int8",
    }
}

/// Arithmetic for products of quantised weights. For a given arithmetic, the text depends on neither the drafter nor the number
/// of verified rows. The two arithmetics can produce different texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "lowercase")]
pub enum Arithmetic {
    /// Weights are widened to f32.
    #[default]
    F32,
    /// Activations are rounded to 8 bits, in blocks of 32 with one scale each, and multiplied with the weights' codes. On GPUs,
    /// IQ4_NL, IQ4_XS and MXFP4 are still widened, because their codes are table indices.
    Int8,
}

impl From<Arithmetic> for ArithmeticChoice {
    fn from(arithmetic: Arithmetic) -> Self {
        match arithmetic {
            Arithmetic::F32 => Self::F32,
            Arithmetic::Int8 => Self::Int8,
        }
    }
}

choice! {
    /// Element type of the KV cache.
    pub enum KvDtype for "kv_dtype" {
        /// 4 bytes, exact.
        F32 = "f32",
        /// 2 bytes, rounded to nearest.
        F16 = "f16",
    }
}

impl KvDtype {
    /// Returns the bytes per element.
    pub fn size(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }
}
