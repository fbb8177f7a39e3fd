// node scripts/llama.mjs [FOLDER or FILE.gguf ...]: checks that llama.cpp reads the output of `foretoken quantize` for these models in
// every GGUF type, and computes the same. Default: the tales target and, in f32, the golden models. llama.cpp follows known greedy ids.
// At each its own choice must be that id or a near-tie, since llama.cpp has activations in 8 or 16 bits.
// PYTHON needs `pip install llama-cpp-python`.
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { fail, run } from "./system.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
/** Types, each with the largest logit difference that rounding may cause. */
const TYPES = { F32: 0.02, F16: 0.1, BF16: 0.3, Q8_0: 0.3, Q5_1: 0.3, Q5_0: 0.3, Q4_1: 0.3, Q4_0: 0.3 };
const TOKENS = 48;

const prompts = [...new Map(JSON.parse(readFileSync(join(root, "measure/src/prompts.json"), "utf8")).map(({ kind, prompt }) => [kind, prompt])).values()];
const given = process.argv.slice(2);
const goldens = join(root, "tests/golden/models");
run("cargo", ["build", "--release", "--quiet"], { cwd: root });

/** Returns a program's output, or why it failed. */
function output(command, args, input) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: "utf8", input, maxBuffer: 1 << 28 });
  return status === 0 ? { stdout } : { failed: `${command} ${args.join(" ")}: ${error ?? stderr + stdout}` };
}
const foretoken = (...args) => output(join(root, "target/release/foretoken"), args);
const needed = ({ stdout, failed }) => stdout ?? fail(failed);

/** Lets llama.cpp follow texts; fails if it would choose another token by a margin above `most`. @param {{ prompt: string | number[], follow: number[], tokens: number }[]} texts */
function follow(name, file, texts, most) {
  const asked = texts.map(({ prompt, follow }) => `${JSON.stringify({ prompt, max_tokens: 0, follow })}\n`);
  const lines = needed(output(process.env.PYTHON ?? "python3", [join(root, "scripts/llama.py"), file, "1"], asked.join("")));
  const answers = lines
    .trim()
    .split("\n")
    .slice(1)
    .map((line) => JSON.parse(line));
  for (const [i, { prompt }] of answers.entries()) {
    if (prompt.length !== texts[i].tokens) fail(`${name}: a prompt of ${texts[i].tokens} tokens has ${prompt.length} in llama.cpp`);
  }
  const margins = answers.flatMap(({ margins }) => margins);
  const [worst, others] = [Math.max(...margins), margins.filter((margin) => margin > 0).length];
  console.log(`${name}: ${margins.length} tokens, another choice for ${others} of them, by ${worst.toFixed(4)} at most`);
  if (!(worst <= most)) fail(`${name}: llama.cpp would choose otherwise by ${worst}, where ${most} is rounding`);
}

/** Compares a model in every type with foretoken's output. */
function types(model, folder) {
  for (const [type, most] of Object.entries(TYPES)) {
    const file = join(folder, `${type}.gguf`);
    needed(foretoken("quantize", model, file, "--type", type));
    const write = (prompt) =>
      JSON.parse(needed(foretoken("generate", prompt, "--json", "--device", "cpu", "--arithmetic", "f32", "--model", file, "--max-new-tokens", TOKENS)));
    const texts = prompts.map((prompt) => ({ prompt, written: write(prompt) }));
    follow(
      `${basename(model)}, ${type}`,
      file,
      texts.map(({ prompt, written }) => ({ prompt, follow: written.token_ids, tokens: written.stats.num_prompt_tokens })),
      most,
    );
    rmSync(file);
  }
}

/** Compares a golden model in f32 with the output of transformers. It has no tokenizer and gets a small one. */
function golden(name, folder) {
  const copy = join(folder, name);
  cpSync(join(goldens, name), copy, { recursive: true });
  const special = ["<unk>", "<s>", "</s>", "<|endoftext|>"];
  const bytes = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  const tokens = [...special, "3", "33", "a", "\u0120", "\u0120a", "\u010a"];
  writeFileSync(
    join(copy, "tokenizer.json"),
    JSON.stringify({
      version: "1.0",
      added_tokens: special.map((content, id) => ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true })),
      pre_tokenizer: bytes,
      decoder: bytes,
      model: {
        type: "BPE",
        vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
        merges: [
          ["3", "3"],
          ["\u0120", "a"],
        ],
      },
    }),
  );
  const file = join(copy, "made.gguf");
  const { failed } = foretoken("quantize", copy, file, "--type", "F32");
  if (failed) return console.log(`${name}: ${failed.split("error: ").at(-1).trim()}`);
  const bytesOf = readFileSync(join(copy, "golden.safetensors"));
  const start = 8 + Number(bytesOf.readBigUInt64LE());
  const header = JSON.parse(bytesOf.toString("utf8", 8, start));
  const ids = (tensor) => {
    const {
      dtype,
      data_offsets: [from, to],
    } = header[tensor];
    const [size, read] = dtype === "I64" ? [8, "readBigInt64LE"] : [4, "readInt32LE"];
    return Array.from({ length: (to - from) / size }, (_, i) => Number(bytesOf[read](start + from + size * i)));
  };
  const prompt = ids("prompt_ids");
  follow(name, file, [{ prompt, follow: ids("greedy_ids"), tokens: prompt.length }], TYPES.F32);
}

const folder = mkdtempSync(join(tmpdir(), "foretoken-llama-"));
process.on("exit", () => rmSync(folder, { recursive: true }));
for (const model of given.length ? given : [join(root, "models/tales/target")]) types(model, folder);
if (!given.length) for (const name of readdirSync(goldens)) golden(name, folder);
