"""Makes defaults.json: what the config classes of transformers take for keys that a config.json leaves out.

pip install transformers==5.23.0; python defaults.py > defaults.json. It needs no PyTorch.
"""

import json

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
QWEN = [
    {"num_key_value_heads": None},
    WINDOW,
    {**WINDOW, "sliding_window": None},
    {**WINDOW, "sliding_window": 16, "max_window_layers": 3},
    {**WINDOW, **TYPES},
]
CASES = {
    "llama": [{"num_key_value_heads": None, "head_dim": None}, TYPES],
    "mistral": [{"head_dim": None}, {"sliding_window": None}, {"sliding_window": 16, **TYPES}],
    "qwen2": QWEN,
    "qwen3": QWEN,
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


def slides(model_type, config):
    """Which layers have a window, as the models' code reads the config."""
    types = getattr(config, "layer_types", None) or ["sliding_attention"] * config.num_hidden_layers
    has_window = model_type != "llama" and getattr(config, "use_sliding_window", True) and config.sliding_window
    return [has_window and kind == "sliding_attention" for kind in types]


def digits(flags):
    """A digit for each layer."""
    return "".join("1" if flag else "0" for flag in flags)


def facts(model_type, config):
    """What a config.json means."""
    # As AutoConfig does.
    name = "ministral" if model_type == "mistral" and "layer_types" in config else model_type
    config = CONFIG_MAPPING[name](**json.loads(json.dumps(config)))
    # Other classes keep keys that they do not have, and their models do not read them.
    has = lambda key: key in type(config).__dataclass_fields__ and getattr(config, key)
    eos = config.eos_token_id
    rotates = config.no_rope_layers if model_type == "smollm3" else [1] * config.num_hidden_layers
    return {
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        "norm_eps": config.rms_norm_eps,
        "activation": config.hidden_act,
        "output_bias": has("attention_bias"),
        "mlp_bias": has("mlp_bias"),
        "tie_word_embeddings": config.tie_word_embeddings,
        "rope": {key: value for key, value in config.rope_parameters.items() if key != "type"},
        "window": config.sliding_window if any(slides(model_type, config)) else None,
        "slides": digits(slides(model_type, config)),
        "rotates": digits(rotates[: config.num_hidden_layers]),
        "bos_token_id": config.bos_token_id,
        "eos_token_id": eos if isinstance(eos, list) else [] if eos is None else [eos],
    }


rows = [
    {"model_type": model_type, "more": case, "facts": facts(model_type, {**SIZES, **case})}
    for model_type, cases in CASES.items()
    for case in COMMON + cases
]
print('{"made_by": "defaults.py", "transformers": "%s",' % transformers.__version__)
print('"sizes": %s,\n"cases": [' % json.dumps(SIZES))
print(",\n".join(json.dumps(row) for row in rows) + "]}")
