//! Models with llama.cpp's names and layouts: the goldens, rearranged as its converter does, give the same logits.

use common::{Golden, attention, blueprint, capacity, engine, engine_of, gpu, path, run};
use foretoken::internals::backend::Backend;
use foretoken::internals::model::{
    AttentionSpec, Blueprint, LayerSpec, ModelSpec, Naming, RopeScaling, parse_config, spec_of_gguf,
};
use foretoken::internals::weights::{InMemory, Weights};
use foretoken::{Error, WeightDtype};
use half::{bf16, f16};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Names of the same thing in transformers and in llama.cpp, in the order of replacement.
const NAMES: [(&str, &str); 97] = [
    ("mamba.in_proj", "ssm_in"),
    ("mamba.conv1d", "ssm_conv1d"),
    ("mamba.A_log", "ssm_a"),
    ("mamba.D", "ssm_d"),
    ("mamba.dt_bias", "ssm_dt.bias"),
    ("mamba.norm", "ssm_norm"),
    ("mamba.out_proj", "ssm_out"),
    ("shared_mlp.output_linear", "ffn_down_shexp"),
    ("mlp.shared_expert_gate", "ffn_gate_inp_shexp#"),
    ("mlp.shared_expert.gate_proj", "ffn_gate_shexp#"),
    ("mlp.shared_expert.up_proj", "ffn_up_shexp#"),
    ("mlp.shared_expert.down_proj", "ffn_down_shexp#"),
    ("feed_forward.expert_bias", "exp_probs_b.bias"),
    ("mlp.gate.", "ffn_gate_inp#."),
    ("mlp.router.", "ffn_gate_inp#."),
    ("router.per_expert_scale", "ffn_down_exps.scale"),
    ("router.scale", "ffn_gate_inp.scale"),
    ("router.proj", "ffn_gate_inp#"),
    ("pre_feedforward_layernorm_2", "pre_ffw_norm_2"),
    ("post_feedforward_layernorm_", "post_ffw_norm_"),
    ("self_attn.sinks", "attn_sinks.weight"),
    ("feed_forward.gate.", "ffn_gate_inp#."),
    ("block_sparse_moe.router.layer", "ffn_gate_inp#"),
    ("block_sparse_moe.output_linear", "ffn_down_exps"),
    (".w1.", ".gate_proj."),
    (".w2.", ".down_proj."),
    (".w3.", ".up_proj."),
    ("feed_forward.experts", "mlp.experts"),
    ("feed_forward.", "mlp."),
    ("linear_attn.in_proj_qkv", "attn_qkv"),
    ("linear_attn.in_proj_z", "attn_gate"),
    ("linear_attn.in_proj_b", "ssm_beta"),
    ("linear_attn.in_proj_a", "ssm_alpha"),
    ("linear_attn.conv1d", "ssm_conv1d"),
    ("linear_attn.A_log", "ssm_a"),
    ("linear_attn.dt_bias", "ssm_dt.bias"),
    ("linear_attn.norm", "ssm_norm"),
    ("linear_attn.out_proj", "ssm_out#"),
    ("model.embed_tokens.", "token_embd."),
    ("gpt_neox.embed_in.", "token_embd."),
    ("transformer.wte.", "token_embd."),
    ("transformer.wpe.", "position_embd."),
    ("model.norm.", "output_norm."),
    ("model.embedding_norm.", "token_embd_norm."),
    ("gpt_neox.final_layer_norm.", "output_norm."),
    ("model.embed_tokens_per_layer", "per_layer_token_embd"),
    ("model.per_layer_model_projection", "per_layer_model_proj#"),
    ("model.per_layer_projection_norm", "per_layer_proj_norm"),
    ("post_per_layer_input_norm", "post_norm"),
    ("per_layer_input_gate", "inp_gate"),
    ("per_layer_projection", "proj"),
    ("layer_scalar", "layer_output_scale.weight"),
    ("model.final_layernorm.", "output_norm."),
    ("transformer.ln_f.", "output_norm."),
    ("lm_head.", "output."),
    ("embed_out.", "output."),
    ("model.layers.", "blk."),
    ("gpt_neox.layers.", "blk."),
    ("transformer.h.", "blk."),
    ("input_layernorm", "attn_norm"),
    ("operator_norm", "attn_norm"),
    ("ln_1", "attn_norm"),
    ("ln_2", "ffn_norm"),
    ("pre_feedforward_layernorm", "ffn_norm"),
    ("post_feedforward_layernorm", "post_ffw_norm"),
    ("post_self_attn_layernorm", "post_attention_norm"),
    ("post_mlp_layernorm", "post_ffw_norm"),
    ("self_attn.qkv_proj", "attn_qkv"),
    ("attention.query_key_value", "attn_qkv"),
    ("attn.c_attn", "attn_qkv"),
    ("self_attn.query_layernorm", "attn_q_norm"),
    ("self_attn.key_layernorm", "attn_k_norm"),
    ("self_attn.dense", "attn_output"),
    ("self_attn.q_layernorm", "attn_q_norm"),
    ("self_attn.k_layernorm", "attn_k_norm"),
    ("self_attn.out_proj", "attn_output"),
    ("conv.conv.", "shortconv.conv."),
    (".conv.in_proj", ".shortconv.in_proj#"),
    (".conv.out_proj", ".shortconv.out_proj#"),
    ("self_attn.q_", "attn_q_"),
    ("self_attn.k_", "attn_k_"),
    ("self_attn.v_", "attn_v_"),
    ("self_attn.o_proj", "attn_output"),
    ("attention.dense", "attn_output"),
    ("attn.c_proj", "attn_output"),
    ("mlp.gate_up_proj", "ffn_up"),
    ("mlp.gate_", "ffn_gate_"),
    ("mlp.up_", "ffn_up_"),
    ("mlp.down_", "ffn_down_"),
    ("mlp.dense_h_to_4h", "ffn_up"),
    ("mlp.c_fc", "ffn_up"),
    ("mlp.fc1", "ffn_up"),
    ("mlp.fc2", "ffn_down"),
    ("mlp.dense_4h_to_h", "ffn_down"),
    ("mlp.c_proj", "ffn_down"),
    ("_proj.", "."),
    ("#", ""),
];

struct Tensor {
    rows: usize,
    cols: usize,
    values: Vec<f32>,
}

impl Tensor {
    /// Reorders the rows.
    fn ordered(&self, source: impl Fn(usize) -> usize) -> Vec<f32> {
        (0..self.rows).flat_map(|row| &self.values[source(row) * self.cols..][..self.cols]).copied().collect()
    }
}

/// Returns a tensor of a delta net with heads of `size` rows from `first` on in another order: those that share a head of k are apart by
/// the number of such heads.
fn tiled(tensor: &Tensor, spec: &ModelSpec, first: usize, size: usize) -> Vec<f32> {
    let delta = spec.layers.iter().find_map(LayerSpec::delta_net).unwrap();
    let group = delta.value_heads / delta.key_heads;
    tensor.ordered(|row| match row.checked_sub(first) {
        None => row,
        Some(within) => {
            let (head, i) = (within / size, within % size);
            first + (head % delta.key_heads * group + head / delta.key_heads) * size + i
        }
    })
}

/// Returns the values as llama.cpp's converter writes them.
fn rearranged(name: &str, architecture: &str, tensor: &Tensor, spec: &ModelSpec) -> Vec<f32> {
    let AttentionSpec { heads, head_dim: dim, .. } = *spec.attentions().next().unwrap();
    let is_layer = name.starts_with("blk.");
    match architecture {
        // Transposed linear layers.
        "gpt2" if is_layer && tensor.cols > 1 => {
            (0..tensor.cols).flat_map(|col| tensor.values.iter().skip(col).step_by(tensor.cols)).copied().collect()
        }
        // From (head, q k v, dim) to (q k v, head, dim).
        "gptneox" if name.contains("attn_qkv") => tensor.ordered(|row| {
            let (part, head, i) = (row / dim / heads, row / dim % heads, row % dim);
            (head * 3 + part) * dim + i
        }),
        // From (head, half, dim / 2) to (head, dim / 2, half).
        "llama" | "smollm3" | "mistral3" | "granite" | "granitemoe" | "granitehybrid"
            if name.contains("attn_q") || name.contains("attn_k") =>
        {
            tensor.ordered(|row| row / dim * dim + row % 2 * (dim / 2) + row % dim / 2)
        }
        "granitehybrid" if name.ends_with("ssm_a") => tensor.values.iter().map(|logarithm| -logarithm.exp()).collect(),
        "qwen35" | "qwen35moe" if name.contains("ssm_a.") || name.ends_with("ssm_a") => {
            tiled(tensor, spec, 0, 1).iter().map(|logarithm| -logarithm.exp()).collect()
        }
        "qwen35" | "qwen35moe"
            if name.contains("ssm_dt") || name.contains("ssm_beta") || name.contains("ssm_alpha") =>
        {
            tiled(tensor, spec, 0, 1)
        }
        "qwen35" | "qwen35moe"
            if name.contains("attn_qkv") || name.contains("ssm_conv1d") || name.contains("attn_gate") =>
        {
            let delta = spec.layers.iter().find_map(LayerSpec::delta_net).unwrap();
            tiled(tensor, spec, tensor.rows - delta.value_width(), delta.value_dim)
        }
        "qwen35" | "qwen35moe" if name.contains("ssm_out") => {
            // The columns, as rows.
            let column = |i: usize| tensor.values.iter().skip(i).step_by(tensor.cols).copied();
            let turned = (0..tensor.cols).flat_map(column).collect();
            let columns = Tensor { rows: tensor.cols, cols: tensor.rows, values: turned };
            let delta = spec.layers.iter().find_map(LayerSpec::delta_net).unwrap();
            let turned = tiled(&columns, spec, 0, delta.value_dim);
            (0..tensor.rows).flat_map(|row| turned.iter().skip(row).step_by(tensor.rows)).copied().collect()
        }
        "gemma2" | "gemma3" | "qwen35" | "qwen35moe" if name.contains("norm") && !name.contains("ssm_norm") => {
            tensor.values.iter().map(|gain| gain + 1.0).collect()
        }
        _ => tensor.values.clone(),
    }
}

/// Name, type, shape and bytes of a tensor.
type Stored = (String, Dtype, Vec<usize>, Vec<u8>);

/// Splits a tensor [experts, inputs, outputs], or [experts, outputs], into every `step`-th output: [experts, outputs / step, inputs].
fn turned((name, dtype, shape, bytes): &Stored, step: usize, first: usize) -> Stored {
    let (experts, outs) = (shape[0], shape[shape.len() - 1]);
    let inputs = if shape.len() == 3 { shape[1] } else { 1 };
    let size = bytes.len() / (experts * inputs * outs);
    let at = |expert: usize, out: usize, input: usize| ((expert * inputs + input) * outs + out) * size;
    let mut to = Vec::new();
    for (expert, out) in (0..experts).flat_map(|expert| (first..outs).step_by(step).map(move |out| (expert, out))) {
        to.extend((0..inputs).flat_map(|input| bytes[at(expert, out, input)..][..size].iter().copied()));
    }
    let shape = [experts, outs / step, inputs];
    (name.clone(), *dtype, shape[..if inputs > 1 { 3 } else { 2 }].to_vec(), to)
}

/// Stacks the tensors of experts, and splits those of gate and up.
fn stacked(all: Vec<Stored>) -> Vec<Stored> {
    let mut others = Vec::new();
    let mut of_experts: BTreeMap<String, Vec<(usize, Stored)>> = BTreeMap::new();
    for (name, dtype, shape, bytes) in all {
        if let Some((layer, part)) = name.split_once(".experts.").filter(|(layer, _)| !layer.ends_with(".mlp")) {
            let part = part.strip_suffix("_proj").unwrap();
            others.push((format!("{layer}.ffn_{part}_exps.weight"), dtype, shape, bytes));
        } else if let Some((layer, part)) = name.split_once(".mlp.experts.").filter(|(_, part)| !part.contains('.')) {
            // gpt-oss: transposed, with gate and up in turn.
            let suffix = if part.ends_with("_bias") { "bias" } else { "weight" };
            let parts: &[&str] = if part.starts_with("down") { &["down"] } else { &["gate", "up"] };
            let stored = (name.clone(), dtype, shape, bytes);
            for (first, part) in parts.iter().enumerate() {
                let (_, dtype, shape, bytes) = turned(&stored, parts.len(), first);
                others.push((format!("{layer}.ffn_{part}_exps.{suffix}"), dtype, shape, bytes));
            }
        } else if let Some((layer, rest)) = name.split_once(".mlp.experts.") {
            let (expert, rest) = rest.split_once('.').unwrap();
            let name = format!("{layer}.ffn_{}_exps.weight", rest.strip_suffix(".weight").unwrap());
            let expert: usize = expert.parse().unwrap();
            of_experts.entry(name.clone()).or_default().push((expert, (name, dtype, shape, bytes)));
        } else if let Some((layer, block)) =
            name.strip_suffix(".input_linear.weight").and_then(|name| name.rsplit_once('.'))
        {
            // A tensor of experts, or of the MLP that all rows use.
            let (experts, suffix) = if block == "block_sparse_moe" { (shape[0], "_exps") } else { (1, "_shexp") };
            for (half, part) in ["gate", "up"].into_iter().enumerate() {
                let halves = bytes.chunks(bytes.len() / experts / 2).skip(half).step_by(2);
                let at = shape.len() - 2;
                let mut shape = shape.clone();
                shape[at] /= 2;
                others.push((
                    format!("{layer}.ffn_{part}{suffix}.weight"),
                    dtype,
                    shape,
                    halves.flatten().copied().collect(),
                ));
            }
        } else {
            others.push((name, dtype, shape, bytes));
        }
    }
    others.extend(of_experts.into_values().map(|mut experts| {
        experts.sort_by_key(|(expert, _)| *expert);
        let (_, (name, dtype, shape, _)) = experts[0].clone();
        let bytes = experts.iter().flat_map(|(_, (.., bytes))| bytes).copied().collect();
        (name, dtype, [vec![experts.len()], shape].concat(), bytes)
    }));
    others
}

/// Returns a GGUF file's metadata, with the keys of `spec_of_gguf`.
fn metadata(architecture: &str, spec: &ModelSpec) -> Value {
    let attention = spec.attentions().next().unwrap();
    let width = |layer: &LayerSpec| Some(layer.intermediate_size).filter(|size| *size > 0).unwrap_or(layer.expert_size);
    let mut keys = json!({
        "model_type": architecture,
        "vocab_size": spec.vocab_size,
        "hidden_size": spec.hidden_size,
        "num_hidden_layers": spec.layers.len(),
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.kv_heads,
        "head_dim": attention.head_dim,
        "global_head_dim": spec.attentions().find(|other| other.window.is_none()).map(|other| other.head_dim),
        "num_global_key_value_heads": spec.attentions().find(|other| other.values_are_keys).map(|other| other.kv_heads),
        "attention_k_eq_v": spec.attentions().any(|attention| attention.values_are_keys),
        "num_kv_shared_layers": spec.attentions().filter(|other| other.kv_layer.is_some()).count(),
        "hidden_size_per_layer_input": spec.layer_input_size,
        "intermediate_size": spec.layers.iter().map(width).collect::<Vec<_>>(),
        "max_position_embeddings": spec.max_position_embeddings,
        "rms_norm_eps": spec.norm_eps,
        "tie_word_embeddings": spec.tie_word_embeddings,
        "attention_bias": spec.qkv_bias,
        "mlp_bias": spec.mlp.bias,
        "attention_multiplier": 1.0,
        "embedding_multiplier": 1.0,
        "residual_multiplier": spec.residual_scale,
        "logits_scaling": 1.0,
        "attn_logit_softcapping": spec.attention_cap,
        "final_logit_softcapping": spec.logit_cap,
        "query_pre_attn_scalar": spec.attention_scale.powi(-2).round(),
        "sliding_window": spec.attentions().find_map(|attention| attention.window),
        "no_rope_layers": spec.attentions().map(|attention| attention.rope.is_some()).collect::<Vec<_>>(),
        "layer_types": spec.layers.iter().map(|layer| match layer.attention().map(|attention| attention.window) {
            None if layer.delta_net().is_some_and(|delta| !delta.replaces) => "recurrent",
            None if layer.delta_net().is_some() => "linear_attention",
            None => "conv",
            Some(Some(_)) => "sliding_attention",
            Some(None) => "full_attention",
        }).collect::<Vec<_>>(),
        "bos_token_id": spec.bos_token_id,
        "eos_token_id": spec.eos_token_id,
    });
    if attention.rope.is_none() {
        keys["position_embedding_type"] = "nope".into();
    }
    if architecture.starts_with("granite") {
        keys["attention_multiplier"] = spec.attention_scale.into();
        keys["embedding_multiplier"] = spec.embedding_scale.into();
        keys["logits_scaling"] = (1.0 / spec.logit_scale).into();
    }
    if architecture == "cohere2" {
        keys["logit_scale"] = spec.logit_scale.into();
    }
    if let Some(delta) = spec.layers.iter().find_map(LayerSpec::delta_net) {
        keys["linear_num_key_heads"] = delta.key_heads.into();
        keys["linear_num_value_heads"] = delta.value_heads.into();
        keys["linear_key_head_dim"] = delta.key_dim.into();
        keys["linear_value_head_dim"] = delta.value_dim.into();
        keys["linear_conv_kernel_dim"] = delta.taps.into();
    }
    if let Some((experts, layer)) = spec.experts.zip(spec.layers.iter().find(|layer| layer.expert_size > 0)) {
        keys["num_experts"] = experts.count.into();
        keys["num_experts_per_tok"] = experts.chosen.into();
        keys["moe_intermediate_size"] = layer.expert_size.into();
        keys["shared_expert_intermediate_size"] = (experts.shared * layer.expert_size).into();
        if architecture == "granitehybrid" {
            keys["intermediate_size"] = layer.expert_size.into();
            keys["shared_expert_intermediate_size"] = layer.intermediate_size.into();
        }
        keys["norm_topk_prob"] = experts.normalised.into();
        keys["num_dense_layers"] = 0.into();
        keys["mlp_only_layers"] = (0..spec.layers.len()).filter(|layer| spec.layers[*layer].expert_size == 0).collect();
    }
    if let Some(rope) = spec.ropes.first() {
        keys["rope_theta"] = rope.theta.into();
        let rotating = spec.attentions().find(|attention| attention.rope == Some(0)).unwrap_or(attention);
        keys["partial_rotary_factor"] = (rope.rotary_dim as f64 / rotating.head_dim as f64).into();
        if let RopeScaling::Proportional { pairs } = rope.scaling {
            let factor = 2.0 * pairs as f64 / rope.rotary_dim as f64;
            keys["rope_scaling"] = json!({ "rope_type": "proportional", "partial_rotary_factor": factor });
        }
        if let RopeScaling::Yarn { factor, attention_factor, original_max_position_embeddings, .. } = &rope.scaling {
            keys["rope_scaling"] = json!({
                "rope_type": "yarn",
                "factor": factor,
                "attention_factor": attention_factor,
                "original_max_position_embeddings": original_max_position_embeddings,
                "llama_4_scaling_beta": rope.query_growth.map(|growth| growth.beta),
            });
        }
        if let RopeScaling::LongRope { short_factor, long_factor, original_max_position_embeddings, .. } = &rope.scaling
        {
            keys["original_max_position_embeddings"] = (*original_max_position_embeddings).into();
            keys["rope_scaling"] =
                json!({ "rope_type": "longrope", "short_factor": short_factor, "long_factor": long_factor });
        }
    }
    keys
}

#[test]
fn a_golden_by_the_names_and_in_the_layouts_of_gguf_gives_the_same_logits() {
    let gpu = gpu();
    for (folder, architecture) in [
        ("llama-gqa-tied", "llama"),
        ("llama-mha-bias", "llama"),
        ("qwen2", "qwen2"),
        ("qwen3", "qwen3"),
        ("smollm3-nope", "smollm3"),
        ("gemma3", "gemma3"),
        ("gemma4", "gemma4"),
        ("gemma4-moe", "gemma4"),
        ("phi3", "phi3"),
        ("phi3-longrope", "phi3"),
        ("gpt2", "gpt2"),
        ("gpt-neox", "gptneox"),
        ("gpt-bigcode-mqa", "starcoder"),
        ("qwen3-yarn", "qwen3"),
        ("seed_oss", "seed_oss"),
        ("ernie4_5", "ernie4_5"),
        ("starcoder2", "starcoder2"),
        ("glm4", "glm4"),
        ("ministral3", "mistral3"),
        ("granite", "granite"),
        ("gemma2", "gemma2"),
        ("olmo2", "olmo2"),
        ("olmo3", "olmo2"),
        ("exaone4", "exaone4"),
        ("hunyuan-dense", "hunyuan-dense"),
        ("cohere2", "cohere2"),
        ("phi", "phi2"),
        ("lfm2", "lfm2"),
        ("qwen3_5", "qwen35"),
        ("stablelm", "stablelm"),
        ("qwen3-moe", "qwen3moe"),
        ("olmoe", "olmoe"),
        ("granite-moe", "granitemoe"),
        ("granite4-hybrid", "granitehybrid"),
        ("granite4-hybrid-moe", "granitehybrid"),
        ("lfm2-moe", "lfm2moe"),
        ("qwen3_5-moe", "qwen35moe"),
        ("gpt-oss", "gpt-oss"),
    ] {
        let folder = path("tests/golden/models").join(folder);
        let (Blueprint { spec, .. }, weights) = blueprint(&folder, capacity());
        let mut converted = Vec::new();
        let bytes = std::fs::read(folder.join("model.safetensors")).unwrap();
        let golden = SafeTensors::deserialize(&bytes).unwrap();
        for (name, tensor) in weights.iter() {
            let stored = golden.tensor(name).unwrap().dtype();
            let values = run(weights.read_f32(name)).unwrap();
            let normalise_after =
                ["gemma2", "gemma3", "gemma4", "olmo2", "exaone4", "seed_oss", "qwen35", "qwen35moe", "gpt-oss"];
            let norm = if normalise_after.contains(&architecture) { "post_attention_norm" } else { "ffn_norm" };
            let name = name.replace("post_attention_layernorm", norm);
            let name = NAMES.iter().fold(name, |name, (theirs, gguf)| name.replace(theirs, gguf));
            let (rows, stored_shape) = (tensor.shape[0] as usize, &tensor.shape);
            let tensor = Tensor { rows, cols: values.len() / rows, values };
            let values = rearranged(&name, architecture, &tensor, &spec);
            let turned = architecture == "gpt2" && name.starts_with("blk.") && tensor.cols > 1;
            let shape = match tensor.cols {
                1 => vec![rows],
                cols if turned => vec![cols, rows],
                _ if ["_moe.", "_exps.", ".experts."].iter().any(|part| name.contains(part)) => {
                    stored_shape.iter().map(|size| *size as usize).collect()
                }
                cols => vec![rows, cols],
            };
            // Matrices keep their type; the converter stores vectors as f32.
            let dtype = if tensor.cols > 1 { stored } else { Dtype::F32 };
            let bytes: Vec<u8> = match dtype {
                Dtype::F16 => values.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
                Dtype::BF16 => values.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
                _ => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            };
            converted.push((name, dtype, shape, bytes));
        }
        let mut views = stacked(converted);
        if spec.experts.is_none() {
            views.iter_mut().for_each(|(name, ..)| *name = name.replace("_shexp", ""));
        }
        let views = views
            .iter()
            .map(|(name, dtype, shape, bytes)| (name.clone(), TensorView::new(*dtype, shape.clone(), bytes).unwrap()));
        let file = safetensors::serialize(views, None).unwrap();
        let weights =
            run(Weights::open(Box::new(InMemory::new("converted", [("model.safetensors", file.into())])))).unwrap();
        let keys = metadata(architecture, &spec).as_object().unwrap().clone();
        let ours = spec_of_gguf("converted.gguf", keys).unwrap();
        // OLMo 2 and OLMo 3 have one name in GGUF.
        let wanted = ModelSpec { naming: Naming::Gguf, architecture: ours.architecture, ..spec };
        assert_eq!(ours, wanted, "{architecture}");

        let prompt = Golden::read(&folder).prompt_ids;
        let other = Blueprint::new(ours, &weights, capacity(), WeightDtype::Auto).unwrap();
        let theirs = run(engine(&gpu, &folder, None, capacity()).logits(&prompt, 64)).unwrap();
        let ours = run(engine_of(&gpu, (other, weights), None).logits(&prompt, 64)).unwrap();
        // Not to the bit: in a layer without rotation, permuted heads are summed in another order.
        let difference = ours.iter().zip(&theirs).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
        // The random weights of Qwen3.5 with experts amplify rounding: transformers differs by as much.
        let bound = if architecture == "qwen35moe" { 1e-4 } else { 1e-5 };
        assert!(difference < bound, "{}: {difference:e}", folder.display());
    }
}

/// Returns a golden's tensors with other names.
fn renamed(folder: &Path, name: impl Fn(&str) -> String) -> Weights {
    let bytes = std::fs::read(folder.join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let views = tensors.iter().map(|(old, view)| (name(old), view));
    let file = safetensors::serialize(views, None).unwrap();
    run(Weights::open(Box::new(InMemory::new("renamed", [("model.safetensors", file.into())])))).unwrap()
}

/// GPT-2 as published: without its head, which is tied, tensors lack the model's prefix.
#[test]
fn tensors_of_a_model_saved_without_its_head_are_found() {
    let folder = path("tests/golden/models/gpt2");
    let weights = renamed(&folder, |name| name.strip_prefix("transformer.").unwrap().into());
    let (Blueprint { spec, .. }, _) = blueprint(&folder, capacity());
    Blueprint::new(spec, &weights, capacity(), WeightDtype::Auto).unwrap();
}

#[test]
fn the_text_part_of_a_model_that_sees_is_a_model() {
    for name in ["gemma3", "gemma4", "qwen3_5"] {
        let folder = path("tests/golden/models").join(name);
        let bytes = std::fs::read(folder.join("config.json")).unwrap();
        let text: Value = serde_json::from_slice(&bytes).unwrap();
        let outer = json!({ "model_type": name, "text_config": text, "vision_config": { "hidden_size": 9 } });
        let spec = parse_config(outer.to_string().as_bytes(), None).unwrap();
        assert_eq!(spec, blueprint(&folder, capacity()).0.spec);
        for prefix in ["language_model.model.", "model.language_model."] {
            let weights = renamed(&folder, |name| name.replacen("model.", prefix, 1));
            Blueprint::new(spec.clone(), &weights, capacity(), WeightDtype::Auto).unwrap();
        }
    }
}

/// Gemma 3 from 4B on as published.
#[test]
fn sizes_that_equal_the_defaults_of_the_class_are_omitted() {
    let sparse =
        json!({ "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024 });
    let outer = json!({ "model_type": "gemma3", "text_config": sparse, "eos_token_id": [1, 106] });
    let spec = parse_config(outer.to_string().as_bytes(), None).unwrap();
    assert_eq!((spec.vocab_size, attention(&spec, 0).heads, attention(&spec, 0).kv_heads), (262_208, 8, 4));
    assert_eq!(
        (attention(&spec, 0).head_dim, spec.max_position_embeddings, spec.eos_token_id),
        (256, 131_072, vec![1, 106])
    );
}

/// Granite 4 with attention in every layer: gate and up are one tensor, and other keys of the config describe layers that are not there.
#[test]
fn a_hybrid_model_without_recurrent_layers_computes_what_granite_does() {
    let folder = path("tests/golden/models/granite");
    let bytes = std::fs::read(folder.join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let fused: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .filter(|(name, _)| !name.contains("up_proj"))
        .map(|(name, view)| match name.strip_suffix("mlp.gate_proj.weight") {
            None => {
                (name.replace("mlp.down_proj", "shared_mlp.output_linear"), view.shape().into(), view.data().into())
            }
            Some(layer) => {
                let up = tensors.tensor(&format!("{layer}mlp.up_proj.weight")).unwrap();
                let shape = vec![2 * view.shape()[0], view.shape()[1]];
                (format!("{layer}shared_mlp.input_linear.weight"), shape, [view.data(), up.data()].concat())
            }
        })
        .collect();
    let dtype = tensors.tensor("model.norm.weight").unwrap().dtype();
    let views = fused.iter().map(|(name, shape, data)| (name, TensorView::new(dtype, shape.clone(), data).unwrap()));
    let file = safetensors::serialize(views, None).unwrap();
    let weights = run(Weights::open(Box::new(InMemory::new("hybrid", [("model.safetensors", file.into())])))).unwrap();
    let mut config: Value = serde_json::from_slice(&std::fs::read(folder.join("config.json")).unwrap()).unwrap();
    config["model_type"] = "granitemoehybrid".into();
    config["shared_intermediate_size"] = config["intermediate_size"].take();
    config["intermediate_size"] = 9.into();
    config["num_local_experts"] = 0.into();
    let parse = |config: &Value| parse_config(config.to_string().as_bytes(), None);
    assert!(matches!(parse(&config), Err(Error::BadConfig { key, .. }) if key == "layer_types"));
    let layers = config["num_hidden_layers"].as_u64().unwrap() as usize;
    config["layer_types"] = vec!["conv"; layers].into();
    assert!(matches!(parse(&config), Err(Error::BadConfig { key, .. }) if key == "layer_types"));
    config["layer_types"] = vec!["attention"; layers].into();
    assert!(parse(&config).unwrap().attentions().all(|attention| attention.rope.is_none()));
    config["position_embedding_type"] = "rope".into();
    let spec = parse(&config).unwrap();

    let gpu = gpu();
    let prompt = Golden::read(&folder).prompt_ids;
    let hybrid = Blueprint::new(spec, &weights, capacity(), WeightDtype::Auto).unwrap();
    let ours = run(engine_of(&gpu, (hybrid, weights), None).logits(&prompt, 64)).unwrap();
    let theirs = run(engine(&gpu, &folder, None, capacity()).logits(&prompt, 64)).unwrap();
    assert_eq!(ours, theirs);
}
