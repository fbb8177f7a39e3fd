"""Makes defaults.json: the defaults of transformers' config classes for keys that a config.json omits.

pip install transformers==5.24.0; python -P defaults.py > defaults.json. It needs no PyTorch.
"""

import json
import math

import transformers
from transformers import CONFIG_MAPPING

SIZES = {
    "vocab_size": 128256,
    "hidden_size": 1024,
    "intermediate_size": 160,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 256,
}
FEW_HEADS = {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
NO_IDS = {"bos_token_id": None, "eos_token_id": None}
WINDOW = {"use_sliding_window": True}
TYPES = {"layer_types": ["full_attention", "sliding_attention"] * 16}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
OLD_LINEAR = {"rope_scaling": {"type": "linear", "factor": 2.0}}
WIDE = {
    "vocab_size": 50304,
    "n_embd": 128,
    "n_layer": 4,
    "n_head": 4,
    "n_positions": 256,
}
COMMON = [
    {},
    FEW_HEADS,
    {"num_key_value_heads": 8, "head_dim": 64},
    NO_IDS,
    {"eos_token_id": [2, 7], "rms_norm_eps": 1e-5, "rope_scaling": None},
    {"attention_bias": True, "mlp_bias": True},
    {"rope_theta": 5e5},
    {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
    {"rope_parameters": {"rope_type": "default"}},
    OLD_LINEAR,
    {**OLD_LINEAR, "rope_theta": 5e5},
    {**OLD_LINEAR, "rope_parameters": {"rope_type": "default", "rope_theta": 7.0}},
    {"rope_scaling": {}, "rope_parameters": {"rope_type": "linear", "factor": 4.0}},
    {"rope_parameters": {**LLAMA3, "rope_theta": 5e5}},
    {"rope_parameters": {**LLAMA3, "original_max_position_embeddings": 64}, "rope_theta": 5e5},
    {"sliding_window": 16},
    {"max_window_layers": 30},
    {"no_rope_layers": [1, 0] * 16},
]
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
YARNS = [
    {"rope_parameters": YARN},
    {"rope_scaling": {"type": "yarn", "factor": 4.0}},
    {"rope_parameters": {**YARN, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False}},
    {"rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 0.5}},
    {"rope_parameters": {**YARN, "attention_factor": 1.25}},
]
QWEN = [
    {"num_key_value_heads": None},
    WINDOW,
    {**WINDOW, "sliding_window": None},
    {**WINDOW, "sliding_window": 16, "max_window_layers": 3},
    {**WINDOW, **TYPES},
]
LLAMA_LIKE = {
    "llama": [{"num_key_value_heads": None, "head_dim": None}, TYPES],
    "mistral": [{"head_dim": None}, {"sliding_window": None}, {"sliding_window": 16, **TYPES}],
    "qwen2": QWEN,
    "qwen3": QWEN + YARNS,
    "seed_oss": [{"num_key_value_heads": None, "head_dim": None}, {"attention_out_bias": True}],
    "smollm3": [
        {"num_key_value_heads": None},
        {"tie_word_embeddings": False},
        WINDOW,
        {**WINDOW, "sliding_window": 16},
        {**WINDOW, "sliding_window": 16, **TYPES},
        {"no_rope_layer_interval": 3},
        {"no_rope_layers": [1, 1, 0, 1] * 9},
    ],
}
PHI_SIZES = {"hidden_size": 256, "num_attention_heads": 16, "num_hidden_layers": 4}
FACTORS = {"short_factor": [1.0, 1.5, 2.0, 2.5, 3.0, 3.5], "long_factor": [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]}
LONG = {**PHI_SIZES, "partial_rotary_factor": 0.75, "original_max_position_embeddings": 64}
NESTED = {"full_attention": {"rope_type": "default", "rope_theta": 7e5}, "sliding_attention": {"rope_theta": 7e3}}
NEOX = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 512, "num_hidden_layers": 4}
GPT2 = [{}, NO_IDS, {"n_inner": 96, "layer_norm_epsilon": 1e-6}, {"scale_attn_weights": False}, {"activation_function": "relu"}]
PROPORTIONAL = {
    "full_attention": {"rope_type": "proportional", "rope_theta": 7e5, "partial_rotary_factor": 0.5},
    "sliding_attention": {"rope_type": "default", "rope_theta": 7e3},
}
GEMMA4 = {
    "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 8,
    "rope_parameters": {**PROPORTIONAL, "full_attention": {**PROPORTIONAL["full_attention"], "partial_rotary_factor": 0.25}},
    "vocab_size_per_layer_input": SIZES["vocab_size"],
}
LFM3 = {"layer_types": ["conv", "full_attention", "sliding_attention", "conv"] * 8, "rope_parameters": PROPORTIONAL}
DELTA_NETS = {"layer_types": ["linear_attention", "full_attention"] * 16}
GPT_OSS = {
    "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "original_max_position_embeddings": 4096, "truncate": False,
    },
}
SPARSE = {"mlp_only_layers": [1], "decoder_sparse_step": 2}
MROPE = {"mrope_interleaved": True, "mrope_section": [11, 11, 10]}
GRANITE_H = {"layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 8, "shared_intermediate_size": 96, "num_local_experts": 0}
OTHERS = {
    "phi3": [
        {},
        NO_IDS,
        {"num_key_value_heads": 8, "sliding_window": 16, **TYPES},
        {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
        {"rope_theta": 5e5},
        {**PHI_SIZES, "partial_rotary_factor": 0.5},
        {**PHI_SIZES, "rope_parameters": {"partial_rotary_factor": 0.5, "rope_type": "default"}},
        {**LONG, "rope_scaling": {"type": "longrope", **FACTORS}},
        {**LONG, "rope_parameters": {"rope_type": "longrope", "attention_factor": 1.25, **FACTORS}},
        {**LONG, "rope_parameters": {"rope_type": "longrope", "factor": 32.0, **FACTORS}},
        {**LONG, "rope_parameters": {"rope_type": "longrope", "original_max_position_embeddings": 9, **FACTORS}},
    ],
    "gemma3_text": [
        {},
        NO_IDS,
        {"num_key_value_heads": 8, "head_dim": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": False},
        {"query_pre_attn_scalar": 168, "hidden_activation": "relu"},
        {"sliding_window": 16, "sliding_window_pattern": 3},
        {"rope_theta": 5e5, "rope_local_base_freq": 5e3},
        {"rope_scaling": {"rope_type": "linear", "factor": 8.0}},
        {"rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
        {"rope_parameters": NESTED},
        TYPES,
    ],
    "gemma4_text": [
        GEMMA4,
        {**GEMMA4, **NO_IDS, "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "hidden_activation": "silu"},
        {**GEMMA4, "num_kv_shared_layers": 20, "use_double_wide_mlp": True, "num_key_value_heads": 1},
        {**GEMMA4, "head_dim": 64, "global_head_dim": 128, "hidden_size_per_layer_input": 0, "sliding_window": 16},
        {**GEMMA4, "attention_k_eq_v": True, "num_global_key_value_heads": 2, "final_logit_softcapping": 30.0},
        {**GEMMA4, "num_global_key_value_heads": 2, "use_bidirectional_attention": "vision"},
        {**GEMMA4, "enable_moe_block": True, "num_experts": 16, "top_k_experts": 4, "moe_intermediate_size": 48},
        {**GEMMA4, "per_layer_config": {str(layer): {"head_dim": 128} for layer in range(3, 32, 4)}},
    ],
    "gpt_neox": [
        NEOX,
        {**NEOX, **NO_IDS, "layer_norm_eps": 1e-6, "tie_word_embeddings": True},
        {**NEOX, "use_parallel_residual": False, "attention_bias": False, "hidden_act": "gelu_new"},
        {**NEOX, "rotary_pct": 0.5, "rotary_emb_base": 5e4},
        {**NEOX, "rotary_pct": 0.5, "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 1.0}},
        {**NEOX, "rope_scaling": {"type": "linear", "factor": 2.0}},
    ],
    "ernie4_5": [
        {},
        NO_IDS,
        {"num_key_value_heads": None, "head_dim": None, "tie_word_embeddings": False},
        {"use_bias": True, "rms_norm_eps": 1e-6},
        {"rope_theta": 1e4},
        {"rope_parameters": {"rope_type": "default"}},
    ],
    "glm4": [
        {},
        {"eos_token_id": [2, 7], "head_dim": 64, "num_key_value_heads": 8, "rms_norm_eps": 1e-5},
        {"attention_bias": False, "tie_word_embeddings": True, "partial_rotary_factor": 0.25},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5, "partial_rotary_factor": 1.0}},
    ],
    "starcoder2": [
        {},
        NO_IDS,
        {"num_key_value_heads": 8, "norm_epsilon": 1e-6, "tie_word_embeddings": False},
        {"use_bias": False, "hidden_act": "gelu", "sliding_window": 16},
        {"rope_theta": 5e5},
    ],
    "lfm2": [
        {},
        {"full_attn_idxs": [2, 5, 31], "conv_L_cache": 7},
        {"layer_types": ["conv", "full_attention"] * 16, "full_attn_idxs": [1]},
        {**NO_IDS, "block_ff_dim": 6656, "tie_embedding": False, "norm_eps": 1e-6},
        {"block_ffn_dim_multiplier": 1.3, "block_multiple_of": 64, "num_key_value_heads": 4},
        {"intermediate_size": 12288},
        {"block_auto_adjust_ff_dim": False, "intermediate_size": 4608},
        {"rope_theta": 5e5},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e7}},
    ],
    "lfm3": [
        LFM3,
        {**LFM3, **NO_IDS, "norm_eps": 1e-6, "head_dim": 64, "num_key_value_heads": 8, "tie_word_embeddings": False},
        {**LFM3, "use_sandwich_norm": False, "use_attention_gate": False, "conv_L_cache": 3, "sliding_window": 16},
        {**LFM3, "rope_parameters": {**PROPORTIONAL, "full_attention": {"rope_type": "default", "rope_theta": 5e5}}},
    ],
    "qwen3_5_text": [
        {},
        {**NO_IDS, "head_dim": 64, "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "tie_word_embeddings": True},
        {**DELTA_NETS, "linear_num_key_heads": 8, "linear_num_value_heads": 24, "linear_conv_kernel_dim": 3},
        {"linear_key_head_dim": 64, "linear_value_head_dim": 96, "full_attention_interval": 3},
        {"partial_rotary_factor": 0.5, "rope_theta": 5e5},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.5, **MROPE}},
    ],
    "qwen3_5_moe_text": [
        {},
        {**DELTA_NETS, "num_experts": 16, "num_experts_per_tok": 4, "head_dim": 64},
        {"moe_intermediate_size": 256, "shared_expert_intermediate_size": 256},
    ],
    "qwen3_moe": [
        {},
        {**NO_IDS, **SPARSE, "norm_topk_prob": True, "num_experts": 64, "num_experts_per_tok": 4},
        {"num_local_experts": 16, "moe_intermediate_size": 48, "num_key_value_heads": 8, "head_dim": 64},
    ],
    "olmoe": [
        {},
        {**NO_IDS, "num_experts": 16, "num_experts_per_tok": 2, "norm_topk_prob": True, "rope_theta": 5e5},
    ],
    "granitemoe": [
        {},
        {**NO_IDS, "num_local_experts": 16, "num_experts_per_tok": 4, "num_key_value_heads": 8},
    ],
    "granitemoehybrid": [
        GRANITE_H,
        {**GRANITE_H, **NO_IDS, "mamba_n_heads": 64, "mamba_n_groups": 2, "mamba_d_state": 64, "mamba_d_head": 32, "mamba_d_conv": 3},
        {**GRANITE_H, "position_embedding_type": "rope", "rms_norm_eps": 1e-5, "num_key_value_heads": 2, "tie_word_embeddings": True},
        {**GRANITE_H, "num_local_experts": 16, "num_experts_per_tok": 4},
        {"layer_types": GRANITE_H["layer_types"], "shared_intermediate_size": 96, "mamba_d_head": "auto"},
    ],
    "lfm2_moe": [
        {},
        {"num_experts": 16, "num_experts_per_tok": 2, "num_dense_layers": 3, "norm_topk_prob": False},
        {**NO_IDS, "use_expert_bias": False, "routed_scaling_factor": 2.5, "moe_intermediate_size": 48},
    ],
    "gpt_oss": [
        GPT_OSS,
        {**GPT_OSS, **NO_IDS, "num_local_experts": 16, "num_experts_per_tok": 2, "num_key_value_heads": 4, "head_dim": 32},
        {**GPT_OSS, "attention_bias": False, "sliding_window": 16, "rms_norm_eps": 1e-6, "swiglu_limit": 7.0},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}, "layer_types": ["full_attention"] * 32},
    ],
    "stablelm": [
        {},
        NO_IDS,
        {"num_key_value_heads": 8, "layer_norm_eps": 1e-6, "tie_word_embeddings": True},
        {"use_parallel_residual": True, "use_qkv_bias": True, "hidden_act": "gelu"},
        {"partial_rotary_factor": 0.5},
        {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5, "rope_theta": 5e5}},
    ],
    "nanochat": [
        {},
        NO_IDS,
        {"num_key_value_heads": None, "rms_norm_eps": 1e-5, "tie_word_embeddings": True},
        {"attention_bias": True, "hidden_act": "relu", "num_key_value_heads": 8},
        {"rope_theta": 5e5},
    ],
    "gpt2": GPT2,
    "gpt_bigcode": [*GPT2, {"multi_query": False}, {"num_key_value_heads": 1}],
}
CASES = {name: COMMON + cases for name, cases in LLAMA_LIKE.items()} | OTHERS
RESIDUALS = {"gemma3_text": "post_norms", "gemma4_text": "post_norms", "glm4": "post_norms"}
ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu2": "relu_squared"}


def sizes(model_type):
    """Returns the keys that every config has."""
    return WIDE if model_type in ["gpt2", "gpt_bigcode"] else SIZES


# Keys of the taps of convolutions, by the kind of layer that has one.
TAPS = {"conv": "conv_L_cache", "linear_attention": "linear_conv_kernel_dim"}


def slides(model_type, config):
    """Returns a flag per layer: whether it has a window, as the models' code reads the config."""
    types = getattr(config, "layer_types", None) if model_type != "phi3" else None
    has_window = model_type not in ["llama", "seed_oss"] and getattr(config, "use_sliding_window", True)
    has_window = has_window and getattr(config, "sliding_window", None)
    types = types or ["sliding_attention"] * config.num_hidden_layers
    return [has_window and kind == "sliding_attention" for kind in types if kind not in TAPS]


def convolutions(config):
    """Returns a digit for each layer: the positions of its convolution; 0: it has attention."""
    types = getattr(config, "layer_types", None) or [""] * config.num_hidden_layers
    if hasattr(config, "mamba_d_conv"):
        return "".join(str(config.mamba_d_conv) if kind == "linear_attention" else "0" for kind in types)
    return "".join(str(getattr(config, TAPS[kind])) if kind in TAPS else "0" for kind in types)


def mlp_width(config):
    """Returns the width of LFM2's MLP, as modeling_lfm2.py computes it."""
    width = config.intermediate_size
    if config.block_auto_adjust_ff_dim:
        width = int(2 * width / 3)
        width = int(config.block_ffn_dim_multiplier * width)
        multiple = config.block_multiple_of
        width = multiple * ((width + multiple - 1) // multiple)
    return width


def ropes(config, head_dim):
    """Returns the rotary tables. The table of layers without a window comes first."""
    parameters = getattr(config, "rope_parameters", None) or {}
    nested = "full_attention" in parameters
    tables = [parameters["full_attention"], parameters["sliding_attention"]] if nested else [parameters] * bool(parameters)
    partial = type(config).__name__ in ["Phi3Config", "GPTNeoXConfig", "Glm4Config", "StableLmConfig", "Qwen3_5TextConfig", "Qwen3_5MoeTextConfig"]
    if type(config).__name__ == "Gemma4TextConfig":
        layers = [config.layer_types.index(kind) for kind in ["full_attention", "sliding_attention"]]
        head_dims = [config.per_layer_config[layer].head_dim for layer in layers]
        return [rope(config, table, head_dim) for table, head_dim in zip(tables, head_dims)]
    return [rope(config, table, int(head_dim * table["partial_rotary_factor"]) if partial else head_dim) for table in tables]


def layers(config):
    """Returns what differs between the layers of Gemma 4: head size, KV heads, source of keys and values, width of the MLP."""
    count, kinds = config.num_hidden_layers, config.layer_types
    first = count - config.num_kv_shared_layers
    last = {kind: max(layer for layer in range(first) if kinds[layer] == kind) for kind in kinds}
    widths = [config.intermediate_size * (2 if config.use_double_wide_mlp and layer >= first else 1) for layer in range(count)]
    return {
        "head_dim": [config.per_layer_config[layer].head_dim for layer in range(count)],
        "kv_heads": [config.per_layer_config[layer].num_key_value_heads for layer in range(count)],
        "kv_layer": [last[kinds[layer]] if layer >= first else None for layer in range(count)],
        "values_are_keys": [config.attention_k_eq_v and kinds[layer] == "full_attention" for layer in range(first)],
        "intermediate_size": widths,
        "layer_input_size": config.hidden_size_per_layer_input,
    }


def delta_net(config):
    """Returns heads and head sizes of keys, then of values."""
    if hasattr(config, "mamba_n_heads"):
        return [config.mamba_n_groups, config.mamba_d_state, config.mamba_n_heads, config.mamba_d_head]
    sides = ["key", "value"]
    return [getattr(config, key) for side in sides for key in (f"linear_num_{side}_heads", f"linear_{side}_head_dim")]


def experts(config):
    """Returns numbers of experts, and the layers that have them."""
    get = lambda default, *keys: next((getattr(config, key) for key in keys if hasattr(config, key)), default)
    dense, step, listed = get(0, "num_dense_layers"), get(1, "decoder_sparse_step"), get([], "mlp_only_layers")
    has = lambda layer: layer >= dense and (layer + 1) % step == 0 and layer not in listed
    width = get(0, "moe_intermediate_size", "intermediate_size")
    return {
        "count": get(0, "num_experts", "num_local_experts"),
        "chosen": get(0, "num_experts_per_tok", "top_k_experts"),
        "width": width,
        "shared": get(0, "shared_expert_intermediate_size") // width,
        "normalised": get(True, "norm_topk_prob"),
        "bias": get(type(config).__name__ == "GptOssConfig", "use_expert_bias"),
        "scale": get(1.0, "routed_scaling_factor"),
        "layers": digits(has(layer) for layer in range(config.num_hidden_layers)),
    }


def rope(config, table, rotary_dim):
    """Returns a rotary table."""
    keys = ["rope_theta", "rope_type", "factor", "low_freq_factor", "high_freq_factor", "short_factor", "long_factor"]
    facts = {key: table[key] for key in keys if key in table} | {"rotary_dim": rotary_dim}
    if facts["rope_type"] == "proportional":
        # As modeling_rope_utils computes it.
        facts["pairs"] = int(table["partial_rotary_factor"] * rotary_dim // 2)
    if facts["rope_type"] in ["llama3", "longrope", "yarn"]:
        facts["original_max_position_embeddings"] = table["original_max_position_embeddings"]
    if facts["rope_type"] == "longrope":
        original = facts["original_max_position_embeddings"]
        factor = facts.pop("factor", config.max_position_embeddings / original)
        # As modeling_rope_utils computes it.
        facts["attention_factor"] = table.get("attention_factor") or math.sqrt(1 + math.log(factor) / math.log(original))
    if facts["rope_type"] == "yarn":
        keys = {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": True}
        facts |= {key: table.get(key, default) for key, default in keys.items()}
        # As modeling_rope_utils computes it.
        growth = lambda scale: 0.1 * scale * math.log(facts["factor"]) + 1.0
        factor = growth(table.get("mscale", 1.0)) / (growth(table["mscale_all_dim"]) if "mscale_all_dim" in table else 1.0)
        facts["attention_factor"] = table.get("attention_factor") or factor
    return facts


def digits(flags):
    """Joins flags as digits."""
    return "".join("1" if flag else "0" for flag in flags)


def facts(model_type, config):
    """Returns the meaning of a config.json."""
    # As AutoConfig does.
    name = "ministral" if model_type == "mistral" and "layer_types" in config else model_type
    config = CONFIG_MAPPING[name](**json.loads(json.dumps(config)))
    first = config.per_layer_config[0] if model_type == "gemma4_text" else config
    # A class also stores keys that it does not define; its model does not read them.
    has = lambda key: key in type(config).__dataclass_fields__ and getattr(config, key)
    get = lambda *keys: next(getattr(config, key) for key in keys if hasattr(config, key))
    heads, width = config.num_attention_heads, config.hidden_size
    head_dim = getattr(first, "head_dim", None) or width // heads
    gpt2, neox = model_type in ["gpt2", "gpt_bigcode"], model_type == "gpt_neox"
    layer_norm = gpt2 or neox or model_type in ["starcoder2", "stablelm"]
    plain = gpt2 or neox or model_type in ["starcoder2", "nanochat"]
    output_bias = {"seed_oss": "attention_out_bias", "glm4": "none"}.get(model_type, "attention_bias")
    eos = config.eos_token_id
    inner = mlp_width(config) if model_type == "lfm2" else getattr(config, "intermediate_size", None)
    has_experts = hasattr(config, "num_experts_per_tok") or has("enable_moe_block")
    is_hybrid = model_type == "granitemoehybrid"
    if is_hybrid:
        has_experts, inner = config.num_local_experts > 0, config.shared_intermediate_size
    inner = inner if is_hybrid or not has_experts or has("enable_moe_block") or "0" in experts(config)["layers"] else None
    tables = ropes(config, head_dim)
    attending = convolutions(config).count("0")
    rotates = config.no_rope_layers if model_type == "smollm3" else [bool(tables)] * attending
    if is_hybrid:
        rotates = [config.position_embedding_type == "rope"] * attending
    scale = {"gemma3_text": getattr(config, "query_pre_attn_scalar", 0), "gemma4_text": 1, "granitemoe": 1, "granitemoehybrid": 1}.get(model_type, head_dim)
    parallel = "parallel_one_norm" if model_type == "stablelm" else "parallel"
    usual = "post_norms" if has("use_sandwich_norm") else RESIDUALS.get(model_type, "sequential")
    own = {"lfm2": "silu", "lfm3": "silu", "lfm2_moe": "silu", "gpt_oss": "clamped_swiglu"}
    activation = own.get(model_type) or get("activation_function", "hidden_activation", "hidden_act")
    return {
        "num_key_value_heads": getattr(first, "num_key_value_heads", heads),
        "head_dim": head_dim,
        "intermediate_size": (config.n_inner or 4 * width) if gpt2 else inner,
        "convolutions": convolutions(config),
        "norm": "layer" if layer_norm else "rms",
        "norm_eps": get("layer_norm_epsilon", "layer_norm_eps", "norm_epsilon", "norm_eps", "rms_norm_eps"),
        "residual": parallel if has("use_parallel_residual") else usual,
        "activation": ACTIVATIONS.get(activation, activation),
        "gated": not plain,
        "attention_scale": 1.0 if gpt2 and not config.scale_attn_weights else scale**-0.5,
        "output_bias": bool(gpt2 or has(output_bias) or has("use_bias")),
        "mlp_bias": bool(gpt2 or neox or model_type == "gpt_oss" or has("mlp_bias") or has("use_bias")),
        "tie_word_embeddings": config.tie_word_embeddings,
        "ropes": tables,
        "window": config.sliding_window if any(slides(model_type, config)) else None,
        "slides": digits(slides(model_type, config)),
        **({"layers": layers(config)} if model_type == "gemma4_text" else {}),
        **({"delta_net": delta_net(config)} if hasattr(config, "linear_num_key_heads") or hasattr(config, "mamba_n_heads") else {}),
        **({"experts": experts(config)} if has_experts else {}),
        "rotates": digits(rotates[: config.num_hidden_layers]),
        "bos_token_id": config.bos_token_id,
        "eos_token_id": eos if isinstance(eos, list) else [] if eos is None else [eos],
    }


rows = [
    {"model_type": model_type, "more": case, "facts": facts(model_type, {**sizes(model_type), **case})}
    for model_type, cases in CASES.items()
    for case in cases
]
# Every key of a model's config class.
keys = {name: sorted(CONFIG_MAPPING[name].__annotations__) for name in CASES}
print('{"made_by": "defaults.py", "transformers": "%s",' % transformers.__version__)
print('"sizes": %s,' % json.dumps({name: sizes(name) for name in CASES}))
print('"keys": {\n%s},' % ",\n".join(f"{json.dumps(name)}: {json.dumps(names)}" for name, names in keys.items()))
print('"cases": [')
print(",\n".join(json.dumps(row) for row in rows) + "]}")
