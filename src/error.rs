//! All errors, as one enum with one stable code per variant, the same in every API.

mod weights_rule;

pub use weights_rule::WeightsRule;

use foretoken_dsi::InvalidOption;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use std::borrow::Cow;

/// Result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with its remedy. The `Display` text is one line for people, [`Error::code`] is for programs.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize)]
#[serde(remote = "Self", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Error {
    /// No GPU adapter, or none with the required features.
    #[error("no usable GPU: {reason}")]
    #[serde(rename = "webgpu-unavailable")]
    WebGpuUnavailable {
        /// Steps that were tried, and what to install or enable.
        reason: String,
    },
    /// The plan needs more memory than the device has. If `limit` is set, this was found before any allocation.
    #[error("{what}: {need} bytes of memory are needed, but {}: {}take a smaller model",
        limit.map_or("they are refused".into(), |limit| format!("the limit is {limit}")), lower(what))]
    OutOfGpuMemory {
        /// The part that does not fit.
        what: String,
        /// Bytes needed.
        need: u64,
        /// Maximum bytes of a buffer; `None`: the driver refused without a number.
        limit: Option<u64>,
    },
    /// The device is lost. A session sets itself up again on a new one; this error is returned only if that is lost too, before
    /// it emitted a token.
    #[error("the GPU device was lost: {reason}. Load the model again, or a smaller one")]
    DeviceLost {
        /// The driver's message.
        reason: String,
    },
    /// The device is lost, and there is no other: browsers block the GPU for pages after repeated crashes.
    #[error("the GPU was lost and is not given back: {reason}. Close all windows of the browser and start it again")]
    GpuBlocked {
        /// The browser's message.
        reason: String,
    },
    /// A weight file breaks a rule of its format, or lacks data that the model needs.
    #[error("{file}: {rule}")]
    BadWeights {
        /// File name in the model's folder.
        file: String,
        /// The broken rule.
        #[serde(serialize_with = "as_message")]
        rule: WeightsRule,
    },
    /// `config.json` is invalid.
    #[error("{file}: {key}: {reason}")]
    BadConfig {
        /// File name in the model's folder.
        file: String,
        /// The key with the wrong or missing value, or `-` for the file as a whole.
        key: String,
        /// The problem, and the allowed values.
        reason: String,
    },
    /// The architecture is not supported.
    #[error("the architecture {architecture} is not supported; supported: {supported}")]
    UnsupportedArchitecture {
        /// Name in `config.json`.
        architecture: String,
        /// Supported architectures.
        supported: String,
    },
    /// `tokenizer.json` cannot be used.
    #[error("{file}: {reason}")]
    BadTokenizer {
        /// File name in the model's folder.
        file: String,
        /// The problem.
        reason: String,
    },
    /// The chat template is missing or cannot be rendered.
    #[error("chat template: {reason}")]
    BadTemplate {
        /// The problem, and its place.
        reason: String,
    },
    /// The prompt and the new tokens do not fit the context.
    #[error("the text needs a context of {need} tokens, but it has {limit}: shorten the prompt, or raise max_context")]
    ContextFull {
        /// Tokens of the prompt and its continuation, or of the prompt and one new token.
        need: usize,
        /// Tokens that the context holds.
        limit: usize,
    },
    /// An option outside its range.
    #[error("{option}: {value} is not allowed; allowed: {allowed}")]
    BadOption {
        /// Name of the option, as in the API (underscores).
        option: Cow<'static, str>,
        /// The given value.
        value: String,
        /// Allowed range or values.
        allowed: String,
    },
    /// A server cannot be reached, or does not respond as it should.
    #[error("{url}: {reason}")]
    Network {
        /// Requested URL, without a query.
        url: String,
        /// The problem, and what to do.
        reason: String,
    },
    /// A server requires an API key, or a different one.
    #[error("{url}: {reason}")]
    Unauthorized {
        /// URL of the server.
        url: String,
        /// The requirement, and how to give a key.
        reason: String,
    },
    /// A server is overloaded.
    #[error("{url}: {reason}")]
    Overloaded {
        /// URL of the server.
        url: String,
        /// The server's response, and what to do.
        reason: String,
        /// Seconds until the next retry, if the server states them.
        retry_after: Option<f64>,
    },
    /// A server's tokenizer differs from the one here.
    #[error(
        "{url}: its model has another tokenizer ({reason}): name the model that runs there, or a model that shares its tokenizer"
    )]
    TokenizerMismatch {
        /// URL of the server.
        url: String,
        /// The first difference.
        reason: String,
    },
    /// A downloaded file differs from what the server lists.
    #[error("{file}: {reason}")]
    Integrity {
        /// URL of the file, or its path in the cache.
        file: String,
        /// The difference, and what to do.
        reason: String,
    },
    /// A file, folder or repository is missing, or cannot be read or written.
    #[error("{path}: {reason}")]
    NotFound {
        /// The requested path or name.
        path: String,
        /// The reason, and what to do.
        reason: String,
    },
    /// The model computed NaN or infinity: its keys or values overflow a KV cache in f16, or its weights are damaged.
    #[error(
        "the {model} computed logits that are not finite at position {position}: load it with kv_dtype f32; if that fails too, its weights are damaged"
    )]
    NonFiniteLogits {
        /// `target` or `draft model`.
        model: Cow<'static, str>,
        /// Token position, from 0.
        position: usize,
    },
    /// A token cancelled the call, or [`Engine::close`](crate::Engine::close) ended it.
    #[error("{reason}")]
    Aborted {
        /// The call that ended, and what to do.
        reason: String,
    },
    /// A bug in this library or the driver.
    #[error("{reason}")]
    Internal {
        /// The failure.
        reason: String,
    },
}

/// Returns the advice to lower the option that reduces `what`, as the beginning of a sentence; empty if none does.
fn lower(what: &str) -> &'static str {
    match what {
        "the MLP rows" | "the activations" => "lower prefill_chunk, or ",
        "the logits" | "the sampler" | "the weights" => "",
        _ if what.contains("rows of") => "",
        _ => "lower max_context, or ",
    }
}

impl Error {
    /// Returns the error for an option that the state machine refuses.
    pub fn refused(InvalidOption { option, value, allowed }: InvalidOption) -> Self {
        Self::BadOption { option: option.into(), value: value.to_string(), allowed }
    }

    /// Returns the stable code in kebab-case; the same in Rust, in JS and in `--json`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::WebGpuUnavailable { .. } => "webgpu-unavailable",
            Self::OutOfGpuMemory { .. } => "out-of-gpu-memory",
            Self::DeviceLost { .. } => "device-lost",
            Self::GpuBlocked { .. } => "gpu-blocked",
            Self::BadWeights { .. } => "bad-weights",
            Self::BadConfig { .. } => "bad-config",
            Self::UnsupportedArchitecture { .. } => "unsupported-architecture",
            Self::BadTokenizer { .. } => "bad-tokenizer",
            Self::BadTemplate { .. } => "bad-template",
            Self::ContextFull { .. } => "context-full",
            Self::BadOption { .. } => "bad-option",
            Self::Network { .. } => "network",
            Self::Unauthorized { .. } => "unauthorized",
            Self::Overloaded { .. } => "overloaded",
            Self::TokenizerMismatch { .. } => "tokenizer-mismatch",
            Self::Integrity { .. } => "integrity",
            Self::NotFound { .. } => "not-found",
            Self::NonFiniteLogits { .. } => "non-finite-logits",
            Self::Aborted { .. } => "aborted",
            Self::Internal { .. } => "internal",
        }
    }

    /// Returns the variant's fields, for programs.
    pub fn detail(&self) -> Value {
        Self::serialize(self, serde_json::value::Serializer)
            .map_or(Value::Null, |mut variant| variant[self.code()].take())
    }

    /// Returns the error with `place` (a folder or an id) before the name of its file.
    pub fn within(mut self, place: &str) -> Self {
        if let Self::BadWeights { file, .. } | Self::BadConfig { file, .. } | Self::BadTokenizer { file, .. } =
            &mut self
        {
            *file = format!("{place}/{file}");
        }
        self
    }

    /// Returns `{code, message, detail}`, the JSON form of errors outside the engine.
    pub fn to_json(&self) -> Value {
        json!({ "code": self.code(), "message": self.to_string(), "detail": self.detail() })
    }
}

impl Serialize for Error {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Value::serialize(&self.to_json(), to)
    }
}

/// Reads the output of [`Error::to_json`]. An unknown code becomes `internal`, with the message.
impl<'de> Deserialize<'de> for Error {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let told = Value::deserialize(from)?;
        let detail = &told["detail"];
        let text = |key: &str| detail[key].as_str().unwrap_or_default().to_owned();
        let number = |key: &str| detail[key].as_u64().unwrap_or_default();
        let reason = detail["reason"].as_str().or(told["message"].as_str()).unwrap_or_default().to_owned();
        Ok(match told["code"].as_str().unwrap_or_default() {
            "webgpu-unavailable" => Self::WebGpuUnavailable { reason },
            "out-of-gpu-memory" => {
                Self::OutOfGpuMemory { what: text("what"), need: number("need"), limit: detail["limit"].as_u64() }
            }
            "device-lost" => Self::DeviceLost { reason },
            "gpu-blocked" => Self::GpuBlocked { reason },
            "bad-weights" => {
                Self::BadWeights { file: text("file"), rule: WeightsRule::Other { message: text("rule") } }
            }
            "bad-config" => Self::BadConfig { file: text("file"), key: text("key"), reason },
            "unsupported-architecture" => {
                Self::UnsupportedArchitecture { architecture: text("architecture"), supported: text("supported") }
            }
            "bad-tokenizer" => Self::BadTokenizer { file: text("file"), reason },
            "bad-template" => Self::BadTemplate { reason },
            "context-full" => Self::ContextFull { need: number("need") as usize, limit: number("limit") as usize },
            "bad-option" => {
                Self::BadOption { option: text("option").into(), value: text("value"), allowed: text("allowed") }
            }
            // A download error from JavaScript may have no URL.
            "network" if detail["url"].is_string() => Self::Network { url: text("url"), reason },
            "unauthorized" => Self::Unauthorized { url: text("url"), reason },
            "overloaded" => Self::Overloaded { url: text("url"), reason, retry_after: detail["retry_after"].as_f64() },
            "tokenizer-mismatch" => Self::TokenizerMismatch { url: text("url"), reason },
            "integrity" => Self::Integrity { file: text("file"), reason },
            "not-found" => Self::NotFound { path: text("path"), reason },
            "non-finite-logits" => {
                Self::NonFiniteLogits { model: text("model").into(), position: number("position") as usize }
            }
            "aborted" => Self::Aborted { reason },
            _ => Self::Internal { reason },
        })
    }
}

fn as_message<S: Serializer>(rule: &WeightsRule, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(rule)
}
