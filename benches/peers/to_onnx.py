"""Converts the models of `peers.mjs` for transformers.js: python benches/peers/to_onnx.py MODEL FOLDER [q4]. MODEL is a folder or a GGUF file.

Needs `pip install torch accelerate onnx onnx_ir onnxruntime optimum~=2.1.0 optimum-onnx transformers~=4.57.0 gguf`. The output is ONNX in f32, because
ONNX Runtime's WASM has few kernels in f16. With `q4` matrices are stored in blocks of 32 codes of 4 bits with a scale and a zero point.
"""

import sys
import tempfile
from pathlib import Path

import onnx
import torch
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from optimum.exporters.onnx import main_export
from transformers import AutoModelForCausalLM, AutoTokenizer

model, out, *types = sys.argv[1:]
model, out = Path(model), Path(out)
with tempfile.TemporaryDirectory() as folder:
    read = (model.parent, {"gguf_file": model.name}) if model.is_file() else (model, {})
    AutoModelForCausalLM.from_pretrained(read[0], dtype=torch.float32, **read[1]).save_pretrained(folder)
    main_export(folder, out, task="text-generation-with-past", do_validation=False)
AutoTokenizer.from_pretrained(read[0], **read[1]).save_pretrained(out)
(out / "onnx").mkdir(exist_ok=True)
written = out / "model.onnx"
if types == ["q4"]:
    quantiser = MatMulNBitsQuantizer(onnx.load(written), block_size=32, is_symmetric=False)
    quantiser.process()
    quantiser.model.save_model_to_file(str(out / "onnx" / "model_q4.onnx"), False)
    written.unlink()
else:
    written.rename(out / "onnx" / "model.onnx")
