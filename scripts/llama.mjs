// node scripts/llama.mjs [FOLDER or FILE.gguf ...]: llama.cpp reads what `foretoken quantize` writes of these models, by default of the tales
// target, in every type of GGUF; and computes the same. It takes our greedy ids one after the other: at each its own choice is that
// one, or so near that rounding decides, since llama.cpp rounds activations. PYTHON needs `pip install llama-cpp-python`.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { fail, run } from "./system.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
/** Types, and how much of a logit the arithmetic may differ: with quantised weights llama.cpp has activations in 8 bits. */
const TYPES = { F32: 0.02, F16: 0.1, BF16: 0.5, Q8_0: 0.3, Q5_1: 0.3, Q5_0: 0.3, Q4_1: 0.3, Q4_0: 0.3 };
const TOKENS = 48;

const exercises = JSON.parse(readFileSync(join(root, "src/cli/bench/prompts.json"), "utf8"));
const prompts = [...new Map(exercises.map((exercise) => [exercise.kind, exercise.prompt])).values()];
const models = process.argv.length > 2 ? process.argv.slice(2) : [join(root, "models/tales/target")];
run("cargo", ["build", "--release", "--quiet", "--features", "cli"], { cwd: root });
const output = (command, args, input) => {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: "utf8", input, maxBuffer: 1 << 28 });
  return status === 0 ? stdout : fail(`${command} ${args.join(" ")}: ${error ?? stderr + stdout}`);
};
const foretoken = (...args) => output(join(root, "target/release/foretoken"), args);

for (const model of models) {
  for (const [type, most] of Object.entries(TYPES)) {
    const folder = mkdtempSync(join(tmpdir(), "foretoken-llama-"));
    try {
      const file = join(folder, "made.gguf");
      foretoken("quantize", model, file, "--type", type);
      const ours = prompts.map((prompt) => JSON.parse(foretoken("generate", prompt, "--json", "--device", "cpu", "--model", file, "--max-new-tokens", TOKENS)));
      const asked = prompts.map((prompt, i) => `${JSON.stringify({ prompt, max_tokens: 0, follow: ours[i].token_ids })}\n`);
      const lines = output(process.env.PYTHON ?? "python3", [join(root, "scripts/llama.py"), file, 2], asked.join(""));
      const theirs = lines.trim().split("\n").slice(1).map((line) => JSON.parse(line));
      for (const [i, { prompt }] of theirs.entries()) {
        const tokens = ours[i].stats.num_prompt_tokens;
        if (prompt.length !== tokens) fail(`${model}, ${type}: a prompt of ${tokens} tokens has ${prompt.length} in llama.cpp`);
      }
      const margins = theirs.flatMap(({ margins }) => margins);
      const worst = Math.max(...margins);
      const others = margins.filter((margin) => margin > 0).length;
      console.log(`${basename(model)}, ${type}: ${margins.length} tokens, another choice for ${others} of them, by ${worst.toFixed(4)} at most`);
      if (worst > most) fail(`${model}, ${type}: llama.cpp would choose otherwise by ${worst}, where ${most} is rounding`);
    } finally {
      rmSync(folder, { recursive: true });
    }
  }
}
