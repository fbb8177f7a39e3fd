"""Makes penalties.json: logits after transformers' repetition penalty and n-gram processors, with vLLM's two penalties between them.

pip install transformers==5.23.0 torch; python penalties.py > penalties.json.
"""

import itertools
import json

import torch
import transformers
from transformers import NoRepeatNGramLogitsProcessor, RepetitionPenaltyLogitsProcessor


def subtract(logits, generated, presence, frequency):
    """Computes apply_penalties of vllm/model_executor/layers/utils.py, with counts of the output's tokens alone."""
    counts = torch.bincount(generated, minlength=logits.shape[1])[None]
    logits = logits - frequency * counts
    return logits - presence * (counts > 0)


torch.manual_seed(17)
cases = []
ways = itertools.product([1.0, 1.3], [0.0, 0.7, -1.5], [0.0, 0.4, -0.25], [0, 1, 2, 3])
for case, (repetition, presence, frequency, size) in enumerate(ways):
    vocab = 6 + case % 23
    prompt = torch.randint(vocab, (1 + case % 9,))
    generated = torch.randint(min(vocab, 4), (case % 14,))
    text = torch.cat([prompt, generated])[None]
    logits = 3 * torch.randn(1, vocab)
    after = logits
    if repetition != 1:
        after = RepetitionPenaltyLogitsProcessor(repetition)(text, after)
    after = subtract(after, generated, presence, frequency)
    if size:
        after = NoRepeatNGramLogitsProcessor(size)(text, after)
    options = {"repetition_penalty": repetition, "presence_penalty": presence, "frequency_penalty": frequency}
    cases.append({
        "options": options | {"no_repeat_ngram_size": size},
        "prompt": prompt.tolist(),
        "generated": generated.tolist(),
        "logits": logits[0].tolist(),
        # None: the token is forbidden.
        "after": [x if x > -torch.inf else None for x in after[0].tolist()],
    })
print('{"made_by": "penalties.py", "transformers": "%s", "cases": [' % transformers.__version__)
print(",\n".join(map(json.dumps, cases)) + "]}")
