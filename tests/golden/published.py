"""Makes published.json: results of transformers for the published models that `node scripts/models.mjs` fetches.

pip install transformers==5.23.0 torch accelerate gguf; python published.py FOLDER > published.json, where FOLDER holds the files.

For each model: hashes of the tokens of 10,000 lines of text, one hash per hundred lines. The lines are made from `fragments` and a
seed. For some prompts: the greedy continuation in f32, with the difference of the two best logits at each token.
"""

import json
import sys

import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA3 = "gemma-3-270m-Q4_K_M.gguf"
LINES, TOKENS = 10_000, 48
MASK = (1 << 64) - 1

FRAGMENTS = [
    # Whitespace, in runs.
    " ", "  ", "   ", "    ", "        ", "\t", "\t\t", "\n", "\n\n", "\n\n\n", "\r\n", " \n", "\n ", "\u00a0", "\u3000", "\u200b", "\ufeff",
    # Latin, with composed and decomposed accents.
    "the", "The", " the", " quick", "brown", "fox's", "I'll", "don't", "WE'RE", "naïve", "nai\u0308ve", "Straße", "œuvre", "Ångström",
    "A\u030angstro\u0308m", "ﬁn", "İstanbul", "Đà Nẵng", "ÇA VA", "camelCaseWord", "snake_case_word", "a", "b", "z", "Z",
    # Other scripts.
    "привет", "Москва", "ὁ λόγος", "שָׁלוֹם", "مرحبا بالعالم", "हिन्दी", "नमस्ते", "বাংলা", "தமிழ்", "ไทยแลนด์", "ລາວ", "မြန်မာ", "ქართული",
    "Հայերեն", "አማርኛ", "中文", "漢字仮名交じり文", "ひらがな", "カタカナ", "ｶﾅ", "한국어", "ᄒ\u1161\u11ab", "𠮷野家", "ᠮᠣᠩᠭᠣᠯ", "ᚠᚢᚦ", "𐍈", "ꙮ",
    # Numbers.
    "0", "1", "7", "12", "007", "1234567", "3.14159", "1,000,000", "1e-9", "٣٤٥", "१२३", "Ⅷ", "½", "²", "①",
    # Punctuation and symbols.
    ".", ",", "!", "?", "...", "…", "—", "“quoted”", "'", '"', "''", "`", "(", ")", "[x]", "{}", "<", ">", "&amp;", "@user", "#tag", "$5", "50%",
    "€", "±", "√2", "∑", "→", "~", "^", "|", "\\", "/", "//", "*", "**bold**", "___", "---", "===", ":-)",
    # Emoji: alone, with modifiers, joined, flags.
    "😀", "👍🏽", "👩‍👩‍👧‍👦", "❤️", "🇩🇪", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "1️⃣", "🤖🤖",
    # Code and markup.
    "def f(x):\n    return x + 1", "for (let i = 0; i < n; i++) {", "#include <stdio.h>", "=> {}", "::<Vec<_>>()", "0xDEADBEEF", "\\n", "%s",
    "<div class=\"a\">", "</p>", "SELECT * FROM t;", "https://example.org/a?b=c&d=%20#e", "C:\\Users\\x", "$\\frac{1}{2}$", "| a | b |",
    # Symbols for spaces and bytes in vocabularies, and special tokens, of these models and of others.
    "▁", "▁▁", "Ġ", "Ċ", "<0x0A>", "<0xFF>", "<s>", "</s>", "<unk>", "<pad>", "<bos>", "<eos>", "<mask>", "<unused7>", "<start_of_turn>",
    "<end_of_turn>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_start", "<repo_name>", "<file_sep>", "[multimodal]", "<table>",
    # Control characters, and characters that are in no vocabulary.
    "\x00", "\x07", "\x1b[0m", "\x7f", "\u0085", "\u2028", "\ue000", "\U000f0000", "\U0010ffff", "\u0378",
]


class Random:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def below(self, end):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        x = self.state
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        return (x ^ (x >> 31)) % end


def lines():
    """Yields lines of up to 12 pieces: 15 of 16 are fragments on average, the others random characters."""
    random = Random(13)
    for _ in range(LINES):
        pieces = []
        for _ in range(1 + random.below(12)):
            if random.below(16):
                pieces.append(FRAGMENTS[random.below(len(FRAGMENTS))])
            else:
                code = random.below(0x30000)
                pieces.append("\ufffd" if 0xD800 <= code < 0xE000 else chr(code))
        yield "".join(pieces)


def hashes(tokenizer):
    """Returns FNV-1a hashes of the ids, four bytes each. Every line ends with 0xFFFFFFFF."""
    found = []
    for at, line in enumerate(lines()):
        if at % 100 == 0:
            found.append(0xCBF29CE484222325)
        for token in [*tokenizer.encode(line, add_special_tokens=True).ids, 0xFFFFFFFF]:
            for byte in token.to_bytes(4, "little"):
                found[-1] = ((found[-1] ^ byte) * 0x100000001B3) & MASK
    return [f"{value:016x}" for value in found]


@torch.no_grad()
def greedy(model, prompt):
    ids, margins, cache = [], [], None
    step = torch.tensor([prompt])
    while len(ids) < TOKENS and (not ids or ids[-1] != model.config.eos_token_id):
        out = model(step, past_key_values=cache, use_cache=True)
        best = out.logits[0, -1].topk(2)
        ids.append(best.indices[0].item())
        margins.append(round((best.values[0] - best.values[1]).item(), 4))
        step, cache = torch.tensor([[ids[-1]]]), out.past_key_values
    return ids, margins


def case(file, prompts):
    folder = sys.argv[1]
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    backend = tokenizer.backend_tokenizer
    if file == SMOLLM2:
        # transformers ignores that this vocabulary splits digits (`smollm`; in its tokenizer.json: Digits).
        digits = pre_tokenizers.Digits(individual_digits=True)
        backend.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).eval()
    generations = []
    for prompt in prompts:
        text = prompt
        if isinstance(prompt, list):
            text = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        prompt_ids = backend.encode(text, add_special_tokens=isinstance(prompt, str)).ids
        ids, margins = greedy(model, prompt_ids)
        generations.append({"prompt": prompt, "prompt_ids": prompt_ids, "ids": ids, "margins": margins, "text": tokenizer.decode(ids)})
    return {"hashes": hashes(backend), "generations": generations}


ARTICLE = (
    "The lighthouse at Skerry Point was built in 1844 by the engineer Alan Stevenson. Its lamp, which burned whale oil, could be seen "
    "from twenty miles away. In 1906 the oil was replaced by gas, and in 1978 by electricity. Since 1988 nobody has lived there."
)
CHATS = [
    "What is the capital of France?",
    f"Summarise in one sentence: {ARTICLE}",
    f"Repeat this text word for word: {ARTICLE}",
    "Rename the function `f` to `add` in this code:\n```python\ndef f(a, b):\n    return a + b\n\nprint(f(1, 2))\nprint(f(3, 4))\n```",
]
TEXTS = [
    "The capital of France is",
    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,",
    f"{ARTICLE}\n\n{ARTICLE[:200]}",
    "def fibonacci(n):\n    if n < 2:\n        return n\n",
]

if __name__ == "__main__":
    disable_progress_bar()
    torch.set_num_threads(1)
    chats = [[{"role": "user", "content": content}] for content in CHATS]
    models = {SMOLLM2: case(SMOLLM2, chats + TEXTS[1:2]), GEMMA3: case(GEMMA3, TEXTS)}
    json.dump({"lines": LINES, "fragments": FRAGMENTS, "models": models}, sys.stdout, ensure_ascii=False, indent=1)
