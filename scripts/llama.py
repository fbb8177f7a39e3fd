"""Lets llama.cpp write: python scripts/llama.py MODEL.gguf THREADS, which needs `pip install llama-cpp-python`.

Reads a line of JSON for each text, {"prompt", "max_tokens"} with a text or ids as the prompt, and writes one, {"prompt", "ids", "text",
"margins", "seconds"}: ids of both, and the seconds behind the first id. With "follow", ids, it takes these instead of what it would
choose; `margins` says how much larger the logit of its own choice was at each. Its first line names the version.
"""

import json
import sys
import time

import llama_cpp
import numpy

model, threads = sys.argv[1], int(sys.argv[2])
llama = llama_cpp.Llama(model, n_ctx=1024, n_threads=threads, n_threads_batch=threads, verbose=False)
vocab = llama.n_vocab()


def answer(prompt, max_tokens, follow=None):
    if isinstance(prompt, str):
        prompt = llama.tokenize(prompt.encode(), special=True)
    llama.reset()
    llama._ctx.kv_cache_clear()
    llama.eval(prompt)
    ids, margins, times = [], [], []
    while len(ids) < (len(follow) if follow else max_tokens):
        if ids:
            llama.eval(ids[-1:])
        logits = numpy.ctypeslib.as_array(llama._ctx.get_logits_ith(-1), (vocab,))
        best = int(logits.argmax())
        taken = follow[len(ids)] if follow else best
        times.append(time.perf_counter())
        ids.append(taken)
        margins.append(float(logits[best] - logits[taken]))
        if not follow and llama_cpp.llama_vocab_is_eog(llama._model.vocab, best):
            break
    text = llama.detokenize(ids).decode(errors="replace")
    return {"prompt": prompt, "ids": ids, "text": text, "margins": margins, "seconds": times[-1] - times[0]}


print(json.dumps({"version": llama_cpp.__version__}), flush=True)
for line in sys.stdin:
    print(json.dumps(answer(**json.loads(line))), flush=True)
