//! Options of loading.

use super::declare::options;
use super::read::{bad, read};
use crate::error::Result;
use serde::{Deserialize, Deserializer, Serialize};

impl LoadOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads options by name from an object, without groups. Missing and null options keep their defaults.
    ///
    /// # Errors
    /// [`Error::BadOption`](crate::Error::BadOption) for an unknown name, or a value of another type.
    pub fn read<'de>(from: impl Deserializer<'de>) -> Result<Self> {
        read(from)
    }

    /// Returns true if models compute in parallel: several targets, or a target and its draft model.
    pub(crate) fn is_parallel(&self, has_assistant: bool) -> bool {
        self.sp_degree > 1 || has_assistant && self.draft_device == DeviceChoice::Cpu
    }

    /// Checks that every value is in its range.
    ///
    /// # Errors
    /// [`Error::BadOption`](crate::Error::BadOption) with the allowed range.
    pub fn validate(&self) -> Result<()> {
        if self.sp_degree > 1 && self.device == DeviceChoice::Cpu {
            return bad("device", "cpu", "webgpu, with sp_degree above 1: targets do not share the CPU");
        }
        self.validate_elsewhere()
    }

    /// As [`Self::validate`], for a target on servers: then `device` applies to the draft model only.
    pub(crate) fn validate_elsewhere(&self) -> Result<()> {
        let ContextOptions { max_context, prefill_chunk, .. } = self.context;
        match max_context {
            Some(context) if !(2..=1 << 20).contains(&context) => bad("max_context", context, "2 to 1048576"),
            _ if !(1..=4096).contains(&prefill_chunk) => bad("prefill_chunk", prefill_chunk, "1 to 4096"),
            _ if !(1..=8).contains(&self.sp_degree) => bad("sp_degree", self.sp_degree, "1 to 8"),
            _ if self.threads.is_some_and(|threads| !(1..=64).contains(&threads)) => {
                bad("threads", self.threads.unwrap_or_default(), "1 to 64")
            }
            _ if self.draft_device == DeviceChoice::Webgpu => bad("draft_device", "webgpu", "auto or cpu"),
            _ => Ok(()),
        }
    }
}

options! {
    /// Options of loading a model and its draft model. The group is a field; the methods set all options.
    ///
    /// ```
    /// use foretoken::{DeviceChoice, LoadOptions};
    ///
    /// let options = LoadOptions::new().device(DeviceChoice::Cpu).max_context(8192);
    /// assert_eq!(options.context.max_context, Some(8192));
    /// ```
    pub struct LoadOptions set by LoadOptions {
        /// Device of the models; several targets require GPUs.
        device: DeviceChoice = DeviceChoice::Auto,
        /// Device of the draft model: the target's device or, with `cpu`, the CPU, in parallel with the target.
        draft_device: DeviceChoice = DeviceChoice::Auto,
        /// GGUF file to load if there are several; `*` matches any characters. `None`: the only one.
        file: Option<String> = None,
        /// GGUF file of the draft model, same syntax.
        assistant_file: Option<String> = None,
        /// Storage format of the weights on the GPU.
        dtype: WeightDtype = WeightDtype::Auto,
        /// Arithmetic for products of quantised weights.
        arithmetic: ArithmeticChoice = ArithmeticChoice::Auto,
        /// Number of threads for models on the CPU. `None`: one per core; in a page, one per core up to four. A page can use
        /// several only if it is cross-origin isolated.
        threads: Option<usize> = None,
        /// Number of target instances that verify in parallel, each with its own device, weights and KV cache: distributed
        /// speculative inference. For a target on servers: number of concurrent requests.
        sp_degree: usize = 1,
    } with {
        /// Length of the context, and its storage.
        context: ContextOptions,
    }
}

options! {
    /// Length of the context, and its storage.
    pub struct ContextOptions set by LoadOptions.context {
        /// Maximum positions of the KV cache. `None`: the model's maximum, at most 4,096.
        max_context: Option<usize> = None,
        /// Element type of the KV cache. `None`: f32 if the checkpoint has matrices in f32 or bf16, else f16.
        kv_dtype: Option<KvDtype> = None,
        /// Number of prompt tokens that are read at a time.
        prefill_chunk: usize = 64,
        /// Maximum bytes of cached keys and values of earlier texts, so that alternating conversations need no new prefill; 0:
        /// none. Texts are not kept if there is no memory for them.
        prompt_cache_bytes: u64 = 256 << 20,
    }
}

/// Device of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "lowercase")]
pub enum DeviceChoice {
    /// The GPU; the CPU if there is no GPU, or only a slower software adapter.
    #[default]
    Auto,
    /// Any GPU adapter, including software adapters.
    Webgpu,
    /// The CPU.
    Cpu,
}

/// Storage format of weights on the GPU. Quantised formats apply to float matrices whose rows are whole blocks of 32; other
/// tensors stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "lowercase")]
pub enum WeightDtype {
    /// As in the checkpoint.
    #[default]
    Auto,
    /// f32, exact.
    F32,
    /// f16, rounded to nearest.
    F16,
    /// Q8_0: 8 bits, and a scale per 32 weights. The loss is hardly measurable.
    Q8,
    /// Q4_1: 4 bits, and a scale and a minimum per 32 weights. Loses clearly less than Q4_0, for half a bit more per weight.
    Q4,
}

/// Requested arithmetic for products of quantised weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "lowercase")]
pub enum ArithmeticChoice {
    /// Int8 if clearly faster on this device (measured at load on a GPU, known for the CPU), so another device may produce
    /// another text. F32 if several instances compute in parallel.
    #[default]
    Auto,
    /// 32-bit floats.
    F32,
    /// 8-bit integers.
    Int8,
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
    /// IQ4_NL and IQ4_XS are still widened, because their codes are table indices.
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

/// Element type of the KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "lowercase")]
pub enum KvDtype {
    /// 4 bytes, exact.
    F32,
    /// 2 bytes, rounded to nearest.
    F16,
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
