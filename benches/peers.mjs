// node benches/peers.mjs [--native] [--models tales,smollm2] [--kinds open,retell] [--tokens 64] [--passes 3] [--device cpu] [--threads 1,2]:
// foretoken compared with other engines. Each generates every text greedily, in a new order each time, so that disturbances of the machine
// affect all of them. Missing engines are fetched into target/peers; they are no part of the project:
//
// In headless Chromium, on one thread: wllama and, for models that it finds as ONNX, transformers.js, both on WASM.
// `benches/peers/to_onnx.py` makes ONNX files.
// With --native: llama.cpp's server, plain and with its own speculation, on one thread and on all cores. LLAMA_SERVER names the program.
import { existsSync, mkdirSync } from "node:fs";
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { fail, run } from "../scripts/system.mjs";
import { readPrompts } from "./program.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const coder = (size) => `target/models/qwen2.5-coder-${size}b-instruct-q4_k_m.gguf`;
/** By model: GGUF file of all engines except transformers.js, its ONNX folder, a draft model, prompts. */
const MODELS = {
  tales: { gguf: "target/peers/tales-F16.gguf", onnx: "target/peers/tales-onnx", dtype: "fp32", prompts: "measure/src/prompts.json" },
  smollm2: {
    gguf: "target/models/SmolLM2-135M-Instruct.Q4_1.gguf",
    onnx: "target/peers/smollm2-onnx",
    dtype: "q4",
    prompts: "benches/peers/smollm2.json",
  },
  "coder-0.5b": { gguf: coder("0.5"), prompts: "benches/tasks.jsonl" },
  "coder-1.5b": { gguf: coder("1.5"), assistant: coder("0.5"), prompts: "benches/tasks.jsonl" },
};
const { values } = parseArgs({
  options: {
    native: { type: "boolean", default: false },
    models: { type: "string", default: "tales,smollm2" },
    kinds: { type: "string" },
    tokens: { type: "string", default: "64" },
    passes: { type: "string", default: "3" },
    device: { type: "string", default: "cpu" },
    threads: { type: "string", default: [...new Set([1, cpus().length])].join() },
  },
});
const [tokens, passes] = [values.tokens, values.passes].map(Number);
const chosen = values.models.split(",");
const unknown = chosen.filter((name) => !Object.hasOwn(MODELS, name));
if (unknown.length > 0) fail(`--models: ${unknown} is not allowed; allowed: ${Object.keys(MODELS)}`);
const threads = values.threads.split(",").map(Number);
const kinds = values.kinds?.split(",");
const exercisesOf = ({ prompts }) =>
  readPrompts(`${root}${prompts}`)
    .filter(({ kind }) => kinds?.includes(kind) ?? true)
    .map((exercise) => ({ ...exercise, max_new_tokens: Math.min(exercise.max_new_tokens, tokens) }));
if (chosen.some((name) => exercisesOf(MODELS[name]).length === 0)) fail(`--kinds: ${values.kinds} is not allowed`);

mkdirSync(new URL("../target/peers/", import.meta.url), { recursive: true });
for (const name of chosen.filter((name) => !existsSync(`${root}${MODELS[name].gguf}`))) {
  const convert = ["run", "--release", "--", "quantize", "models/tales/target", MODELS.tales.gguf, "--type", "F16"];
  if (name === "tales") run("cargo", convert, { cwd: root });
  else run("node", ["scripts/models.mjs", ...(name === "smollm2" ? [] : ["--all"])], { cwd: root });
}

/**
 * @typedef {{ tokens: number, seconds: number, text: string }} Written tokens after the first piece of the text, and their time
 * @typedef {{ name: string, isPeer: boolean, write: (exercise: object) => Promise<Written> }} Writer
 */
const { open, end } = await import(values.native ? "./peers/native.mjs" : "./peers/page.mjs");
for (const name of chosen) {
  const { about, writers, costs, close } = await open({ root, ...MODELS[name], device: values.device, threads });
  console.log(`\n${name} (${MODELS[name].gguf}); ${about.join("; ")}; ${cpus()[0].model}, ${cpus().length} cores`);
  console.log(`at most ${tokens} tokens, each text ${passes} times\n`);
  const [written, exercises] = [[], exercisesOf(MODELS[name])];
  for (let pass = 0; pass < passes; pass += 1) {
    for (const exercise of exercises) {
      const shuffled = writers.map((writer) => ({ writer, at: Math.random() })).sort((a, b) => a.at - b.at);
      for (const { writer } of shuffled) written.push({ writer, pass, exercise, ...(await writer.write(exercise)) });
    }
  }
  report(writers, written);
  for (const [where, ratio] of await costs(exercises)) console.log(`T(8) / T(1), ${where}: ${ratio.toFixed(2)}`);
  await close();
}
await end();

function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
}

/** Prints a line per task and writer: its speed and, relative to each peer, the median over the pairs of texts of one pass. */
function report(writers, written) {
  const peers = writers.filter(({ isPeer }) => isPeer);
  const line = (kind, name, ...cells) => console.log([kind.padEnd(9), name.padEnd(40), ...cells.map((cell) => String(cell).padStart(9))].join(" "));
  const pairs = (one, other) => one.exercise === other.exercise && one.pass === other.pass;
  peers.forEach(({ name }, i) => console.log(`peer ${i + 1}: ${name}`));
  line("task", "writer", "tokens", "tokens/s", "the text", ...peers.map((_, i) => `/ peer ${i + 1}`));
  for (const kind of [...new Set(written.map(({ exercise }) => exercise.kind)), "all"]) {
    const of = (wanted) => written.filter(({ writer, exercise, tokens }) => writer === wanted && tokens > 0 && [exercise.kind, "all"].includes(kind));
    for (const writer of writers) {
      const own = of(writer);
      const speed = ({ tokens, seconds }) => tokens / seconds;
      // Arithmetic differs between engines, so texts may differ: they are compared with the first writer's.
      const same = own.filter((one) => of(writers[0]).some((other) => pairs(one, other) && one.text === other.text));
      const ratios = peers.map((peer) =>
        median(
          own.flatMap((one) =>
            of(peer)
              .filter((other) => pairs(one, other))
              .map((other) => speed(one) / speed(other)),
          ),
        ),
      );
      const tokens = own.reduce((sum, one) => sum + one.tokens, 0);
      line(kind, writer.name, tokens, median(own.map(speed)).toFixed(1), `${same.length}/${own.length}`, ...ratios.map((ratio) => `${ratio?.toFixed(2)}x`));
    }
  }
}
