"""Makes readings.json: last hidden states and log-likelihoods of transformers for the models in models/.

pip install transformers==5.23.0 torch safetensors; python -P readings.py > readings.json (-P: do not import tokenizers.py from this folder).
"""

import json
import pathlib

import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

# Longer than phi3-longrope's original context, so that one list of factors applies to all.
PROMPT, CONTINUATIONS = 40, [1, 5, 40]
rows = []
for folder in sorted(pathlib.Path(__file__).parent.joinpath("models").iterdir()):
    config = json.loads((folder / "config.json").read_text())
    if "quantization" in config:
        # MLX's layout, which transformers does not read.
        continue
    ids = load_file(folder / "golden.safetensors")
    text = torch.cat([ids["prompt_ids"], ids["greedy_ids"]])
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        prompt = text[:PROMPT]
        hidden = model.base_model(prompt[None]).last_hidden_state[0]
        scores = []
        for count in CONTINUATIONS:
            # Shifted ids, which the model finds unlikely.
            continuation = (text[PROMPT : PROMPT + count] + 7) % config["vocab_size"]
            logits = model(torch.cat([prompt, continuation])[None]).logits[0]
            likely = torch.log_softmax(logits.double(), -1)[PROMPT - 1 : -1]
            scores.append({
                "continuation": continuation.tolist(),
                "logprob": likely.gather(1, continuation[:, None]).sum().item(),
            })
    short = lambda vector: [round(x, 6) for x in vector.tolist()]
    rows.append({
        "model": folder.name,
        "prompt": prompt.tolist(),
        "mean": short(hidden.double().mean(0)),
        "last": short(hidden[-1]),
        "scores": scores,
    })
print('{"made_by": "readings.py", "transformers": "%s", "models": [' % transformers.__version__)
print(",\n".join(map(json.dumps, rows)) + "]}")
