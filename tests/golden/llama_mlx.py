"""Makes models/llama-mlx: a small Llama quantised by MLX, and the results of transformers with the widened weights.

pip install mlx==0.32.4 torch transformers==5.23.0 safetensors; python llama_mlx.py
"""

import json
from pathlib import Path

import mlx.core as mx
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

FOLDER = Path(__file__).parent / "models" / "llama-mlx"
ALL = {"group_size": 64, "bits": 4}
# Modules that are quantised differently, or not at all.
OTHERS = {
    "model.layers.0.self_attn.o_proj": False,
    "model.layers.0.self_attn.v_proj": {"group_size": 32, "bits": 8},
    "model.layers.1.mlp.gate_proj": {"group_size": 128, "bits": 4},
    "lm_head": {"group_size": 128, "bits": 8},
}

torch.manual_seed(13)
config = LlamaConfig(
    vocab_size=256,
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=256,
    initializer_range=0.08,
    tie_word_embeddings=False,
)
model = LlamaForCausalLM(config).eval()
stored, wide = {}, {}
for name, tensor in model.state_dict().items():
    module = name.removesuffix(".weight")
    how = OTHERS.get(module, ALL)
    array = mx.array(tensor.numpy()).astype(mx.float16)
    if array.ndim == 1 or not how:
        stored[name] = array
        wide[name] = torch.from_numpy(np.array(array.astype(mx.float32)))
        continue
    codes, scales, biases = mx.quantize(array, **how)
    stored |= {name: codes, f"{module}.scales": scales, f"{module}.biases": biases}
    values = mx.dequantize(codes, scales.astype(mx.float32), biases.astype(mx.float32), **how)
    wide[name] = torch.from_numpy(np.array(values))
model.load_state_dict(wide)

FOLDER.mkdir(exist_ok=True)
mx.save_safetensors(str(FOLDER / "model.safetensors"), stored, {"format": "mlx"})
quantization = ALL | {"mode": "affine"} | OTHERS
facts = json.loads(config.to_json_string()) | {"quantization": quantization, "quantization_config": quantization}
(FOLDER / "config.json").write_text(json.dumps(facts, indent=2) + "\n")

ids = torch.randint(3, config.vocab_size, (1, 20))
with torch.no_grad():
    prompt_logits = model(ids).logits[0]
    text = ids
    rows = []
    for _ in range(12):
        rows.append(model(text).logits[0, -1])
        text = torch.cat([text, rows[-1].argmax().reshape(1, 1)], 1)
golden = {
    "prompt_ids": ids[0],
    "prompt_logits": prompt_logits,
    "greedy_ids": text[0, ids.shape[1] :],
    "greedy_logits": torch.stack(rows),
}
save_file({name: tensor.contiguous() for name, tensor in golden.items()}, FOLDER / "golden.safetensors")
