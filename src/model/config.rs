//! `config.json` -> [`ModelSpec`]: every number checked against its range, every error with its key.

use super::spec::{Activation, Architecture, LayerSpec, Mlp, ModelSpec, NormKind, Residual, RopeScaling, RopeSpec};
use crate::error::{Error, Result};
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

const FILE: &str = "config.json";
const SUPPORTED: &str = "llama, mistral, qwen2, qwen3, smollm3";

/// Reads `config.json`, and the end-of-text tokens of `generation_config.json` where that names others.
///
/// # Errors
/// [`Error::BadConfig`] with the key; [`Error::UnsupportedArchitecture`].
pub fn parse_config(config: &[u8], generation_config: Option<&[u8]>) -> Result<ModelSpec> {
    let config = Config::parse(FILE, config)?;
    let architecture = architecture(&config)?;
    let hidden_size = config.count("hidden_size", 1..=1 << 16)?;
    let heads = config.count("num_attention_heads", 1..=1024)?;
    let kv_heads = config.count_or("num_key_value_heads", 1..=1024, heads)?;
    if !heads.is_multiple_of(kv_heads) {
        return config.bad("num_key_value_heads", format!("{kv_heads} does not divide num_attention_heads, {heads}"));
    }
    let head_dim = match config.optional("head_dim") {
        Some(_) => config.count("head_dim", 4..=256)?,
        None if hidden_size.is_multiple_of(heads) => hidden_size / heads,
        None => {
            return config.bad("num_attention_heads", format!("{heads} does not divide hidden_size, {hidden_size}"));
        }
    };
    if !head_dim.is_multiple_of(4) || head_dim > 256 {
        return config.bad("head_dim", format!("{head_dim} is not a multiple of 4 up to 256"));
    }
    let num_layers = config.count("num_hidden_layers", 1..=256)?;
    let max_position_embeddings = config.count("max_position_embeddings", 2..=1 << 24)?;
    let attention_bias = config.flag("attention_bias", false)?;
    let mlp_bias = config.flag("mlp_bias", false)?;
    let is = |wanted| architecture == wanted;
    let eos = match generation_config.map(|bytes| Config::parse("generation_config.json", bytes)).transpose()? {
        Some(generation) if generation.optional("eos_token_id").is_some() => generation.tokens("eos_token_id")?,
        _ => config.tokens("eos_token_id")?,
    };
    Ok(ModelSpec {
        architecture,
        vocab_size: config.count("vocab_size", 1..=1 << 20)?,
        hidden_size,
        num_attention_heads: heads,
        num_key_value_heads: kv_heads,
        head_dim,
        intermediate_size: config.count("intermediate_size", 1..=1 << 18)?,
        max_position_embeddings,
        norm: NormKind::Rms,
        norm_eps: config.number("rms_norm_eps", 1e-6, f64::MIN_POSITIVE..=1.0)?,
        embedding_scale: 1.0,
        attention_scale: (head_dim as f64).powf(-0.5) as f32,
        qkv_bias: is(Architecture::Qwen2) || attention_bias,
        output_bias: !is(Architecture::Qwen2) && attention_bias,
        qk_norm: is(Architecture::Qwen3),
        mlp: Mlp::Gated { activation: activation(&config)?, bias: mlp_bias },
        residual: Residual::Sequential,
        tie_word_embeddings: config.flag("tie_word_embeddings", false)?,
        ropes: vec![rope(&config, head_dim)?],
        layers: layers(&config, architecture, num_layers)?,
        bos_token_id: config.tokens("bos_token_id")?.first().copied(),
        eos_token_id: eos,
    })
}

fn architecture(config: &Config) -> Result<Architecture> {
    let name = config.text("model_type")?;
    Ok(match name {
        "llama" => Architecture::Llama,
        "mistral" => Architecture::Mistral,
        "qwen2" => Architecture::Qwen2,
        "qwen3" => Architecture::Qwen3,
        "smollm3" => Architecture::SmolLm3,
        other => {
            return Err(Error::UnsupportedArchitecture { architecture: other.into(), supported: SUPPORTED.into() });
        }
    })
}

fn activation(config: &Config) -> Result<Activation> {
    match config.optional("hidden_act").and_then(Value::as_str).unwrap_or("silu") {
        "silu" | "swish" => Ok(Activation::Silu),
        other => config.bad("hidden_act", format!("{other} is not supported; supported: silu")),
    }
}

/// Windows and rotation, layer by layer.
fn layers(config: &Config, architecture: Architecture, count: usize) -> Result<Vec<LayerSpec>> {
    let window = match config.optional("sliding_window") {
        Some(_) => Some(config.count("sliding_window", 1..=1 << 24)?),
        None => None,
    };
    // Mistral uses its window in all layers, the Qwens and SmolLM3 only when a switch says so.
    let by_switch = architecture != Architecture::Mistral;
    let window_on = architecture != Architecture::Llama && (!by_switch || config.flag("use_sliding_window", false)?);
    let types = config.list("layer_types", count)?;
    let first_window = config.count_or("max_window_layers", 0..=1 << 16, 0)?;
    let rotates = config.list("no_rope_layers", count)?;
    let interval = config.count_or("no_rope_layer_interval", 1..=1 << 16, 4)?;
    (0..count)
        .map(|i| {
            let slides = match types.and_then(|types| types.get(i)) {
                Some(Value::String(kind)) if kind == "sliding_attention" => true,
                Some(Value::String(kind)) if kind == "full_attention" => false,
                Some(other) => {
                    let reason = format!("{other} is not supported; supported: full_attention, sliding_attention");
                    return config.bad("layer_types", reason);
                }
                None => !by_switch || i >= first_window,
            };
            let turned = match rotates.and_then(|rotates| rotates.get(i)) {
                Some(flag) => flag.as_u64() != Some(0),
                None => architecture != Architecture::SmolLm3 || (i + 1) % interval != 0,
            };
            Ok(LayerSpec { window: window.filter(|_| window_on && slides), rope: turned.then_some(0) })
        })
        .collect()
}

/// `rope_parameters` (transformers 5), or `rope_theta` and `rope_scaling` (before).
fn rope(config: &Config, head_dim: usize) -> Result<RopeSpec> {
    let parameters = config.object("rope_parameters")?.or(config.object("rope_scaling")?);
    let within = parameters.as_ref().unwrap_or(config);
    let theta_range = 1.0..=1e12;
    let theta = match within.optional("rope_theta") {
        Some(_) => within.number("rope_theta", 0.0, theta_range)?,
        None => config.number("rope_theta", 10_000.0, theta_range)?,
    };
    let partial = match within.optional("partial_rotary_factor") {
        Some(_) => within.number("partial_rotary_factor", 1.0, 0.01..=1.0)?,
        None => config.number("partial_rotary_factor", 1.0, 0.01..=1.0)?,
    };
    let kind = within.optional("rope_type").or(within.optional("type")).and_then(Value::as_str);
    let factor = || within.number("factor", 1.0, 1e-3..=1e6);
    let scaling = match kind.filter(|_| parameters.is_some()).unwrap_or("default") {
        "default" => RopeScaling::None,
        "linear" => RopeScaling::Linear { factor: factor()? },
        "llama3" => RopeScaling::Llama3 {
            factor: factor()?,
            low_freq_factor: within.number("low_freq_factor", 1.0, 1e-3..=1e6)?,
            high_freq_factor: within.number("high_freq_factor", 4.0, 1e-3..=1e6)?,
            original_max_position_embeddings: within.number("original_max_position_embeddings", 8192.0, 1.0..=1e9)?,
        },
        other => {
            return within.bad("rope_type", format!("{other} is not supported; supported: default, linear, llama3"));
        }
    };
    if let RopeScaling::Llama3 { low_freq_factor, high_freq_factor, .. } = scaling
        && high_freq_factor <= low_freq_factor
    {
        return within.bad("high_freq_factor", "it must be larger than low_freq_factor".into());
    }
    let rotary_dim = (head_dim as f64 * partial) as usize / 2 * 2;
    Ok(RopeSpec { theta, rotary_dim, scaling })
}

/// A JSON object whose values are read with a range and an error that names the key.
struct Config {
    file: &'static str,
    prefix: String,
    values: Map<String, Value>,
}

impl Config {
    fn parse(file: &'static str, bytes: &[u8]) -> Result<Self> {
        let bad = |reason: String| Error::BadConfig { file: file.into(), key: "-".into(), reason };
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(values)) => Ok(Self { file, prefix: String::new(), values }),
            Ok(_) => Err(bad("it is not a JSON object".into())),
            Err(error) => Err(bad(format!("it is not JSON: {error}"))),
        }
    }

    fn bad<T>(&self, key: &str, reason: String) -> Result<T> {
        Err(Error::BadConfig { file: self.file.into(), key: format!("{}{key}", self.prefix), reason })
    }

    fn optional(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    fn object(&self, key: &str) -> Result<Option<Self>> {
        match self.optional(key) {
            None => Ok(None),
            Some(Value::Object(values)) => {
                Ok(Some(Self { file: self.file, prefix: format!("{}{key}.", self.prefix), values: values.clone() }))
            }
            Some(_) => self.bad(key, "it is not an object".into()),
        }
    }

    fn text(&self, key: &str) -> Result<&str> {
        match self.optional(key) {
            Some(Value::String(text)) => Ok(text),
            Some(_) => self.bad(key, "it is not a string".into()),
            None => self.bad(key, "it is missing".into()),
        }
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool> {
        match self.optional(key) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => self.bad(key, "it is neither true nor false".into()),
        }
    }

    fn count(&self, key: &str, range: RangeInclusive<usize>) -> Result<usize> {
        match self.optional(key) {
            None => self.bad(key, "it is missing".into()),
            Some(value) => match value.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| range.contains(n)) {
                Some(n) => Ok(n),
                None => {
                    self.bad(key, format!("{value} is not a whole number from {} to {}", range.start(), range.end()))
                }
            },
        }
    }

    fn count_or(&self, key: &str, range: RangeInclusive<usize>, default: usize) -> Result<usize> {
        if self.optional(key).is_some() { self.count(key, range) } else { Ok(default) }
    }

    fn number(&self, key: &str, default: f64, range: RangeInclusive<f64>) -> Result<f64> {
        match self.optional(key) {
            None => Ok(default),
            Some(value) => match value.as_f64().filter(|n| range.contains(n)) {
                Some(n) => Ok(n),
                None => self.bad(key, format!("{value} is not a number from {} to {}", range.start(), range.end())),
            },
        }
    }

    fn list(&self, key: &str, length: usize) -> Result<Option<&Vec<Value>>> {
        match self.optional(key) {
            None => Ok(None),
            Some(Value::Array(list)) if list.len() == length => Ok(Some(list)),
            Some(_) => self.bad(key, format!("it is not a list with one entry for each of the {length} layers")),
        }
    }

    /// One token id or a list of them; missing: none.
    fn tokens(&self, key: &str) -> Result<Vec<u32>> {
        let ids = match self.optional(key) {
            None => return Ok(Vec::new()),
            Some(Value::Array(ids)) => ids.as_slice(),
            Some(id) => std::slice::from_ref(id),
        };
        let parsed: Option<Vec<u32>> = ids.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok())).collect();
        parsed.map_or_else(|| self.bad(key, "it is neither a token id nor a list of them".into()), Ok)
    }
}
