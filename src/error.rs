//! Everything that can go wrong, as one enum with one stable code per variant: the same on every face.

mod weights_rule;

pub use weights_rule::WeightsRule;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use std::borrow::Cow;

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, and what to do about it. The `Display` text is one line for a person, [`Error::code`] is for programs.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No adapter, or none that can do what is needed.
    #[error("no usable GPU: {reason}")]
    WebGpuUnavailable {
        /// What was tried, and what to install or to switch on.
        reason: String,
    },
    /// The plan needs more than the device can give; with a limit, found before anything is allocated.
    #[error("{what}: {need} bytes of memory are needed, but {}: {}take a smaller model",
        limit.map_or("they are refused".into(), |limit| format!("the limit is {limit}")), lower(what))]
    OutOfGpuMemory {
        /// What would not fit.
        what: String,
        /// Bytes needed.
        need: u64,
        /// Bytes that a buffer can have; none when the driver refused without a number.
        limit: Option<u64>,
    },
    /// The device is gone. A session sets itself up again on a new one; only when that is lost too, before it did
    /// anything, its caller hears of it.
    #[error("the GPU device was lost: {reason}. Load the model again, or a smaller one")]
    DeviceLost {
        /// The driver's words.
        reason: String,
    },
    /// The device is gone, and there is no other: browsers refuse the GPU to pages after it crashed repeatedly.
    #[error("the GPU was lost and is not given back: {reason}. Close all windows of the browser and start it again")]
    GpuBlocked {
        /// The words of the refusal.
        reason: String,
    },
    /// A weight file breaks a rule of its format, or lacks what the model needs.
    #[error("{file}: {rule}")]
    BadWeights {
        /// The file's name in the model's folder.
        file: String,
        /// The rule that it breaks.
        rule: WeightsRule,
    },
    /// `config.json` is not what it should be.
    #[error("{file}: {key}: {reason}")]
    BadConfig {
        /// The file's name in the model's folder.
        file: String,
        /// The key with the wrong or missing value, or `-` for the file as a whole.
        key: String,
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// The model is of a kind that is not known here.
    #[error("the architecture {architecture} is not supported; supported: {supported}")]
    UnsupportedArchitecture {
        /// As `config.json` names it.
        architecture: String,
        /// The known ones.
        supported: String,
    },
    /// `tokenizer.json` cannot be used.
    #[error("{file}: {reason}")]
    BadTokenizer {
        /// The file's name in the model's folder.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// The chat template is missing or cannot be rendered.
    #[error("chat template: {reason}")]
    BadTemplate {
        /// What is wrong, and where.
        reason: String,
    },
    /// The prompt, with what follows it, does not fit the context.
    #[error("the text needs a context of {need} tokens, but it has {limit}: shorten the prompt, or raise max_context")]
    ContextFull {
        /// Tokens of the prompt and of its continuation, or of the prompt and one new token.
        need: usize,
        /// Tokens of the context.
        limit: usize,
    },
    /// An option outside its range.
    #[error("{option}: {value} is not allowed; allowed: {allowed}")]
    BadOption {
        /// The option's name, as in the API (underscores).
        option: Cow<'static, str>,
        /// What was given.
        value: String,
        /// The range or the list of values.
        allowed: String,
    },
    /// A server that cannot be reached, or does not do what it should.
    #[error("{url}: {reason}")]
    Network {
        /// What was asked for, without a query.
        url: String,
        /// What came instead, and what to do.
        reason: String,
    },
    /// A server wants a key, or another one.
    #[error("{url}: {reason}")]
    Unauthorized {
        /// The server.
        url: String,
        /// What it wants, and how to give it.
        reason: String,
    },
    /// A server has too much to do.
    #[error("{url}: {reason}")]
    Overloaded {
        /// The server.
        url: String,
        /// What it answered, and what to do.
        reason: String,
        /// Seconds after which it wants to be asked again, where it says so.
        retry_after: Option<f64>,
    },
    /// A server means something else by a token than the tokenizer here.
    #[error(
        "{url}: its model has another tokenizer ({reason}): name the model that runs there, or a model that shares its tokenizer"
    )]
    TokenizerMismatch {
        /// The server.
        url: String,
        /// The first difference.
        reason: String,
    },
    /// What was downloaded is not what the server lists.
    #[error("{file}: {reason}")]
    Integrity {
        /// The file's address, or where it is kept.
        file: String,
        /// What differs, and what to do.
        reason: String,
    },
    /// A file, folder or repository that is not there, or cannot be read or written.
    #[error("{path}: {reason}")]
    NotFound {
        /// The path or name asked for.
        path: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The model computed NaN or infinity: its keys or values outgrow a KV cache in f16, or its weights are damaged.
    #[error(
        "the {model} computed logits that are not finite at position {position}: load it with kv_dtype f32; if that fails too, its weights are damaged"
    )]
    NonFiniteLogits {
        /// `target` or `draft model`.
        model: Cow<'static, str>,
        /// The token position, from 0.
        position: usize,
    },
    /// A bug: of this library, or of the driver.
    #[error("{reason}")]
    Internal {
        /// What happened.
        reason: String,
    },
}

/// The option that makes `what` smaller, as the beginning of an advice; empty if none does.
fn lower(what: &str) -> &'static str {
    match what {
        "the MLP rows" | "the activations" => "lower prefill_chunk, or ",
        "the logits" | "the sampler" | "the weights" => "",
        _ if what.contains("rows of") => "",
        _ => "lower max_context, or ",
    }
}

impl Error {
    /// The stable code, in kebab-case; the same in Rust, in JS and in `--json`.
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
            Self::Internal { .. } => "internal",
        }
    }

    /// The variant's fields, for programs.
    pub fn detail(&self) -> Value {
        match self {
            Self::WebGpuUnavailable { reason }
            | Self::DeviceLost { reason }
            | Self::GpuBlocked { reason }
            | Self::BadTemplate { reason }
            | Self::Internal { reason } => json!({ "reason": reason }),
            Self::OutOfGpuMemory { what, need, limit } => json!({ "what": what, "need": need, "limit": limit }),
            Self::BadWeights { file, rule } => json!({ "file": file, "rule": rule.to_string() }),
            Self::BadConfig { file, key, reason } => json!({ "file": file, "key": key, "reason": reason }),
            Self::UnsupportedArchitecture { architecture, supported } => {
                json!({ "architecture": architecture, "supported": supported })
            }
            Self::Network { url, reason }
            | Self::Unauthorized { url, reason }
            | Self::TokenizerMismatch { url, reason } => json!({ "url": url, "reason": reason }),
            Self::Overloaded { url, reason, retry_after } => {
                json!({ "url": url, "reason": reason, "retry_after": retry_after })
            }
            Self::BadTokenizer { file, reason } | Self::Integrity { file, reason } => {
                json!({ "file": file, "reason": reason })
            }
            Self::ContextFull { need, limit } => json!({ "need": need, "limit": limit }),
            Self::BadOption { option, value, allowed } => {
                json!({ "option": option, "value": value, "allowed": allowed })
            }
            Self::NotFound { path, reason } => json!({ "path": path, "reason": reason }),
            Self::NonFiniteLogits { model, position } => json!({ "model": model, "position": position }),
        }
    }

    /// The same error, with the place (a folder or an id) in front of its file's name.
    pub fn within(mut self, place: &str) -> Self {
        if let Self::BadWeights { file, .. } | Self::BadConfig { file, .. } | Self::BadTokenizer { file, .. } =
            &mut self
        {
            *file = format!("{place}/{file}");
        }
        self
    }

    /// `{code, message, detail}`, the shape in which errors leave the engine.
    pub fn to_json(&self) -> Value {
        json!({ "code": self.code(), "message": self.to_string(), "detail": self.detail() })
    }
}

impl Serialize for Error {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        self.to_json().serialize(to)
    }
}

/// Reads what [`Error::to_json`] writes. An unknown code becomes `internal`, with the message.
impl<'de> Deserialize<'de> for Error {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
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
            // An error of a download in JavaScript may have no URL.
            "network" if detail["url"].is_string() => Self::Network { url: text("url"), reason },
            "unauthorized" => Self::Unauthorized { url: text("url"), reason },
            "overloaded" => Self::Overloaded { url: text("url"), reason, retry_after: detail["retry_after"].as_f64() },
            "tokenizer-mismatch" => Self::TokenizerMismatch { url: text("url"), reason },
            "integrity" => Self::Integrity { file: text("file"), reason },
            "not-found" => Self::NotFound { path: text("path"), reason },
            "non-finite-logits" => {
                Self::NonFiniteLogits { model: text("model").into(), position: number("position") as usize }
            }
            _ => Self::Internal { reason },
        })
    }
}
