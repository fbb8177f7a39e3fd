//! Translates the metadata of a GGUF file to the keys of `config.json`, so that one parser checks both.

use crate::error::{Error, Result};
use crate::model::{Architecture, ModelSpec, Naming, is_assistant, is_block_drafter, spec_of_gguf, yarn_growth};
use crate::weights::{Metadata, Weights};
use serde_json::{Map, Value, json};

/// Keys of `config.json` and llama.cpp's names for them, without the architecture prefix. The first name that is present counts.
const WORDS: [(&str, &[&str]); 42] = [
    ("max_position_embeddings", &["context_length"]),
    ("num_hidden_layers", &["block_count"]),
    ("hidden_size", &["embedding_length"]),
    ("intermediate_size", &["feed_forward_length"]),
    ("num_attention_heads", &["attention.head_count"]),
    ("num_key_value_heads", &["attention.head_count_kv"]),
    ("head_dim", &["attention.key_length"]),
    ("rms_norm_eps", &["attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"]),
    ("partial_rotary_factor", &["rope.dimension_count"]),
    ("rope_theta", &["rope.freq_base"]),
    ("rope_local_base_freq", &["rope.freq_base_swa"]),
    ("sliding_window", &["attention.sliding_window"]),
    ("sliding_window_pattern", &["attention.sliding_window_pattern"]),
    ("use_parallel_residual", &["use_parallel_residual"]),
    ("conv_L_cache", &["shortconv.l_cache"]),
    ("full_attention_interval", &["full_attention_interval"]),
    ("linear_conv_kernel_dim", &["ssm.conv_kernel"]),
    ("linear_key_head_dim", &["ssm.state_size"]),
    ("linear_num_key_heads", &["ssm.group_count"]),
    ("linear_num_value_heads", &["ssm.time_step_rank"]),
    ("num_kv_shared_layers", &["attention.shared_kv_layers"]),
    ("hidden_size_per_layer_input", &["embedding_length_per_layer_input"]),
    ("original_max_position_embeddings", &["rope.scaling.original_context_length"]),
    ("num_experts", &["expert_count"]),
    ("num_experts_per_tok", &["expert_used_count"]),
    ("moe_intermediate_size", &["expert_feed_forward_length"]),
    ("shared_expert_intermediate_size", &["expert_shared_feed_forward_length"]),
    ("norm_topk_prob", &["expert_weights_norm"]),
    ("routed_scaling_factor", &["expert_weights_scale"]),
    ("scoring_func", &["expert_gating_func"]),
    ("attn_logit_softcapping", &["attn_logit_softcapping"]),
    ("final_logit_softcapping", &["final_logit_softcapping"]),
    ("attention_multiplier", &["attention.scale"]),
    ("embedding_multiplier", &["embedding_scale"]),
    ("residual_multiplier", &["residual_scale"]),
    ("logits_scaling", &["logit_scale"]),
    ("logit_scale", &["logit_scale"]),
    ("rope_scaling.llama_4_scaling_beta", &["attention.temperature_scale"]),
    ("rope_scaling.beta_fast", &["rope.scaling.yarn_beta_fast"]),
    ("rope_scaling.beta_slow", &["rope.scaling.yarn_beta_slow"]),
    ("rope_scaling.rope_type", &["rope.scaling.type"]),
    ("rope_scaling.factor", &["rope.scaling.factor", "rope.scale_linear"]),
];

/// Keys that change the computation in unsupported ways, each with the value that has no effect.
const REFUSED: [(&str, f64); 3] =
    [("attention.causal", 1.0), ("attention.clamp_kqv", 0.0), ("attention.max_alibi_bias", 0.0)];

/// Numbers of layers of Gemma 3 27B and Gemma 2 27B. They do not scale attention scores by the head size, but the file does not say so.
const GEMMA_27B: [u64; 2] = [62, 46];

/// Reads the model's spec. Missing keys get llama.cpp's defaults, not those of transformers.
pub(super) async fn spec(file: &str, metadata: &Metadata, weights: &Weights) -> Result<ModelSpec> {
    let words = WordFiles { file, architecture: text(metadata, "general.architecture").unwrap_or_default(), metadata };
    let values = words.translate(weights).await?;
    spec_of_gguf(file, values).map_err(|error| words.named_as_there(error))
}

pub(super) fn text(metadata: &Metadata, key: &str) -> Option<String> {
    metadata.get(key)?.as_str().map(str::to_owned)
}

struct WordFiles<'a> {
    file: &'a str,
    architecture: String,
    metadata: &'a Metadata,
}

impl WordFiles<'_> {
    fn get(&self, key: &str) -> Option<Value> {
        self.metadata.get(&format!("{}.{key}", self.architecture))
    }

    fn bad(&self, key: &str, reason: String) -> Error {
        Error::BadConfig { file: self.file.into(), key: format!("{}.{key}", self.architecture), reason }
    }

    async fn translate(&self, weights: &Weights) -> Result<Map<String, Value>> {
        for (key, harmless) in REFUSED {
            let number = |value: &Value| value.as_bool().map_or(value.as_f64(), |flag| Some(f64::from(u8::from(flag))));
            // Rows of a block drafter see each other.
            let is_of_block = is_block_drafter(&self.architecture) && key == "attention.causal";
            if let Some(value) = self.get(key).filter(|value| number(value) != Some(harmless) && !is_of_block) {
                return Err(self.bad(key, format!("{value} is not supported: the model would compute something else")));
            }
        }
        let mut values = Map::new();
        let mut scaling = Map::new();
        values.insert("model_type".into(), self.architecture.clone().into());
        for (word, keys) in WORDS {
            let Some(value) = keys.iter().find_map(|key| self.get(key)) else { continue };
            // Some files list what is the same in each layer.
            let value = match value {
                Value::Array(all)
                    if word != "sliding_window_pattern" && all.iter().all(|each| Some(each) == all.first()) =>
                {
                    all.into_iter().next().unwrap_or_default()
                }
                value => value,
            };
            match word.split_once('.') {
                Some((_, word)) => scaling.insert(word.into(), value),
                None => values.insert(word.into(), value),
            };
        }
        // Layers without keys and values are recurrent.
        if let Some(Value::Array(all)) = values.get("num_key_value_heads").cloned() {
            let kind = |heads: &Value| if heads.as_u64() == Some(0) { "recurrent" } else { "full_attention" };
            values.insert("layer_types".into(), all.iter().map(kind).collect());
            let is_global = |layer: usize| match values.get("sliding_window_pattern") {
                Some(Value::Array(slides)) => slides.get(layer) == Some(&Value::Bool(false)),
                _ => false,
            };
            // Two counts are no number, which is then an error.
            let common = |global: bool| {
                let layers = all.iter().enumerate().filter(|(layer, _)| is_global(*layer) == global);
                let heads = layers.map(|(_, heads)| heads.clone()).filter(|heads| heads.as_u64() != Some(0));
                heads.reduce(|first, other| if first == other { first } else { Value::Array(vec![first, other]) })
            };
            let (windowed, global) = (common(false), common(true));
            values.insert("num_key_value_heads".into(), windowed.into());
            values.insert("num_global_key_value_heads".into(), global.into());
        }
        let count = |values: &Map<String, Value>, word: &str| values.get(word).and_then(Value::as_u64);
        self.add_recurrence(&mut values)?;
        self.add_drafter(weights, &mut values)?;
        self.add_experts(weights, &mut values);
        let heads = count(&values, "num_attention_heads");
        let shared = count(&values, "hidden_size").zip(heads).and_then(|(size, heads)| size.checked_div(heads));
        if let Some(heads) = heads {
            values.entry("num_key_value_heads").or_insert(heads.into());
        }
        if let Some(size) = shared {
            values.entry("head_dim").or_insert(size.into());
        }
        let head_dim = count(&values, "head_dim");
        if let Some(value) = self.get("attention.value_length").filter(|value| value.as_u64() != head_dim) {
            return Err(self.bad("attention.value_length", format!("{value} is not that of keys, {head_dim:?}")));
        }
        let rotating = count(&values, "partial_rotary_factor").or(head_dim).unwrap_or(0);
        let factor = rotating as f64 / head_dim.unwrap_or(1).max(1) as f64;
        values.insert("partial_rotary_factor".into(), factor.into());
        // Layers with and without a window may have heads of different sizes.
        values.insert("global_head_dim".into(), head_dim.into());
        if let Some(of_windows) = self.get("attention.key_length_swa") {
            for key in ["attention.value_length_swa", "rope.dimension_count_swa"] {
                if let Some(value) = self.get(key).filter(|value| *value != of_windows) {
                    return Err(self.bad(key, format!("{value} is not attention.key_length_swa, {of_windows}")));
                }
            }
            values.insert("head_dim".into(), of_windows);
        }
        values.entry("hidden_size_per_layer_input").or_insert(0.into());
        values.entry("rope_theta").or_insert(10_000.into());
        values.entry("sliding_window").or_insert(Value::Null);
        if values.get("sliding_window").and_then(Value::as_u64) == Some(0) {
            values.insert("sliding_window".into(), Value::Null);
        }
        if let Some(Value::Array(slides)) = values.get("sliding_window_pattern").cloned() {
            values.remove("sliding_window_pattern");
            let kind = |slides| if slides == &Value::Bool(true) { "sliding_attention" } else { "full_attention" };
            values.insert("layer_types".into(), slides.iter().map(kind).collect());
        }
        let is_27b = count(&values, "num_hidden_layers").is_some_and(|layers| GEMMA_27B.contains(&layers));
        let scalar = if is_27b { shared } else { head_dim };
        values.insert("query_pre_attn_scalar".into(), scalar.into());
        let tokens = || self.metadata.texts("tokenizer.ggml.tokens").map(|tokens| tokens.len() as u64);
        let rows = weights.get("token_embd.weight").map(|table| table.rows());
        if let Some(count) = rows.or_else(tokens) {
            values.insert("vocab_size".into(), count.into());
        }
        values.insert("tie_word_embeddings".into(), (!weights.contains("output.weight")).into());
        let lacks_v = |name: &str| {
            let layer = name.strip_suffix("attn_k.weight");
            layer.is_some_and(|layer| !weights.contains(&format!("{layer}attn_v.weight")))
        };
        values.insert("attention_k_eq_v".into(), weights.iter().any(|(name, _)| lacks_v(name)).into());
        values.insert("has_mlp_norm".into(), weights.contains("blk.0.ffn_norm.weight").into());
        let biased = ["attn_q", "attn_qkv"].iter().any(|part| weights.contains(&format!("blk.0.{part}.bias")));
        values.insert("attention_bias".into(), biased.into());
        values.insert("mlp_bias".into(), weights.contains("blk.0.ffn_down.bias").into());
        for word in ["bos_token_id", "eos_token_id"] {
            values.insert(word.into(), self.metadata.get(&format!("tokenizer.ggml.{word}")).into());
        }
        if scaling.get("rope_type").is_some_and(|kind| kind == "yarn") {
            let number = |key: &str, default| self.get(key).and_then(|value| value.as_f64()).unwrap_or(default);
            let factor = scaling.get("factor").and_then(Value::as_f64).unwrap_or(1.0);
            let divisor = yarn_growth(factor, number("rope.scaling.yarn_log_multiplier", 0.0));
            let attention = number("rope.scaling.attn_factor", 1.0) * yarn_growth(factor, 1.0) / divisor;
            scaling.insert("attention_factor".into(), attention.into());
        }
        // A flag of Granite's files, for models without rotation.
        if self.get("rope.scaling.finetuned") == Some(Value::Bool(false)) {
            values.insert("position_embedding_type".into(), "nope".into());
        }
        self.add_factors(weights, &mut scaling).await?;
        values.insert("rope_scaling".into(), scaling.into());
        Ok(values)
    }

    /// Adds what drafters say.
    fn add_drafter(&self, weights: &Weights, values: &mut Map<String, Value>) -> Result<()> {
        if is_assistant(&self.architecture) {
            values.insert("model_type".into(), Architecture::OF_ASSISTANTS.called(Naming::Gguf).into());
            values.insert("num_hidden_layers".into(), self.get("block_count").into());
            values.insert("num_kv_shared_layers".into(), 0.into());
            values.insert("backbone_hidden_size".into(), self.get("embedding_length_out").unwrap_or(0.into()));
            return Ok(());
        }
        if !is_block_drafter(&self.architecture) {
            return Ok(());
        }
        let Some(Value::Array(layers)) = self.get("target_layers") else {
            return Err(self.bad("target_layers", "it is not a list of layers".into()));
        };
        // Their inputs are read, which are the outputs of the layers before them.
        let layers: Vec<_> = layers.iter().map(|layer| layer.as_u64().and_then(|layer| layer.checked_sub(1))).collect();
        let mask = self.metadata.get("tokenizer.ggml.mask_token_id");
        let is_causal = self.get("attention.causal").and_then(|causal| causal.as_bool()).unwrap_or(false);
        let own = json!({ "target_layer_ids": layers, "mask_token_id": mask, "is_causal": is_causal });
        values.insert("model_type".into(), Architecture::OF_BLOCK_DRAFTERS.called(Naming::Gguf).into());
        values.insert("dflash_config".into(), own);
        values.insert("block_size".into(), self.get("block_size").unwrap_or(16.into()));
        if let Some([_, rank]) = weights.get("markov_w1.weight").map(|table| &table.shape[..]) {
            let anchor = self.get("sample_from_anchor").unwrap_or(true.into());
            values.insert("dspark_config".into(), json!({ "markov_rank": rank, "sample_from_anchor": anchor }));
        }
        Ok(())
    }

    /// Adds what some files say about delta nets in other words.
    fn add_recurrence(&self, values: &mut Map<String, Value>) -> Result<()> {
        let number = |key: &str| self.get(key).and_then(|value| value.as_u64());
        let Some(all) = number("block_count") else { return Ok(()) };
        // The last layers draft further tokens. The model itself does not use them.
        let layers = all.saturating_sub(number("nextn_predict_layers").unwrap_or(0));
        values.insert("num_hidden_layers".into(), layers.into());
        if let Some(Value::Array(recurs)) = self.get("attention.recurrent_layers") {
            let kind = |recurs| if recurs == &Value::Bool(true) { "linear_attention" } else { "full_attention" };
            values.insert("layer_types".into(), recurs.iter().take(layers as usize).map(kind).collect());
        }
        if let Some((width, heads)) = number("ssm.inner_size").zip(number("ssm.time_step_rank")) {
            match width.checked_div(heads).filter(|_| width.is_multiple_of(heads)) {
                Some(size) => values.insert("linear_value_head_dim".into(), size.into()),
                None => return Err(self.bad("ssm.inner_size", format!("{width} is no multiple of ssm.time_step_rank"))),
            };
        }
        Ok(())
    }

    /// Adds what only tensors say about experts.
    fn add_experts(&self, weights: &Weights, values: &mut Map<String, Value>) {
        let layers = values.get("num_hidden_layers").and_then(Value::as_u64).unwrap_or(0);
        let lacks = |layer: &u64| !weights.contains(&format!("blk.{layer}.ffn_gate_inp.weight"));
        // The count is not checked yet.
        let dense: Vec<_> = (0..layers.min(1 << 16)).filter(lacks).map(Value::from).collect();
        values.insert("mlp_only_layers".into(), dense.into());
        values.insert("num_dense_layers".into(), 0.into());
        let biases = ["exp_probs_b.bias", "ffn_gate_inp.bias"];
        let has_bias = weights.iter().any(|(name, _)| biases.iter().any(|bias| name.ends_with(bias)));
        values.insert("use_expert_bias".into(), has_bias.into());
    }

    /// Adds RoPE wavelength factors, which are stored as tensors: one for Llama 3 and Gemma 4, two for Phi 3.
    async fn add_factors(&self, weights: &Weights, scaling: &mut Map<String, Value>) -> Result<()> {
        if scaling.get("rope_type").is_some_and(|kind| kind == "none") {
            scaling.clear();
        }
        // Without a type, the other keys of `rope.scaling` have no effect.
        if !scaling.contains_key("rope_type") && scaling.contains_key("factor") {
            scaling.insert("rope_type".into(), "linear".into());
        }
        let one = "rope_freqs.weight";
        let [short, long] = ["rope_factors_short.weight", "rope_factors_long.weight"];
        let (short, long) = if weights.contains(one) { (one, one) } else { (short, long) };
        if !weights.contains(long) {
            return Ok(());
        }
        if let Some(kind) = scaling.get("rope_type").filter(|kind| *kind != "longrope") {
            return Err(self.bad("rope.scaling.type", format!("{kind} and the tensor {long} exclude one another")));
        }
        if short == long {
            let factors = weights.read_f32(one).await?;
            let rotating = factors.iter().take_while(|factor| **factor == 1.0).count();
            // Pairs with huge factors do not rotate.
            if rotating < factors.len() && factors[rotating..].iter().all(|factor| *factor >= 1e20) {
                scaling.insert("rope_type".into(), "proportional".into());
                let factor = rotating as f64 / factors.len() as f64;
                scaling.insert("partial_rotary_factor".into(), factor.into());
                return Ok(());
            }
        }
        scaling.insert("rope_type".into(), "longrope".into());
        let attention_factor = self.get("rope.scaling.attn_factor").or_else(|| (short == long).then(|| json!(1.0)));
        scaling.insert("attention_factor".into(), attention_factor.into());
        for (word, tensor) in [("short_factor", short), ("long_factor", long)] {
            scaling.insert(word.into(), weights.read_f32(tensor).await?.into());
        }
        Ok(())
    }

    /// Replaces the key in an error by the GGUF file's name for it.
    fn named_as_there(&self, error: Error) -> Error {
        let Error::BadConfig { file, key, reason } = error else { return error };
        let key = match WORDS.iter().find(|(word, _)| *word == key) {
            Some((_, [first, ..])) => format!("{}.{first}", self.architecture),
            _ if key == "vocab_size" => "tokenizer.ggml.tokens".into(),
            _ if key.ends_with("_token_id") => format!("tokenizer.ggml.{key}"),
            _ => key,
        };
        Error::BadConfig { file, key, reason }
    }
}
