//! Options of loading and generating, under Hugging Face's names, with validation.

mod choice;
mod declare;
mod describe;
mod value;

// In documentation order.
mod generate;

mod sampling;

mod drafting;

mod chat;

mod load;

pub use chat::{ChatOptions, ContextPolicy};
use choice::choice;
pub use declare::Options;
pub use describe::{Declared, Kind, generate_options, load_options};
pub use drafting::{Acceptance, DrafterChoice, DraftingOptions, LookupRule, Schedule, Speculation};
pub use generate::{GenerateOptions, MAX_TOP_LOGPROBS};
pub use load::{Arithmetic, ArithmeticChoice, ContextOptions, DeviceChoice, KvDtype, LoadOptions, UseMtp, WeightDtype};
pub use sampling::MAX_SEED;
pub use sampling::{DoSample, SamplingOptions, SamplingValues};

choice! {
    /// Hidden states that form the embedding of a text.
    pub enum Pooling for "pooling" {
        /// Mean over all tokens.
        Mean = "mean",
        /// Hidden state of the last token.
        Last = "last",
    }
}
