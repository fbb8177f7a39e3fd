// node benches/modules.mjs [--models tales,smollm2] [--tokens 48] [--passes 3]: the engine's two modules on the CPU, and two threads, in one page
// and in turns: milliseconds of rounds of one row and of eight, medians.
import { existsSync, readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { needBuild } from "../scripts/build.mjs";
import { fail } from "../scripts/system.mjs";
import { EIGHT, PLAIN } from "./peers/ways.mjs";

const { values } = parseArgs({
  options: { models: { type: "string", default: "tales,smollm2" }, tokens: { type: "string", default: "48" }, passes: { type: "string", default: "3" } },
});
const MODELS = {
  tales: { path: "models/tales/target", prompts: "../src/cli/bench/prompts.json" },
  smollm2: { path: "target/models/SmolLM2-135M-Instruct.Q4_1.gguf", prompts: "./peers/smollm2.json" },
};
const chosen = values.models.split(",");
if (!chosen.every((name) => Object.hasOwn(MODELS, name))) fail(`--models: ${values.models} is not allowed; allowed: ${Object.keys(MODELS)}`);
await needBuild();

const { browser, faults, open, server } = await import("../tests/browser/harness.mjs");
const repo = (path) => new URL(`../${path}`, import.meta.url);
faults.repository = (_, response, path) => {
  const file = repo(path.join("/"));
  response.writeHead(existsSync(file) ? 200 : 404).end(existsSync(file) ? readFileSync(file) : "");
};
for (const name of chosen) {
  const { path, prompts } = MODELS[name];
  if (!existsSync(repo(path))) fail(`${path} is not there: node scripts/models.mjs fetches it`);
  const page = await open(browser, "/isolated/");
  await page.evaluate(async (model) => {
    globalThis.engines = [];
    const ways = [{ threads: 1, wasm: "/foretoken_bg.wasm" }, { threads: 1 }, { threads: 2 }];
    for (const way of ways) engines.push(await Engine.load(model, { device: "cpu", cache: false, ...way }));
  }, `/repository/${path}`);
  const exercises = JSON.parse(readFileSync(new URL(prompts, import.meta.url), "utf8")).filter(({ kind }) => ["retell", "rename"].includes(kind));
  const found = [0, 1, 2].map(() => ({ 1: [], 8: [] }));
  const write = ([engine, prompt, options]) =>
    page.evaluate(
      async ([engine, prompt, options]) => {
        const times = [];
        const stream = engines[engine].generate(prompt, options);
        for await (const _ of stream) times.push(performance.now());
        const { per_step_drafted } = (await stream.result).stats;
        return times.slice(1).map((time, i) => [1 + per_step_drafted[i + 1], time - times[i]]);
      },
      [engine, prompt, options],
    );
  for (let pass = 0; pass < Number(values.passes); pass += 1)
    for (const { prompt, max_new_tokens } of exercises)
      for (const engine of found.keys())
        for (const options of [PLAIN, EIGHT]) {
          const rounds = await write([engine, prompt, { ...options, max_new_tokens: Math.min(max_new_tokens, Number(values.tokens)) }]);
          for (const [rows, took] of rounds) found[engine][rows]?.push(took);
        }
  for (const [engine, took] of found.entries()) {
    const [one, eight] = [1, 8].map((rows) => took[rows].sort((a, b) => a - b)[took[rows].length >> 1]);
    const { name: device, driver } = await page.evaluate((engine) => engines[engine].device, engine);
    console.log(`${name.padEnd(8)} ${device}, ${driver.padEnd(12)} T(1) ${one.toFixed(2)}  T(8) ${eight.toFixed(2)}  T(8)/T(1) ${(eight / one).toFixed(2)}`);
  }
  await page.close();
}
await browser.close();
server.close();
