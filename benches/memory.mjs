// `node benches/memory.mjs [--model FILE] [--device cpu] [--tokens 160]`: tokens per forward pass of the drafters `lookup` and `suffix`, the
// latter also with `--lookup-memory 0`, over the steps of an agent (agent.json). Each step is a conversation of its own in one engine. Counts
// depend on the model and its device, not on how busy that is.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { fail } from "../scripts/system.mjs";

const { values } = parseArgs({
  options: {
    model: { type: "string", default: "target/models/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf" },
    device: { type: "string", default: "cpu" },
    tokens: { type: "string", default: "160" },
  },
});
const program = new URL("../target/release/foretoken", import.meta.url).pathname;
if (!existsSync(program)) fail("the program is missing: cargo build --release");
const steps = JSON.parse(readFileSync(new URL("agent.json", import.meta.url), "utf8"));
const input = steps.flatMap((step) => ["/reset", step]).join("\n");
const common = ["chat", "--json", "--model", values.model, "--device", values.device, "--max-new-tokens", values.tokens, "--temperature", "0"];
const WAYS = { lookup: ["lookup"], "suffix, no memory": ["suffix", "--lookup-memory", "0"], suffix: ["suffix"], adaptive: ["auto"] };

console.log(`${values.model}, ${steps.length} steps\n\ndrafter | tokens | forward passes | tokens per pass | accepted of drafted`);
const texts = new Set();
for (const [name, drafter] of Object.entries(WAYS)) {
  const { stdout, stderr, status } = spawnSync(program, [...common, "--drafter", ...drafter], { input, encoding: "utf8" });
  if (status !== 0) fail(stderr);
  const answers = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  texts.add(answers.map(({ text }) => text).join("\n"));
  const sum = (key) => answers.reduce((total, { stats }) => total + stats[key], 0);
  const [tokens, passes, accepted] = ["num_emitted_tokens", "num_spec_steps", "num_accepted_draft_tokens"].map(sum);
  console.log(`${name} | ${tokens} | ${passes} | ${(tokens / passes).toFixed(2)} | ${Math.round((100 * accepted) / sum("num_draft_tokens"))} %`);
}
if (texts.size > 1) fail("the drafters wrote different texts");
