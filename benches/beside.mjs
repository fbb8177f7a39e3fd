// `node benches/beside.mjs [--delays 0,50,150] [--tokens 40] [--passes 3]`: the draft model on the CPU while the target verifies
// (draft_device: cpu). It is compared with plain decoding, the lookup, and the draft model on the target's device, in turn with the target.
// If GPU and CPU are the same cores, a delay of readbacks (in ms) simulates a GPU that computes by itself. The predicted time is computed
// by `foretoken simulate offline` from the measured latencies and lengths of matches.
import { parseArgs } from "node:util";
import { needBuild } from "../scripts/build.mjs";
import { fail } from "../scripts/system.mjs";
import { browser, browserName, open, server } from "../tests/browser/harness.mjs";
import { answerLate } from "./late.mjs";
import { foretoken, readPrompts } from "./program.mjs";

const { values } = parseArgs({
  options: {
    delays: { type: "string", default: "0,50,150" },
    tokens: { type: "string", default: "40" },
    passes: { type: "string", default: "3" },
  },
});
const delays = values.delays.split(",").map(Number);
const [tokens, passes] = [values.tokens, values.passes].map(Number);
if (![...delays, tokens, passes].every(Number.isFinite)) fail("--delays, --tokens and --passes are numbers");
await needBuild();
/** Returns predicted seconds per token, from latencies in seconds. */
function predict({ target, drafter, matches, lookahead, count }) {
  const options = { "target-latency": target, "drafter-latency": drafter, "match-lengths": matches, lookahead, "sp-degree": 1, tokens: count };
  return foretoken(["simulate", "offline"], options).dsi / count;
}

const exercises = readPrompts("measure/src/prompts.json");
const kinds = [...new Set(exercises.map(({ kind }) => kind))].map((kind) => exercises.find((exercise) => exercise.kind === kind));
const constant = { num_assistant_tokens_schedule: "constant" };
/** By mode: the engine that generates, and its options. */
const MODES = {
  plain: ["alone", { speculation: "off" }],
  lookup: ["alone", { drafter: "lookup", prompt_lookup_num_tokens: 10, ...constant }],
  "in turn": ["alone", { drafter: "draft_model", ...constant }],
  beside: ["both", { drafter: "draft_model" }],
};
const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
const ms = (seconds) => (1000 * seconds).toFixed(1).padStart(8);

console.log(`${browserName} ${browser.version()}; milliseconds per token, texts of at most ${tokens} tokens, ${passes} times each\n`);
console.log("delay task      target  drafter  matches     plain    lookup   in turn    beside  predicted");
for (const delay of delays) {
  const context = await browser.newContext();
  await answerLate(context, delay);
  const page = await open(context);
  await page.evaluate(async () => {
    const load = { assistant_model: DRAFT, max_context: 512, device: "webgpu" };
    globalThis.engines = { alone: await Engine.load(TALES, load), both: await Engine.load(TALES, { ...load, draft_device: "cpu" }) };
  });
  const write = (engine, prompt, options) =>
    page.evaluate(async ([engine, prompt, options]) => (await engines[engine].generate(prompt, options).result).stats, [engine, prompt, options]);
  for (const { kind, prompt, max_new_tokens } of kinds) {
    const found = Object.fromEntries(Object.keys(MODES).map((mode) => [mode, []]));
    for (const [engine, options] of Object.values(MODES)) await write(engine, prompt, { ...options, max_new_tokens: 8 });
    for (let pass = 0; pass < passes; pass += 1) {
      const shuffled = Object.entries(MODES)
        .map((mode) => ({ mode, at: Math.random() }))
        .sort((a, b) => a.at - b.at);
      for (const {
        mode: [name, [engine, options]],
      } of shuffled) {
        found[name].push(await write(engine, prompt, { ...options, max_new_tokens: Math.min(tokens, max_new_tokens) }));
      }
    }
    const took = Object.fromEntries(
      Object.entries(found).map(([mode, all]) => [mode, median(all.map(({ times, num_emitted_tokens }) => times.total / num_emitted_tokens))]),
    );
    const [{ distributed, num_emitted_tokens: count, per_step_accepted: matches }] = found.beside;
    const { target_latency: target, drafter_latency: drafter, lookahead } = distributed;
    const predicted = predict({ target, drafter, matches, lookahead, count });
    const mean = matches.reduce((a, b) => a + b, 0) / matches.length;
    const cells = [
      ms(target),
      ms(drafter),
      mean.toFixed(2).padStart(8),
      ...["plain", "lookup", "in turn", "beside"].map((mode) => `  ${ms(took[mode])}`),
      `   ${ms(predicted)}`,
    ];
    console.log(`${String(delay).padStart(5)} ${kind.padEnd(8)}${cells.join("")}`);
  }
  await context.close();
}
await browser.close();
server.close();
