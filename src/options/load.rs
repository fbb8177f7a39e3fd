//! Options of loading.

use super::declare::options;
use super::read::{bad, read};
use crate::error::Result;
use serde::{Deserialize, Deserializer, Serialize};

impl LoadOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The defaults, with what an object has in their place, by the names of the options alone; null leaves the default.
    ///
    /// # Errors
    /// [`Error::BadOption`](crate::Error::BadOption) for an unknown name, or a value of another type.
    pub fn read<'de>(from: impl Deserializer<'de>) -> Result<Self> {
        read(from)
    }

    /// Whether models compute at the same time, each on its own: several targets, or a target and its draft model.
    pub(crate) fn is_parallel(&self, has_assistant: bool) -> bool {
        self.sp_degree > 1 || has_assistant && self.draft_device == DeviceChoice::Cpu
    }

    /// Whether every value is in its range.
    ///
    /// # Errors
    /// [`Error::BadOption`](crate::Error::BadOption) with the allowed range.
    pub fn validate(&self) -> Result<()> {
        if self.sp_degree > 1 && self.device == DeviceChoice::Cpu {
            return bad("device", "cpu", "webgpu, with sp_degree above 1: targets do not share the CPU");
        }
        self.validate_elsewhere()
    }

    /// The same where the target is on servers: where models run is the draft model's affair.
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
    /// How to load a model, and its draft model. The group is a field; the methods set all options.
    ///
    /// ```
    /// use foretoken::{DeviceChoice, LoadOptions};
    ///
    /// let options = LoadOptions::new().device(DeviceChoice::Cpu).max_context(8192);
    /// assert_eq!(options.context.max_context, Some(8192));
    /// ```
    pub struct LoadOptions set by LoadOptions {
        /// Where the models run; several targets run on GPUs.
        device: DeviceChoice = DeviceChoice::Auto,
        /// Where the draft model runs: where the target runs or, with `cpu`, on the CPU, at the same time as the target.
        draft_device: DeviceChoice = DeviceChoice::Auto,
        /// Which GGUF file of several is meant, `*` standing for any characters; none: the only one.
        file: Option<String> = None,
        /// The same for the draft model.
        assistant_file: Option<String> = None,
        /// How the weights are stored on the GPU.
        dtype: WeightDtype = WeightDtype::Auto,
        /// What products of quantised weights are computed with.
        arithmetic: ArithmeticChoice = ArithmeticChoice::Auto,
        /// Threads that compute where models run on the CPU; none: natively one for each core, in a page one for each of at most four.
        /// A page has several only where it is cross-origin isolated.
        threads: Option<usize> = None,
        /// Instances of the target that verify at the same time, each with its own device, weights and KV cache: distributed
        /// speculative inference. Of a target on servers: requests that are under way at the same time.
        sp_degree: usize = 1,
    } with {
        /// How much text is held.
        context: ContextOptions,
    }
}

options! {
    /// How much text is held, and in what.
    pub struct ContextOptions set by LoadOptions.context {
        /// Positions that the KV cache can grow to; none: what the model was made for, at most 4,096.
        max_context: Option<usize> = None,
        /// Type of the KV cache's elements; none: f32 if the checkpoint has matrices in f32 or bf16, else f16.
        kv_dtype: Option<KvDtype> = None,
        /// Prompt tokens that are read at a time.
        prefill_chunk: usize = 64,
        /// Most bytes that keys and values of earlier texts take besides the cache, so that conversations which take turns are not
        /// read again; 0: none. What there is no memory for is not kept.
        prompt_cache_bytes: u64 = 256 << 20,
    }
}

/// Where models run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "lowercase")]
pub enum DeviceChoice {
    /// On the GPU; on the CPU where there is none, or only an adapter that computes on the CPU, which is slower.
    #[default]
    Auto,
    /// On the adapter that there is.
    Webgpu,
    /// On the CPU.
    Cpu,
}

/// How weights are stored on the GPU. The quantised types are made of matrices that the checkpoint has as floats, in rows of
/// whole blocks of 32; the others stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "lowercase")]
pub enum WeightDtype {
    /// As the checkpoint has them.
    #[default]
    Auto,
    /// Widened, exactly.
    F32,
    /// Rounded to nearest.
    F16,
    /// Q8_0: 8 bits, a scale for each 32. The loss is hardly measurable.
    Q8,
    /// Q4_1: 4 bits, a scale and a min for each 32. It loses clearly less than Q4_0, for half a bit more.
    Q4,
}

/// What products of quantised weights are wanted to be computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "lowercase")]
pub enum ArithmeticChoice {
    /// Integers where the device computes clearly faster with them, which is measured at load of a GPU and known of the CPU. So
    /// another device may write another text. Floats where several instances compute at the same time.
    #[default]
    Auto,
    /// Floats.
    F32,
    /// Integers.
    Int8,
}

/// What products of quantised weights are computed with. A text is the same whatever drafts and however many rows are verified,
/// but not in the one arithmetic and in the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "lowercase")]
pub enum Arithmetic {
    /// Weights are widened to f32.
    #[default]
    F32,
    /// What they are multiplied with is rounded to 8 bits, in blocks of 32 that have a scale, and codes are multiplied with codes.
    /// On GPUs IQ4_NL and IQ4_XS, whose codes are no numbers there, are widened nevertheless.
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

/// How the KV cache stores its elements.
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
    /// Bytes per element.
    pub fn size(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }
}
