// Regular expressions of tokenizers find in the browser what they find natively: tests/golden/tokenizers.py says what.
import { readFileSync } from "node:fs";
import { check, equal, faults, open } from "./harness.mjs";

/** A pattern that browsers cannot compile. */
const PATTERN = "\\p{Nothing}+|(?<open>";
faults.unheard = (_, response, rest) => {
  if (rest.at(-1) !== "tokenizer.json") return;
  const tokenizer = JSON.parse(readFileSync(new URL("../../models/tales/draft/tokenizer.json", import.meta.url), "utf8"));
  tokenizer.pre_tokenizer = { type: "Split", pattern: { Regex: PATTERN }, behavior: "Isolated", invert: false };
  response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(tokenizer));
};

const golden = JSON.parse(readFileSync(new URL("../golden/tokenizers.json", import.meta.url), "utf8"));

/** Finds matches in the golden file's format. It runs in a page, without the imports of this file. */
export async function find({ phrases, block, patterns, rust }) {
  const { compile, matches } = await import("/patterns.js");
  const RANGES = [
    [0x20, 0x7f],
    [0, 0x20],
    [0xa0, 0x250],
    [0x400, 0x1400],
    [0x2000, 0x3100],
    [0x4e00, 0xa000],
    [0xe000, 0xffff],
    [0x10000, 0x1fb00],
    [0xf0000, 0x110000],
  ];
  const u64 = (value) => BigInt.asUintN(64, value);
  let state = 20n;
  // Splitmix64.
  const below = (n) => {
    state = u64(state + 0x9e3779b97f4a7c15n);
    let z = state;
    z = u64((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
    z = u64((z ^ (z >> 27n)) * 0x94d049bb133111ebn);
    return Number((z ^ (z >> 31n)) % BigInt(n));
  };
  const char = () => {
    const [low, high] = RANGES[below(RANGES.length)];
    return String.fromCodePoint(low + below(high - low));
  };
  const line = () => Array.from({ length: below(12) }, () => (below(5) ? phrases[below(phrases.length)] : char())).join("");
  const lines = Array.from({ length: block }, () => new TextEncoder().encode(line()));
  const texts = lines.map((bytes) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes));
  const found = {};
  for (const [name, [pattern]] of Object.entries(patterns)) {
    const number = compile(pattern);
    let hash = 0xcbf29ce484222325n;
    const hashed = (byte) => (hash = u64((hash ^ BigInt(byte)) * 0x100000001b3n));
    lines.forEach((bytes, at) => {
      const places = matches(number, texts[at], 2 ** 32 - 1);
      for (let i = 0; i < places.length; i += 2) [...bytes.subarray(places[i], places[i + 1]), 0xff].forEach(hashed);
    });
    found[name] = [pattern, hash.toString(16).padStart(16, "0")];
  }
  // More than Chromium keeps in mind; an exception would end the engine.
  matches(compile("(?:a|b)+"), "ab".repeat(5_000_000), 1);
  return { patterns: found, rust: rust.map(([pattern, text]) => [pattern, text, [...matches(compile(pattern), text, 2 ** 32 - 1)]]) };
}

/** Normalises all characters, as tests/golden/tokenizers.py does. It runs in a page. Returns a digest per form, and changes of some texts. */
export async function normalizeAll(forms) {
  const { isMark, normalize } = await import("/normalization.js");
  const lines = [];
  for (let start = 0; start < 0xe0200; start += 256) {
    if ((start >= 0xd800 && start < 0xe000) || (start >= 0x33500 && start < 0xe0000)) continue;
    const texts = Array.from({ length: 256 }, (_, at) => `a\u0345${String.fromCodePoint(start + at)}\u0334\u0301`);
    lines.push(texts.join(""));
  }
  const normal = (text, form) => {
    const pairs = normalize(text, form);
    return pairs ? [...pairs].map((code, at) => (at % 2 ? "" : String.fromCodePoint(code))).join("") : text;
  };
  const withoutMarks = (text) => [...text].filter((character) => !isMark(character)).join("");
  const digests = forms.map(async (form) => {
    const text = lines.map((line) => (form === "StripAccents" ? withoutMarks(line) : normal(line, form))).join("\n");
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
    return [form, [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("")];
  });
  const changes = (text, form) => normalize(text, form) && [...normalize(text, form)];
  return [Object.fromEntries(await Promise.all(digests)), changes("e\u0301b", "NFC"), changes("\u00e9b", "NFD"), changes("\u00e9b", "NFC")];
}

export const tests = {
  async "normal forms of all characters are those of the native crate"() {
    const page = await open();
    const [forms, composed, decomposed, same] = await page.evaluate(normalizeAll, Object.keys(golden.forms));
    equal(forms, golden.forms, "normal forms");
    equal([composed, decomposed, same], [[0xe9, -1, 0x62, 0], [0x65, 0, 0x301, 1, 0x62, 0], undefined], "changes");
    await page.close();
  },

  async "patterns of published tokenizers, and those that Rust means otherwise, find what they find natively"() {
    const page = await open();
    const { patterns, rust } = await page.evaluate(find, golden);
    equal(patterns, golden.patterns, "patterns");
    equal(rust, golden.rust, "as in Rust");
    await page.close();
  },

  async "a pattern that cannot be translated is named where the model is loaded"() {
    const page = await open();
    const { code, message } = await page.evaluate(() => failed(Engine.load("/unheard/models/tales/draft")));
    check(code === "bad-tokenizer" && message.includes(JSON.stringify(PATTERN)), message);
    await page.close();
  },
};
