// node benches/json.mjs [MODEL [FLAG...]]: cost and savings of a JSON schema. Generates JSON by schemas with the program (cargo build
// --release), plainly and with drafts, on the CPU device. Prints forward passes per token, the share of draft
// tokens that were kept, and the time of masks, per row and as a share of the rounds.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const [model = "target/models/SmolLM2-135M-Instruct.Q4_1.gguf", ...flags] = process.argv.slice(2);

const object = (properties) => ({ type: "object", properties, required: Object.keys(properties), additionalProperties: false });
const text = (maxLength) => ({ type: "string", maxLength });
const list = (items, maxItems) => ({ type: "array", items, minItems: 1, maxItems });
const number = { type: "integer", minimum: 0, maximum: 9999 };
const TASKS = {
  person: ["Describe an invented person.", object({ name: text(30), age: number, occupation: text(30), city: text(20), hobbies: list(text(20), 3) })],
  weather: [
    "What is the weather in Paris? Call the tool.",
    object({ name: { const: "get_current_weather" }, arguments: object({ location: text(20), unit: { enum: ["celsius", "fahrenheit"] }, days: number }) }),
  ],
  recipe: [
    "Give a recipe for pancakes.",
    object({
      title: text(40),
      ingredients: list(object({ ingredient: text(20), amount: number, unit: { enum: ["g", "ml", "pieces"] } }), 5),
      steps: list(text(80), 4),
    }),
  ],
  extract: [
    "Extract the order: Ann Miller, 12 Hill Road, Leeds, wants 3 blue chairs and 1 oak table.",
    object({
      customer: object({ first_name: text(20), last_name: text(20), street: text(30), city: text(20) }),
      items: list(object({ product: text(20), colour: text(12), quantity: number }), 3),
    }),
  ],
};

const folder = mkdtempSync(join(tmpdir(), "foretoken-"));
function write(prompt, schema, more) {
  const file = join(folder, "schema.json");
  writeFileSync(file, JSON.stringify(schema));
  const common = ["generate", prompt, "--chat", "--model", model, "--device", "cpu", "--json", "--max-new-tokens", "300", "--json-schema", file];
  const { stdout, stderr } = spawnSync(join(root, "target", "release", "foretoken"), [...common, ...flags, ...more], {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 1 << 26,
  });
  const { text, token_ids, finish_reason, stats, error } = JSON.parse(stdout || `{"error":${JSON.stringify(stderr)}}`);
  if (error) throw new Error(JSON.stringify(error));
  if (finish_reason === "stop") JSON.parse(text);
  const { num_spec_steps: rounds, num_accepted_draft_tokens: accepted, per_step_drafted: drafted, times } = stats;
  const rows = rounds + drafted.reduce((sum, count) => sum + count, 0);
  return { text, tokens: token_ids.length, rounds, kept: accepted / (rows - rounds), rows, masks: times.masks, verify: times.verify };
}

const line = (...cells) => console.log(cells.map((cell, i) => (i < 2 ? String(cell).padEnd(12) : String(cell).padStart(9))).join(" "));
line("task", "drafts", "tokens", "forwards", "per token", "kept", "mask us", "of time");
try {
  for (const [task, [prompt, schema]] of Object.entries(TASKS)) {
    const plain = write(prompt, schema, ["--speculation", "off"]);
    for (const [drafts, more] of Object.entries({
      none: null,
      "form alone": ["--drafter", "draft_model", "--num-assistant-tokens-schedule", "constant"],
      adaptive: [],
    })) {
      const found = more ? write(prompt, schema, more) : plain;
      if (found.text !== plain.text) throw new Error(`${task}: ${drafts} wrote ${found.text} instead of ${plain.text}`);
      const { tokens, rounds, rows, kept, masks, verify } = found;
      line(
        task,
        drafts,
        tokens,
        rounds,
        (rounds / tokens).toFixed(2),
        drafts === "none" ? "" : `${(100 * kept).toFixed(0)} %`,
        ((1e6 * masks) / rows).toFixed(0),
        `${((100 * masks) / verify).toFixed(1)} %`,
      );
    }
  }
} finally {
  rmSync(folder, { recursive: true });
}
