"""Makes tokenizers.json: results of Python's tokenizers for seeded texts, with the tokenizers that scripts/tokenizers.mjs fetches.

pip install tokenizers==0.23.3; python tokenizers.py ../../target/tokenizers > tokenizers.json
"""

import hashlib
import json
import struct
import sys
from pathlib import Path

# Python would import this file, which has the same name, instead of the library.
sys.path.pop(0)
from tokenizers import Regex, Tokenizer
from tokenizers.normalizers import NFC, NFD, NFKC, NFKD, StripAccents
from tokenizers.pre_tokenizers import Split, Whitespace

PHRASES = """The quick brown fox ¦jumps over the lazy dog.¦ it's¦ we'LL¦ I'm¦  ¦   ¦\\n¦\\n\\n¦\\r\\n¦\\t¦\\t\\t¦ \\n ¦\\u00a0¦\\u200d¦\\ufeff¦\\u2028
Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. ¦L’été, ça va où? ¦El pingüino Wenceslao hizo kilómetros. ¦Příliš žluťoučký kůň
Съешь же ещё этих мягких французских булок. ¦Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. ¦זה כיף סתם לשמוע ¦صِف خَلقَ خَودِ كَمِثلِ الشَمسِ ¦ऋषियों को सताने वाले
いろはにほへとちりぬるを。¦私はガラスを食べられます¦我能吞下玻璃而不伤身体。¦다람쥐 헌 쳇바퀴에 타고파¦เป็นมนุษย์สุดประเสริฐ¦Việt Nam đẹp lắm¦ᏣᎳᎩ¦ⴰⵎⴰⵣⵉⵖ¦𐍈𐌰𐌽
👩‍👩‍👧¦🏴󠁧󠁢󠁥󠁮󠁧󠁿¦🇩🇪¦👍🏽¦❤️¦✨¦é¦é¦ﬁ¦Å¦Å¦①②¦½¦∑ᵢ xᵢ²¦→¦…¦“quoted”¦—¦0¦7¦42¦1234567¦3.14159¦1,000,000¦0xFF¦1e-9¦2024-07-26
def f(x: int) -> str:\\n    return f"{x!r}"  # done\\n¦for (let i = 0; i < n; i++) { a[i] += b; }¦<div class="a">&amp;</div>¦#include <stdio.h>¦SELECT * FROM t WHERE a = 'b';¦\\\\frac{1}{2}¦https://example.com/a?b=c&d=%20#e¦C:\\\\Users\\\\x¦snake_case camelCase SCREAMING_CASE¦    ¦\\t\\tif¦==¦!=¦=>¦::¦//¦/* */¦---¦***¦```python\\n¦$x$
<|im_start|>¦<|im_end|>¦<|endoftext|>¦<s>¦</s>¦<unk>¦<bos>¦<eos>¦<start_of_turn>user\\n¦<end_of_turn>¦<|eot_id|>¦<|begin_of_text|>¦<|start_header_id|>¦<|return|>¦<|channel|>¦<｜User｜>¦<｜begin▁of▁sentence｜>¦<think>¦</think>¦<tool_call>¦[INST]¦<0x0A>¦▁¦▁▁¦##s¦<pad>¦<unused7>¦<mask>"""
PHRASES = [phrase for line in PHRASES.split("\n") for phrase in line.split("¦")]
# Only phrases of ASCII contain escapes.
PHRASES = [phrase.encode().decode("unicode_escape") if phrase.isascii() else phrase for phrase in PHRASES]
RANGES = [(0x20, 0x7F), (0, 0x20), (0xA0, 0x250), (0x400, 0x1400), (0x2000, 0x3100), (0x4E00, 0xA000), (0xE000, 0xFFFF), (0x10000, 0x1FB00), (0xF0000, 0x110000)]
LINES, BLOCK = 4000, 100
# How published tokenizers split text.
ENDS = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SUFFIX = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
PATTERNS = {
    "Whitespace": r"\w+|[^\w\s]+",
    "GPT-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "Llama 3": SUFFIX + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + ENDS,
    "Qwen 2": SUFFIX + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + ENDS,
    "Qwen 3.5": SUFFIX + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + ENDS,
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+" + ENDS,
    "o200k": rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{SUFFIX}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{SUFFIX}?|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*" + ENDS,
    "Tekken": rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*" + ENDS,
    "Kimi": rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?[{UPPER[1:-1]}&&[^\p{{Han}}]]*[{LOWER[1:-1]}&&[^\p{{Han}}]]+{SUFFIX}?|\p{{N}}{{1,3}}" + ENDS,
    "DeepSeek numbers": r"\p{N}{1,3}",
    "DeepSeek Han": "[一-龥぀-ゟ゠-ヿ]+",
    "DeepSeek words": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + ENDS,
    "DeepSeek coder": r"\s?\p{P}+",
    "Gemma": " ",
    "BLOOM": " ?[^(\\s|[.,!?…。，、।۔،])]+",
    "StarCoder": r"\d",
}
# Rust's matches where Oniguruma's would differ, and empty matches: a pattern, a text, and the start and end of each match in bytes.
RUST = [
    (r"^\s*", "  a\n b", [0, 2]),
    (r"\S$", "a\nb\n", []),
    (r"\s*$", "a \n\u2003", [1, 6]),
    (r"\w+", "Ⓐ½ⅷ_a\u200db²", [0, 3, 5, 14]),
    (r"[^\W_]+", "a_é½", [0, 1, 2, 4]),
    (r"\b|\B\W", "Ⓐ ½½", [0, 0, 3, 3, 4, 6, 6, 8]),
    (r"[]^$(?m]+|[^]a]", "]^$?m\nb", [0, 5, 5, 6, 6, 7]),
    (r"b*", "abc😀b", [0, 0, 1, 2, 3, 3, 7, 8]),
    (r"\s+", "\ufeff\u0085\u180e\u00a0\u3000", [3, 5, 8, 13]),
    (r"(?i)[a-z]+ß", "\u212aſß", [0, 7]),
]
MASK = (1 << 64) - 1


class Random:
    """SplitMix64, as in tests/common/tokenizers.rs."""

    def __init__(self, state):
        self.state = state

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return ((z ^ (z >> 31)) & MASK) % n

    def char(self):
        low, high = RANGES[self.below(len(RANGES))]
        return chr(low + self.below(high - low))

    def line(self):
        return "".join(PHRASES[self.below(len(PHRASES))] if self.below(5) else self.char() for _ in range(self.below(12)))


def fnv(parts):
    """Returns the FNV-1a hash of 64 bits."""
    state = 0xCBF29CE484222325
    for byte in b"".join(parts):
        state = ((state ^ byte) * 0x100000001B3) & MASK
    return "%016x" % state


def facts(folder):
    data = (folder / "tokenizer.json").read_bytes()
    tokenizer = Tokenizer.from_str(data.decode())
    random = Random(20)
    blocks = []
    for _ in range(LINES // BLOCK):
        lines = [random.line() for _ in range(BLOCK)]
        ids = [encoding.ids for encoding in tokenizer.encode_batch(lines)]
        texts = tokenizer.decode_batch(ids)
        words = [struct.pack("<%dI" % (len(line) + 1), *line, 0xFFFFFFFF) for line in ids]
        blocks.append([fnv(words), fnv(text.encode() + b"\xff" for text in texts)])
    greeting = tokenizer.encode("Hello wörld <s>").ids
    return {"sha256": hashlib.sha256(data).hexdigest(), "greeting": greeting, "blocks": blocks}


def found(name, pattern):
    splitter = Whitespace() if name == "Whitespace" else Split(Regex(pattern), "removed", invert=True)
    random = Random(20)
    lines = [random.line() for _ in range(BLOCK)]
    return fnv(piece.encode() + b"\xff" for line in lines for piece, _ in splitter.pre_tokenize_str(line))


def normal(normalizer):
    """Returns the SHA-256 of all normalised characters, each after a letter and a mark and before two marks, in lines of 256."""
    line = lambda start: "".join(f"a\u0345{chr(at)}\u0334\u0301" for at in range(start, start + 256))
    starts = [start for start in (*range(0, 0x33500, 256), *range(0xE0000, 0xE0200, 256)) if not 0xD800 <= start < 0xE000]
    return hashlib.sha256("\n".join(normalizer.normalize_str(line(start)) for start in starts).encode()).hexdigest()


forms = {form.__name__: normal(form()) for form in (NFC, NFD, NFKC, NFKD, StripAccents)}
patterns = {name: [pattern, found(name, pattern)] for name, pattern in PATTERNS.items()}
names = {folder.name: facts(folder) for folder in sorted(Path(sys.argv[1]).iterdir()) if folder.is_dir()}
print('{"made_by": "tokenizers.py",\n"block": %d,\n"phrases": %s,\n"forms": %s,\n"patterns": {' % (BLOCK, json.dumps(PHRASES), json.dumps(forms)))
print(",\n".join("%s: %s" % (json.dumps(name), json.dumps(found)) for name, found in patterns.items()) + '},\n"rust": [')
print(",\n".join(map(json.dumps, RUST)) + '],\n"tokenizers": {')
print(",\n".join("%s: %s" % (json.dumps(name), json.dumps(found)) for name, found in names.items()) + "}}")
