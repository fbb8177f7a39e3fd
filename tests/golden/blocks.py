"""Makes blocks.safetensors: blocks of every quantised type, and their values in gguf and MLX.

pip install gguf==0.19.0 mlx==0.32.4 numpy; python blocks.py
gguf knows neither Q1_0 nor Q2_0: four lines of NumPy do. For each type T of GGUF: `T` (bytes) and `T.values`; if gguf can quantise to T, `T.floats` are its bytes for `floats`.
For MLX: `mlx BITS GROUP FLOAT` with .weight, .scales, .biases and .values.
"""

import mlx.core as mx
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quantize

# Byte offsets of the f16 numbers of a block.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0],
}  # fmt: skip
QUANTISES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]
# Zeros, the smallest and the largest subnormal, the smallest normal, the largest number.
EXTREMES = np.array([0.0, -0.0, 2**-24, -(2**-24), 2**-14 - 2**-24, 2**-14, 65504, -65504], np.float16)

random = np.random.default_rng(13)
arrays = {}
for name, places in HALVES.items():
    kind = GGMLQuantizationType[name]
    elements, size = GGML_QUANT_SIZES[kind]
    count = 1024 // elements * 3
    blocks = random.integers(0, 256, (count, size), np.uint8)
    blocks[0], blocks[1] = 0, 255
    for at in places:
        scales = random.normal(0, 0.02, count).astype(np.float16)
        chosen = random.integers(0, count, count // 3)
        scales[chosen] = random.choice(EXTREMES, len(chosen))
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(count, 2)
    arrays[name] = blocks
    arrays[f"{name}.values"] = dequantize(blocks, kind).reshape(-1)

floats = random.normal(0, 0.05, (8, 256)).astype(np.float32)
floats[0] = 0
floats[1, ::3] *= 100
floats[2] = np.abs(floats[2])
floats[3] *= 1e-6
arrays["floats"] = floats
for name in QUANTISES:
    arrays[f"{name}.floats"] = quantize(floats, GGMLQuantizationType[name])

random = np.random.default_rng(14)
for name, bits, count in [("Q1_0", 1, 24), ("Q2_0", 2, 48)]:
    blocks = random.integers(0, 256, (count, 18), np.uint8)
    scales = random.normal(0, 0.02, count).astype(np.float16)
    scales[: len(EXTREMES)] = EXTREMES
    blocks[:, :2] = scales.view(np.uint8).reshape(count, 2)
    codes = np.stack([blocks[:, 2:] >> shift & 2**bits - 1 for shift in range(0, 8, bits)], -1).reshape(count, -1)
    levels = codes * 2.0 - 1 if bits == 1 else codes - 1.0
    arrays[name] = blocks
    arrays[f"{name}.values"] = (levels.astype(np.float32) * scales.astype(np.float32)[:, None]).reshape(-1)

random = np.random.default_rng(15)
blocks = random.integers(0, 256, (96, 17), np.uint8)
# All exponents whose products are finite, and most often those of real weights.
blocks[:, 0] = np.concatenate([np.arange(0, 253, 8), random.integers(100, 130, 64)])
arrays["MXFP4"] = blocks
arrays["MXFP4.values"] = dequantize(blocks, GGMLQuantizationType.MXFP4).reshape(-1)

arrays = {name: mx.array(array) for name, array in arrays.items()}
for bits in [4, 8]:
    for group in [32, 64, 128]:
        for kind in [mx.float16, mx.bfloat16, mx.float32]:
            name = f"mlx {bits} {group} {str(kind).removeprefix('mlx.core.')}"
            w = mx.array(random.normal(0, 0.05, (3, 256)).astype(np.float32)).astype(kind)
            q, scales, biases = mx.quantize(w, group_size=group, bits=bits)
            wide = mx.dequantize(q, scales.astype(mx.float32), biases.astype(mx.float32), group, bits)
            made = {"weight": q, "scales": scales, "biases": biases, "values": wide}
            arrays |= {f"{name}.{part}": array for part, array in made.items()}
mx.save_safetensors("blocks.safetensors", arrays)
