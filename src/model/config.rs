//! `config.json` -> [`ModelSpec`]: every number checked against its range, every error with its key.

use super::spec::{Activation, Architecture, LayerSpec, Mlp, ModelSpec, RopeScaling, RopeSpec};
use crate::error::{Error, Result};
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

const FILE: &str = "config.json";
const SUPPORTED: &str = "llama, mistral, qwen2, qwen3, smollm3";

/// What the config class of transformers takes for a key that `config.json` leaves out.
struct Defaults {
    /// None: as many as query heads.
    num_key_value_heads: Option<usize>,
    /// None: `hidden_size / num_attention_heads`.
    head_dim: Option<usize>,
    sliding_window: Option<usize>,
    rope_theta: f64,
    tie_word_embeddings: bool,
    bos_token_id: Option<u32>,
    eos_token_id: Option<u32>,
}

impl Defaults {
    fn of(architecture: Architecture) -> Self {
        let common = Self {
            num_key_value_heads: None,
            head_dim: None,
            sliding_window: None,
            rope_theta: 10_000.0,
            tie_word_embeddings: false,
            bos_token_id: None,
            eos_token_id: None,
        };
        match architecture {
            Architecture::Llama => Self { bos_token_id: Some(1), eos_token_id: Some(2), ..common },
            Architecture::Mistral => Self {
                num_key_value_heads: Some(8),
                sliding_window: Some(4096),
                bos_token_id: Some(1),
                eos_token_id: Some(2),
                ..common
            },
            Architecture::Qwen2 => Self { num_key_value_heads: Some(32), sliding_window: Some(4096), ..common },
            Architecture::Qwen3 => {
                Self { num_key_value_heads: Some(32), head_dim: Some(128), sliding_window: Some(4096), ..common }
            }
            Architecture::SmolLm3 => Self {
                num_key_value_heads: Some(4),
                rope_theta: 2_000_000.0,
                tie_word_embeddings: true,
                bos_token_id: Some(128_000),
                eos_token_id: Some(128_001),
                ..common
            },
        }
    }
}

/// Reads `config.json`, and the end-of-text tokens of `generation_config.json` where that names others. A key that is left
/// out has the value that it has in transformers, or is refused where every model has another one.
///
/// # Errors
/// [`Error::BadConfig`] with the key; [`Error::UnsupportedArchitecture`].
pub fn parse_config(config: &[u8], generation_config: Option<&[u8]>) -> Result<ModelSpec> {
    let config = Config::parse(FILE, config)?;
    let architecture = architecture(&config)?;
    let defaults = Defaults::of(architecture);
    let hidden_size = config.count("hidden_size", 1..=1 << 16)?;
    let heads = config.count("num_attention_heads", 1..=1024)?;
    let kv_heads = config.nullable("num_key_value_heads", 1..=1024, defaults.num_key_value_heads)?.unwrap_or(heads);
    if !heads.is_multiple_of(kv_heads) {
        return config.bad("num_key_value_heads", format!("{kv_heads} does not divide num_attention_heads, {heads}"));
    }
    let head_dim = match config.nullable("head_dim", 4..=256, defaults.head_dim)? {
        Some(head_dim) => head_dim,
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
    let (qkv_bias, output_bias) = match architecture {
        Architecture::Mistral => (false, false),
        Architecture::Qwen2 => (true, false),
        Architecture::Llama | Architecture::Qwen3 | Architecture::SmolLm3 => {
            let bias = config.flag("attention_bias", false)?;
            (bias, bias)
        }
    };
    let mlp_bias = match architecture {
        Architecture::Llama | Architecture::SmolLm3 => config.flag("mlp_bias", false)?,
        Architecture::Mistral | Architecture::Qwen2 | Architecture::Qwen3 => false,
    };
    let eos = match generation_config.map(|bytes| Config::parse("generation_config.json", bytes)).transpose()? {
        Some(generation) if generation.optional("eos_token_id").is_some() => generation.tokens("eos_token_id", None)?,
        _ => config.tokens("eos_token_id", defaults.eos_token_id)?,
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
        norm_eps: config.number_or("rms_norm_eps", f64::MIN_POSITIVE..=1.0, 1e-6)?,
        embedding_scale: 1.0,
        attention_scale: (head_dim as f64).powf(-0.5) as f32,
        qkv_bias,
        output_bias,
        qk_norm: architecture == Architecture::Qwen3,
        mlp: Mlp::Gated { activation: activation(&config)?, bias: mlp_bias },
        tie_word_embeddings: config.flag("tie_word_embeddings", defaults.tie_word_embeddings)?,
        ropes: vec![rope(&config, head_dim, max_position_embeddings, defaults.rope_theta)?],
        layers: layers(&config, architecture, num_layers, defaults.sliding_window)?,
        bos_token_id: config.tokens("bos_token_id", defaults.bos_token_id)?.first().copied(),
        eos_token_id: eos,
    })
}

fn architecture(config: &Config) -> Result<Architecture> {
    Ok(match config.text("model_type", None)? {
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
    match config.text("hidden_act", Some("silu"))? {
        "silu" | "swish" => Ok(Activation::Silu),
        other => config.bad("hidden_act", format!("{other} is not supported; supported: silu")),
    }
}

/// Windows and rotation, layer by layer.
fn layers(
    config: &Config,
    architecture: Architecture,
    count: usize,
    default_window: Option<usize>,
) -> Result<Vec<LayerSpec>> {
    let has_window = match architecture {
        Architecture::Llama => false,
        Architecture::Mistral => true,
        _ => config.flag("use_sliding_window", false)?,
    };
    let window = if has_window { config.nullable("sliding_window", 1..=1 << 24, default_window)? } else { None };
    let rotates = rotates(config, architecture, count)?;
    // The layers that slide unless `layer_types` names them.
    let slides: Vec<_> = match architecture {
        Architecture::Llama | Architecture::Mistral => vec![true; count],
        Architecture::Qwen2 | Architecture::Qwen3 => {
            let first = config.count_or("max_window_layers", 0..=1 << 16, 28)?;
            (0..count).map(|i| i >= first).collect()
        }
        Architecture::SmolLm3 => rotates.iter().map(|rotates| !rotates).collect(),
    };
    let types = if architecture == Architecture::Llama { None } else { config.list("layer_types", count..=count)? };
    let spec = |(i, (slides, rotates)): (usize, (bool, bool))| {
        let bad = |reason: String| config.bad("layer_types", reason);
        let slides = match types.map(|types| &types[i]) {
            None => slides,
            Some(Value::String(kind)) if kind == "full_attention" => false,
            Some(Value::String(kind)) if kind == "sliding_attention" => match window {
                Some(_) => true,
                None => return bad(format!("layer {i} has sliding_attention, but the model has no sliding_window")),
            },
            Some(other) => {
                return bad(format!("{other} is not supported; supported: full_attention, sliding_attention"));
            }
        };
        Ok(LayerSpec { window: window.filter(|_| slides), rope: rotates.then_some(0) })
    };
    slides.into_iter().zip(rotates).enumerate().map(spec).collect()
}

/// Which layers rotate.
fn rotates(config: &Config, architecture: Architecture, count: usize) -> Result<Vec<bool>> {
    if architecture != Architecture::SmolLm3 {
        return Ok(vec![true; count]);
    }
    let Some(flags) = config.list("no_rope_layers", count..=usize::MAX)? else {
        let interval = config.count_or("no_rope_layer_interval", 1..=1 << 16, 4)?;
        return Ok((1..=count).map(|number| number % interval != 0).collect());
    };
    let flag = |value: &Value| match (value.as_bool(), value.as_u64()) {
        (Some(flag), _) => Ok(flag),
        (_, Some(0)) => Ok(false),
        (_, Some(1)) => Ok(true),
        _ => config.bad("no_rope_layers", format!("{value} is neither 0 nor 1")),
    };
    flags[..count].iter().map(flag).collect()
}

/// `rope_parameters` (transformers 5), or `rope_theta` and `rope_scaling` (before), which win where both are given.
fn rope(config: &Config, head_dim: usize, max_positions: usize, default_theta: f64) -> Result<RopeSpec> {
    let scaling = config.object("rope_scaling")?;
    let within = if scaling.values.is_empty() { config.object("rope_parameters")? } else { scaling };
    if let Some((key, _)) = within.values.iter().find(|(_, value)| value.is_object()) {
        return within.bad(key, "rotation by layer type is not supported".into());
    }
    for config in [&within, config] {
        if config.optional("partial_rotary_factor").is_some_and(|factor| factor.as_f64() != Some(1.0)) {
            return config.bad("partial_rotary_factor", "only 1 is supported: whole heads rotate".into());
        }
    }
    let theta_range = 1.0..=1e12;
    let theta = config.number_or("rope_theta", theta_range.clone(), default_theta)?;
    let theta = within.number_or("rope_theta", theta_range, theta)?;
    let positive = 1e-3..=1e6;
    let kind = within.text("type", Some("default"))?;
    let scaling = match within.text("rope_type", Some(kind))? {
        "default" => RopeScaling::None,
        "linear" => RopeScaling::Linear { factor: within.number("factor", positive)? },
        "llama3" => RopeScaling::Llama3 {
            factor: within.number("factor", positive.clone())?,
            low_freq_factor: within.number("low_freq_factor", positive.clone())?,
            high_freq_factor: within.number("high_freq_factor", positive)?,
            original_max_position_embeddings: within.number_or(
                "original_max_position_embeddings",
                1.0..=1e9,
                max_positions as f64,
            )?,
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
    Ok(RopeSpec { theta, rotary_dim: head_dim, scaling })
}

/// A JSON object whose values are read with a range and an error that names the key. As in transformers, null is a value of
/// its own: few keys may have it.
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

    fn required(&self, key: &str) -> Result<&Value> {
        self.values.get(key).map_or_else(|| self.bad(key, "it is missing".into()), Ok)
    }

    /// Where null is the same as missing.
    fn optional(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    /// Missing or null: an empty one.
    fn object(&self, key: &str) -> Result<Self> {
        let values = match self.optional(key) {
            None => Map::new(),
            Some(Value::Object(values)) => values.clone(),
            Some(_) => return self.bad(key, "it is not an object".into()),
        };
        Ok(Self { file: self.file, prefix: format!("{}{key}.", self.prefix), values })
    }

    fn text<'a>(&'a self, key: &str, default: Option<&'a str>) -> Result<&'a str> {
        match (self.values.get(key), default) {
            (None, Some(default)) => Ok(default),
            _ => self.required(key)?.as_str().map_or_else(|| self.bad(key, "it is not a string".into()), Ok),
        }
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool> {
        match self.values.get(key) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => self.bad(key, "it is neither true nor false".into()),
        }
    }

    fn count(&self, key: &str, range: RangeInclusive<usize>) -> Result<usize> {
        let value = self.required(key)?;
        match value.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| range.contains(n)) {
            Some(n) => Ok(n),
            None => self.bad(key, format!("{value} is not a whole number from {} to {}", range.start(), range.end())),
        }
    }

    fn count_or(&self, key: &str, range: RangeInclusive<usize>, default: usize) -> Result<usize> {
        if self.values.contains_key(key) { self.count(key, range) } else { Ok(default) }
    }

    /// A count that may be none: null.
    fn nullable(&self, key: &str, range: RangeInclusive<usize>, default: Option<usize>) -> Result<Option<usize>> {
        match self.values.get(key) {
            None => Ok(default),
            Some(Value::Null) => Ok(None),
            Some(_) => self.count(key, range).map(Some),
        }
    }

    fn number(&self, key: &str, range: RangeInclusive<f64>) -> Result<f64> {
        let value = self.required(key)?;
        match value.as_f64().filter(|n| range.contains(n)) {
            Some(n) => Ok(n),
            None => self.bad(key, format!("{value} is not a number from {} to {}", range.start(), range.end())),
        }
    }

    fn number_or(&self, key: &str, range: RangeInclusive<f64>, default: f64) -> Result<f64> {
        if self.values.contains_key(key) { self.number(key, range) } else { Ok(default) }
    }

    fn list(&self, key: &str, lengths: RangeInclusive<usize>) -> Result<Option<&[Value]>> {
        match self.optional(key) {
            None => Ok(None),
            Some(Value::Array(list)) if lengths.contains(&list.len()) => Ok(Some(list)),
            Some(_) => {
                let layers = lengths.start();
                self.bad(key, format!("it is not a list with one entry for each of the {layers} layers"))
            }
        }
    }

    /// One token id or a list of them; null: none.
    fn tokens(&self, key: &str, default: Option<u32>) -> Result<Vec<u32>> {
        let ids = match self.values.get(key) {
            None => return Ok(default.into_iter().collect()),
            Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(ids)) => ids.as_slice(),
            Some(id) => std::slice::from_ref(id),
        };
        let parsed: Option<Vec<u32>> = ids.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok())).collect();
        parsed.map_or_else(|| self.bad(key, "it is neither a token id nor a list of them".into()), Ok)
    }
}
